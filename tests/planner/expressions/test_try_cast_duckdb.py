"""``try_cast`` returns DuckDB's results, in Python and in SQL, on random values.

Not covered: casts that differ on purpose (here a text with a fraction is no integer, and blanks
around a number are an error).
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import jobmanager
from planner import Stream, col, event, sql

INTEGERS = st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1)).map(str)
NOISE = st.sampled_from(["", "abc", "-", "--1", "12a", "0x", "NaN1", "é"])
DATES = st.dates().map(str) | st.sampled_from(["2026-02-30", "2026-13-01", "soon"])
TEXTS = {
    "int8": ("TINYINT", INTEGERS | NOISE),
    "int32": ("INTEGER", INTEGERS | NOISE),
    "int64": ("BIGINT", INTEGERS | NOISE),
    "double": ("DOUBLE", INTEGERS | NOISE | st.sampled_from(["0.5", "-1e3", "1e400x", ".25"])),
    "date": ("DATE", DATES | NOISE),
}


def both(kind: str, values: list[Any], to: str, name: str) -> tuple[list[Any], list[Any]]:
    """Return the result of Python (equal to that of SQL), and DuckDB's."""
    stream = Stream.from_items({"x": kind}, [event(k, x=x) for k, x in enumerate(values)])
    given = sql(f"SELECT TRY_CAST(x AS {name}) AS y FROM s", {"s": stream})
    assert given == stream.select(y=col("x").try_cast(to))
    found = jobmanager.collect(given)["y"].to_pylist()
    table = pa.table({"x": pa.array(values, stream.schema.field("x").type)})
    answer = duckdb.from_arrow(table).project(f"TRY_CAST(x AS {name})").fetchall()
    return found, [y for (y,) in answer]


@pytest.mark.parametrize("to", TEXTS)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_a_try_cast_of_text_returns_what_duckdb_returns(to: str, data: st.DataObject) -> None:
    name, values = TEXTS[to]
    mine, theirs = both("string", data.draw(st.lists(values, min_size=20, max_size=40)), to, name)
    assert mine == theirs


@settings(max_examples=2, deadline=None)
@given(values=st.lists(st.integers(-(2**40), 2**40) | st.integers(-200, 200), min_size=20))
def test_integers_that_do_not_fit(values: list[int]) -> None:
    mine, theirs = both("int64", values, "int8", "TINYINT")
    assert mine == theirs
