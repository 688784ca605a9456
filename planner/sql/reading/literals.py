"""Parses durations, times and types as SQL writes them."""

from __future__ import annotations

import operator
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from planner.durations import duration_us, time_us
from planner.errors import InvalidDurationError
from planner.expressions.types import TIMESTAMP_UTC
from planner.sql.reading.grammar import as_sql

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.sql.reading.parsing import SqlText

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WORD = re.compile(
    r"(?<=[\d\s.])(week|day|hour|minute|min|second|sec|millisecond|microsecond)s?\b", re.IGNORECASE
)
_UNITS = {
    "week": "w",
    "day": "d",
    "hour": "h",
    "minute": "m",
    "min": "m",
    "second": "s",
    "sec": "s",
    "millisecond": "ms",
    "microsecond": "us",
}
_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    **dict.fromkeys(("JSON", "JSONB"), pa.string()),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIMESTAMP_UTC,
    "TIMESTAMPTZ": TIMESTAMP_UTC,
    "TIMESTAMPLTZ": TIMESTAMP_UTC,
    "TIMESTAMPNTZ": TIMESTAMP_UTC,
    "DATETIME": TIMESTAMP_UTC,
}
_CUT = "has no length here; cut text with SUBSTRING(x, 1, n), and write VARCHAR"
_FINER = "has microseconds here; cut them with DATE_TRUNC('second', x), and write TIMESTAMP"
#: Types with a length in parentheses, and their meaning in other engines.
_LENGTHS = {
    **dict.fromkeys(("VARCHAR", "CHAR", "NCHAR", "NVARCHAR", "TEXT"), _CUT),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "DATETIME"), _FINER),
}
_DIGITS_MAX = 38
_DOUBLE_EXACT = 2**53  # every integer up to it is exact as a double
_DECIMAL = "DECIMAL(p, s) has p digits, 1 to 38, of which s, at most p, are after the point"
_HELP = "is not a duration; write it like '5 seconds', INTERVAL '5' SECOND or '5s'"


def interval_us(node: exp.Expr, text: SqlText) -> int:
    """Return the microseconds of ``'5 seconds'``, ``INTERVAL '5' SECOND`` or ``'5s'``."""
    if isinstance(node, exp.Interval):
        return _interval_us(node, text)
    if isinstance(node, exp.Neg):
        return -interval_us(node.this, text)
    if isinstance(node, exp.Literal) and node.is_string:
        return _parsed_us(node.name, node, text)
    raise text.error(node, f"{as_sql(node)} {_HELP}")


def _interval_us(node: exp.Interval, text: SqlText) -> int:
    amount, unit = node.this, node.args.get("unit")
    if not isinstance(amount, exp.Literal):
        raise text.error(node, "the length of an INTERVAL is a literal")
    if isinstance(unit, exp.IntervalSpan):
        reason = "an INTERVAL has one unit; write INTERVAL '90' SECOND or '1 day 2 hours'"
        raise text.error(node, reason)
    written = f"{amount.name} {unit.name}" if unit is not None else amount.name
    return _parsed_us(written, node, text)


def _parsed_us(written: str, node: exp.Expr, text: SqlText) -> int:
    if re.search(r"\b(month|year|quarter)s?\b", written, re.IGNORECASE):
        raise text.error(
            node, "months and years differ in length; write days, as in INTERVAL '30' DAY"
        )
    short = _WORD.sub(lambda m: _UNITS[m[1].lower()], written)
    try:
        return duration_us(short)
    except InvalidDurationError:
        raise text.error(node, f"{written!r} {_HELP}") from None


def interval(node: exp.Interval, text: SqlText) -> timedelta:
    """Return an interval as a value of an expression."""
    return timedelta(microseconds=interval_us(node, text))


