"""Casts. A value that does not fit (text that is not a number, a float beyond int64) is an error.

- To integer: floats and decimals lose their fraction (toward zero).
- To decimal: the digits are rounded to the places of the type, halves away from zero. The digits of
  a float are those that it is printed with.
- Decimal to float: the nearest float.
- To a coarser duration: rounded down. Times are rounded down to microseconds; a cast to a coarser
  unit fails unless the time is a multiple of it.
- Time or duration to number, and duration to text: microseconds, for any unit of the type.
- Text to time: ISO 8601; without a zone it is UTC. Number to time: in the unit of the time's type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.functions.decimals import to_decimal
from planner.expressions.nodes import Function, as_array
from planner.expressions.types import (
    DURATION,
    TIMESTAMP,
    TIMESTAMP_UTC,
    entries_type,
    is_list,
    is_map,
    is_number,
    is_text,
)
from rstream.items.calendar import text_in_any_year
from rvertex.events.decimals import nearest_floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Node, Value

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_ZONE = r"(Z|[+-]\d\d:\d\d|[+-]\d{4})$"


def _resolve(call: Call) -> Node | None:
    source, target = call.args[0].type, call.option("to")
    assert isinstance(target, pa.DataType)
    if source == target:
        return call.args[0]
    if not _castable(source, target):
        return None
    return replace(call, type=target)


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether Arrow can convert one type to another, found by converting an empty array."""
    try:
        convert(pa.nulls(0, source), target)
    except MemoryError:
        raise
    except pa.ArrowException:
        return False
    return True


def convert(value: Value, target: pa.DataType) -> Value:
    """Cast ``value`` to ``target``.

    Raises:
        pa.ArrowException: a value does not fit, or no such conversion exists.
    """
    source = value.type
    if pa.types.is_dictionary(source) and isinstance(value, pa.Array):
        return convert(value.dictionary_decode(), target)
    if (is_list(source) and is_list(target)) or (is_map(source) and is_map(target)):
        return _of_elements(value, target)
    if pa.types.is_struct(source) and pa.types.is_struct(target) and _has_names_of(source, target):
        return _of_fields(value, target)
    if is_text(source) and pa.types.is_timestamp(target):
        return _parse_time(value, target)
    if is_text(source) and is_number(target):
        return _parse_number(value, target)
    if pa.types.is_decimal(target):
        return to_decimal(value, target)
    if pa.types.is_decimal(source) and pa.types.is_floating(target):
        return _nearest(value, target)
    if pa.types.is_decimal(source) and pa.types.is_integer(target):
        return _whole_part(value).cast(target)
    if pa.types.is_integer(source) and pa.types.is_floating(target):
        # an unsafe cast gives the nearest float, also above 2**53
        return value.cast(target, safe=False)
    if pa.types.is_floating(source) and pa.types.is_integer(target):
        return pc.trunc(value).cast(target)
    if pa.types.is_timestamp(source) and pa.types.is_integer(target):
        return _from_time(value, TIMESTAMP).cast(pa.int64()).cast(target)
    if pa.types.is_timestamp(source) and is_text(target):
        zone = "" if source.tz is None else "Z"
        text = text_in_any_year(_from_time(value, TIMESTAMP), _written)
        return pc.binary_join_element_wise(text, zone, "").cast(target)
    if pa.types.is_timestamp(source) and pa.types.is_temporal(target):
        return _from_time(value, target)
    if pa.types.is_date32(source) and is_text(target):
        return text_in_any_year(value, _written).cast(target)
    if pa.types.is_date(source) and pa.types.is_integer(target):
        return value.cast(TIMESTAMP).cast(target)
    if pa.types.is_integer(source) and source != pa.int64() and pa.types.is_temporal(target):
        return value.cast(pa.int64()).cast(target)
    if pa.types.is_duration(source) and pa.types.is_duration(target):
        return _floored(value, target)
    if pa.types.is_duration(source):
        return _floored(value, DURATION).cast(target)
    return value.cast(target)


def _written(times: Value) -> Value:
    return times.cast(pa.string())


