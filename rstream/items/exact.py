"""Conversions that preserve every value: where Arrow would change one silently, this raises.

Arrow's checked casts and ``pa.array`` still turn 2 into true, drop the time of day in a conversion
to a date, round a double to the scale of a decimal, wrap a decimal around, and turn a number that
is too large for a float into infinity. Here each of these raises ``pa.ArrowInvalid``. Rounding to
the nearest float is allowed, infinity is not.
"""

from __future__ import annotations

import math
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_INFINITY = r"(?i)^\s*[-+]?inf(inity)?\s*$"
_FLOAT_MAX = {16: 65_504.0, 32: (2 - 2**-23) * 2.0**127, 64: math.inf}
#: By time unit: a time fits exactly if its microseconds are a multiple of this.
_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}


def exact_cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array to another type.

    Raises:
        pyarrow.ArrowInvalid: a value cannot be represented in that type.
        pyarrow.ArrowNotImplementedError: there is no such conversion.
    """
    if is_text(array.type) and kinds.is_decimal128(kind):
        return decimals_of(array, kind)
    converted = array.cast(kind)
    _check_cast(array, converted)
    return converted


def decimals_of(text: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Parse decimals exactly; surrounding spaces are ignored.

    Raises:
        pyarrow.ArrowInvalid: a text has more digits than the type, or is not a number.
    """
    return narrowed(pc.utf8_trim_whitespace(text).cast(widened(kind)), kind)


def widened(kind: pa.DataType) -> pa.DataType:
    """Return a type for parsing numbers in which large numbers do not wrap around, also nested."""
    if kinds.is_decimal128(kind):
        return pa.decimal256(kind.precision, kind.scale)
    if kinds.is_floating(kind):
        return pa.float64()
    if kinds.is_struct(kind):
        return pa.struct([f.with_type(widened(f.type)) for f in kind])
    if kinds.is_list(kind):
        return pa.list_(kind.value_field.with_type(widened(kind.value_type)))
    return kind


def narrowed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert values of the type that :func:`widened` returned to ``kind``.

    Raises:
        pyarrow.ArrowInvalid: a number is too large for its type.
    """
    array.validate(full=True)
    return exact_cast(array, kind)


def check_infinite(array: pa.Array, written: pa.Array) -> None:
    """Check that only infinite numbers became infinite. ``written``: text, or wider floats.

    Raises:
        pyarrow.ArrowInvalid: a finite number became infinite.
    """
    infinite = _true(pc.is_inf(array))
    if not infinite.true_count:
        return
    if kinds.is_floating(written.type):
        is_meant = pc.is_inf(written)
    elif is_text(written.type):
        is_meant = pc.match_substring_regex(written, _INFINITY)
    else:
        raise pa.ArrowInvalid(f"a value is too large for {array.type}")
    if pc.and_not(infinite, _true(is_meant)).true_count:
        raise pa.ArrowInvalid(f"a value is too large for {array.type}")


def _check_cast(there: pa.Array, result: pa.Array) -> None:
    """Check that ``result`` has the same values as ``there``."""
    if isinstance(there, pa.ExtensionArray):
        there = there.storage
    was, now = there.type, result.type
    if was.equals(now) or there.null_count == len(there):
        return
    if kinds.is_map(was) and kinds.is_map(now):
        # Copies without an offset
        there, result = (a.take(pa.array(range(len(a)))) for a in (there, result))
        _check_cast(there.keys, result.keys)
        _check_cast(there.items, result.items)
    elif is_list(was) and is_list(now):
        _check_cast(there.flatten(), result.flatten())
    elif kinds.is_struct(was) and kinds.is_struct(now):
        theirs = dict(zip((f.name for f in was), there.flatten(), strict=True))
        for field, values in zip(now, result.flatten(), strict=True):
            if field.name in theirs:
                _check_cast(theirs[field.name], values)
    elif kinds.is_floating(now):
        check_infinite(result, there)
    elif is_text(was):
        if kinds.is_decimal128(now) and not decimals_of(there, now).equals(result):
            raise pa.ArrowInvalid(f"a value does not fit into {now}")
    elif _is_plain(was) and _is_plain(now):
        _check_way_back(there, result)


def _check_way_back(there: pa.Array, converted: pa.Array) -> None:
    converted.validate(full=True)
    try:
        back = converted.cast(there.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        back = None
    if back is None or pc.any(pc.not_equal(back, there)).as_py():
        raise pa.ArrowInvalid(f"a value of {there.type} is not a value of {converted.type}")


def exact_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert Python values to an array.

    Raises:
        pyarrow.ArrowException, TypeError, ValueError, OverflowError: a value does not have that
            type.
    """
    for value in values:
        if value is not None and not _is_exact(value, kind):
            raise pa.ArrowInvalid(f"{value!r:.80} is not {kind}")
    return pa.array(values, kind)


