"""Whether a value is in a list of literals equals a chain of ``==``.

Not covered: errors of ``==`` itself (``test_functions.py``).
"""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner import col

if TYPE_CHECKING:
    from collections.abc import Iterable


def test_membership_of_doubles_equals_equality() -> None:
    batch = pa.RecordBatch.from_pydict({"x": [0.0, -0.0, float("nan"), 1.5, None]})
    found = col("x").is_in([-0.0, float("nan")]).evaluate(batch)
    assert found.to_pylist() == [True, True, False, False, None]


def test_membership_of_mixed_types_equals_equality() -> None:
    """Values are compared as ``==`` does: numbers of all kinds, dates and times."""
    day, none = date(2024, 2, 29), None
    moment = datetime(2024, 2, 29, tzinfo=UTC)
    batch = pa.RecordBatch.from_pydict(
        {
            "i": pa.array([1, 2, none], pa.int8()),
            "f": [1.0, 2.5, none],
            "d": pa.array([Decimal("1.00"), Decimal("2.50"), none]),
            "day": pa.array([day, date(1970, 1, 1), none]),
            "t": pa.array([moment, datetime(1970, 1, 1, tzinfo=UTC), none], pa.timestamp("ns")),
        }
    )
    times: list[Any] = [day, moment, "2024-02-29"]
    numbers: list[Any] = [1, 2.5, Decimal("2.50"), 2**53 + 1]
    pairs: list[tuple[Iterable[str], list[Any]]] = [("ifd", numbers), (("day", "t"), times)]
    for names, members in pairs:
        for name, one, other in itertools.product(names, members, members):
            equal = (col(name) == one) | (col(name) == other)
            found = col(name).is_in([one, other]).evaluate(batch)
            assert found.equals(equal.evaluate(batch)), (name, one, other)
