"""Durations and times as users write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from planner.durations import duration_us, format_us, positive_duration_us, time_us
from planner.errors import InvalidDurationError


@pytest.mark.parametrize(
    ("value", "us"),
    [
        (0, 0),
        (17, 17),
        ("250ms", 250_000),
        ("10s", 10_000_000),
        ("1h30m", 5_400_000_000),
        ("1h 30m", 5_400_000_000),
        ("22h", 79_200_000_000),
        ("1d", 86_400_000_000),
        ("2w", 1_209_600_000_000),
        ("1.5h", 5_400_000_000),
        ("5us", 5),
        ("5µs", 5),
        ("+1h", 3_600_000_000),
        ("-1h", -3_600_000_000),
        (timedelta(minutes=1, microseconds=1), 60_000_001),
    ],
)
def test_a_duration_becomes_microseconds(value: int | str | timedelta, us: int) -> None:
    assert duration_us(value) == us


@pytest.mark.parametrize(
    "value", ["", "10", "s", "10 parsecs", "1h30", "1.5us", None, 1.5, True, []]
)
def test_an_invalid_duration_is_one_clear_message(value: object) -> None:
    with pytest.raises(InvalidDurationError) as caught:
        duration_us(value, what="delay")  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(f"delay {value!r} is not a duration; write it like")
    assert "\n" not in message


def test_durations_beyond_the_limits_are_errors() -> None:
    with pytest.raises(InvalidDurationError, match="64 bits"):
        duration_us(2**63)
    with pytest.raises(InvalidDurationError, match="longer than zero"):
        positive_duration_us("0s", what="size")


@given(st.integers(-(2**62), 2**62))
def test_a_formatted_duration_reads_back(us: int) -> None:
    assert duration_us(format_us(us)) == us


@pytest.mark.parametrize(
    ("value", "us"),
    [
        (5, 5),
        ("10s", 10_000_000),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T01:00:01+01:00", 1_000_000),
        ("1970-01-01 00:00:01.5", 1_500_000),
        (date(1970, 1, 2), 86_400_000_000),
        (datetime(1970, 1, 1, 0, 0, 1), 1_000_000),  # noqa: DTZ001 - without a zone it is UTC
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1_000_000),
        (datetime(1970, 1, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))), 1_000_000),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
    ],
)
def test_a_time_becomes_microseconds_since_1970(value: object, us: int) -> None:
    assert time_us(value) == us  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["yesterday", None, 1.5, True])
def test_an_invalid_time_is_one_clear_message(value: object) -> None:
    with pytest.raises(InvalidDurationError, match="is not a time; write it like"):
        time_us(value)  # type: ignore[arg-type]
