"""Jobs with user code: each policy for poison events, with lost hosts and stopped drivers.

Not covered: rare orders of failures (tests/sim).
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import jobmanager
from jobmanager import JobConfig, JobFailedError
from jobmanager.storage.root import JobRoot
from planner import KeyedContext, KeyedProcess, Query, Stream, Timer, col, event, udf
from tests.jobmanager.driver.test_job import PACE
from tests.support.jobs import ROWS, WAIT_S, outcome, output_items, with_limits, write_events
from tests.support.trouble import Disturber, Gate, cut_off, run_and_cancel

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000


def halves(batch: pa.RecordBatch) -> Any:
    """Raises for any x in a narrow range."""
    x = batch.column("x")
    if pc.any(pc.and_(pc.greater(x, 0.5), pc.less(x, 0.6))).as_py():
        raise ValueError("a value that this function does not take")
    return {"key": batch.column("key"), "half": pc.divide(x, 2.0)}


class Runs(KeyedProcess):
    """The sum per key and second; raises for values in a range, and at one key's fifth timer."""

    output = {"total": "float64", "n": "int64", "timers": "int64"}  # noqa: RUF012
    total: float = 0.0
    n: int = 0
    timers: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.total += event.half
        self.n += 1
        ctx.set_timer(event.vs - event.vs % SECOND + SECOND)
        if 0.0 < event.half < 0.05:
            raise ArithmeticError(f"too small: {event.half}")

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        self.timers += 1
        ctx.emit(self.total, self.n, self.timers)
        self.total = 0.0
        if ctx.key == 3 and 5 <= self.timers < 7:
            raise RuntimeError("this timer")


def query_of(path: Path) -> Query:
    events = Stream.from_parquet(str(path), vs="t", delay="1s")
    halved = events.apply(halves, {"key": "int64", "half": "float64"}, on_error="dead_letter").name(
        "halved"
    )
    runs = halved.group_by("key").process(Runs, on_error="dead_letter").name("runs")
    skipped = runs.apply(
        lambda b: {"key": b.column("key"), "rate": [1000 // (k - 5) for k in b[2].to_pylist()]},
        {"key": "int64", "rate": "int64"},
        on_error="skip",
    )
    return skipped.filter(udf(lambda r: r != 3, returns=bool)(col("rate"))).to_parquet()


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("user") / "events.parquet")


@pytest.fixture(scope="module")
def expected(events: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("whole") / "job"
    status = jobmanager.run(query_of(events), root=str(root), executor="local").wait(WAIT_S)
    return told(status, str(root))


def told(status: dict[str, Any], root: str) -> dict[str, Any]:
    """Return all facts that must not depend on how the job ran."""
    letters = {n: jobmanager.read_dead_letters(root, n).to_pylist() for n in ("halved", "runs")}
    items = output_items(status["output"])
    count = status["poisoned_events"]
    return {"outcome": outcome(status), "items": items, "letters": letters, "poisoned": count}


def test_poisoned_events_are_kept_counted_and_shown(expected: dict[str, Any]) -> None:
    halved, runs = expected["letters"]["halved"], expected["letters"]["runs"]
    assert len(halved) > 3
    assert len(runs) > 3
    assert all(0.5 < row["x"] < 0.6 for row in halved)
    assert "ValueError: a value that this function" in halved[0]["error"]
    assert "test_user_code.py:" in halved[0]["error"]
    timers = [row for row in runs if row["half"] is None]
    # A timer that raises is undone, so the next one fails in the same way.
    assert {row["error"].partition(" at ")[0] for row in timers} == {"RuntimeError: this timer"}
    assert len(timers) > 30
    # The rows of key 5, which are divided by zero.
    assert expected["poisoned"] - len(halved) - len(runs) > 30
    assert expected["outcome"][0] == "finished"


@pytest.mark.slow
@pytest.mark.usefixtures("brittle_lines")
@pytest.mark.parametrize("which", [[0, 1], pytest.param([1], marks=pytest.mark.slow)])
def test_lost_hosts_change_nothing(
    which: list[int],
    events: Path,
    expected: dict[str, Any],
    gate: Gate,
    tmp_path: Path,
) -> None:
    disturber = Disturber([1, ROWS // 2, ROWS * 3 // 4], partial(cut_off, which), gate)
    config = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.05, step_rows_max=200)
    root = str(tmp_path / "job")
    job = jobmanager.run(
        query_of(events),
        root=root,
        executor="local",
        hosts=2,
        paced=PACE,
        config=config,
        on_status=disturber,
    )
    status = job.wait(WAIT_S)
    assert disturber.calls == 3
    assert told(status, root) == expected


@pytest.mark.slow
def test_a_job_with_user_code_is_cancelled_and_resumed(
    events: Path, expected: dict[str, Any], gate: Gate, tmp_path: Path
) -> None:
    root = str(tmp_path / "job")
    config = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.05, step_rows_max=200)
    options: dict[str, Any] = {"root": root, "paced": PACE, "config": config}
    run_and_cancel(query_of(events), gate, ROWS // 4, **options)
    assert told(jobmanager.resume(root).wait(WAIT_S), root) == expected


def test_on_error_fail_shows_the_event_and_the_line(events: Path, tmp_path: Path) -> None:
    stream = Stream.from_parquet(str(events), vs="t", delay="1s")
    query = stream.apply(halves, {"key": "int64", "half": "float64"}).to_parquet()
    with pytest.raises(JobFailedError, match="halves raised ValueError: a value") as raised:
        jobmanager.run(query, root=str(tmp_path / "job"), executor="local").wait(WAIT_S)
    assert "test_user_code.py:" in str(raised.value)
    assert " of its input, lifetime [" in str(raised.value)
    assert ", x=0.5" in str(raised.value)
    assert JobRoot(str(tmp_path / "job")).read_status()["state"] == "failed"


class PanicException(BaseException):
    """The exception of a Rust library that panics; it is not an ``Exception``."""


def panics(_: Any) -> Any:
    raise PanicException("index out of bounds")


class Leaves(KeyedProcess):
    """Exits Python at the first event."""

    output = {"n": "int64"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        sys.exit(3)


class Panics(KeyedProcess):
    """Panics at the first event."""

    output = {"n": "int64"}  # noqa: RUF012

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        panics(event)


@pytest.mark.parametrize(
    ("function", "process", "reason"),
    [
        (sys.exit, Leaves, "SystemExit: 3"),
        (panics, Panics, "PanicException: index out of bounds"),
    ],
    ids=["exit", "panic"],
)
@pytest.mark.parametrize("kind", ["udf", "vectorised udf", "apply", "process"])
def test_code_that_exits_python_fails_the_job_but_ends_no_host(
    kind: str, function: Any, process: type[KeyedProcess], reason: str, tmp_path: Path
) -> None:
    """User code that kills its process used to end one host after the other."""
    events = Stream.from_items({"x": "int64"}, [event(1, x=1)])
    stream = {
        "udf": lambda: events.select(y=udf(function, returns=int)(col("x") + 2)),
        "vectorised udf": lambda: events.select(
            y=udf(lambda column: function(3), returns=int, vectorised=True)(col("x"))
        ),
        "apply": lambda: events.apply(lambda batch: function(3), {"x": "int64"}),
        "process": lambda: events.group_by("x").process(process),
    }[kind]()
    job = jobmanager.run(stream, root=str(tmp_path / "job"), executor="local", parallelism=1)
    with pytest.raises(JobFailedError, match=f"raised {reason}"):
        job.wait(WAIT_S)
    assert job.status()["restarts"] == 0
