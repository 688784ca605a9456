"""User code in a batch: equal results, poison events included, and clear errors.

Not covered: functions whose result depends on Spark's batches.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import jobmanager
from jobmanager.driver.running.batch.validate import compare
from planner import (
    KeyedContext,
    KeyedProcess,
    Stream,
    Timer,
    agg,
    col,
    count_window,
    cti,
    event,
    hopping,
    lit,
    session,
    snapshot,
    tumbling,
    udf,
)
from planner.batch.spark_sql import BatchDataError, UnsupportedInBatchError
from rstream.types import INF_TIME
from tests.spark.batches import assert_twins, batched

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

ROWS = Stream.from_items(
    {"k": "string", "x": "int64", "t": "timestamp"},
    [event(t, t + 3, k="abc"[t % 3], x=None if t == 7 else t, t=t * 1000) for t in range(20)],
    partitions=2,
)


def odd_twice(batch: pa.RecordBatch) -> Any:
    found = [
        i for i, x in enumerate(batch.column("x").to_pylist()) for _ in range((x or 0) % 2 + 1)
    ]
    return {"_row": found, "x": batch.column("x").take(pa.array(found)), "t": batch[4].take(found)}


def picky(batch: pa.RecordBatch) -> Any:
    return {"y": [100 // (x - 5) for x in batch.column("x").to_pylist()]}


def test_user_code_row_by_row() -> None:
    doubled = ROWS.apply(odd_twice, {"x": "int64", "t": "timestamp"})
    counted = doubled.window(tumbling(5)).agg(n=agg.count(), x=agg.sum("x"))
    assert_twins(counted)
    skipped = assert_twins(ROWS.apply(picky, {"y": "int64"}, on_error="skip"))
    assert skipped.num_rows == 18
    half = udf(lambda x: x / 2, returns="float64")
    longer = udf(lambda k, x: pc.binary_join_element_wise(k, pc.cast(x, pa.string()), "-"),
                 returns="string", vectorised=True)  # fmt: skip
    assert_twins(
        ROWS.filter(half(col("x")) > 2.0).select(
            "t", h=half(col("x")), l=longer(col("k"), col("x") + 1), u=col("k").str.upper()
        )
    )


class Totals(KeyedProcess):
    output = {"n": "int64", "total": "int64"}  # noqa: RUF012
    n: int = 0
    total: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        self.total += event.x
        ctx.set_timer(event.vs + 5)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(self.n, self.total)


def test_a_process_on_spark_equals_one_in_this_process(tmp_path: Path) -> None:
    stream = ROWS.group_by("k").process(Totals, on_error="dead_letter")
    status = {}
    for executor in ("local", "spark"):
        root = str(tmp_path / executor)
        job = jobmanager.run(stream, root=root, executor=executor, master="local[4]")
        found = job.wait(240)
        letters = jobmanager.read_dead_letters(root).to_pylist()
        status[executor] = (found["output_digest"], found["poisoned_events"], letters)
    assert status["local"] == status["spark"]
    assert status["spark"][1] == 1


class Bursts(KeyedProcess):
    """Uses two named timers: moves and deletes them, sets them in the past and from timers."""

    output = {"n": "int64", "total": "float64", "when": "timestamp", "what": "string"}  # noqa: RUF012
    n: int = 0
    total: float = 0.0
    seen: list[int]
    last: str | None

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        self.total += 0.5 if event.x is None else event.x
        self.seen.append(event.vs)
        self.last = str(ctx.key)
        ctx.set_timer(event.vs + 4, "burst")
        ctx.set_timer(event.vs - event.vs % 3, "now")
        if event.vs % 4 == 0:
            ctx.delete_timer("burst")
        if event.vs % 5 == 0:
            ctx.emit(self.n, self.total, event.t, what="later", vs=event.vs + 7)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(self.n, self.total / (self.n - 2 if timer.name == "burst" else 1), None, self.last)
        if timer.name == "burst":
            self.n, self.total, self.seen = 0, 0.0, self.seen[-1:]
            ctx.set_timer(timer.at + 2, "after")
        elif timer.name == "after":
            self.last = None


class Running(KeyedProcess):
    """Emits rows in the order of events."""

    output = {"x": "int64", "before": "int64"}  # noqa: RUF012
    before: int | None

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        ctx.emit(event.x, self.before)
        self.before = event.x


class Once:
    """The first row of each text, and at the end the number of texts."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        rows = [r for r in events.to_pylist() if self._is_new(r["k"], 100 // (r["x"] or 1))]
        return {n: [r[n] for r in rows] for n in ("_vs", "_ve", "k")}, ctis

    def _is_new(self, k: str, _: int) -> bool:
        self.seen[k] = self.seen.get(k, 0) + 1
        return self.seen[k] == 1

    def get_snapshot(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


class AtEnd(Once):
    """Emits a row when the stream ends, also without input."""

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        self.seen["n"] = self.seen.get("n", 0) + events.num_rows
        if ctis and ctis[-1] == INF_TIME:
            return {"_vs": [500], "_ve": [501], "k": [f"{self.seen['n']} rows"]}
        return None


TIES = Stream.from_items(
    {"k": "float64", "x": "int64"},
    [event(t // 3, k=[0.0, -0.0, math.nan, None][t % 4], x=t * 7 % 11) for t in range(40)],
    partitions=3,
)


def test_a_batch_runs_processes_with_the_same_rows() -> None:
    grouped = ROWS.group_by("k")
    skipped = grouped.process(Bursts, on_error="skip")
    assert assert_twins(skipped).num_rows > 20
    both = ROWS.with_columns(f=col("x") * 1.5).group_by("f", "k")
    assert assert_twins(both.process(Bursts, on_error="skip")).num_rows > 20
    assert assert_twins(TIES.filter(col("x") > 1).shift(3).group_by("k").process(Running)).num_rows
    assert assert_twins(TIES.union(TIES).group_by("k").process(Totals)).num_rows == 3
    with pytest.raises(BatchDataError, match="Running cannot be run as a batch: its rows depend"):
        batched(TIES.union(TIES.shift(1)).group_by("k").process(Running))


def test_a_batch_runs_user_operators_with_the_same_rows() -> None:
    made = TIES.with_columns(k=(col("x") % 4).cast("string")).transform(Once, {"k": "string"})
    assert assert_twins(made).num_rows == 4
    keyed = ROWS.group_by("k").transform(Once, {"k": "string"})
    assert assert_twins(keyed).num_rows == 3
    for rows in (ROWS, ROWS.filter(col("x") > 99)):
        assert assert_twins(rows.transform(AtEnd, {"k": "string"})).num_rows == 1


def test_ties_are_ordered_by_known_places() -> None:
    some = TIES.with_columns(same=lit(1)).set_duration(5)
    for window in (hopping(8, 4), snapshot(), session(2), count_window(3)):
        made = some.group_by("k").window(window).agg(
            first=agg.first("x"), last=agg.last("x"), most=agg.max_by("x", "same"),
            least=agg.min_by("x", col("x") % 3), n=agg.count(),
        )  # fmt: skip
        assert assert_twins(made).num_rows > 2
    assert assert_twins(some.stitch("k")).num_rows == 3


class Heartbeat(Running):
    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        ctx.set_timer(event.vs + 2)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(timer.at, int(ctx.at_end))
        if not ctx.at_end:
            ctx.set_timer(timer.at + 2)


def test_stream_and_batch_agree_on_the_end() -> None:
    items = [event(t, k="abc"[t % 3], x=t) for t in range(20)]
    rows = Stream.from_items({"k": "string", "x": "int64"}, [*items, cti(31)], partitions=2)
    sessions = rows.extend(4).group_by("k").window(session(3)).agg(x=agg.sum("x")).shift(9)
    for stream in (rows, sessions, rows.group_by("k").window(hopping(4, 6)).agg(x=agg.count())):
        beats = assert_twins(stream.group_by("k").process(Heartbeat))
        assert set(beats["before"].to_pylist()) == {0, 1}


class Drawing(Running):
    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        ctx.emit(event.x, ctx.now())


def test_code_without_a_batch_version_and_failing_code() -> None:
    with pytest.raises(
        UnsupportedInBatchError, match=r"process Drawing by k.*other values than the job"
    ):
        batched(ROWS.group_by("k").process(Drawing))
    with pytest.raises(BatchDataError, match=r"Totals: raised TypeError.*key 'b', time 7, event"):
        batched(ROWS.group_by("k").process(Totals))
    with pytest.raises(BatchDataError, match="picky raised"):
        batched(ROWS.apply(picky, {"y": "int64"}))


class Living(KeyedProcess):
    """The sum of the valid rows of a key, at each change."""

    output: ClassVar[dict[str, str]] = {"total": "int64"}
    total: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.total += event.x or 0
        ctx.emit(self.total)

    def on_end(self, event: Any, ctx: KeyedContext) -> None:
        self.total -= event.x or 0
        ctx.emit(self.total)


def test_ends_of_events_and_open_windows() -> None:
    assert_twins(ROWS.group_by("k").process(Living))
    assert_twins(ROWS.upserts("k").group_by("k").process(Living))
    early = ROWS.group_by("k").window(hopping(8, 4), emit="changes")
    assert_twins(early.agg(n=agg.count(), most=agg.max("x")))


def inverse(x: int) -> float:
    return 12 / x


def test_a_batch_repeats_the_calls_of_a_lookup() -> None:
    found = assert_calls(ROWS.lookup(inverse, {"y": "float64"}, "x", on_error="null"))
    assert found.column("y").null_count == 2
    once = ROWS.call_once(inverse, {"y": "float64"}, "x", "x")
    with pytest.raises(UnsupportedInBatchError, match="calls again that may be made only once"):
        batched(once)


def assert_calls(stream: Stream) -> pa.Table:
    """Check the results of a job and of a batch; a plan without a job has no calls."""
    batch = batched(stream)
    found = compare(jobmanager.collect(stream, executor="local"), batch)
    assert found.is_equal, str(found)
    return batch
