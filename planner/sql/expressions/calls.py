"""More functions of SQL in terms of the fluent interface: of numbers, of text, of times.

The first table is keyed by sqlglot's node and names its parts, the second by the name in lower
case. All parts are compiled; what has to be a literal is taken out of them by :func:`literal`.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import Expr, concat_ws, greatest, least, lit
from planner.errors import InvalidPlanError
from planner.expressions.nodes import Literal

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
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
#: What Java's letters in a format of times are in ours.
_JAVA = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "dd": "%d", "HH": "%H",
    "hh": "%I", "mm": "%M", "ss": "%S", "EEEE": "%A", "EEE": "%a", "DDD": "%j", "a": "%p",
}  # fmt: skip
#: Those of TO_CHAR.
_CHAR = {
    "YYYY": "%Y", "YY": "%y", "MM": "%m", "DDD": "%j", "DD": "%d", "HH24": "%H", "HH12": "%I",
    "HH": "%I", "MI": "%M", "SS": "%S", "MON": "%b", "MONTH": "%B", "DAY": "%A", "DY": "%a",
    "AM": "%p", "PM": "%p",
}  # fmt: skip
_JAVA_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)
_CHAR_PART = re.compile(
    "|".join(sorted(_CHAR, key=len, reverse=True)) + r'|"([^"]*)"|([A-Za-z]+)|(.)', re.I | re.S
)
_SHIFT_MAX = 62
_ANGLES: tuple[type[exp.Func], ...] = (*(exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos, exp.Atan),)


def literal(value: Expr, kind: type[Any] | tuple[type[Any], ...], what: str) -> Any:
    """The value of a literal of some type.

    Raises:
        InvalidPlanError: it is something else.
    """
    node = value.node
    if isinstance(node, Literal) and isinstance(node.literal, kind):
        return node.literal
    raise InvalidPlanError(f"{value} cannot be {what}: that is a literal")


def words(value: Expr, what: str = "a pattern") -> str:
    """A literal text."""
    return str(literal(value, str, what))


def whole(value: Expr, what: str = "a number of characters") -> int:
    """A literal whole number."""
    return int(literal(value, int, what))


def is_not_distinct(a: Expr, b: Expr) -> Expr:
    """Whether both are the same value, or none."""
    return ~a.is_distinct_from(b)


def java_format(written: str) -> str:
    """``yyyy-MM-dd`` as ``%Y-%m-%d``."""

    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1].replace("''", "'").replace("%", "%%") or "'"
        if found[2] is None:
            return found[3].replace("%", "%%")
        return _code(found[0], _JAVA, written)

    return _JAVA_PART.sub(one, written)


def char_format(written: str) -> str:
    """``YYYY-MM-DD`` as ``%Y-%m-%d``."""

    def one(found: re.Match[str]) -> str:
        if found[1] is not None or found[3] is not None:
            return (found[1] or found[3] or "").replace("%", "%%")
        return _code(found[0].upper(), _CHAR, written)

    return _CHAR_PART.sub(one, written)


def _code(letters: str, codes: dict[str, str], written: str) -> str:
    if letters not in codes:
        known = ", ".join(codes)
        raise InvalidPlanError(f"no {letters!r} in the format {written!r}; there are {known}")
    return codes[letters]


def _angle(kind: type[exp.Func]) -> Callable[[Expr], Expr]:
    name = kind.sql_name().lower()
    return lambda x: x.angle(name)


def _left(text: Expr, count: Expr) -> Expr:
    return text.str.slice(0, max(0, whole(count)))


def _right(text: Expr, count: Expr) -> Expr:
    wanted = max(0, whole(count))
    return text.str.slice(-wanted, None) if wanted else text.str.slice(0, 0)


def _shifted(value: Expr, bits: Expr, *, is_left: bool) -> Expr:
    count = whole(bits, "a number of bits")
    if not 0 <= count <= _SHIFT_MAX:
        raise InvalidPlanError(f"a shift is by 0 to {_SHIFT_MAX} bits, not {count}")
    factor = int(2**count)
    return value * factor if is_left else value // factor


def _log(base: Expr, value: Expr | None = None) -> Expr:
    """``LOG(x)`` is natural, as in Spark and Flink; ``LOG(base, x)``."""
    if value is None:
        return base.ln()
    known = base.node.literal if isinstance(base.node, Literal) else None
    if isinstance(known, int) and known in (2, 10):
        return value.log(known)
    return value.ln() / base.ln()


def _overlay(text: Expr, new: Expr, start: Expr, length: Expr | None = None) -> Expr:
    first = whole(start, "a place")
    if first < 1:
        raise InvalidPlanError("OVERLAY ... FROM counts from 1")
    cut = len(words(new, "a text")) if length is None else whole(length)
    return text.str.slice(0, first - 1) + new + text.str.slice(first - 1 + cut, None)


def _sha2(text: Expr, length: Expr) -> Expr:
    bits = whole(length, "a number of bits") or 256
    return text.str.digest(f"sha{bits}")


def _days_between(later: Expr, earlier: Expr) -> Expr:
    """Whole days between the dates of two times."""
    return later.dt.epoch_us() // _DAY_US - earlier.dt.epoch_us() // _DAY_US


def _days_later(day: Expr, count: Expr) -> Expr:
    return (day.cast("timestamp") + count * lit(_LENGTHS["DAY"])).cast("date")


def _between_times(unit: Expr, earlier: Expr, later: Expr) -> Expr:
    """Whole units, cut toward zero."""
    size = _length(words(unit, "a unit")) // timedelta(microseconds=1)
    apart = later.dt.epoch_us() - earlier.dt.epoch_us()
    return when(apart >= 0).then(apart // size).otherwise(-((-apart) // size))


def _later(unit: Expr, count: Expr, time: Expr) -> Expr:
    name = words(unit, "a unit").upper().removesuffix("S")
    if name in _MONTHS:
        return time.dt.add_months(_MONTHS[name] * whole(count, "a number of months"))
    return time + count * lit(_length(name))


def _length(unit: str) -> timedelta:
    found = _LENGTHS.get(unit.upper().removesuffix("S"))
    if found is None:
        raise InvalidPlanError(f"no unit of fixed length {unit!r}; there are {', '.join(_LENGTHS)}")
    return found


def interval_months(node: exp.Expr) -> int | None:
    """How many months ``INTERVAL '2' MONTH`` has; None: it is of another length."""
    if type(node) is not exp.Interval or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    written = f"{node.this.name} {unit.name if unit is not None else ''}".split()
    if len(written) != 2 or written[1].upper().removesuffix("S") not in _MONTHS:
        return None
    if not written[0].lstrip("-").isdigit():
        return None
    return int(written[0]) * _MONTHS[written[1].upper().removesuffix("S")]


def _from_seconds(seconds: Expr, format: Expr | None = None) -> Expr:
    written = "yyyy-MM-dd HH:mm:ss" if format is None else words(format, "a format")
    return (seconds * _SECOND_US).cast("timestamp").dt.format(java_format(written))


def _from_number(number: Expr, digits: Expr | None = None) -> Expr:
    """``TO_TIMESTAMP_LTZ(n, 0)`` is of seconds, ``TO_TIMESTAMP_LTZ(n, 3)`` of milliseconds."""
    scale = 3 if digits is None else whole(digits, "0 or 3")
    if scale not in (0, 3):
        raise InvalidPlanError("TO_TIMESTAMP_LTZ(n, digits): digits is 0 or 3")
    return (number * int(10 ** (6 - scale))).cast("timestamp")


def _decoded(value: Expr, *pairs: Expr) -> Expr:
    """``DECODE(x, 1, 'a', 2, 'b', 'other')``; null is found, too."""
    if len(pairs) < 2:
        raise InvalidPlanError("DECODE takes a value, and pairs of what it may be and the result")
    default = pairs[-1] if len(pairs) % 2 else lit(None)
    found = default
    for at in range(len(pairs) // 2 * 2 - 2, -1, -2):
        found = when(is_not_distinct(value, pairs[at])).then(pairs[at + 1]).otherwise(found)
    return found


def _nth(at: Expr, *values: Expr) -> Expr:
    found = lit(None)
    for place, value in reversed(list(enumerate(values, start=1))):
        found = when(at == place).then(value).otherwise(found)
    return found


def _last_day(time: Expr) -> Expr:
    return (time.dt.floor("month").dt.add_months(1) - lit(_LENGTHS["DAY"])).cast("date")


def _substring_index(text: Expr, separator: Expr, count: Expr) -> Expr:
    if whole(count) != 1:
        raise InvalidPlanError("SUBSTRING_INDEX takes 1 here; SPLIT_PART(s, ',', n) the n-th part")
    return text.str.split(words(separator, "a separator")).item(0)


def date_part(part: str, time: Expr) -> Expr:
    """``DATE_PART('week', t)``."""
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


#: Parts of the node, compiled -> the expression.
CALLS: dict[type[exp.Expr], tuple[tuple[str, ...], Callable[..., Expr]]] = {
    # Choices and nulls.
    exp.Greatest: (("this", "expressions"), greatest),
    exp.Least: (("this", "expressions"), least),
    exp.Nvl2: (
        ("this", "true", "false"),
        lambda a, b, c=None: when(a.is_not_null()).then(b).otherwise(c),
    ),
    exp.DecodeCase: (("expressions",), _decoded),
    exp.Elt: (("this", "expressions"), _nth),
    exp.NullSafeEQ: (("this", "expression"), is_not_distinct),
    exp.NullSafeNEQ: (("this", "expression"), Expr.is_distinct_from),
    # Numbers.
    exp.Pow: (("this", "expression"), Expr.power),
    exp.Exp: (("this",), Expr.exp),
    exp.Ln: (("this",), Expr.ln),
    exp.Log: (("this", "expression"), _log),
    exp.Sign: (("this",), Expr.sign),
    exp.Trunc: (
        ("this", "decimals"),
        lambda x, n=None: x.trunc(0 if n is None else whole(n, "a number of digits")),
    ),
    exp.IsNan: (("this",), Expr.is_nan),
    exp.Pi: ((), lambda: lit(math.pi)),
    **{kind: (("this",), _angle(kind)) for kind in _ANGLES},
    exp.Atan2: (("this", "expression"), Expr.atan2),
    exp.Degrees: (("this",), lambda x: x * (180 / math.pi)),
    exp.Radians: (("this",), lambda x: x * (math.pi / 180)),
    exp.BitwiseAnd: (("this", "expression"), Expr.bit_and),
    exp.BitwiseOr: (("this", "expression"), Expr.bit_or),
    exp.BitwiseXor: (("this", "expression"), Expr.bit_xor),
    exp.BitwiseNot: (("this",), Expr.bit_not),
    exp.BitwiseLeftShift: (("this", "expression"), lambda x, n: _shifted(x, n, is_left=True)),
    exp.BitwiseRightShift: (("this", "expression"), lambda x, n: _shifted(x, n, is_left=False)),
    # Text.
    exp.Left: (("this", "expression"), _left),
    exp.Right: (("this", "expression"), _right),
    exp.StrPosition: (("this", "substr"), lambda s, p: s.str.position(words(p))),
    exp.Reverse: (("this",), lambda s: s.str.reverse()),
    exp.Initcap: (("this", "expression"), lambda s, _others=None: s.str.initcap()),
    exp.Dayname: (("this",), lambda t: t.dt.format("%A")),
    exp.Monthname: (("this",), lambda t: t.dt.format("%B")),
    exp.Repeat: (("this", "times"), lambda s, n: s.str.repeat(max(0, whole(n)))),
    exp.Space: (("this",), lambda n: lit(" " * whole(n))),
    exp.MD5: (("this",), lambda s: s.str.digest("md5")),
    exp.SHA: (("this",), lambda s: s.str.digest("sha1")),
    exp.SHA2: (("this", "length"), _sha2),
    exp.Translate: (
        ("this", "from_", "to"),
        lambda s, a, b: s.str.translate(words(a, "a text"), words(b, "a text")),
    ),
    exp.Ascii: (("this",), lambda s: s.str.ascii()),
    exp.Chr: (("expressions",), Expr.character),
    exp.BitLength: (("this",), lambda s: s.str.byte_length() * 8),
    exp.ConcatWs: (("expressions",), lambda sep, *s: concat_ws(words(sep, "a separator"), *s)),
    exp.Overlay: (("this", "expression", "from_", "for_"), _overlay),
    exp.SubstringIndex: (("this", "delimiter", "count"), _substring_index),
    # Times.
    exp.Week: (("this",), lambda t: t.dt.week()),
    exp.WeekOfYear: (("this",), lambda t: t.dt.week()),
    exp.Quarter: (("this",), lambda t: t.dt.quarter()),
    exp.DayOfWeek: (("this",), lambda t: t.dt.day_of_week() + 1),
    exp.DayOfMonth: (("this",), lambda t: t.dt.day()),
    exp.LastDay: (("this",), _last_day),
    exp.AddMonths: (
        ("this", "expression"),
        lambda t, n: t.dt.add_months(whole(n, "a number of months")),
    ),
    exp.ToChar: (
        ("this", "format"),
        lambda t, f: t.dt.format(char_format(words(f, "a format"))),
    ),
}

#: By name, lower case; the number of arguments is that of the Python function.
NAMED: dict[str, Callable[..., Expr]] = {
    "isnull": Expr.is_null,
    "isnotnull": Expr.is_not_null,
    "try_divide": Expr.__truediv__,
    "power": Expr.power,
    "shiftleft": lambda x, n: _shifted(x, n, is_left=True),
    "shiftright": lambda x, n: _shifted(x, n, is_left=False),
    "positive": lambda x: x,
    "negative": Expr.__neg__,
    "btrim": lambda s, c=None: s.str.strip(None if c is None else words(c, "characters")),
    "ltrim": lambda s, c=None: s.str.strip_left(None if c is None else words(c, "characters")),
    "rtrim": lambda s, c=None: s.str.strip_right(None if c is None else words(c, "characters")),
    "lpad": lambda s, n, f=None: s.str.pad_left(whole(n), " " if f is None else words(f)),
    "rpad": lambda s, n, f=None: s.str.pad_right(whole(n), " " if f is None else words(f)),
    "regexp_extract": lambda s, p, g=None: s.str.extract(
        words(p), 0 if g is None else whole(g, "a group")
    ),
    "regexp_substr": lambda s, p: s.str.extract(words(p)),
    "octet_length": lambda s: s.str.byte_length(),
    "sha256": lambda s: s.str.digest("sha256"),
    "sha512": lambda s: s.str.digest("sha512"),
    "rlike": lambda s, p: s.str.contains(words(p), regex=True),
    "regexp": lambda s, p: s.str.contains(words(p), regex=True),
    "split_index": lambda s, sep, n: s.str.split(words(sep)).item(whole(n, "a place")),
    "char_length": lambda s: s.str.length(),
    "json_value": lambda s, p: s.str.json_value(words(p, "a path")),
    "get_json_object": lambda s, p: s.str.json_value(words(p, "a path")),
    "json_extract_string": lambda s, p: s.str.json_value(words(p, "a path")),
    "date_part": lambda part, t: date_part(words(part, "a part"), t),
    "date_format": lambda t, f: t.dt.format(java_format(words(f, "a format"))),
    "strftime": lambda t, f: t.dt.format(words(f, "a format")),
    "datediff": _days_between,
    "date_add": _days_later,
    "date_sub": lambda t, n: _days_later(t, -n),
    "isodow": lambda t: t.dt.weekday() + 1,
    "isoyear": lambda t: t.dt.iso_year(),
    "epoch": _seconds,
    "epoch_ms": lambda t: t.dt.epoch_us() // 1000,
    "unix_timestamp": lambda t: t.dt.epoch_us() // _SECOND_US,
    "unix_seconds": lambda t: t.dt.epoch_us() // _SECOND_US,
    "unix_millis": lambda t: t.dt.epoch_us() // 1000,
    "unix_micros": lambda t: t.dt.epoch_us(),
    "from_unixtime": _from_seconds,
    "timestamp_seconds": lambda n: _from_number(n, lit(0)),
    "timestamp_millis": _from_number,
    "timestamp_micros": lambda n: n.cast("timestamp"),
    "to_timestamp_ltz": _from_number,
    "to_timestamp": lambda s: s.cast("timestamp"),
    "to_date": lambda s: s.cast("date"),
    "timestampadd": _later,
    "timestampdiff": _between_times,
}
