"""Casts. What does not fit (text that is no number, a float beyond int64) is an error, no guess.

Floats lose their fraction (toward zero), timestamps what is finer than a microsecond. Text is read
as a time if it is ISO-8601; without a zone it is UTC. A number read as a time is microseconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from planner.data_types import TIMESTAMP, TIMESTAMP_UTC, is_text
from planner.functions.signature import Function

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.nodes import Call, Node, Value

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
    """Whether there is a conversion at all; found by converting no rows."""
    try:
        convert(pa.nulls(0, source), target)
    except pa.ArrowException:
        return False
    return True


def convert(value: Value, target: pa.DataType) -> Value:
    """``value`` as ``target``.

    Raises:
        pa.ArrowException: a value does not fit, or there is no such conversion.
    """
    source = value.type
    if pa.types.is_dictionary(source) and isinstance(value, pa.Array):
        return convert(value.dictionary_decode(), target)
    if is_text(source) and pa.types.is_timestamp(target):
        return _parse_time(value, target)
    if pa.types.is_integer(source) and pa.types.is_floating(target):
        return value.cast(target, safe=False)  # the nearest float, also above 2**53
    if pa.types.is_floating(source) and pa.types.is_integer(target):
        return pc.trunc(value).cast(target)
    if pa.types.is_timestamp(source) and pa.types.is_integer(target):
        return _from_time(value, TIMESTAMP).cast(pa.int64()).cast(target)
    if pa.types.is_timestamp(source) and is_text(target):
        zone = "" if source.tz is None else "Z"
        text = _from_time(value, TIMESTAMP).cast(pa.string())
        return pc.binary_join_element_wise(text, zone, "").cast(target)
    if pa.types.is_timestamp(source) and pa.types.is_temporal(target):
        return _from_time(value, target)
    if pa.types.is_date(source) and pa.types.is_integer(target):
        return value.cast(TIMESTAMP).cast(target)
    if pa.types.is_integer(source) and source != pa.int64() and pa.types.is_temporal(target):
        return value.cast(pa.int64()).cast(target)
    if pa.types.is_duration(source):
        return pc.cast(value, options=pc.CastOptions(target, allow_time_truncate=True))
    return value.cast(target)


def _from_time(value: Value, target: pa.DataType) -> Value:
    """Through UTC, so that no time-zone database is asked."""
    options = pc.CastOptions(pa.timestamp("us", value.type.tz), allow_time_truncate=True)
    micros = pc.cast(value, options=options)
    if pa.types.is_timestamp(target):
        return micros.cast(pa.int64()).cast(pa.timestamp("us", target.tz)).cast(target)
    options = pc.CastOptions(target, allow_time_truncate=True)
    return pc.cast(micros.cast(pa.int64()).cast(TIMESTAMP), options=options)


def _parse_time(value: Value, target: pa.DataType) -> Value:
    """ISO-8601 with or without a zone."""
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
