"""Timers and ``ctx.at_end`` at any parallelism, cut and restore, against a loop per key.

The loop knows the last finite CTI of all sources, which every vertex behind an exchange gets.
Not covered: a source whose own CTIs differ with its number of partitions (late rows, estimates).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

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
    session,
    snapshot,
)
from planner.physical.lower import lower
from rstream.types import INF_TIME
from rvertex.user_code.errors import UserResultError
from tests.support.budget import examples
from tests.support.plan_runner import Schedule, answer, sorted_rows

if TYPE_CHECKING:
    import pyarrow as pa

BEAT = 3
NEVER = -(2**62)
SCHEMA = {"k": "int64", "x": "int64"}
Row = tuple[int, int, int, int]


class Heartbeat(KeyedProcess):
    """Emits a row every three time units, from the first event of the key until the end."""

    output = {"n": "int64", "is_end": "int64"}  # noqa: RUF012
    n: int = 0

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        if self.n == 1:
            ctx.set_timer(event.vs + BEAT)

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(self.n, int(ctx.at_end))
        if not ctx.at_end:
            ctx.set_timer(timer.at + BEAT)


class Quiet(Heartbeat):
    """Two timers, moved and deleted by events; emits rows for events and never reads ``at_end``."""

    def on_event(self, event: Any, ctx: KeyedContext) -> None:
        self.n += 1
        ctx.emit(self.n, -1, vs=event.vs + event.x % 3)
        ctx.set_timer(event.vs + event.x % 7, "near")
        ctx.set_timer(event.vs + 4, "far")
        if event.x % 5 == 0:
            ctx.delete_timer("near")

    def on_timer(self, timer: Timer, ctx: KeyedContext) -> None:
        ctx.emit(self.n, 0 if timer.name == "near" else 1)


def beats(times: list[int], last_cti: int) -> list[tuple[int, int, int]]:
    """The heartbeat of one key: time, events so far, and whether it is the end."""
    known, at = max(last_cti, times[-1]), times[0] + BEAT
    found = []
    while True:
        found.append((at, sum(t < at for t in times), int(at > known)))
        if at > known:
            return found
        at += BEAT


def by_key(stream: Stream, parallelism: int, schedule: Schedule) -> dict[int, list[Row]]:
    """The rows of each key in order."""
    table = answer(lower(stream.to_parquet(), root="r", parallelism=parallelism), schedule=schedule)
    found: dict[int, list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        found[row["k"]].append((row["_vs"], row["_ve"], row["n"], row["is_end"]))
    return dict(found)


@st.composite
def inputs(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Events ``(time, key, x)`` in order of time, and CTIs."""
    event_ = st.tuples(st.integers(0, 40), st.integers(0, 5), st.integers(0, 30))
    events = sorted(draw(st.lists(event_, min_size=1, max_size=25)))
    return events, sorted(draw(st.sets(st.integers(-2, 60), max_size=5)))


def stream_of(events: list[tuple[int, int, int]], ctis: list[int], partitions: int = 1) -> Stream:
    items = [(t, 1, event(t, k=k, x=x)) for t, k, x in events] + [(t, 0, cti(t)) for t in ctis]
    ordered = [item for _, _, item in sorted(items, key=lambda item: item[:2])]
    return Stream.from_items(SCHEMA, ordered, partitions=partitions)


schedules = st.builds(
    Schedule,
    numbers=st.lists(st.integers(0, 1_000), min_size=2, max_size=12).map(tuple),
    rows_max=st.sampled_from([1, 4, 30]),
    restores=st.booleans(),
)


