"""Results are compared as multisets of rows, without Spark."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from jobmanager.driver.running.batch.validate import Comparison, compare
from rstream.items.batch import VE, VS

SCHEMA = pa.schema(
    [
        pa.field(VS, pa.int64(), nullable=False),
        pa.field(VE, pa.int64(), nullable=False),
        pa.field("k", pa.string()),
        pa.field("x", pa.float64()),
        pa.field("parts", pa.list_(pa.float64())),
    ]
)


def table(*rows: tuple[Any, ...]) -> pa.Table:
    """Rows of ``_vs, k, x, parts``."""
    names = ("k", "x", "parts")
    dicts = [{VS: r[0], VE: r[0] + 1, **dict(zip(names, r[1:], strict=False))} for r in rows]
    return pa.Table.from_pylist(dicts, schema=SCHEMA)


def test_row_order_is_ignored_and_row_counts_are_compared() -> None:
    one = table((1, "a", 0.5), (2, None, None), (1, "a", 0.5), (1, "a", 2.5))
    other = table((1, "a", 2.5), (1, "a", 0.5), (1, "a", 0.5), (2, None, None))
    assert compare(one, other).is_equal
    assert str(compare(one, other)) == "equal, 4 rows"
    twice = table((1, "a", 2.5), (1, "a", 2.5), (1, "a", 0.5), (2, None, None))
    found = compare(one, twice)
    assert found.only_in_stream == {VS: 1, VE: 2, "k": "a", "x": 0.5, "parts": None}
    assert found.only_in_batch == {VS: 1, VE: 2, "k": "a", "x": 2.5, "parts": None}


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (1.0, 1.0 + 1e-10, True),
        (1.0, 1.0 + 1e-8, False),
        (1e300, 1e300 * (1 + 1e-12), True),
        (0.0, -0.0, True),
        (0.0, 1e-300, False),
        (math.nan, math.nan, True),
        (math.nan, None, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (None, None, True),
    ],
)
def test_floats_agree_up_to_rounding(one: Any, other: Any, agree: bool) -> None:
    assert compare(table((1, "a", one)), table((1, "a", other))).is_equal == agree
    lists = table((1, "a", 0.0, [one, 1.0])), table((1, "a", 0.0, [other, 1.0]))
    assert compare(*lists).is_equal == agree


def test_rows_are_paired_although_rounding_changes_their_order() -> None:
    one = table((1, "a", 1.0, [5.0]), (1, "a", 1.0 + 1e-12, [3.0]))
    other = table((1, "a", 1.0 + 1e-12, [5.0]), (1, "a", 1.0, [3.0]))
    assert compare(one, other).is_equal


def test_the_first_difference_is_the_earliest() -> None:
    one, other = table((5, "a", 1.0), (9, "b", 1.0)), table((5, "a", 1.0), (7, "b", 1.0))
    found = compare(one, other)
    assert found.only_in_stream is None
    assert found.only_in_batch is not None
    assert found.only_in_batch[VS] == 7
    assert str(found).splitlines() == [
        "different: 2 rows by stream, 2 by batch",
        "  only in the stream: nothing",
        "  only in the batch: [7, 8) k='b', x=1.0, parts=None",
    ]


def test_rows_that_differ_only_in_floats() -> None:
    rows = [(1, "a", float(i)) for i in range(1_500)]
    assert compare(table(*rows), table(*rows[::-1])).is_equal
    found = compare(table(*rows), table(*rows[:700], (1, "a", 700.5), *rows[701:]))
    assert found.only_in_stream is not None
    assert found.only_in_stream["x"] == 700.0
    assert not compare(table(*rows), table(*rows[:-1])).is_equal


def test_json_has_plain_values_only() -> None:
    row = {
        "t": datetime(2013, 1, 1, tzinfo=UTC),
        "x": math.nan,
        "l": [math.inf, 1],
        "d": {"b": b""},
    }
    found = Comparison(1, 0, row, None).to_json()
    assert found["first_difference"] == {
        "only_in_stream": {
            "t": "2013-01-01 00:00:00+00:00",
            "x": "nan",
            "l": ["inf", 1],
            "d": {"b": "b''"},
        },
        "only_in_batch": None,
    }
    assert Comparison(3, 3).to_json() == {
        "equal": True,
        "stream_rows": 3,
        "batch_rows": 3,
        "first_difference": None,
    }


def test_times_beyond_the_calendar_are_compared_and_shown() -> None:
    schema = pa.schema([*list(SCHEMA)[:2], pa.field("t", pa.timestamp("us"))])
    values = [pa.table([[0], [1], pa.array([t]).cast(schema.field("t").type)], schema=schema)
              for t in (2**62, 2**62 + 1)]  # fmt: skip
    assert compare(values[0], values[0]).is_equal
    found = compare(*values)
    assert found.only_in_stream == {VS: 0, VE: 1, "t": str(2**62)}
