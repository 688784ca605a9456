"""Jobs that deliver into a topic while they run: committed records equal the job's output.

Not covered: Spark hosts (tests/spark), or a broker that loses acknowledged records.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager.storage.root import STOP, JobRoot
from planner import Stream, agg, tumbling
from rstream import read_events
from rvertex.sinks.kafka import client
from tests.rooms import ROOT
from tests.support.jobs import WAIT_S, two_exchanges, write_events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Broker

Rows = list[tuple[Any, ...]]
PACE = 20.0
KILLS = 4


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


def windows(events: Path) -> Stream:
    stream = Stream.from_parquet(str(events), vs="t", delay="1s").group_by("key")
    return stream.window(tumbling("100ms")).agg(n=agg.count(), total=agg.sum("x"))


def in_topic(broker: Broker, topic: str) -> list[Rows]:
    """The payload of the records per partition, in order."""
    found: list[Rows] = [[], []]
    for record in broker.read_committed(topic):
        row = json.loads(record.value or b"")
        payload = tuple(v for name, v in row.items() if not name.endswith(("start", "end")))
        found[record.partition].append(payload)
    return found


def in_states(job: jobmanager.Job) -> set[str]:
    """The states of all its deliveries."""
    return {row["state"] for row in job.status()["deliveries"]}


def in_output(job: jobmanager.Job) -> list[Rows]:
    """The payload of the output's rows per partition, in order."""
    tables = [read_events(uri) for _, uri in job.plan.sink_streams()]
    return [[tuple(row.values())[2:] for row in table.to_pylist()] for table in tables]


def test_a_topic_contains_the_rows_of_the_output(
    broker: Broker, topic: str, events: Path, tmp_path: Path
) -> None:
    query = windows(events).to_kafka(topic, servers=broker.servers)
    job = jobmanager.run(query, root=str(tmp_path / "job"), executor="local", fsync=False)
    status = job.wait(WAIT_S)
    assert in_topic(broker, topic) == in_output(job)
    assert [row["state"] for row in status["deliveries"]] == ["finished"] * 2
    assert [row["lag_items"] for row in status["deliveries"]] == [0, 0]
    assert sum(row["rows"] for row in status["deliveries"]) == status["events_out"]


def test_a_job_waits_for_a_frozen_broker_only_at_its_end(
    own_broker: Broker, events: Path, tmp_path: Path
) -> None:
    """Vertices do not wait: the output is complete although nothing could be delivered."""
    topic = own_broker.create_topic("t", 2)
    query = windows(events).to_kafka(topic, servers=own_broker.servers)
    complete = tmp_path / "job" / "output" / "_SUCCESS"
    is_complete = threading.Event()

    def look(status: dict[str, Any]) -> None:
        if complete.exists() and status["state"] == "running":
            is_complete.set()

    with own_broker.frozen():
        job = jobmanager.run(
            query, root=str(tmp_path / "job"), executor="local", fsync=False, on_status=look
        )
        assert is_complete.wait(WAIT_S)
        assert in_states(job) <= {"opening", "waiting"}
    job.wait(WAIT_S)
    assert in_topic(own_broker, topic) == in_output(job)


def test_a_job_that_only_delivers_can_be_stopped_by_another_process(
    own_broker: Broker, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_WAIT_S", 2.0)  # the job waits for pending calls
    topic = own_broker.create_topic("t", 2)
    query = windows(events).to_kafka(topic, servers=own_broker.servers)
    root = tmp_path / "job"
    complete = root / "output" / "_SUCCESS"

    def ask(status: dict[str, Any]) -> None:
        if complete.exists() and status["state"] == "running":
            JobRoot(str(root)).request(STOP)

    with own_broker.frozen():
        job = jobmanager.run(query, root=str(root), executor="local", fsync=False, on_status=ask)
        assert job.wait(WAIT_S)["state"] == "cancelled"
    assert JobRoot(str(root)).requests() == []
    jobmanager.resume(str(root)).wait(WAIT_S)
    assert in_topic(own_broker, topic) == in_output(job)


@pytest.mark.slow
def test_the_driver_is_killed_repeatedly(
    broker: Broker, topic: str, events: Path, tmp_path: Path
) -> None:
    """SIGKILL at any moment, also within a commit; the last run is in this process."""
    dice = random.Random(3)
    root = tmp_path / "job"
    command = [sys.executable, "-m", "tests.support.killed_delivery"]
    for _ in range(KILLS):
        lines = dice.randrange(1, 40)
        process = subprocess.Popen(
            [*command, str(events), str(root), str(PACE), topic, broker.servers],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout as statuses:
            for count, _ in enumerate(statuses):
                if count == lines:
                    break
            process.kill()
        process.wait(WAIT_S)
    job = jobmanager.resume(str(root))
    job.wait(WAIT_S)
    assert in_topic(broker, topic) == in_output(job)
    whole = jobmanager.run(
        two_exchanges(events), root=str(tmp_path / "whole"), executor="local", fsync=False
    )
    whole.wait(WAIT_S)
    assert in_topic(broker, topic) == in_output(whole)