@examples(3)
@given(inputs(), inputs(), st.integers(1, 2), schedules)
def test_a_heartbeat_ends_with_its_key_and_the_sources(
    left: Any, right: Any, partitions: int, schedule: Schedule
) -> None:
    stream = stream_of(left[0], left[1], partitions).filter(col("x") != 7).union(stream_of(*right))
    times: dict[int, list[int]] = defaultdict(list)
    for t, k, x in sorted([*(e for e in left[0] if e[2] != 7), *right[0]]):
        del x
        times[k].append(t)
    last_cti = max([NEVER, *left[1], *right[1]])
    expected = {
        k: [(at, at + 1, n, end) for at, n, end in beats(found, last_cti)]
        for k, found in times.items()
    }
    for parallelism in (1, 2, 3):
        assert by_key(stream.group_by("k").process(Heartbeat), parallelism, schedule) == expected


@examples(3)
@given(inputs(), schedules)
def test_a_key_has_the_same_sequence_at_any_parallelism(given_: Any, schedule: Schedule) -> None:
    stream = stream_of(*given_).group_by("k").process(Quiet)
    plain = by_key(stream, 1, replace(schedule, numbers=(0,), restores=False))
    for parallelism in (1, 2, 3):
        assert by_key(stream, parallelism, schedule) == plain


@examples(3)
@given(inputs(), inputs(), st.booleans(), schedules)
def test_timers_after_windows_joins_and_another_process(
    left: Any, right: Any, partial: bool, schedule: Schedule
) -> None:
    """The CTIs of each of these follow from the CTIs that it gets, not from its rows."""
    sums = stream_of(*left).group_by("x").window(hopping(6, 4)).agg(k=agg.min("k"), y=agg.sum("x"))
    other = stream_of(*right).select("k", z=col("x") % 4).extend(9)
    beats_ = sums.join(other, on="k").shift(2).group_by("k").process(Heartbeat)
    query = beats_.select(x=col("n"), k=col("k")).group_by("x").process(Heartbeat).to_parquet()
    plans = [lower(query, root="r", parallelism=n, partial_aggregation=partial) for n in (1, 2, 3)]
    found = [sorted_rows(answer(plan, schedule=schedule)) for plan in plans]
    assert found[0] == found[1] == found[2]


