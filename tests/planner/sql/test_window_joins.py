"""Outer, anti and semi joins of two windows: each row once, with its matches or without any.

Not covered: the results of a GROUP BY around them (``test_in_windows.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from planner import Stream, sql
from planner.physical.lower import lower
from tests.support.budget import one_in
from tests.support.ducks import duck
from tests.support.plan_runner import answer
from tests.support.window_queries import ROWS, SECOND, counted, of, streams, windows

if TYPE_CHECKING:
    import duckdb

BOUNDS = "a.window_start = b.window_start AND a.window_end = b.window_end"
SHAPES = [(10, None), (3, None), (10, 5)]


def rows_of(text: str) -> list[dict[str, Any]]:
    stream = sql(text, streams())
    assert isinstance(stream, Stream)
    plan = lower(stream.to_parquet(), root="memory://windows", parallelism=2)
    rows: list[dict[str, Any]] = answer(plan).to_pylist()
    return rows


def engine(size: int, every: int | None) -> duckdb.DuckDBPyConnection:
    """DuckDB with the rows of both windows."""
    found = duck()
    for name, rows in ROWS.items():
        copies = [
            {"k": k, "window_start": start, "window_end": start + size}
            for at, k in rows
            for start in windows(at, size, every or size)
            if start % (every or size) == 0
        ]
        found.register(name, pa.Table.from_pylist(copies))
    return found


def assert_same(text: str, size: int, every: int | None, *, is_whole: bool = True) -> int:
    """``{a}`` and ``{b}`` in the text are the windows, columns ``s`` and ``e`` their bounds."""
    of_both = {name: of(name, size, every) for name in "ab"}
    mine = []
    for row in rows_of(text.format(**of_both)):
        bounds = [int(row.pop(name).timestamp()) for name in ("s", "e")]
        lives = (row.pop("_vs") // SECOND, row.pop("_ve") // SECOND)
        assert lives == tuple(bounds) or not is_whole, "a row lives as long as its window"
        mine.append((*bounds, *row.values()))
    theirs = engine(size, every).execute(text.format(a="a", b="b")).fetchall()
    order = [sorted(rows, key=lambda row: [v or 0 for v in row]) for rows in (mine, theirs)]
    assert order[0] == order[1]
    return len(mine)


@pytest.mark.parametrize("kind", one_in(2, ["LEFT", "RIGHT", "FULL", "INNER"]))
@pytest.mark.parametrize(("size", "every"), SHAPES)
@pytest.mark.parametrize("on", [f"a.k = b.k AND {BOUNDS}", f"{BOUNDS} AND a.k < b.k"])
def test_each_row_is_returned_once(kind: str, size: int, every: int | None, on: str) -> None:
    listed = (
        "COALESCE(a.window_start, b.window_start) AS s, COALESCE(a.window_end, b.window_end) AS e"
    )
    text = f"SELECT {listed}, a.k AS ak, b.k AS bk FROM {{a}} AS a {kind} JOIN {{b}} AS b ON {on}"
    assert assert_same(text, size, every, is_whole=kind != "INNER") > 0


@pytest.mark.parametrize("every", [None, 3])
@pytest.mark.parametrize(
    "kept",
    [
        f"WHERE NOT EXISTS (SELECT 1 FROM {{b}} AS b WHERE a.k = b.k AND {BOUNDS})",
        f"WHERE EXISTS (SELECT 1 FROM {{b}} AS b WHERE a.k = b.k AND {BOUNDS})",
        f"ANTI JOIN {{b}} AS b ON a.k = b.k AND {BOUNDS}",
        f"SEMI JOIN {{b}} AS b ON a.k = b.k AND {BOUNDS}",
        f"ANTI JOIN {{b}} AS b ON a.k > b.k AND {BOUNDS}",
    ],
)
def test_rows_with_and_without_a_match_in_their_window(kept: str, every: int | None) -> None:
    text = f"SELECT a.window_start AS s, a.window_end AS e, a.k FROM {{a}} AS a {kept}"
    is_whole = "NOT" in kept or "ANTI" in kept
    assert assert_same(text, 3 if every is None else 6, every, is_whole=is_whole)


def test_rows_joined_with_the_results_of_their_windows() -> None:
    joined = f"FROM {of('a', 3)} AS a LEFT JOIN {counted('b', 3)} AS b ON a.k = b.k AND {BOUNDS}"
    found = rows_of(f"SELECT a.k, b.c {joined}")
    lives = {(row["_vs"] // SECOND, row["_ve"] // SECOND) for row in found}
    assert lives == {(0, 3), (3, 6), (6, 9), (12, 15)}
    assert len(found) == len(ROWS["a"])
    assert sum(row["c"] is None for row in found) == 3


def test_results_of_windows_are_joined_as_before() -> None:
    joined = f"FROM {counted('a', 3)} AS a FULL JOIN {counted('b', 3)} AS b ON a.k = b.k"
    found = rows_of(f"SELECT a.c AS ac, b.c AS bc {joined} AND {BOUNDS}")
    assert all(row["_ve"] - row["_vs"] == 3 * SECOND for row in found)
    assert len(found) == 9


def test_results_of_a_left_join_are_counted_once_in_larger_windows() -> None:
    bounds = "window_start, window_end, window_time"
    results = f"(SELECT k, {bounds} FROM {of('a', 5)} GROUP BY k, {bounds})"
    pairs = (
        f"SELECT a.window_time AS ts FROM {results} AS a LEFT JOIN {of('b', 5)} AS b ON a.k = b.k"
    )
    table = of("v", 10).replace("vs()", "ts")
    text = f"CREATE VIEW v AS {pairs} AND {BOUNDS}; SELECT COUNT(*) AS n FROM {table}"
    found = rows_of(f"{text} GROUP BY window_start, window_end")
    expected = dict.fromkeys((0, 10), 0)
    for k, start in {(k, at // 5 * 5) for at, k in ROWS["a"]}:
        matches = sum(k == other and at // 5 * 5 == start for at, other in ROWS["b"])
        expected[start // 10 * 10] += max(1, matches)
    assert {row["_vs"] // SECOND: row["n"] for row in found} == expected
