"""Doubles rounded to decimal places, against DuckDB and against their decimal digits.

Not covered: rounding to more digits than a double has, where DuckDB scales back and forth.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from math import copysign, inf, isnan, nan

import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from planner.expressions.functions.doubles import rounded_float
from tests.support.ducks import duck

SPECIAL = [1.1 + 2.2, 3.0000000000000004, -0.05, 250.3, 676.59, 2.675, 2.5, -2.5, 0.0, -0.0, 1e-17]
EXACT = Context(prec=800)


@pytest.mark.parametrize("digits", [-3, -1, 0, 1, 2, 9, 10, 11, 13])
def test_rounding_equals_duckdb(digits: int) -> None:
    numbers = [*SPECIAL, 4.35, 0.49999999999999994, -5700.0, 1234.5, nan, inf, -inf]
    for toward_zero, name in ((False, "round"), (True, "trunc")):
        column = pa.array(numbers)
        found = rounded_float(column, digits, toward_zero=toward_zero).to_pylist()
        shown = ", ".join(f"{name}('{n!r}'::DOUBLE, {digits})" for n in numbers)
        with duck() as connection:
            (wanted,) = connection.execute(f"SELECT {shown}").fetchall()
        assert repr(found) == repr(list(wanted))


@given(st.decimals(-10_000, 10_000, places=4), st.integers(-4, 11))
@example(Decimal("250.3"), 11)
@example(Decimal("-0.05"), 15)
def test_numbers_without_more_digits_are_unchanged(number: Decimal, digits: int) -> None:
    places = max(digits, 4)
    (found,) = rounded_float(pa.array([float(number)]), places, toward_zero=False).to_pylist()
    assert found == float(number)


@pytest.mark.parametrize("number", SPECIAL)
@pytest.mark.parametrize("digits", [-400, -309, -308, -300, -5, 5, 20, 300, 308, 309, 400])
def test_any_number_of_digits(number: float, digits: int) -> None:
    for toward_zero, how in ((False, ROUND_HALF_UP), (True, ROUND_DOWN)):
        (found,) = rounded_float(pa.array([number]), digits, toward_zero=toward_zero).to_pylist()
        wanted = float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-digits), how, EXACT))
        assert found == wanted
        assert copysign(1, found) == copysign(1, number)


def test_nulls_and_numbers_that_overflow() -> None:
    found = rounded_float(pa.array([None, nan, 1e300, 2.46]), 1, toward_zero=False).to_pylist()
    assert (found[0], found[2:]) == (None, [1e300, 2.5])
    assert isnan(found[1])
    assert rounded_float(pa.scalar(2.46), 1, toward_zero=False).as_py() == 2.5
    assert rounded_float(pa.scalar(None, pa.float64()), 1, toward_zero=False).as_py() is None
    with pytest.raises(pa.ArrowInvalid, match="overflow occurred during rounding"):
        rounded_float(pa.array([1.7e308]), -308, toward_zero=False)