def data_type(node: exp.DataType, at: exp.Expr, text: SqlText) -> pa.DataType:
    """Return the Arrow type of a type in SQL."""
    name = str(getattr(node.this, "value", node.this))
    if name == "DECIMAL":
        bare = text.engine.decimal if not node.expressions else None
        return _decimal(node, at, text) if bare is None else bare
    if name == "FLOAT" and text.engine.float_is_double:
        return pa.float64()
    cast_of = {"VARCHAR": text.engine.varchar_cast, "CHAR": text.engine.char_cast}
    if type_length(node) is not None and cast_of.get(name, "refuse") != "refuse":
        return pa.string()
    if fraction_digits(node) is not None and text.engine.timestamp_cast != "refuse":
        return TIMESTAMP_UTC
    if node.args.get("nested") and name in ("ARRAY", "MAP", "STRUCT"):
        return _nested(name, node, at, text)
    is_fine = name.startswith("TIMESTAMP") and [part.name for part in node.expressions] == ["6"]
    if node.expressions and not is_fine:
        raise text.error(at, f"{as_sql(node)} {_LENGTHS.get(name, 'has no length here')}")
    kind = _TYPES.get(name)
    if kind is None or node.args.get("nested"):
        if name == "TIME":
            raise text.error(at, "no type TIME; write DATE_FORMAT(t, 'HH:mm:ss') for its text")
        known = ", ".join(dict.fromkeys([*_TYPES, "DECIMAL(p, s)"]))
        raise text.error(at, f"no type {as_sql(node)}; the types are: {known}")
    return kind


def type_length(node: exp.DataType) -> int | None:
    """Return the n of ``VARCHAR(n)`` or ``CHAR(n)``; None: there is none."""
    return _one_number(node) if _type_name(node) in ("VARCHAR", "CHAR") else None


def fraction_digits(node: exp.DataType) -> int | None:
    """Return the p of ``TIMESTAMP(p)``; None: there is none."""
    return _one_number(node) if _type_name(node).startswith("TIMESTAMP") else None


def _type_name(node: exp.DataType) -> str:
    return str(getattr(node.this, "value", node.this))


def _one_number(node: exp.DataType) -> int | None:
    digits = [part.name for part in node.expressions]
    return int(digits[0]) if len(digits) == 1 and digits[0].isdecimal() else None


def _nested(name: str, node: exp.DataType, at: exp.Expr, text: SqlText) -> pa.DataType:
    """Return the type ``ARRAY<T>``, ``MAP<K, V>``, ``ROW<a T, b U>`` or ``STRUCT<...>``."""
    parts = node.expressions
    if not isinstance(at, exp.ColumnDef):
        _check_uncut(node, at, text)
    if name == "STRUCT" and all(isinstance(part, exp.ColumnDef) for part in parts):
        return pa.struct([(part.name, data_type(part.args["kind"], at, text)) for part in parts])
    kinds = [data_type(part, at, text) for part in parts if type(part) is exp.DataType]
    if name == "ARRAY" and len(kinds) == len(parts) == 1:
        return pa.list_(kinds[0])
    if name == "MAP" and len(kinds) == len(parts) == len(("key", "value")):
        return pa.map_(*kinds)
    raise text.error(
        at, f"{as_sql(node)}: write ARRAY<INT>, MAP<VARCHAR, INT> or ROW<a INT, b INT>"
    )


def _check_uncut(node: exp.DataType, at: exp.Expr, text: SqlText) -> None:
    """Raise for parts of a nested type that a cast would cut, pad or round."""
    engine = text.engine
    effects = {"VARCHAR": engine.varchar_cast, "CHAR": engine.char_cast}
    for part in node.find_all(exp.DataType):
        has_length = type_length(part) is not None and effects[_type_name(part)] != "ignore"
        if has_length or fraction_digits(part) is not None:
            reason = f"{as_sql(part)} inside {as_sql(node)} has no effect: write the type without"
            raise text.error(at, f"{reason} a length, and cast the elements with LIST_TRANSFORM")


def _decimal(node: exp.DataType, at: exp.Expr, text: SqlText) -> pa.DataType:
    """Return the type ``DECIMAL`` (38 digits, no fraction), ``DECIMAL(p)`` or ``DECIMAL(p, s)``."""
    written = [part.name for part in node.expressions]
    if not written:
        return pa.decimal128(_DIGITS_MAX)
    digits = [int(one) for one in written if one.isdecimal()]
    precision, scale = (*digits, 0)[:2] if digits else (0, 0)
    is_known = len(digits) == len(written) <= len(("precision", "scale"))
    if not (is_known and 1 <= precision <= _DIGITS_MAX and scale <= precision):
        raise text.error(at, f"{as_sql(node)}: {_DECIMAL}")
    return pa.decimal128(precision, scale)


