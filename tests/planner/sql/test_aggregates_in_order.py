"""Aggregates with ORDER BY, DISTINCT and FILTER in every kind of window, cut and restored.

``tests/support/catalogue`` compares them with DuckDB. Not covered: equal rows whose order differs
between two streams.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from planner import Stream, agg, col, desc, event, sql
from planner.physical.lower import lower
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME
from tests.support.plan_runner import Schedule, answer

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]
SECOND = 1_000_000
SCHEMA = {"k": "string", "n": "int64", "x": "int64", "f": "float64", "s": "string"}


def _nulls_last(value: Any) -> tuple[bool, Any]:
    return (value is None, 0 if value is None else value)


def _by_f_down(rows: list[Row]) -> list[Row]:
    some = [row for row in rows if row["f"] is not None]
    some.sort(key=lambda row: -row["f"])
    return some + [row for row in rows if row["f"] is None]


def _distinct(values: list[Any]) -> list[Any]:
    return [v for i, v in enumerate(values) if v not in values[:i]]


def _disc(rows: list[Row]) -> Any:
    values = sorted(row["x"] for row in rows if row["x"] is not None)
    return values[max(-(-3 * len(values) // 10), 1) - 1] if values else None


#: SQL, and its value over rows in stream order.
ASKED: dict[str, Callable[[list[Row]], Any]] = {
    "ARRAY_AGG(x ORDER BY f DESC)": lambda rows: [r["x"] for r in _by_f_down(rows)],
    "ARRAY_AGG(DISTINCT x)": lambda rows: _distinct([r["x"] for r in rows]),
    "ARRAY_AGG(n) FILTER (WHERE x > 1)": lambda rows: (
        [r["n"] for r in rows if r["x"] is not None and r["x"] > 1] or None
    ),
    "STRING_AGG(DISTINCT s, '-' ORDER BY s DESC)": lambda rows: (
        "-".join(sorted({r["s"] for r in rows if r["s"] is not None}, reverse=True)) or None
    ),
    "FIRST(n ORDER BY x, f DESC NULLS LAST)": lambda rows: min(
        _by_f_down(rows), key=lambda r: _nulls_last(r["x"])
    )["n"],
    "LAST(n ORDER BY x)": lambda rows: max(reversed(rows), key=lambda r: _nulls_last(r["x"]))["n"],
    "LAST(x) FILTER (WHERE f > 0)": lambda rows: (
        [r["x"] for r in rows if r["f"] is not None and r["f"] > 0] or [None]
    )[-1],
    "FIRST(x) IGNORE NULLS": lambda rows: ([r["x"] for r in rows if r["x"] is not None] or [None])[
        0
    ],
    "PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY x)": _disc,
}


def rows_of(seed: int) -> list[Row]:
    rng = Random(seed)
    at, rows = 0, []
    for n in range(40):
        at += rng.choice([0, 0, 1, 2, 5]) * SECOND
        end = at + rng.choice([1, 4, 9]) * SECOND
        kept = {"k": rng.choice("ab"), "n": n, "x": rng.choice([None, 1, 2, 3, 3])}
        more = {"f": rng.choice([None, 0.5, 1.5, -2.0]), "s": rng.choice(["p", "q", "r", None])}
        rows.append({VS: at, VE: end, **kept, **more})
    return rows


def _windows(rows: list[Row], kind: str) -> list[tuple[int, int]]:
    if kind == "SNAPSHOT()":
        ends = sorted({row[VS] for row in rows} | {row[VE] for row in rows})
        return list(itertools.pairwise(ends))
    if kind == "":
        starts = sorted({row[VS] for row in rows})
        return list(zip(starts, [*starts[1:], INF_TIME], strict=True))
    size, every = (6, 6) if kind.startswith("TUMBLE") else (6, 2)
    last = max(row[VE] for row in rows)
    return [(t, t + size * SECOND) for t in range(-size * SECOND, last, every * SECOND)]


def wanted(rows: list[Row], kind: str, of: Callable[[list[Row]], Any]) -> list[Any]:
    out = []
    for key in "ab":
        own = [row for row in rows if row["k"] == key]
        for start, end in _windows(own, kind):
            there = [row for row in own if row[VS] < end and start < row[VE]]
            if there:
                out.append((start, end, key, of(there)))
    return sorted(out, key=lambda row: row[:3])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["TUMBLE('6s')", "HOP('6s', '2s')", "SNAPSHOT()", ""])
def test_all_windows_and_batch_boundaries(kind: str) -> None:
    rows = rows_of(7)
    if kind == "":
        rows = [{**row, VE: INF_TIME} for row in rows]
    items = [event(r[VS], r[VE], **{c: r[c] for c in SCHEMA}) for r in rows]
    stream = Stream.from_items(SCHEMA, items)
    listed = ", ".join(f"{text} AS v{i}" for i, text in enumerate(ASKED))
    keys = ", ".join(filter(None, ["k", kind]))
    made = sql(f"SELECT k, {listed} FROM t GROUP BY {keys}", {"t": stream})
    assert isinstance(made, Stream)
    found = []
    for width, schedule in (
        (1, Schedule((0,))),
        (2, Schedule((3, 0, 1), rows_max=3, restores=True)),
    ):
        plan = lower(made.to_parquet(), root="memory://o", parallelism=width)
        found.append(answer(plan, schedule=schedule).to_pylist())
    for table in found:
        for i, (text, of) in enumerate(ASKED.items()):
            got = sorted((r[VS], r[VE], r["k"], r[f"v{i}"]) for r in table)
            expected = wanted(rows, kind, of)
            if kind in ("", "SNAPSHOT()"):
                got, expected = _instants(got), _instants(expected)
            assert got == expected, text


def _instants(found: list[Any]) -> list[Any]:
    """The value of each key at each second: adjacent results with one value may be one row."""
    ends = [row[1] for row in found if row[1] < INF_TIME]
    last = max([*ends, *(row[0] for row in found)]) + SECOND
    return [
        (time, key, value)
        for start, end, key, value in sorted(found, key=lambda row: (row[2], row[0]))
        for time in range(start, min(end, last), SECOND)
    ]


def test_ordered_aggregates_in_python() -> None:
    events = [event(t, x=x, s=s) for t, x, s in [(1, 3, "a"), (2, None, "b"), (3, 1, "a")]]
    stream = Stream.from_items({"x": "int64", "s": "string"}, events)
    made = stream.group_by().agg(
        a=agg.array_agg("x", order_by=desc("x")),
        b=agg.collect("s", distinct=True),
        c=agg.string_agg("s", "", order_by=["x"]),
        d=agg.first("s", where=col("x") < 3),
        e=agg.quantile_disc("s", 1, descending=True),
    )
    plan = lower(made.to_parquet(), root="memory://o")
    last = answer(plan).to_pylist()[-1]
    assert [last[c] for c in "abcde"] == [[3, 1, None], ["a", "b"], "aab", "a", "a"]
