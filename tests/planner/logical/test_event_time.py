"""Which column has the event time, and which events never end, after every kind of node.

Not covered: how callers use it (tests/planner/sql).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from planner import Stream, agg, col, event, lit, tumbling, vs
from planner.expressions.nodes import Column
from planner.logical.event_time import distance_us, is_event_time, never_ends

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.expressions import Expr

SCHEMA = {"k": "int64", "x": "int64"}
SPANS = Stream.from_items(SCHEMA, [event(1, 5, k=1, x=1)]).with_columns(t=vs())
POINTS = Stream.from_items(SCHEMA, [event(1, k=1, x=1)]).with_columns(t=vs())
OTHERS = POINTS.select("k", y=col("x"))


def renamed(stream: Stream) -> Stream:
    return stream.select("k", u=col("t"))


TIMES: dict[str, tuple[Callable[[], Stream], str]] = {
    "as it is": (lambda: SPANS, "t"),
    "renamed": (lambda: renamed(SPANS), "u"),
    "cast to a finer type": (
        lambda: SPANS.select("k", u=col("t").cast(pa.timestamp("ns")).cast(pa.timestamp("us"))),
        "u",
    ),
    "another end": (lambda: SPANS.set_duration(9), "t"),
    "a later end": (lambda: SPANS.extend(9).for_ever(), "t"),
    "filtered": (lambda: SPANS.filter(col("x") > 1), "t"),
    "the first of a key": (lambda: SPANS.deduplicate("k", within=9), "t"),
    "sorted": (lambda: SPANS.sort("x"), "t"),
    "with a frame": (
        lambda: SPANS.group_by("k").rolling(rows=3).with_columns(n=agg.count()),
        "t",
    ),
    "of all branches": (lambda: SPANS.union(POINTS), "t"),
    "a point in a pair": (lambda: POINTS.join(SPANS.select("k", y=col("x")), on="k"), "t"),
    "the right one of two points": (
        lambda: OTHERS.join(renamed(POINTS), on="k", within=(0, 9)),
        "u",
    ),
    "the left one of two points": (lambda: POINTS.join(OTHERS, on="k", within=(-9, 0)), "t"),
    "both at one time": (lambda: POINTS.join(renamed(POINTS), on="k", within=(0, 0)), "u"),
    "the left one of an outer join": (
        lambda: POINTS.join(OTHERS.for_ever(), on="k", how="left"),
        "t",
    ),
    "the left one of an outer interval join": (
        lambda: POINTS.join(OTHERS, on="k", within=(-9, 0), how="left"),
        "t",
    ),
    "one without an earlier match": (
        lambda: POINTS.join(OTHERS, on="k", within=(-9, 0), how="anti"),
        "t",
    ),
    "the left one of the nearest": (lambda: SPANS.join_asof(OTHERS, by="k"), "t"),
}
NO_TIMES: dict[str, tuple[Callable[[], Stream], str]] = {
    "another start": (lambda: SPANS.shift(3), "t"),
    "the end": (lambda: SPANS.point_at_end(), "t"),
    "later pieces": (lambda: SPANS.chop(2), "t"),
    "computed": (lambda: POINTS.with_columns(t=col("t") + lit(timedelta(seconds=1))), "t"),
    "its day": (lambda: POINTS.with_columns(d=col("t").cast(pa.date32())), "d"),
    "the beginning of its day": (
        lambda: POINTS.with_columns(d=col("t").cast(pa.date32()).cast(pa.timestamp("us"))),
        "d",
    ),
    "its second": (lambda: POINTS.with_columns(d=col("t").cast(pa.timestamp("s", "UTC"))), "d"),
    "of one branch": (lambda: SPANS.union(SPANS.shift(3)), "t"),
    "what a frame made": (
        lambda: SPANS.group_by("k").rolling(rows=3).with_columns(n=agg.max("t")),
        "n",
    ),
    "of the first of what was merged": (lambda: SPANS.stitch("k"), "t"),
    "a span in a pair": (lambda: SPANS.join(OTHERS, on="k"), "t"),
    "a match that may be none": (
        lambda: SPANS.join(renamed(POINTS), on="k", how="left"),
        "u",
    ),
    "the nearest, by a name that the left one had": (
        lambda: POINTS.select("k").join_asof(POINTS.select("k", "t"), by="k"),
        "t",
    ),
    "the nearest": (lambda: POINTS.join_asof(renamed(POINTS), by="k"), "u"),
    "the earlier of two points": (lambda: POINTS.join(OTHERS, on="k", within=(0, 9)), "t"),
    "the later of two points, that may be none": (
        lambda: OTHERS.join(renamed(POINTS), on="k", within=(0, 9), how="left"),
        "u",
    ),
    "one without a later match": (
        lambda: POINTS.join(OTHERS, on="k", within=(0, 9), how="anti"),
        "t",
    ),
    "of a group": (lambda: POINTS.group_by("k").window(tumbling(9)).agg(t=agg.min("t")), "t"),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_column_with_the_start_of_events(name: str) -> None:
    make, column = TIMES[name]
    assert is_event_time(make().plan, column)


@pytest.mark.parametrize("name", NO_TIMES)
def test_a_column_without_the_start_of_events(name: str) -> None:
    make, column = NO_TIMES[name]
    assert not is_event_time(make().plan, column)


ENDLESS = SPANS.for_ever()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: SPANS, False),
        (lambda: SPANS.extend(2**40), False),
        (lambda: ENDLESS, True),
        (lambda: ENDLESS.shift(3).filter(col("x") > 1).select("k"), True),
        (lambda: ENDLESS.deduplicate("k").sort("x").limit(3), True),
        (lambda: ENDLESS.group_by("k").rolling(rows=3).with_columns(n=agg.count()), True),
        (lambda: ENDLESS.set_duration(3), False),
        (lambda: ENDLESS.clip(ENDLESS, on="k"), False),
        (lambda: ENDLESS.union(ENDLESS), True),
        (lambda: ENDLESS.union(SPANS), False),
        (lambda: ENDLESS.join(ENDLESS.select("k", y=col("x")), on="k"), True),
        (lambda: ENDLESS.join(OTHERS, on="k"), False),
        (lambda: OTHERS.join(ENDLESS, on="k"), False),
        (lambda: ENDLESS.join(ENDLESS.select("k", y=col("x")), on="k", how="left"), False),
        (lambda: ENDLESS.join(ENDLESS, on="k", how="anti"), False),
        (lambda: ENDLESS.join_asof(OTHERS, by="k"), True),
        (lambda: SPANS.join_asof(ENDLESS.select("k", y=col("x")), by="k"), False),
        (lambda: ENDLESS.group_by("k").agg(n=agg.count()), False),
    ],
)
def test_events_that_never_end(make: Callable[[], Stream], expected: bool) -> None:
    assert never_ends(make().plan) is expected


@pytest.mark.parametrize(
    ("how", "column", "expected"),
    [
        ("inner", "t", (-9, 0)),
        ("inner", "u", (-3, 0)),
        ("left", "u", (-3, 0)),
        ("full", "t", (-9, 0)),
        ("semi", "t", (-9, 0)),
    ],
)
def test_distance_between_the_times_of_a_pair_and_its_sides(
    how: str, column: str, expected: tuple[int, int]
) -> None:
    pairs = POINTS.join(renamed(POINTS), on="k", within=(-3, 9), how=how).filter(col("x") > 0)
    kind = pairs.schema.field(column).type
    assert distance_us(pairs.plan, Column(column, kind)) == expected
    moved = pairs.select(w=col(column)).union(pairs.select(w=col(column)))
    assert distance_us(moved.plan, Column("w", kind)) == expected
    assert distance_us(pairs.plan, Column("x", kind)) is None


def test_the_time_of_an_adjusted_late_row_is_not_near() -> None:
    options = {"vs": "at", "delay": "1s", "late": "adjust"}
    schema = {"at": "timestamp", "k": "int64"}
    moved = Stream.from_kafka("t", servers="s", schema=schema, **options)  # type: ignore[arg-type]
    kind = moved.schema.field("at").type
    assert is_event_time(moved.plan, "at")
    assert distance_us(moved.plan, Column("at", kind)) is None
    mine = moved.with_columns(ts=vs())
    assert distance_us(mine.plan, Column("ts", mine.schema.field("ts").type)) == (0, 0)


def test_distance_of_times_through_two_interval_joins() -> None:
    pairs = POINTS.join(renamed(POINTS), on="k", within=(0, 9)).rename({"u": "w"})
    both = pairs.join(renamed(POINTS), on="k", within=(-1, 4))
    kind = both.schema.field("t").type
    assert distance_us(both.plan, Column("t", kind)) == (-13, 0)


DAY_US, SECOND_US = 86_400_000_000, 1_000_000


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        (col("t") + lit(timedelta(seconds=2)), (2 * SECOND_US, 2 * SECOND_US)),
        (col("t") - lit(timedelta(seconds=2)), (-2 * SECOND_US, -2 * SECOND_US)),
        (col("t").dt.truncate("1s"), (-SECOND_US, 0)),
        (col("t").cast(pa.date32()), (-DAY_US, 0)),
        (
            col("t").cast(pa.date32()).cast(pa.timestamp("us")) + lit(timedelta(seconds=1)),
            (SECOND_US - DAY_US, SECOND_US),
        ),
        (col("t").dt.year(), None),
    ],
)
def test_distance_of_a_computed_time(computed: Expr, expected: tuple[int, int] | None) -> None:
    made = POINTS.with_columns(c=computed).filter(col("x") > 0)
    assert distance_us(made.plan, Column("c", made.schema.field("c").type)) == expected