def time_literal(node: exp.Cast, to: pa.DataType, text: SqlText) -> Any:
    """Return the value of ``TIMESTAMP '...'`` or ``DATE '...'``; None: it is another cast."""
    value = node.this
    if not (isinstance(value, exp.Literal) and value.is_string and pa.types.is_temporal(to)):
        return None
    with text.located(value):
        moment = _EPOCH + timedelta(microseconds=time_us(value.name.strip()))
    return moment.date() if pa.types.is_date(to) else moment


def literal_member(node: exp.Expr, text: SqlText) -> Any:
    """Return the value of a literal in a list, times included; None: NULL or an expression."""
    inner = node
    while isinstance(inner, exp.Paren | exp.Neg):  # terminates: an expression is finite
        inner = inner.this
    if isinstance(inner, exp.Literal | exp.Boolean):
        return plain_value(node, text)
    if type(node) is exp.Cast:
        return time_literal(node, data_type(node.to, node, text), text)
    return None


def plain_value(node: exp.Expr, text: SqlText) -> Any:
    """Return a literal number, string or truth value as a Python value."""
    if isinstance(node, exp.Paren):
        return plain_value(node.this, text)
    if isinstance(node, exp.Neg):
        value = plain_value(node.this, text)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.name
        return int(node.name) if node.name.isdigit() else as_double(node, node.name, text)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        raise text.error(node, "with NULL here the result is always NULL; write a literal")
    raise text.error(node, "a literal is needed here")


def as_double(node: exp.Expr, number: str, text: SqlText) -> float:
    """Return a number with a point as a double.

    Raises:
        SqlError: it is written without an exponent, and above 2^53 a double is another number.
    """
    double = float(number)
    is_rounded = abs(double) >= _DOUBLE_EXACT and "e" not in number.lower()
    if is_rounded and Decimal(number) != Decimal(double):
        reason = (
            f"the DOUBLE of {number} is {Decimal(double)}; write it without a point if it is "
            f"whole, or CAST('{number}' AS DECIMAL(p, s)), or {double!r} if this DOUBLE is right"
        )
        raise text.error(node, reason)
    return double


def fraction_of(node: exp.Expr, text: SqlText) -> float | None:
    """Return the double that literals with + - * make; None: it is whole, or no literal."""
    exact = exact_number(node)
    if exact is None or exact == exact.to_integral_value():
        return None
    return as_double(node, f"{exact:f}", text)


def exact_cast(node: exp.Cast) -> exp.Cast:
    """Return the cast of a number to DECIMAL with all its digits, which a double may not hold."""
    number = exact_number(node.this)
    if number is None or Decimal(repr(float(number))) == number:
        return node
    digits = node.copy()
    digits.set("this", exp.Literal.string(f"{number:f}"))
    return digits


_EXACT: dict[type[exp.Expr], Callable[[Decimal, Decimal], Decimal]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
_ROUNDED: dict[type[exp.Expr], str] = {exp.Round: ROUND_HALF_UP, exp.Trunc: ROUND_DOWN}
_PLACES_MAX = 30
_WIDE = Context(prec=400)


def exact_number(node: exp.Expr) -> Decimal | None:
    """Return the decimal value of literals joined by + - *, also within ROUND and TRUNC.

    None for anything else.

    So ``0.06 + 0.01`` is the same double as ``0.07``.
    """
    if isinstance(node, exp.Paren):
        return exact_number(node.this)
    if isinstance(node, exp.Literal) and not node.is_string:
        try:
            return Decimal(node.name)
        except InvalidOperation:
            return None
    if type(node) in _ROUNDED:
        held, digits = exact_number(node.this), node.args.get("decimals")
        places = Decimal(0) if digits is None else exact_number(digits)
        if held is None or places is None or abs(places) > _PLACES_MAX:
            return None
        return held.quantize(Decimal(1).scaleb(-int(places)), _ROUNDED[type(node)], _WIDE)
    if isinstance(node, exp.Neg):
        held = exact_number(node.this)
        return None if held is None else -held
    if type(node) not in _EXACT:
        return None
    a, b = exact_number(node.this), exact_number(node.args["expression"])
    return None if a is None or b is None else _EXACT[type(node)](a, b)
