"""Jobs with unrepeatable code or drawn values: no row that a subscriber got changes later.

Each run has another output, so none is expected. Instead, the items that a subscriber got while
hosts were cut off are compared, one by one, with the durable output.

Not covered: two instances that overlap in one store call
(tests/rvertex/checkpoint/test_productions.py).
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager import JobConfig
from planner import KeyedContext, KeyedProcess, Query, Stream, agg, tumbling
from planner.errors import InvalidPlanError
from planner.physical.lower import lower
from planner.physical.recovery import recovered_with
from rstream.items.batch import EVENT
from tests.jobmanager.driver.test_job import PACE
from tests.jobmanager.manager.test_instances import Drainer
from tests.rooms import ROOT
from tests.support.budget import one_in
from tests.support.jobs import ROWS, WAIT_S, output_items, with_limits, write_events
from tests.support.trouble import Disturber, Gate, cut_off

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

CONFIG = with_limits(
    JobConfig(tick_s=0.02), checkpoint_interval_s=0.05, step_rows_max=100, report_interval_s=0.02
)
NOW_MIN_US = 1_600_000_000_000_000
LEAVING = {"draining", "drained"}
ROLLED = {"key": "int64", "roll": "float64", "at": "float64"}


def rolled(batch: pa.RecordBatch) -> Any:
    """Random values and the time."""
    roll = [random.random() for _ in range(batch.num_rows)]
    return {"key": batch.column("key"), "roll": roll, "at": [time.time()] * batch.num_rows}


def looked_up(key: int) -> dict[str, float]:
    return {"value": key + random.random()}


class Drawing(KeyedProcess):
    """Draws in events and in timers; the draws stay in the key's state."""

    output = {"at": "int64", "total": "float64", "kind": "string"}  # noqa: RUF012
    total: float = 0.0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        found = ctx.lookup(looked_up, event.key)
        self.total += ctx.random() + found["value"]
        ctx.set_timer(event.vs - event.vs % 1_000_000 + 1_000_000)
        ctx.emit(ctx.now(), self.total, "event")

    def on_timer(self, timer: Any, ctx: KeyedContext) -> None:
        ctx.emit(ctx.now(), self.total + ctx.random(), "timer")


def source(path: str | Path) -> Stream:
    return Stream.from_parquet(str(path), vs="t", delay="1s")


def strong(path: str | Path) -> Query:
    """Draws before an exchange and a window, so a contradiction would show in both."""
    rolls = source(path).apply(rolled, ROLLED, deterministic=False)
    windows = rolls.group_by("key").window(tumbling("1s"))
    return windows.agg(n=agg.count(), total=agg.sum("roll"), at=agg.max("at")).to_parquet()


def strong_sink(path: str | Path) -> Query:
    sums = source(path).group_by("key").window(tumbling("1s")).agg(n=agg.count())
    return sums.apply(rolled, ROLLED, deterministic=False).to_parquet()


def logged(path: str | Path) -> Query:
    return source(path).group_by("key").process(Drawing).to_parquet()


def strong_drawing(path: str | Path) -> Query:
    return source(path).group_by("key").process(Drawing).recover_with("strong").to_parquet()


QUERIES: list[Callable[[str | Path], Query]] = [strong, strong_sink, logged, strong_drawing]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("strong") / "events.parquet")


def subscribed(job: jobmanager.Job) -> tuple[threading.Thread, list[dict[str, Any]]]:
    seen: list[dict[str, Any]] = []

    def follow() -> None:
        for batch in job.subscribe():
            seen.extend(batch.to_pylist())

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    return thread, seen


Rows = dict[tuple[int, int], tuple[Any, ...]]


def by_number(seen: list[dict[str, Any]]) -> Rows:
    """Return the delivered rows, by partition and sequence number."""
    return {(r.pop("partition"), r.pop("_seq")): tuple(r.values()) for r in map(dict, seen)}


def durable(output: str) -> Rows:
    """Return the rows in Parquet, by partition and sequence number."""
    parts = output_items(output)
    return {(k, row[0]): row[2:] for k, part in enumerate(parts) for row in part if row[1] == EVENT}


