"""Durations as users write them: each unit, combinations, and signs, against timedelta."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from rvertex.user_code.durations import UNITS_US, parse_duration
from tests.support.budget import examples

UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}


@examples(30)
@given(st.dictionaries(st.sampled_from([*UNITS]), st.integers(0, 999)), st.sampled_from("+- "))
def test_parts_of_a_duration_add_up(parts: dict[str, int], sign: str) -> None:
    text = sign + " ".join(f"{count}{unit}" for unit, count in parts.items())
    whole = sum((count * UNITS[unit] for unit, count in parts.items()), timedelta())
    expected = whole // timedelta(microseconds=1) * (-1 if sign == "-" else 1)
    assert parse_duration(text) == (expected if parts else None)


def test_each_unit_of_a_duration_has_its_microseconds() -> None:
    assert {unit: timedelta(microseconds=us) for unit, us in UNITS_US.items()} == UNITS
    assert parse_duration("2µs") == 2
    assert parse_duration("1.5ms") == 1_500


@pytest.mark.parametrize("text", ["", "-", "1", "1x", "s", "1.5us", "1s x", "1s-2s", ".5s"])
def test_an_invalid_duration_is_none(text: str) -> None:
    assert parse_duration(text) is None
