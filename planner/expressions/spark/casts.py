"""Casts as Spark SQL. A value that does not fit fails the batch, as it fails the stream.

Spark's ``try_cast`` finds values that do not fit. Where it is more lenient than the stream (blanks
around numbers, "yes" for true), a pattern is checked first. Casts of floats to text are
unsupported: Spark and Arrow write them differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.spark.errors import MARK, UnsupportedInBatchError
from planner.expressions.spark.let_bindings import let
from planner.expressions.spark.types import integer, physical, text, type_name
from planner.expressions.types import is_list, is_text

if TYPE_CHECKING:
    from collections.abc import Callable

_DAY_US = 86_400_000_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_INTEGER = r"\A[-+]?[0-9]+\z"
_BOOLEAN = r"(?i)\A(true|false|0|1)\z"


def failure(message: str) -> str:
    """Return an expression that fails the batch with ``message``."""
    return f"raise_error({text(f'{MARK}{message}{MARK}')})"


def _wrong(shown: str | None, reason: str) -> str:
    """Return SQL for the case that a value does not fit: an error, or null if ``shown`` is None."""
    return "null" if shown is None else failure(f"cannot evaluate {shown}: {reason}")


def cast(sql: str, source: pa.DataType, target: pa.DataType, shown: str | None) -> str:
    """Cast ``sql`` from ``source`` to ``target``; ``shown``: its name in errors (None: null).

    Raises:
        UnsupportedInBatchError: the batch has no such conversion.
    """
    if pa.types.is_dictionary(source):
        source = source.value_type
    if _is_same(source, target):
        return sql
    if pa.types.is_null(source):
        return f"cast({sql} as {type_name(target)})"
    if is_list(source) and is_list(target):
        return _each(sql, source.value_type, target.value_type, shown)
    if pa.types.is_timestamp(source):
        return _from_timestamp(sql, source, target, shown)
    if pa.types.is_date32(source):
        return _from_date(sql, source, target, shown)
    if pa.types.is_duration(source):
        return _from_duration(sql, source, target, shown)
    if is_text(source):
        return _from_text(sql, source, target, shown)
    if pa.types.is_integer(source) and _is_ticks(target):
        return cast(sql, source, pa.int64(), shown)
    if _is_ticks(source) or _is_ticks(target) or pa.types.is_nested(source):
        raise _no_cast(shown, source, target)
    return _from_number(sql, source, target, shown)


def _is_same(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether no cast is needed; types with the same Spark type may differ in range."""
    if source == target:
        return True
    types = pa.types
    if any(
        types.is_temporal(k) or types.is_nested(k) or types.is_unsigned_integer(k)
        for k in (source, target)
    ):
        return False
    return bool(physical(source) == physical(target))


def _is_ticks(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind))


def _each(sql: str, source: pa.DataType, target: pa.DataType, shown: str | None) -> str:
    body = cast("element", source, target, shown)
    if shown is None and body != "element":
        raise UnsupportedInBatchError(
            "try_cast", "Spark would keep the elements of a list that fit"
        )
    return sql if body == "element" else f"transform({sql}, element -> {body})"


def _from_timestamp(sql: str, source: pa.DataType, target: pa.DataType, shown: str | None) -> str:
    micros = _scaled(sql, source.unit, "us", shown, exact=False)
    if pa.types.is_timestamp(target):
        return micros if target.unit == "us" else _scaled(micros, "us", target.unit, shown)
    if pa.types.is_integer(target):
        return cast(micros, pa.int64(), target, shown)
    if is_text(target):
        zone = "" if source.tz is None else "Z"
        moment = f"date_format(timestamp_micros({micros}), 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
        return f"concat({moment}, {text(zone)})"
    if pa.types.is_date32(target):
        return f"cast({floor_divide(micros, _DAY_US)} as int)"
    raise _no_cast(shown, source, target)


def _from_date(sql: str, source: pa.DataType, target: pa.DataType, shown: str | None) -> str:
    if pa.types.is_timestamp(target):
        seconds = f"(cast({sql} as bigint) * 86400L)"
        return _scaled(seconds, "s", target.unit, shown)
    if pa.types.is_integer(target):
        return cast(f"(cast({sql} as bigint) * {_DAY_US}L)", pa.int64(), target, shown)
    if is_text(target):
        return f"cast(date_from_unix_date({sql}) as string)"
    raise _no_cast(shown, source, target)


def _from_duration(sql: str, source: pa.DataType, target: pa.DataType, shown: str | None) -> str:
    if pa.types.is_duration(target):
        return _scaled(sql, source.unit, target.unit, shown, exact=False)
    if target == pa.int64():
        return _scaled(sql, source.unit, "us", shown, exact=False)
    raise _no_cast(shown, source, target)