@pytest.mark.usefixtures("brittle_lines")
@pytest.mark.parametrize("query", one_in(4, QUERIES))
def test_rows_seen_by_a_subscriber_are_final_when_hosts_are_lost(
    query: Callable[[str | Path], Query],
    events: Path,
    gate: Gate,
    tmp_path: Path,
) -> None:
    disturber = Disturber([ROWS // 8, ROWS // 2, ROWS * 3 // 4], partial(cut_off, [0, 1]), gate)
    job = jobmanager.run(
        query(events),
        root=str(tmp_path / "job"),
        executor="local",
        hosts=2,
        paced=PACE,
        config=CONFIG,
        on_status=disturber,
    )
    thread, seen = subscribed(job)
    status = job.wait(WAIT_S)
    thread.join(WAIT_S)
    assert status["state"] == "finished"
    assert disturber.calls == 3
    rows = durable(status["output"])
    assert len(rows) > 100
    assert len(seen) == len(rows)
    assert by_number(seen) == rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "strong",
        "logged",
        "strong_sink",
    ],
)
def test_durable_rows_are_final_when_the_driver_is_killed(
    name: str, events: Path, tmp_path: Path
) -> None:
    root = tmp_path / "job"
    command = [sys.executable, "-m", "tests.support.strong_driver"]
    process = subprocess.Popen(
        [*command, name, str(events), str(root)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    told: list[dict[str, Any]] = []
    try:
        for line in process.stdout:
            told.append(json.loads(line))
            if len(told) >= 40:
                break
    finally:
        process.kill()
        process.wait(WAIT_S)
        process.stdout.close()
    before = durable(str(root / "output"))
    status = jobmanager.resume(str(root)).wait(WAIT_S)
    assert status["state"] == "finished"
    rows = durable(status["output"])
    assert before.items() <= rows.items()
    assert len(told) > 20
    assert by_number(told).items() <= rows.items()


@pytest.mark.parametrize("query", [logged, pytest.param(strong, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_drained_host_hands_over_its_vertices(
    query: Callable[[str | Path], Query], events: Path, gate: Gate, tmp_path: Path
) -> None:
    drainer = Drainer(tmp_path / "job", "h1.0", gate, lambda d: bool(d.states & LEAVING))
    job = jobmanager.run(
        query(events),
        root=str(tmp_path / "job"),
        executor="local",
        hosts=3,
        paced=PACE,
        config=CONFIG,
        on_status=drainer,
    )
    thread, seen = subscribed(job)
    status = job.wait(WAIT_S)
    thread.join(WAIT_S)
    assert status["state"] == "finished"
    assert drainer.states & LEAVING
    assert by_number(seen) == durable(status["output"])


def test_every_kind_of_outside_value_is_used(events: Path, tmp_path: Path) -> None:
    status = jobmanager.run(
        logged(events), root=str(tmp_path / "job"), executor="local", config=CONFIG
    ).wait(WAIT_S)
    rows = durable(status["output"]).values()
    assert {kind for *_, kind in rows} == {"event", "timer"}
    assert all(at > NOW_MIN_US for *_, at, _, _ in rows)


def test_vertices_that_log_values_have_one_instance(events: Path) -> None:
    for choice in ("replay", "replication"):
        with pytest.raises(InvalidPlanError, match=f"cannot be recovered by {choice}: its code"):
            lower(logged(events).recover_with(choice), root="r")
    plan = lower(logged(events), root="r")
    with pytest.raises(InvalidPlanError, match=r"values from outside \(ctx.now"):
        recovered_with(plan, "replication", None)


def test_the_output_of_a_strong_stage_is_flushed(events: Path) -> None:
    plan = lower(
        source(events).recover_with("strong").group_by("key").process(Drawing).to_parquet(),
        root="r",
    )
    first = [v for v in plan.vertices if v.source is not None]
    assert {v.recovery.strategy for v in first} == {"strong"}
    assert {e.durability for v in first for e in v.outputs} == {"async"}
    assert {c.durability for v in plan.vertices for c in v.inputs} == {"async"}
