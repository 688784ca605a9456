"""Functions of times in SQL: parts, distances, formatting and parsing.

The tables have the form of those in :mod:`planner.sql.expressions.calls`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, lit
from planner.errors import InvalidPlanError
from planner.expressions.entries.family import plain_value
from planner.sql.expressions.engines.settings import whole, words
from planner.sql.expressions.engines.time_formats import (
    JAVA_READ,
    char_format,
    char_formatted,
    java_format,
    java_formatted,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_SECOND_US = 1_000_000
_DAY_US = 86_400_000_000
#: Units of fixed length.
_LENGTHS = {
    "MICROSECOND": timedelta(microseconds=1),
    "MILLISECOND": timedelta(milliseconds=1),
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
    "WEEK": timedelta(weeks=1),
}
_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _days_between(later: Expr, earlier: Expr) -> Expr:
    """Return the number of days between the dates of two times."""
    return later.dt.epoch_us() // _DAY_US - earlier.dt.epoch_us() // _DAY_US


def _days_later(day: Expr, count: Expr) -> Expr:
    return (day.cast("timestamp") + count * lit(_LENGTHS["DAY"])).cast("date")


def _between_times(unit: Expr, earlier: Expr, later: Expr) -> Expr:
    """Return the number of whole units, rounded toward zero."""
    name = words(unit, "a unit").upper().removesuffix("S")
    if name in _MONTHS:
        return _whole_months(_MONTHS[name], earlier, later)
    size = _length(name) // timedelta(microseconds=1)
    apart = later.dt.epoch_us() - earlier.dt.epoch_us()
    return when(apart >= 0).then(apart // size).otherwise(-((-apart) // size))


def _whole_months(size: int, earlier: Expr, later: Expr) -> Expr:
    """Return how many times ``size`` months fit; on a month's last day the month is complete."""

    def forward(a: Expr, b: Expr) -> Expr:
        months = (b.dt.year() - a.dt.year()) * 12 + b.dt.month() - a.dt.month()
        last = _last_day(b).dt.day()
        day = when(a.dt.day() > last).then(last).otherwise(a.dt.day())
        rest, of = (t.dt.epoch_us() % _DAY_US for t in (b, a))
        is_less = (b.dt.day() < day) | ((b.dt.day() == day) & (rest < of))
        return (months - when(is_less).then(1).otherwise(0)) // size

    is_forward = earlier.dt.epoch_us() <= later.dt.epoch_us()
    return when(is_forward).then(forward(earlier, later)).otherwise(-forward(later, earlier))


def _java_between(unit: Expr, earlier: Expr, later: Expr) -> Expr:
    """Return :func:`_between_times`; a month ends only at the same day, as in Java."""
    name = words(unit, "a unit").upper().removesuffix("S")
    if name not in _MONTHS:
        return _between_times(unit, earlier, later)

    def forward(a: Expr, b: Expr) -> Expr:
        days = _days_between(b, a)
        is_less = (days > 0) & (b.dt.epoch_us() % _DAY_US < a.dt.epoch_us() % _DAY_US)
        return when(is_less).then(1).otherwise(0)

    def spans(a: Expr, b: Expr) -> Expr:
        return (_packed(b) - _packed(a)) // (32 * _MONTHS[name])

    is_forward = earlier.dt.epoch_us() <= later.dt.epoch_us()
    time = later.cast("timestamp")
    before = _minus_days(time, forward(earlier, later))
    after = _minus_days(time, -forward(later, earlier))
    return when(is_forward).then(spans(earlier, before)).otherwise(-spans(after, earlier))


def _minus_days(time: Expr, days: Expr) -> Expr:
    return time - days * lit(_LENGTHS["DAY"])


def _packed(time: Expr) -> Expr:
    """Return the months times 32, plus the day, so that dividing by 32 gives whole months."""
    return (time.dt.year() * 12 + time.dt.month()) * 32 + time.dt.day()


def _later(unit: Expr, count: Expr, time: Expr) -> Expr:
    name = words(unit, "a unit").upper().removesuffix("S")
    if name in _MONTHS:
        each, number = _MONTHS[name], plain_value(count)
        return time.dt.add_months(number * each if isinstance(number, int) else count * each)
    return time + count * lit(_length(name))


