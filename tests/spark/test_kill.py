"""SIGKILL anywhere: the output is the same sequence, item by item.

Not covered: rare orders of messages.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager import JobConfig
from planner import Query, Stream, agg, col, hopping
from rvertex.host.environment import HostLimits
from tests.spark.cluster import Cluster, executor_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark
ROWS = 300_000
SPAN_S = 300
SPEED = 60.0
WAIT_S = 120.0
CONFIG = JobConfig(host=HostLimits(checkpoint_interval_s=0.4))


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Out-of-order events over five minutes of event time, in several row groups."""
    rng = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    times = np.sort(rng.integers(0, SPAN_S * 1_000_000, ROWS)) + rng.integers(0, 200_000, ROWS)
    table = pa.table(
        {
            "t": times,
            "key": rng.integers(0, 50, ROWS),
            "x": rng.normal(size=ROWS) * 10.0 ** rng.integers(-8, 8, ROWS),
        }
    )
    pq.write_table(table, path, row_group_size=ROWS // 30)
    return path


def query(path: Path) -> Query:
    """Two exchanges: a self join by key, then an aggregate over another key."""
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    busy = events.group_by("key").window(hopping("4s", "2s")).agg(n=agg.count(), total=agg.sum("x"))
    joined = events.join(busy, on="key").select("n", "total", "x", bucket=col("key") % 7)
    return (
        joined.group_by("bucket")
        .window(hopping("10s", "5s"))
        .agg(n=agg.count(), most=agg.max("n"), total=agg.sum("x"), last=agg.last("total"))
        .to_parquet()
    )


Kill = Callable[[dict[str, Any]], None]


class Killer:
    """Sends SIGKILL when the sources have read as many events as each threshold says."""

    def __init__(self, thresholds: list[float], kill: Kill) -> None:
        self._todo = sorted(thresholds)
        self._kill = kill
        self.kills = 0

    def __call__(self, status: dict[str, Any]) -> None:
        is_whole = all(h["state"] == "ready" for h in status["hosts"])
        if self._todo and is_whole and status["events_in"] > self._todo[0] * ROWS:
            self._todo.pop(0)
            self._kill(status)
            self.kills += 1


def kill_host(number: int) -> Kill:
    """Kill the Python worker of one host."""
    return lambda status: os.kill(status["hosts"][number]["pid"], signal.SIGKILL)


def kill_all(status: dict[str, Any]) -> None:
    """Kill the Python workers of all hosts at once."""
    for host in status["hosts"]:
        os.kill(host["pid"], signal.SIGKILL)


def kill_executor(status: dict[str, Any]) -> None:
    """Kill a whole executor: its JVM and so all its Python workers."""
    os.kill(executor_of(status["hosts"][0]["pid"]), signal.SIGKILL)


def outcome(status: dict[str, Any]) -> tuple[str, int, int, str]:
    return status["state"], status["events_in"], status["events_out"], status["output_digest"]


@pytest.fixture(scope="module")
def expected(events: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int, int, str]:
    """The outcome of a run in one process, without failures."""
    root = tmp_path_factory.mktemp("expected") / "job"
    job = jobmanager.run(query(events), root=str(root), executor="local")
    result = outcome(job.wait(WAIT_S))
    assert result[0] == "finished"
    assert result[2] > 400
    return result


@pytest.mark.parametrize("master", ["local[2]", "local[8]"])
def test_spark_and_one_process_have_the_same_sequence(
    master: str, events: Path, expected: tuple[str, int, int, str], tmp_path: Path
) -> None:
    job = jobmanager.run(query(events), root=str(tmp_path / "job"), master=master)
    assert outcome(job.wait(WAIT_S)) == expected


@pytest.mark.parametrize(
    ("name", "kill"),
    [("first", kill_host(0)), ("last", kill_host(-1)), ("all", kill_all)],
)
def test_killed_workers_do_not_change_the_output(
    name: str, kill: Kill, events: Path, expected: tuple[str, int, int, str], tmp_path: Path
) -> None:
    killer = Killer([0.1, 0.35, 0.6], kill)
    job = jobmanager.run(
        query(events),
        root=str(tmp_path / "job"),
        master="local[4]",
        paced=SPEED,
        config=CONFIG,
        on_status=killer,
    )
    status = job.wait(WAIT_S)
    assert killer.kills, "the job ended before it could be killed"
    assert status["restarts"] >= killer.kills
    assert outcome(status) == expected


def test_a_hanging_worker_frees_its_slot(
    events: Path, expected: tuple[str, int, int, str], tmp_path: Path
) -> None:
    hung: list[int] = []

    def hang(status: dict[str, Any]) -> None:
        hung.append(status["hosts"][-1]["pid"])
        os.kill(hung[0], signal.SIGSTOP)

    killer = Killer([0.4], hang)
    job = jobmanager.run(
        query(events),
        root=str(tmp_path / "job"),
        master="local[2]",
        paced=SPEED,
        config=replace(CONFIG, host_silence_s=4.0),
        on_status=killer,
    )
    status = job.wait(WAIT_S)
    assert killer.kills == 1
    assert status["restarts"] >= 1
    assert hung[0] not in [h["pid"] for h in status["hosts"]]
    assert outcome(status) == expected


@pytest.mark.slow
def test_a_killed_executor_of_a_standalone_cluster(
    events: Path, expected: tuple[str, int, int, str], tmp_path: Path
) -> None:
    with Cluster(tmp_path) as cluster:
        killer = Killer([0.4], kill_executor)
        job = jobmanager.run(
            query(events),
            root=str(tmp_path / "job"),
            master=cluster.master,
            hosts=2,
            paced=SPEED,
            config=CONFIG,
            on_status=killer,
        )
        status = job.wait(WAIT_S)
        stop_spark()
    assert killer.kills == 1
    assert status["restarts"] >= 1
    assert outcome(status) == expected


def stop_spark() -> None:
    """Disconnect from the cluster before it stops."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    context.stop()