def exact_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Convert Python rows to a batch; a missing column is null.

    Raises:
        pyarrow.ArrowException, TypeError, ValueError, OverflowError: as :func:`exact_array`.
    """
    columns = [exact_array([row.get(f.name) for row in rows], f.type) for f in schema]
    if not columns:
        return pa.RecordBatch.from_pylist(list(rows), schema=schema)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_exact(value: Any, kind: pa.DataType) -> bool:
    """Return whether ``pa.array`` preserves the value or raises by itself."""
    if isinstance(value, bool):
        return not kinds.is_floating(kind)
    if kinds.is_integer(kind):
        return isinstance(value, int) or not hasattr(value, "__int__") or value == int(value)
    if kinds.is_floating(kind):
        most = _FLOAT_MAX[kind.bit_width]
        return not isinstance(value, float) or not math.isfinite(value) or abs(value) <= most
    if kinds.is_temporal(kind):
        return _is_exact_time(value, kind)
    if kinds.is_struct(kind) and hasattr(value, "items"):
        types = {f.name: f.type for f in kind}
        return all(k in types and (v is None or _is_exact(v, types[k])) for k, v in value.items())
    if kinds.is_map(kind):
        pairs = value.items() if hasattr(value, "items") else value
        return all(
            _is_exact(k, kind.key_type) and (v is None or _is_exact(v, kind.item_type))
            for k, v in pairs
        )
    if is_list(kind):
        if isinstance(value, str | bytes | dict):
            return False
        return all(v is None or _is_exact(v, kind.value_type) for v in value)
    return True


def _is_exact_time(value: Any, kind: pa.DataType) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    if isinstance(value, datetime):
        if kinds.is_date(kind):
            return value.time() == time.min
        return not (value.microsecond % _unit_us(kind) or _has_ns(value, kind))
    if isinstance(value, time):
        return not value.microsecond % _unit_us(kind)
    if isinstance(value, timedelta):
        return not (value.microseconds % _unit_us(kind) or _has_ns(value, kind))
    return True


def _has_ns(value: Any, kind: pa.DataType) -> bool:
    """Return whether a pandas time has more digits than the type."""
    digits = getattr(value, "nanosecond", None) or getattr(value, "nanoseconds", 0)
    return bool(digits) and kind.unit != "ns"


def _unit_us(kind: pa.DataType) -> int:
    return _UNIT_US.get(getattr(kind, "unit", "us"), 1)


def _true(mask: pa.Array) -> pa.BooleanArray:
    return mask.fill_null(False)


def is_text(kind: pa.DataType) -> bool:
    """Return whether the values are text, of any layout of Arrow."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether the values are bytes, of any layout of Arrow."""
    is_plain = kinds.is_binary(kind) or kinds.is_large_binary(kind)
    return bool(is_plain or kinds.is_binary_view(kind) or kinds.is_fixed_size_binary(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether the values are lists, of any layout of Arrow."""
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def _is_plain(kind: pa.DataType) -> bool:
    return bool(kinds.is_primitive(kind) or kinds.is_decimal(kind))