def _length(unit: str) -> timedelta:
    length = _LENGTHS.get(unit.upper().removesuffix("S"))
    if length is None:
        raise InvalidPlanError(f"no unit of fixed length {unit!r}; there are {', '.join(_LENGTHS)}")
    return length


def interval_months(node: exp.Expr) -> int | None:
    """Return the months in ``INTERVAL '2' MONTH``; None: it has another unit."""
    if type(node) is not exp.Interval or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    written = f"{node.this.name} {unit.name if unit is not None else ''}".split()
    if len(written) != 2 or written[1].upper().removesuffix("S") not in _MONTHS:
        return None
    if not written[0].lstrip("-").isdigit():
        return None
    return int(written[0]) * _MONTHS[written[1].upper().removesuffix("S")]


def _read_time(text: Expr, format: Expr | None = None, *, strict: bool = True) -> Expr:
    """Compile ``TO_TIMESTAMP(s[, 'yyyy-MM-dd HH:mm:ss'])``; without a format it is ISO 8601."""
    if format is None:
        return text.cast("timestamp") if strict else text.try_cast("timestamp")
    return text.str.to_timestamp(_read_format(format), strict=strict)


def _of_seconds(seconds: Expr) -> Expr:
    """Compile ``TO_TIMESTAMP(1609646706)``; a fraction is kept to the microsecond."""
    return (seconds * _SECOND_US).round().cast("int64").cast("timestamp")


def _read_date(text: Expr, format: Expr | None = None) -> Expr:
    return text.cast("date") if format is None else text.str.to_date(_read_format(format))


def _read_format(format: Expr) -> str:
    return java_format(words(format, "a format"), JAVA_READ)


def _unix_seconds(time: Expr, format: Expr | None = None) -> Expr:
    read = time if format is None else _read_time(time, format)
    return read.dt.epoch_us() // _SECOND_US


def _from_seconds(seconds: Expr, format: Expr | None = None) -> Expr:
    written = "yyyy-MM-dd HH:mm:ss" if format is None else words(format, "a format")
    return java_formatted((seconds * _SECOND_US).cast("timestamp"), written)


def _from_number(number: Expr, digits: Expr | None = None) -> Expr:
    """Compile ``TO_TIMESTAMP_LTZ(n, 0)``, in seconds, and ``(n, 3)``, in milliseconds."""
    scale = 3 if digits is None else whole(digits, "0 or 3")
    if scale not in (0, 3):
        raise InvalidPlanError("TO_TIMESTAMP_LTZ(n, digits): digits must be 0 or 3")
    return (number * int(10 ** (6 - scale))).cast("timestamp")


def _last_day(time: Expr) -> Expr:
    return (time.dt.floor("month").dt.add_months(1) - lit(_LENGTHS["DAY"])).cast("date")


def _next_day(time: Expr, name: Expr) -> Expr:
    """Return the first day of that name after a date."""
    word = words(name, "a day of the week").upper()[:3]
    if word[:2] not in _WEEKDAYS:
        raise InvalidPlanError(f"no day of the week {words(name)!r}; write 'Monday' or 'Mon'")
    wanted = _WEEKDAYS.index(word[:2])
    return _days_later(time, (lit(wanted + 6) - time.dt.weekday()) % 7 + 1)


def _months_between(later: Expr, earlier: Expr) -> Expr:
    """Return the months between two times as in Spark: fractions count months of 31 days.

    Equal days of months, or both last days, give a whole number.
    """

    def parts(time: Expr) -> tuple[Expr, Expr, Expr, Expr]:
        months = time.dt.year() * 12 + time.dt.month()
        is_last = _last_day(time) == time.cast("timestamp").cast("date")
        return months, time.dt.day(), is_last, time.dt.epoch_us() % _DAY_US

    (months, day, is_last, us), (others, other, both, us2) = parts(later), parts(earlier)
    whole_months = (months - others).cast("float64")
    rest = ((day - other) * _DAY_US + us - us2) / (31.0 * _DAY_US)
    is_whole = (day == other) | (is_last & both)
    return when(is_whole).then(whole_months).otherwise((whole_months + rest).round(8))