def _from_text(sql: str, source: pa.DataType, target: pa.DataType, shown: str | None) -> str:
    if pa.types.is_timestamp(target):
        micros = _tried(sql, lambda v: f"unix_micros(try_cast({v} as timestamp))", shown)
        return _scaled(micros, "us", target.unit, shown)
    if pa.types.is_date32(target):
        return _tried(sql, lambda v: f"unix_date(try_cast({v} as date))", shown)
    if pa.types.is_binary(target):
        return f"cast({sql} as binary)"
    if pa.types.is_boolean(target):
        return _tried(sql, lambda v: _matching(v, _BOOLEAN, "boolean"), shown)
    if pa.types.is_integer(target):
        whole = _tried(sql, lambda v: _matching(v, _INTEGER, "decimal(38, 0)"), shown)
        return cast(whole, pa.decimal128(38, 0), target, shown)
    if pa.types.is_floating(target) or pa.types.is_decimal(target):
        return _tried(sql, lambda v: f"try_cast({v} as {type_name(target)})", shown)
    raise _no_cast(shown, source, target)


def _matching(sql: str, pattern: str, name: str) -> str:
    return f"if({sql} rlike {text(pattern)}, try_cast({sql} as {name}), null)"


def _from_number(sql: str, source: pa.DataType, target: pa.DataType, shown: str | None) -> str:
    """Cast from booleans, integers, floats, decimals and binary."""
    types, name = pa.types, type_name(target)
    if is_text(target):
        if types.is_floating(source):
            why = "Spark writes floats differently as text"
            raise UnsupportedInBatchError(shown or "try_cast", why)
        return f"cast({sql} as string)"
    if types.is_binary(target) or types.is_binary(source) or _is_too_wide(source, target):
        raise _no_cast(shown, source, target)
    if types.is_boolean(target):
        return f"({sql} <> 0)"
    if types.is_floating(target) or types.is_boolean(source):
        return f"cast({sql} as {name})"
    if types.is_integer(target):
        low, high = _bounds(target)
        return _tried(sql, lambda v: _as_integer(v, source, low, high, name), shown)
    if types.is_decimal(target):
        return _tried(sql, lambda v: f"try_cast({v} as {name})", shown)
    raise _no_cast(shown, source, target)


def _is_too_wide(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(pa.types.is_floating(source) and target == pa.uint64())


def _bounds(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_unsigned_integer(kind):
        return 0, int(2**kind.bit_width) - 1
    return -int(2 ** (kind.bit_width - 1)), int(2 ** (kind.bit_width - 1)) - 1


def _as_integer(sql: str, source: pa.DataType, low: int, high: int, name: str) -> str:
    """Return ``sql`` as an integer, null if it is out of bounds; fractions are truncated."""
    if pa.types.is_floating(source):
        fits = f"cast({sql} as double) > {low - 1}D and cast({sql} as double) < {high + 1}D"
        if float(low - 1) == float(low):
            fits = f"cast({sql} as double) >= {low}D and cast({sql} as double) < {high + 1}D"
        return f"if({fits}, cast({sql} as {name}), null)"
    fits = f"{sql} between {low}BD and {high}BD"
    if pa.types.is_decimal(source):
        fits = f"{sql} > {low - 1}BD and {sql} < {high + 1}BD"
    return f"if({fits}, cast({sql} as {name}), null)"


def _tried(sql: str, convert: Callable[[str], str], shown: str | None) -> str:
    """Return ``convert(sql)``; a null result for a value is an error."""
    wrong = _wrong(shown, "a value does not fit")

    def checked(value: str) -> str:
        return let(
            convert(value),
            lambda made: f"if({value} is not null and {made} is null, {wrong}, {made})",
        )

    return let(sql, checked)


def _scaled(sql: str, unit: str, to: str, shown: str | None, *, exact: bool = True) -> str:
    """Convert ticks of ``unit`` to ticks of ``to``; rounded down to coarser units, unless exact."""
    have, want = _PER_SECOND[unit], _PER_SECOND[to]
    if have == want:
        return sql
    if want > have:
        factor = integer(want // have)
        wrong = _wrong(shown, "a time is out of range")
        return let(
            sql, lambda v: f"if({v} * {factor} div {factor} <> {v}, {wrong}, {v} * {factor})"
        )
    if not exact:
        return floor_divide(sql, have // want)
    factor = integer(have // want)
    wrong = _wrong(shown, "digits would be lost")
    return let(sql, lambda v: f"if({v} % {factor} <> 0, {wrong}, {v} div {factor})")


def floor_divide(sql: str, divisor: int) -> str:
    """Divide a bigint by a positive constant, rounded down, without an overflow in between."""
    by = integer(divisor)
    return let(sql, lambda v: f"({v} div {by} - if({v} % {by} < 0, 1L, 0L))")


def _no_cast(
    shown: str | None, source: pa.DataType, target: pa.DataType
) -> UnsupportedInBatchError:
    why = f"there is no conversion from {source} to {target}"
    return UnsupportedInBatchError(shown or "try_cast", why)