class Waiting:
    """Emits events after the first CTI that follows them, and no CTI before the last one."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int]] = []

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> tuple[dict[str, Any], list[int]]:
        columns = [events.column(name).to_pylist() for name in ("_vs", "k", "x")]
        self.rows += zip(*columns, strict=True)
        last = ctis[-1] if ctis else NEVER
        gone = [row for row in self.rows if row[0] < last]
        self.rows = self.rows[len(gone) :]
        out = {"_vs": [r[0] for r in gone], "_ve": [r[0] + 1 for r in gone]}
        out |= {"k": [r[1] for r in gone], "x": [r[2] for r in gone]}
        return out, [t for t in ctis if t == INF_TIME]

    def get_snapshot(self) -> dict[str, Any]:
        return {"rows": [list(row) for row in self.rows]}

    def load(self, state: dict[str, Any]) -> None:
        self.rows = [tuple(row) for row in state["rows"]]


class Telling(Waiting):
    """Emits events at once, each with a CTI that no earlier event will follow."""

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> tuple[Any, list[int]]:
        told = {*ctis, *events.column("_vs").to_pylist()}
        last = self.rows[-1][0] if self.rows else NEVER
        new = sorted(t for t in told if t > last)
        self.rows = [(t, 0, 0) for t in [*new[-1:], last][:1]]
        return events, new


def _held_back(stream: Stream, other: Stream, how: str) -> Stream:
    """The stream after a step that delays CTIs because of its rows."""
    long = stream.extend(5)
    by_x = long.group_by("x")
    match how:
        case "session":
            made = by_x.window(session(7)).agg(k=agg.min("k"))
        case "count":
            made = by_x.window(count_window(2)).agg(k=agg.min("k"))
        case "snapshot":
            made = by_x.window(snapshot()).agg(k=agg.min("k"))
        case "clip":
            made = long.clip(other, on="x")
        case "stitch":
            made = long.stitch("x")
        case "transform":
            made = stream.group_by("x").transform(Waiting, SCHEMA)
        case "telling":
            made = stream.group_by("x").transform(Telling, SCHEMA)
        case _:
            where = col("k") > col("z") if how.endswith("where") else None
            made = long.join(
                other.select("x", z=col("k")), on="x", how=how.removesuffix("-where"), where=where
            )
    return made.select("k", x=1)


HELD = ["session", "count", "snapshot", "clip", "stitch", "transform", "telling"]
HELD += ["left", "anti", "left-where", "anti-where"]


def check_behind(how: str, left: Any, right: Any, schedule: Schedule) -> None:
    """The last CTI of the sources arrives in the end, regardless of the buffered rows."""
    held = _held_back(stream_of(*left), stream_of(*right), how)
    times: dict[int, list[int]] = defaultdict(list)
    plan = lower(held.to_parquet(), root="r", parallelism=1)
    for row in answer(plan, schedule=Schedule((0,))).to_pylist():
        times[row["k"]].append(row["_vs"])
    is_pair = how in ("clip", "left", "anti", "left-where", "anti-where")
    last_cti = max([NEVER, *left[1], *(right[1] if is_pair else [])])
    expected = {
        k: [(at, at + 1, n, end) for at, n, end in beats(sorted(found), last_cti)]
        for k, found in times.items()
    }
    for parallelism in (1, 2, 3):
        assert by_key(held.group_by("k").process(Heartbeat), parallelism, schedule) == expected


HOLDING = (st.sampled_from(HELD), inputs(), inputs(), schedules)


@examples(3)
@given(*HOLDING)
def test_timers_after_operators_that_delay_ctis(
    how: str, left: Any, right: Any, schedule: Schedule
) -> None:
    check_behind(how, left, right, schedule)


@pytest.mark.slow
@examples(15)
@given(*HOLDING)
def test_timers_after_operators_that_delay_ctis_with_more_rows(
    how: str, left: Any, right: Any, schedule: Schedule
) -> None:
    check_behind(how, left, right, schedule)


@pytest.mark.parametrize("how", HELD)
def test_no_number_of_stages_before_timers_delays_ctis(how: str) -> None:
    held = _held_back(stream_of([(1, 1, 1)], [5]), stream_of([(1, 1, 1)], [5]), how)
    between = held.group_by("x").window(hopping(6, 4)).agg(k=agg.min("k"))
    query = between.group_by("k").process(Heartbeat).to_parquet()
    plan = lower(query, root="r", parallelism=2, partial_aggregation=False)
    operators = [operator for vertex in plan.vertices for operator in vertex.operators]
    assert len(plan.stages) > 3
    holding = [op for op in operators if op.holds_ctis and not getattr(op, "passes_ctis", False)]
    assert not holding
    plain = lower(between.to_parquet(), root="r", parallelism=2, partial_aggregation=False)
    # valid rows have edges, and wait for nothing
    is_held = any(op.holds_ctis for vertex in plain.vertices for op in vertex.operators)
    assert is_held or how == "clip"


class Ahead(Waiting):
    """Shifts rows and CTIs itself."""

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> tuple[dict[str, Any], list[int]]:
        columns = {name: events.column(name).to_pylist() for name in ("k", "x")}
        starts = [t + 50 for t in events.column("_vs").to_pylist()]
        moved = {"_vs": starts, "_ve": [t + 1 for t in starts]}
        return {**moved, **columns}, [t if t == INF_TIME else t + 50 for t in ctis]


def test_a_transform_before_timers_is_not_ahead_of_its_time() -> None:
    stream = stream_of([(1, 1, 1), (30, 1, 1)], [5, 40])
    made = stream.transform(Ahead, SCHEMA)
    assert answer(lower(made.to_parquet(), root="r", parallelism=1)).num_rows == 2
    plan = lower(made.group_by("k").process(Heartbeat).to_parquet(), root="r", parallelism=1)
    with pytest.raises(
        UserResultError, match=r"Ahead: .* at 55 but its input has only reached 5.* use .shift"
    ):
        answer(plan, schedule=Schedule((0,), rows_max=1))
