"""Parts of times, in UTC. The arguments are timestamps, dates, or columns ``_vs`` and ``_ve``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from planner.durations import format_us
from planner.expressions.entries.signature import arg_types, method, typed
from planner.expressions.nodes import Call, Column, Function, Node, Value, cast_to
from planner.expressions.types import TIMESTAMP, TIMESTAMP_UTC, is_time
from rstream.items.batch import VE, VS
from rstream.items.calendar import in_any_year

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_INTEGER = pa.int64()


def with_time(call: Call) -> Call:
    """Convert arguments ``_vs`` and ``_ve``, which are int64 microseconds, to timestamps."""
    arg = call.args[0]
    if isinstance(arg, Column) and arg.name in (VS, VE):
        return replace(call, args=(cast_to(arg, TIMESTAMP_UTC),))
    return call


def resolve_part(call: Call) -> Node | None:
    """Check that the argument is a time, and set the result type: a number."""
    call = with_time(call)
    if not (is_time(arg_types(call)[0]) or pa.types.is_null(arg_types(call)[0])):
        return None
    return typed(call, _INTEGER, TIMESTAMP)


def resolve_truncate(call: Call) -> Node | None:
    """Check that the argument is a time, and set the result type: a time."""
    call = with_time(call)
    kind = arg_types(call)[0]
    if not is_time(kind):
        return None
    aware = pa.types.is_timestamp(kind) and kind.tz is not None
    result = TIMESTAMP_UTC if aware else TIMESTAMP
    return typed(call, result, result)


def _resolve_epoch(call: Call) -> Node | None:
    call = with_time(call)
    kind = arg_types(call)[0]
    if pa.types.is_duration(kind):
        return typed(call, _INTEGER, pa.duration("us"))
    return typed(call, _INTEGER, TIMESTAMP) if is_time(kind) else None


def _truncate(values: Sequence[Value], call: Call) -> Value:
    from planner.expressions.functions.arithmetic import FUNCTIONS as ARITHMETIC

    every = pa.scalar(call.option("every_us"), _INTEGER)
    whole = values[0].cast(_INTEGER)
    probe = replace(call, type=_INTEGER)
    floored = ARITHMETIC["floor_divide"].evaluate([whole, every], probe)
    try:
        return pc.multiply_checked(floored, every).cast(call.type)
    except pa.ArrowInvalid:
        raise pa.ArrowInvalid(f"the {call.type} does not fit into 64 bits") from None


def _show_truncate(call: Call) -> str:
    every_us = call.option("every_us")
    assert isinstance(every_us, int)
    return f'{call.args[0]}.dt.truncate("{format_us(every_us)}")'


def part(name: str, kernel: Callable[[Value], Value]) -> Function:
    """Make a function that returns a part of a time as a number."""
    is_year = name in ("year", "iso_year")

    def evaluate(values: Sequence[Value], _call: Call) -> Value:
        return in_any_year(values[0], lambda t: kernel(t).cast(_INTEGER), is_year=is_year)

    return Function(f"dt.{name}", resolve_part, evaluate, method(f"dt.{name}"))


FUNCTIONS = {
    "year": part("year", pc.year),
    "month": part("month", pc.month),
    "day": part("day", pc.day),
    "hour": part("hour", pc.hour),
    "minute": part("minute", pc.minute),
    "second": part("second", pc.second),
    "weekday": part("weekday", pc.day_of_week),
    "day_of_year": part("day_of_year", pc.day_of_year),
    "truncate": Function("dt.truncate", resolve_truncate, _truncate, _show_truncate),
    "epoch_us": Function(
        "dt.epoch_us",
        _resolve_epoch,
        lambda values, _call: values[0].cast(_INTEGER),
        method("dt.epoch_us"),
    ),
}
