"""Frames over all rows of a partition against DuckDB: random units, bounds, orders and nulls.

Not covered: ties in frames of ROWS, since the orders here end with ``id``; frames by time, which
``test_over.py`` covers.
"""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest

from planner import SqlError, Stream, sql
from tests.planner.sql.pasted.test_pasted import _plain, _rows
from tests.support.budget import DEPTH
from tests.support.ducks import duck

SCHEMA = pa.schema(
    [("id", "int64"), ("k", "string"), ("x", "int64"), ("f", "float64"), ("d", pa.date32())]
)
ANY = (
    *("SUM(x)", "COUNT(*)", "COUNT(f)", "MIN(f)", "MAX(x)", "AVG(x)", "AVG(f)", "VAR_POP(f)"),
    *("COUNT(DISTINCT x)", "STDDEV(x)", "SUM(x) FILTER (WHERE f > 0)"),
)
#: Functions that distinguish rows of equal rank.
TOTAL = (
    *("FIRST_VALUE(id)", "LAST_VALUE(x)", "NTH_VALUE(id, 2)", "ARRAY_AGG(id)"),
    *("FIRST_VALUE(x IGNORE NULLS)", "LAST_VALUE(x IGNORE NULLS)"),
)


def table_of(rng: random.Random) -> pa.Table:
    days = [None, *(dt.date(2024, 1, day) for day in range(1, 6))]
    rows = [
        {
            "id": k,
            "k": rng.choice("ab"),
            "x": rng.choice([None, *range(5)]),
            "f": rng.choice([None, 0.5, 1.5, -2.25, 4.0]),
            "d": rng.choice(days),
        }
        for k in range(rng.choice([0, 5, 20]) + rng.randint(1, 8))
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def frame_of(rng: random.Random, unit: str, column: str) -> str:
    def bounds() -> list[str]:
        distance: Any = rng.randint(0, 3)
        if unit == "RANGE":
            distance = f"INTERVAL '{distance}' DAY" if column == "d" else distance / 2
        near = (f"{distance} PRECEDING", "CURRENT ROW", f"{distance} FOLLOWING")
        return ["UNBOUNDED PRECEDING", *near, "UNBOUNDED FOLLOWING"]

    while True:  # ends: most pairs of bounds are in order
        first, last = rng.randrange(4), rng.randrange(1, 5)
        if first < last or first == last == 2:
            return f"{unit} BETWEEN {bounds()[first]} AND {bounds()[last]}"


def query_of(rng: random.Random) -> str:
    unit, column = rng.choice(["ROWS", "RANGE", "GROUPS", ""]), rng.choice(["x", "f", "d", "id"])
    frame = frame_of(rng, unit, column) if unit else ""
    order = f"ORDER BY {column} {rng.choice(['', 'DESC'])} NULLS {rng.choice(['FIRST', 'LAST'])}"
    if unit == "RANGE" and column == "d":
        order = order.replace("DESC", "")
    functions = ANY
    if unit == "ROWS":
        order, functions = f"{order}, id", ANY + TOTAL
    over = f"OVER ({rng.choice(['', 'PARTITION BY k'])} {order} {frame})"
    parts = [f"{one} {over} AS c{n}" for n, one in enumerate(rng.sample(functions, 3))]
    return f"SELECT id, {', '.join(parts)} FROM t"


def compare(seed: int) -> None:
    rng = random.Random(seed)
    table, text = table_of(rng), query_of(rng)
    with duck() as connection:
        connection.register("t", table)
        wanted = [_plain(row) for row in connection.execute(text).fetchall()]
    stream = sql(text, {"t": Stream.table(table)})
    assert isinstance(stream, Stream)
    found = _rows(stream.to_parquet(start="starts", end="ends"), "rows")
    assert sorted(found, key=repr) == sorted(wanted, key=repr), (seed, text)


def test_some_random_frames() -> None:
    for seed in range(3):
        compare(seed)


@pytest.mark.slow
def test_frames_equal_duckdb() -> None:
    for seed in range(3, round(40 * DEPTH)):
        compare(seed)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("SUM(x) OVER (ORDER BY x ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING)", "before it ends"),
        ("SUM(x) OVER (ORDER BY x, id RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)", "one column"),
        ("MEDIAN(x) OVER (ORDER BY x)", "not supported in this frame; there are COUNT"),
        ("RANK() OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", "takes no frame"),
        ("LAG(x) IGNORE NULLS OVER (ORDER BY x)", "no IGNORE NULLS"),
    ],
)
def test_unsupported_frames_are_rejected_with_a_hint(asked: str, hint: str) -> None:
    table = Stream.table(pa.table({"id": [1], "x": [2]}))
    with pytest.raises(SqlError, match=hint):
        sql(f"SELECT {asked} AS y FROM t", {"t": table})


def test_flink_avg_of_integers_is_not_a_float() -> None:
    table = Stream.table(pa.table({"id": [1], "x": [2]}))
    with pytest.raises(SqlError, match=r"AVG\(CAST\(x AS DOUBLE\)\)"):
        sql("SELECT AVG(x) OVER (ORDER BY id) AS y FROM t", {"t": table}, dialect="flink")
