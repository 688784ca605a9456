"""Lists with NULLs, positions before the first, and columns with the same name.

Not covered: a version of an engine with other results.
"""

from __future__ import annotations

import pytest

from planner import Stream, event, sql
from planner.physical.lower import lower
from tests.support.plan_runner import answer

P = Stream.from_items({"x": "int64", "m": "int64"}, [event(0, x=3, m=-1)])


def _value(text: str) -> object:
    made = sql(f"SELECT {text} AS r FROM p", {"p": P})
    assert isinstance(made, Stream)
    plan = lower(made.to_parquet(), root="memory://lists", parallelism=1)
    return answer(plan).to_pylist()[0]["r"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x NOT IN UNNEST([1, NULL])", None),
        ("x IN UNNEST([3, NULL])", True),
        ("x = ANY(ARRAY[1, NULL])", None),
        ("x = ANY(ARRAY[1, x])", True),
        ("x = ANY(ARRAY[1, m])", False),
        ("[5, 6][SAFE_OFFSET(m)]", None),
        ("[5, 6][SAFE_ORDINAL(-1)]", None),
        ("[5, 6][OFFSET(m + 2)]", 6),
    ],
)
def test_nulls_in_lists_and_negative_positions(text: str, wanted: object) -> None:
    assert _value(text) == wanted


def test_columns_with_one_name_are_numbered_in_flink() -> None:
    made = sql("SELECT a.x, a.x, a.x FROM p AS a", {"p": P}, dialect="flink")
    assert isinstance(made, Stream)
    assert made.schema.names == ["x", "x0", "x1"]
