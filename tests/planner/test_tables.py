"""Tables of events for the operators in the guides of temporal stream systems.

The situations are those of Trill's query-writing guide and of its tests of snapshots, quantized
windows, stitch, chop, clip, extension and anti joins; the events are our own. If a convention
differs, the case shows how to write theirs. Not covered: CTIs, and the order of equal starts; see
the operator tests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from planner import Stream, agg, col, event, hopping, lit, session, snapshot, tumbling
from planner.physical.lower import lower
from rstream.types import INF_TIME
from tests.rooms import ROOT
from tests.support.plan_runner import answer

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A row: start, end, then the values of the payload.
Row = tuple[Any, ...]


def events(*rows: Row, **columns: str) -> Stream:
    """A stream of rows; if a row lacks its last two columns, they are null."""
    names = list(columns)
    items = [event(vs, ve, **dict(zip(names, values, strict=True))) for vs, ve, *values in rows]
    return Stream.from_items(columns, items)


def keyed(*rows: Row) -> Stream:
    """Rows with a key and a number."""
    return events(*rows, k="string", x="int64")


def named(*rows: Row) -> Stream:
    """Rows with one text."""
    return events(*rows, k="string")


def table(stream: Stream) -> list[Row]:
    """The result as rows."""
    plan = lower(stream.to_parquet(), root="memory://tables", parallelism=2)
    rows = [tuple(row.values()) for row in answer(plan).to_pylist()]
    return sorted(rows, key=lambda row: (row[0], row[1], repr(row)))


READINGS = keyed((2, 3, "a", 5), (6, 7, "a", 1), (13, 14, "b", 4), (17, 18, "a", 7))
RIDES = keyed((0, 12, "a", 1), (4, 9, "b", 2), (7, 20, "a", 4), (12, 15, "b", 8))
FOREVER = int(INF_TIME)

CASES: dict[str, tuple[Stream, Sequence[Row]]] = {
    # One event at a time.
    "where keeps lifetimes": (
        RIDES.filter(col("x") > 3),
        [(7, 20, "a", 4), (12, 15, "b", 8)],
    ),
    "select keeps lifetimes": (
        RIDES.select("k", x=col("x") * 10).filter(col("k") == "b"),
        [(4, 9, "b", 20), (12, 15, "b", 80)],
    ),
    "select many": (
        named((3, 8, "red green"), (5, 6, "")).select(k=col("k").str.split()).explode("k"),
        [(3, 8, "green"), (3, 8, "red")],
    ),
    "union": (
        named((1, 4, "a")).union(named((1, 9, "b"), (3, 5, "a"))),
        [(1, 4, "a"), (1, 9, "b"), (3, 5, "a")],
    ),
    # Lifetimes.
    "shift": (RIDES.shift(100).filter(col("x") < 3), [(100, 112, "a", 1), (104, 109, "b", 2)]),
    "set duration": (
        named((1, 2, "a"), (4, FOREVER, "b")).set_duration(10),
        [(1, 11, "a"), (4, 14, "b")],
    ),
    "extend longer": (
        named((1, 6, "a"), (2, 11, "b"), (4, 7, "c")).extend(20),
        [(1, 26, "a"), (2, 31, "b"), (4, 27, "c")],
    ),
    "extend shorter deletes what would be empty": (
        named((1, 6, "a"), (2, 11, "b"), (4, 9, "c"), (5, FOREVER, "d")).extend(-5),
        [(2, 6, "b"), (5, FOREVER, "d")],
    ),
    "extend by no more than it takes away": (
        named((1, 6, "a"), (2, 11, "b")).extend(7).extend(-7),
        [(1, 6, "a"), (2, 11, "b")],
    ),
    "points at end come in order of the ends": (
        named((1, 9, "a"), (2, 4, "b"), (3, FOREVER, "c"), (5, 6, "d")).point_at_end(),
        [(4, 5, "b"), (6, 7, "d"), (9, 10, "a")],
    ),
    "chop cuts on a grid": (
        named((4, 13, "a")).chop(4),
        [(4, 8, "a"), (8, 12, "a"), (12, 13, "a")],
    ),
    "chop with an offset": (
        named((4, 13, "a")).chop(4, offset=1),
        [(4, 5, "a"), (5, 9, "a"), (9, 13, "a")],
    ),
    "chop leaves points alone": (named((8, 9, "a")).chop(4), [(8, 9, "a")]),
    "stitch undoes chop": (
        named((4, 13, "a"), (20, 22, "b")).chop(3).stitch(),
        [(4, 13, "a"), (20, 22, "b")],
    ),
    "stitch joins what touches, by payload": (
        named((1, 5, "a"), (5, 8, "a"), (5, 9, "b"), (9, 12, "a")).stitch(),
        [(1, 8, "a"), (5, 9, "b"), (9, 12, "a")],
    ),
    "clip by a later event": (
        keyed((1, 20, "a", 1), (2, 20, "b", 2)).clip(named((5, 6, "a"), (9, 10, "a")), on="k"),
        [(1, 5, "a", 1), (2, 20, "b", 2)],
    ),
    "clip looks at starts alone": (
        keyed((5, 20, "a", 1)).clip(named((1, 30, "a"), (5, 6, "a")), on="k"),
        [(5, 20, "a", 1)],
    ),
    "a signal from points": (
        keyed((3, FOREVER, "a", 1), (7, FOREVER, "a", 2), (12, FOREVER, "a", 3)).pipe(
            lambda s: s.clip(s, on="k")
        ),
        [(3, 7, "a", 1), (7, 12, "a", 2), (12, FOREVER, "a", 3)],
    ),
    "starts and ends make intervals": (
        keyed((3, FOREVER, "a", 1), (5, FOREVER, "b", 1)).clip(
            named((9, 10, "a"), (11, 12, "b")), on="k"
        ),
        [(3, 9, "a", 1), (5, 11, "b", 1)],
    ),
    # Windows.
    "a snapshot is the query at each instant": (
        RIDES.window(snapshot()).agg(n=agg.count(), x=agg.sum("x")),
        [
            (0, 4, 1, 1),
            (4, 7, 2, 3),
            (7, 9, 3, 7),
            (9, 12, 2, 5),
            (12, 15, 2, 12),
            (15, 20, 1, 4),
        ],
    ),
    "a snapshot by key": (
        RIDES.group_by("k").window(snapshot()).agg(x=agg.max("x")),
        [(0, 7, "a", 1), (4, 9, "b", 2), (7, 12, "a", 4), (12, 15, "b", 8), (12, 20, "a", 4)],
    ),
    "a sliding window is a snapshot of longer lifetimes": (
        READINGS.set_duration(5).window(snapshot()).agg(x=agg.sum("x")),
        [(2, 6, 5), (6, 7, 6), (7, 11, 1), (13, 17, 4), (17, 18, 11), (18, 22, 7)],
    ),
    "a tumbling window's result lives in its window": (
        READINGS.window(tumbling(10)).agg(x=agg.sum("x")),
        [(0, 10, 6), (10, 20, 11)],
    ),
    "there it lives in the window after: a shift": (
        READINGS.window(tumbling(10)).agg(x=agg.sum("x")).shift(10),
        [(10, 20, 6), (20, 30, 11)],
    ),
    "hopping windows overlap": (
        READINGS.group_by("k").window(hopping(20, 10)).agg(x=agg.sum("x")),
        [
            (-10, 10, "a", 6),
            (0, 20, "a", 13),
            (0, 20, "b", 4),
            (10, 30, "a", 7),
            (10, 30, "b", 4),
        ],
    ),
    "there each lives until the next hop": (
        READINGS.window(hopping(20, 10)).agg(x=agg.sum("x")).shift(20).set_duration(10),
        [(10, 20, 6), (20, 30, 17), (30, 40, 11)],
    ),
    "an interval that is a window is in that window alone": (
        named((10, 20, "a")).window(tumbling(10)).agg(n=agg.count()),
        [(10, 20, 1)],
    ),
    "an interval is in all windows that it touches": (
        named((9, 21, "a")).window(tumbling(10)).agg(n=agg.count()),
        [(0, 10, 1), (10, 20, 1), (20, 30, 1)],
    ),
    "windows with an offset": (
        READINGS.window(tumbling(10, offset=5)).agg(x=agg.sum("x")),
        [(-5, 5, 5), (5, 15, 5), (15, 25, 7)],
    ),
    "hopping windows with an offset": (
        named((4, 5, "a")).window(hopping(10, 5, offset=3)).agg(n=agg.count()),
        [(-2, 8, 1), (3, 13, 1)],
    ),
    "sessions end by a gap": (
        keyed((1, 2, "a", 1), (4, 5, "a", 2), (5, 6, "b", 3), (20, 21, "a", 4))
        .group_by("k")
        .window(session(6))
        .agg(x=agg.sum("x")),
        [(1, 10, "a", 3), (5, 11, "b", 3), (20, 26, "a", 4)],
    ),
    "sessions as they grow": (
        keyed((1, 2, "a", 1), (4, 5, "a", 2), (4, 5, "a", 6), (5, 6, "b", 3), (12, 13, "a", 4))
        .group_by("k")
        .window(session(5, running=True))
        .agg(x=agg.sum("x")),
        [(1, 4, "a", 1), (4, 9, "a", 9), (5, 10, "b", 3), (12, 17, "a", 4)],
    ),
    "aggregates of aggregates": (
        READINGS.group_by("k")
        .window(tumbling(10))
        .agg(x=agg.sum("x"))
        .window(snapshot())
        .agg(n=agg.count(), most=agg.max("x")),
        [(0, 10, 1, 6), (10, 20, 2, 7)],
    ),
    # Joins.
    "a join lives where both do": (
        keyed((1, 10, "a", 1), (3, 6, "b", 2)).join(
            events((5, 20, "a", 7), (6, 9, "b", 8), k="string", y="int64"), on="k"
        ),
        [(5, 10, "a", 1, 7)],
    ),
    "points against long intervals": (
        READINGS.join(events((0, 10, "a", 70), (10, 30, "a", 71), k="string", y="int64"), on="k"),
        [(2, 3, "a", 5, 70), (6, 7, "a", 1, 70), (17, 18, "a", 7, 71)],
    ),
    "a stream with itself": (
        named((1, 5, "a"), (3, 8, "a")).with_columns(one=lit(1)).pipe(lambda s: s.join(s, on="k")),
        [(1, 5, "a", 1, 1), (3, 5, "a", 1, 1), (3, 5, "a", 1, 1), (3, 8, "a", 1, 1)],
    ),
    "a join with a condition": (
        keyed((1, 10, "a", 5)).join(
            events((2, 4, "a", 3), (3, 9, "a", 6), k="string", y="int64"),
            on="k",
            where=col("x") < col("y"),
        ),
        [(3, 9, "a", 5, 6)],
    ),
    "what does not exist": (
        keyed(
            (50, 51, "a", 3), (50, 60, "a", 1), (51, 55, "a", 2), (52, 62, "b", 5), (59, 62, "a", 4)
        ).join(
            named((50, 60, "c"), (51, 53, "a"), (56, 58, "a"), (56, 59, "a")), on="k", how="anti"
        ),
        [
            (50, 51, "a", 1),
            (50, 51, "a", 3),
            (52, 62, "b", 5),
            (53, 55, "a", 2),
            (53, 56, "a", 1),
            (59, 60, "a", 1),
            (59, 62, "a", 4),
        ],
    ),
    "what exists or does not": (
        keyed((50, 60, "a", 1)).join(
            events((51, 53, "a", 7), (56, 70, "a", 8), k="string", y="int64"), on="k", how="left"
        ),
        [
            (50, 51, "a", 1, None),
            (51, 53, "a", 1, 7),
            (53, 56, "a", 1, None),
            (56, 60, "a", 1, 8),
        ],
    ),
    "what exists for a while, with a condition": (
        keyed((50, 60, "a", 1)).join(
            events((51, 53, "a", 0), (56, 58, "a", 2), k="string", y="int64"),
            on="k",
            how="anti",
            where=col("y") > col("x"),
        ),
        [(50, 56, "a", 1), (58, 60, "a", 1)],
    ),
    "nothing happened for ten after": (
        named((3, 4, "a"), (8, 9, "a"), (40, 41, "a")).pipe(
            lambda s: (
                s.shift(1)
                .set_duration(10)
                .join(s, on="k", how="anti")
                .filter((col("_ve") - col("_vs")) == 10)
            )
        ),
        [(9, 19, "a"), (41, 51, "a")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_returns_the_table_of_the_algebra_page(name: str) -> None:
    stream, expected = CASES[name]
    assert table(stream) == sorted(expected, key=lambda row: (row[0], row[1], repr(row)))


DOCUMENT = ROOT / "docs" / "ALGEBRA.md"
FIELDS = {"plan"}
#: Headings of drawings, besides those that name a call.
MORE = {"Windows", "Aggregates"}
#: Names that the document explains under another heading, or that are no operators.
ELSEWHERE = {"schema", "name", "pipe", "hint", "recover_with", "group_by", "window", "match"}


def test_every_operator_is_generated() -> None:
    """The section of each operator has a drawing or a worked table."""
    text = DOCUMENT.read_text()
    sections = {part.split("\n")[0]: part for part in re.split(r"^###? ", text, flags=re.M)[1:]}
    methods = [name for name in vars(Stream) if not name.startswith(("_", "from_", "to_"))]
    for name in {*methods, "hopping", "snapshot", "session", "count_window"} - ELSEWHERE - FIELDS:
        assert f"{name}(" in text, f"{name} is not in docs/ALGEBRA.md"
    heads = [head for head in sections if "(" in head or "=" in head or head in MORE]
    assert len(heads) > 15
    for head in heads:
        assert re.search(r"^ {4}\S", sections[head], re.M), f"{head}: nothing is drawn"
