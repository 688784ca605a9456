"""Converts durations and times as users write them to int64 microseconds.

A duration is an int (microseconds), a ``timedelta`` or a string of numbers with units, largest
first: ``"250ms"``, ``"10s"``, ``"1h30m"``, ``"1.5h"``. A time is an int (microseconds UTC since
1970), a ``datetime`` (without a zone: UTC), an ISO-8601 string, or a duration since 1970.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from planner.errors import InvalidDurationError
from rstream.clock import SystemClock
from rvertex.user_code.durations import UNITS_US, parse_duration

Duration = int | str | timedelta
Time = int | str | timedelta | datetime | date

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_HELP = (
    'is not a duration; write it like "250ms", "10s", "1h30m" or "1d", as a timedelta, or as int us'
)
_TIME_HELP = (
    'is not a time; write it like "2013-01-01T10:00:00Z" or "10s", as a datetime, or as int us'
)


def duration_us(value: Duration, *, what: str = "duration") -> int:
    """Return the microseconds of ``value``; ``what`` names it in the error.

    Raises:
        InvalidDurationError: the value is not a duration.
    """
    if isinstance(value, bool):
        raise InvalidDurationError(f"{what} {value!r}", _HELP)
    if isinstance(value, int):
        return _fits(value, value, what)
    if isinstance(value, timedelta):
        return _fits(value // _US, value, what)
    if isinstance(value, str):
        parsed = parse_duration(value)
        if parsed is not None:
            return _fits(parsed, value, what)
    raise InvalidDurationError(f"{what} {value!r}", _HELP)


def positive_duration_us(value: Duration, *, what: str) -> int:
    """Return the microseconds as :func:`duration_us` does; raise if they are not greater than 0."""
    us = duration_us(value, what=what)
    if us <= 0:
        raise InvalidDurationError(f"{what} {value!r}", "has to be longer than zero")
    return us


def time_us(value: Time, *, what: str = "time") -> int:
    """Return the microseconds UTC since 1970 of ``value``.

    Raises:
        InvalidDurationError: the value is not a time.
    """
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _US
    if isinstance(value, date):
        return (datetime(value.year, value.month, value.day, tzinfo=UTC) - _EPOCH) // _US
    if isinstance(value, str) and parse_duration(value) is None:
        try:
            return time_us(datetime.fromisoformat(value), what=what)
        except ValueError:
            raise InvalidDurationError(f"{what} {value!r}", _TIME_HELP) from None
    if isinstance(value, bool) or not isinstance(value, int | str | timedelta):
        raise InvalidDurationError(f"{what} {value!r}", _TIME_HELP)
    return duration_us(value, what=what)


def format_us(us: int) -> str:
    """Format a duration as users write it: ``90_000_000 -> "1m30s"``."""
    if us == 0:
        return "0s"
    sign, left, parts = ("-" if us < 0 else ""), abs(us), []
    for unit, size in UNITS_US.items():
        if unit == "w":
            continue
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts)


def _fits(us: int, value: object, what: str) -> int:
    if not -(2**63) <= us < 2**63:
        raise InvalidDurationError(f"{what} {value!r}", "does not fit into 64 bits of microseconds")
    return us


def max_ahead_us(max_ahead: Duration | None) -> int | None:
    """Return how far ahead of the wall clock a row may start, us; None: no limit."""
    return None if max_ahead is None else positive_duration_us(max_ahead, what="max_ahead")


def latest_us(max_ahead: Duration | None) -> int | None:
    """Return the latest valid start of a row; reads the wall clock once, when it is called."""
    ahead_us = max_ahead_us(max_ahead)
    return None if ahead_us is None else SystemClock().now_us() + ahead_us
