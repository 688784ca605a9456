"""Parses intervals of Flink and Spark: with two units, as a span, or as a call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_SHORT = {
    "US": "MICROSECOND",
    "MS": "MILLISECOND",
    "S": "SECOND",
    "SEC": "SECOND",
    "M": "MINUTE",
    "MIN": "MINUTE",
    "H": "HOUR",
    "HR": "HOUR",
    "D": "DAY",
    "W": "WEEK",
    "MON": "MONTH",
}
_MAKERS = {
    "MAKE_INTERVAL": ("year", "month", "week", "day", "hour", "minute", "second"),
    "MAKE_YM_INTERVAL": ("year", "month"),
}
_SPANS = ("DAY", "HOUR", "MINUTE", "SECOND")
_PAIR = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_CLOCK = re.compile(r"(?<!\S)([+-]?)(\d+):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?$")
_DAYS = re.compile(r"^([+-]?\d+) (?=[+-]?\d+:)")


#: A shorter time between two moments has no months in the AGE of PostgreSQL and DuckDB.
_SHORT_US_MAX = 28 * _US["DAY"]
NO_AGE = (
    "it counts months and years: write a - b for the time between, TIMESTAMPDIFF(YEAR, b, a) for "
    "full years, or a > b + INTERVAL '1 month'; AGE(a, b) can be compared with lengths below 28 "
    "days, as INTERVAL '36' HOUR"
)


def aged(node: exp.Expr, error: Callable[[exp.Expr, str], Exception]) -> exp.Expr | None:
    """Rewrite ``AGE(a, b) > INTERVAL '12 hours'`` as ``(a - b) > ...``.

    Raises:
        SqlError: made by ``error``; months matter.
    """
    parts = {name: node.args.get(name) for name in ("this", "expression", "low", "high")}
    sides = {name: side for name, side in parts.items() if side is not None}
    ages = [name for name, side in sides.items() if _is_age(side)]
    found = [lengths(side) for name, side in sides.items() if name not in ages]
    if len(ages) != 1 or None in found:
        return None
    (name,) = ages
    if any(one is None or one[0] or abs(one[1]) >= _SHORT_US_MAX for one in found):
        raise error(sides[name], f"the function AGE is not supported; {NO_AGE}")
    made = node.copy()
    # of two dates, a - b is a number
    later, earlier = (exp.cast(part.copy(), "TIMESTAMP") for part in sides[name].expressions)
    made.set(name, exp.Paren(this=exp.Sub(this=later, expression=earlier)))
    return made


def _is_age(node: exp.Expr) -> bool:
    is_call = isinstance(node, exp.Anonymous) and node.name.upper() == "AGE"
    return is_call and len(node.expressions) == 2


def whole_interval(made: exp.Expr | None, text: exp.Expr | None) -> exp.Expr | None:
    """Return an interval with its whole text, of which sqlglot keeps only one number and unit."""
    if not isinstance(made, exp.Interval) or not isinstance(text, exp.Literal):
        return made
    made.set("fraction_in_string", None)
    if text.is_string and not _PAIR.fullmatch(text.name.strip()):
        spelled = _spelled(text.name)
        if made.this.name != text.name or (spelled != text.name and made.args.get("unit") is None):
            made.set("this", exp.Literal.string(spelled))
            made.set("unit", None)
    return made


def _spelled(written: str) -> str:
    """Return ``1 day 02:03:04``, ``1 day ago`` and ``-1 day 2 hours`` as months and microseconds.

    In ``-1 day 2 hours`` the sign applies to the days only. Any other text is returned unchanged.
    """
    text, past = re.subn(r"\s+ago$", "", written.strip("@ "), flags=re.IGNORECASE)
    clock = _CLOCK.search(text)
    if clock is None and not past and not re.search(r"[+-]", text):
        return text if _PAIR.fullmatch(text) else written
    us = 0
    if clock is not None:
        sign, *parts = clock.groups(default="0")
        of_units = zip(("HOUR", "MINUTE", "SECOND"), parts, strict=True)
        us = sum(round(float(part) * _US[unit]) for unit, part in of_units)
        us = -us if sign == "-" else us
        text = _DAYS.sub(r"\1 days ", text)[: -len(clock[0])]
    rest = lengths(exp.Interval(this=exp.Literal.string(text)))
    if rest is None:
        return written
    months, us = (-part if past else part for part in (rest[0], rest[1] + us))
    return f"{months} months {us} microseconds" if months else f"{us} microseconds"


def lengths(node: exp.Expr) -> tuple[int, int] | None:
    """Return the months and microseconds of an interval; None: it has an unknown form."""
    if isinstance(node, exp.Paren):
        return lengths(node.this)
    if isinstance(node, exp.Add):
        both = [lengths(side) for side in (node.this, node.args["expression"])]
        if None in both:
            return None
        return tuple(map(sum, zip(*both, strict=True)))  # type: ignore[return-value]
    if isinstance(node, exp.Anonymous | exp.MakeInterval):
        return _made_interval(node)
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    written, unit = str(node.this.name).strip(), node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return _of_span(written, unit.this.name.upper(), unit.expression.name.upper())
    if isinstance(unit, exp.Func):  # sqlglot parses the precision in DAY (3) as a call
        unit = exp.var(type(unit).__name__)
    if unit is not None:
        written = f"{written} {unit.name}"
    months = us = 0
    if _PAIR.sub("", written).strip():
        return None
    for number, word in _PAIR.findall(written):
        name = _SHORT.get(word.upper()) or word.upper().removesuffix("S")
        name = _SHORT.get(name, name)
        if name in _MONTHS and "." not in number:
            months += int(number) * _MONTHS[name]
        elif name in _US:
            us += round(float(number) * _US[name])
        else:
            return None
    return months, us


def _made_interval(node: exp.Expr) -> tuple[int, int] | None:
    """Return the length of ``MAKE_INTERVAL(years, months, weeks, days, ...)`` of literals."""
    if isinstance(node, exp.Anonymous):
        given = list(node.expressions) if node.name.upper() in _MAKERS else []
        parts = _MAKERS.get(node.name.upper(), ())
    else:
        parts = ("year", "month", "week", "day", "hour", "minute", "second")
        given = [node.args.get(part) or exp.Literal.number(0) for part in parts]
    numbers = [_number(part) for part in given]
    if not given or None in numbers or len(numbers) > len(parts):
        return None
    months = us = 0
    for number, part in zip(numbers, parts, strict=False):
        assert number is not None, node
        if part.upper() in _MONTHS:
            months += int(number) * _MONTHS[part.upper()]
        else:
            us += round(number * _US[part.upper()])
    return months, us


def _number(node: exp.Expr) -> float | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    return float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def _of_span(written: str, first: str, last: str) -> tuple[int, int] | None:
    """Return the length of ``'2-10' YEAR TO MONTH`` or ``'1 02:03:04' DAY TO SECOND``."""
    is_negative = written.startswith("-")
    parts = re.split(r"[-: ]", written.lstrip("+-").strip())
    if (first, last) == ("YEAR", "MONTH"):
        if len(parts) != 2 or not all(part.isdigit() for part in parts):
            return None
        months = int(parts[0]) * 12 + int(parts[1])
        return (-months if is_negative else months), 0
    if first not in _SPANS or last not in _SPANS:
        return None
    units = _SPANS[_SPANS.index(first) : _SPANS.index(last) + 1]
    if len(units) != len(parts) or not all(re.fullmatch(r"\d+(\.\d+)?", part) for part in parts):
        return None
    us = sum(round(float(part) * _US[unit]) for part, unit in zip(parts, units, strict=True))
    return 0, (-us if is_negative else us)