def date_part(part: str, time: Expr) -> Expr:
    """Compile ``DATE_PART('week', t)``."""
    known = {
        **dict.fromkeys(
            ("year", "month", "day", "hour", "minute", "second", "week", "quarter"), ""
        ),
        "dow": "day_of_week",
        "doy": "day_of_year",
        "isoyear": "iso_year",
    }
    if part.lower() not in known:
        raise InvalidPlanError(f"no part {part!r}; the parts are: {', '.join(known)}")
    made: Expr = getattr(time.dt, known[part.lower()] or part.lower())()
    return made


def _seconds(time: Expr) -> Expr:
    return time.dt.epoch_us() / float(_SECOND_US)


#: By sqlglot's node: the parts that are compiled, and the function that builds the expression.
CALLS: dict[type[exp.Expr], tuple[tuple[str, ...], Callable[..., Expr]]] = {
    exp.Week: (("this",), lambda t: t.dt.week()),
    exp.WeekOfYear: (("this",), lambda t: t.dt.week()),
    exp.Quarter: (("this",), lambda t: t.dt.quarter()),
    exp.DayOfWeek: (("this",), lambda t: t.dt.day_of_week() + 1),
    exp.DayOfMonth: (("this",), lambda t: t.dt.day()),
    exp.LastDay: (("this",), _last_day),
    exp.NextDay: (("this", "expression"), _next_day),
    exp.MonthsBetween: (("this", "expression"), _months_between),
    exp.AddMonths: (("this", "expression"), lambda t, n: t.dt.add_months(n)),
    exp.ToChar: (
        ("this", "format"),
        lambda t, f: char_formatted(t, words(f, "a format")),
    ),
}


def _no_time(*_given: Expr) -> Expr:
    raise InvalidPlanError("a time is needed here, not a number; write CAST(x AS DATE) of a text")


#: Functions of the same names whose argument is a number.
OF_NUMBERS: dict[str, Callable[[Expr], Expr]] = {
    "to_timestamp": _of_seconds,
    "try_to_timestamp": _of_seconds,
    "epoch_ms": lambda n: (n * 1000).cast("timestamp"),
    **dict.fromkeys(("date_add", "date_sub", "datediff"), _no_time),
}

#: Functions by their name in lower case.
NAMED: dict[str, Callable[..., Expr]] = {
    "date_part": lambda part, t: date_part(words(part, "a part"), t),
    "date_format": lambda t, f: java_formatted(t, words(f, "a format")),
    "strftime": lambda t, f: t.dt.format(words(f, "a format")),
    "datediff": _days_between,
    "date_add": _days_later,
    "date_sub": lambda t, n: _days_later(t, -n),
    "isodow": lambda t: t.dt.weekday() + 1,
    "isoyear": lambda t: t.dt.iso_year(),
    "epoch": _seconds,
    "epoch_ms": lambda t: t.dt.epoch_us() // 1000,
    "unix_timestamp": _unix_seconds,
    "unix_seconds": lambda t: t.dt.epoch_us() // _SECOND_US,
    "unix_millis": lambda t: t.dt.epoch_us() // 1000,
    "unix_micros": lambda t: t.dt.epoch_us(),
    "from_unixtime": _from_seconds,
    "timestamp_seconds": lambda n: _from_number(n, lit(0)),
    "timestamp_millis": _from_number,
    "timestamp_micros": lambda n: n.cast("timestamp"),
    "to_timestamp_ltz": _from_number,
    "to_timestamp": _read_time,
    "try_to_timestamp": lambda s, f=None: _read_time(s, f, strict=False),
    "to_date": _read_date,
    "@to_timestamp": lambda s, f: s.str.to_timestamp(char_format(words(f, "a format"))),
    "strptime": lambda s, f: s.str.to_timestamp(words(f, "a format")),
    "try_strptime": lambda s, f: s.str.to_timestamp(words(f, "a format"), strict=False),
    "timestampadd": _later,
    "timestampdiff": _between_times,
    "@timestampdiff_java": _java_between,
}