def _parse_number(value: Value, target: pa.DataType) -> Value:
    """Parse text as numbers. A leading plus sign is removed first: Arrow does not accept it."""
    text = value.cast(pa.string())
    if pa.types.is_decimal(target):
        return to_decimal(text, target)
    try:
        return text.cast(target)
    except pa.ArrowInvalid:
        return pc.replace_substring_regex(text, r"\A\+([^-+])", r"\1").cast(target)


def _element_of(kind: pa.DataType) -> pa.DataType:
    """Return the element type of a list; for a map, a struct of key and value."""
    return (entries_type(kind) if is_map(kind) else kind).value_type


def _of_elements(value: Value, target: pa.DataType) -> Value:
    """Cast lists or maps element by element; hidden elements of null lists are dropped."""
    if isinstance(value, pa.Scalar):
        return _of_elements(as_array(value, 1, value.type), target)[0]
    lists = value.cast(pa.list_(_element_of(value.type)))
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(lists), 0))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    elements = convert(lists.flatten(), _element_of(target))
    if is_map(target):
        keys, items = elements.flatten()
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=lists.is_null())
    return pa.ListArray.from_arrays(offsets, elements, mask=lists.is_null()).cast(target)


def _has_names_of(source: pa.DataType, target: pa.DataType) -> bool:
    return [field.name for field in source] == [field.name for field in target]


def _of_fields(value: Value, target: pa.DataType) -> Value:
    """Cast structs field by field."""
    if isinstance(value, pa.Scalar):
        return _of_fields(as_array(value, 1, value.type), target)[0]
    fields = [convert(pc.struct_field(value, at), kind.type) for at, kind in enumerate(target)]
    return pa.StructArray.from_arrays(fields, fields=list(target), mask=value.is_null())


def _from_time(value: Value, target: pa.DataType) -> Value:
    """Cast zoned times through UTC, so that no time-zone database is needed."""
    ticks = _floored(value, TIMESTAMP).cast(pa.int64())
    if pa.types.is_timestamp(target):
        return ticks.cast(pa.timestamp("us", target.tz)).cast(target)
    options = pc.CastOptions(target, allow_time_truncate=True)
    return pc.cast(ticks.cast(TIMESTAMP), options=options)


def _floored(value: Value, target: pa.DataType) -> Value:
    """Round times or durations down to the unit of ``target``."""
    finer = _PER_SECOND[value.type.unit] // _PER_SECOND[target.unit]
    ticks = value.cast(pa.int64())
    if finer > 1:
        whole = pc.divide(ticks, finer)
        borrow = pc.less(ticks, pc.multiply(whole, finer)).cast(pa.int64())
        return pc.subtract(whole, borrow).cast(target)
    kind = pa.duration if pa.types.is_duration(target) else pa.timestamp
    scaled = ticks.cast(kind(value.type.unit)).cast(kind(target.unit))
    return scaled.cast(pa.int64()).cast(target)


def _nearest(value: Value, target: pa.DataType) -> Value:
    if isinstance(value, pa.Scalar):
        return nearest_floats(pa.repeat(value, 1), target)[0]
    return nearest_floats(value, target)


def _whole_part(value: Value) -> Value:
    return pc.trunc(value) if value.type.scale > 0 else value


def _parse_time(value: Value, target: pa.DataType) -> Value:
    """Parse times in ISO 8601 with or without a zone."""
    text = value.cast(pa.string())
    zoned = pc.match_substring_regex(text, _ZONE)
    none = pa.scalar(None, pa.string())
    local = pc.if_else(zoned, none, text).cast(TIMESTAMP).cast(pa.int64())
    zone = pc.if_else(zoned, text, none).cast(TIMESTAMP_UTC).cast(pa.int64())
    micros = pc.coalesce(local, zone)
    return micros.cast(pa.timestamp("us", target.tz)).cast(target)


def _evaluate(values: Sequence[Value], call: Call) -> Value:
    assert call.type is not None
    return convert(values[0], call.type)


def _show(call: Call) -> str:
    if dict(call.options).get("implicit"):
        return str(call.args[0])
    return f"{call.args[0]}.cast({call.option('to')})"


FUNCTIONS = {"cast": Function("cast", _resolve, _evaluate, _show)}
