"""Converts times for user code: int microseconds for every unit of the column.

An instant is counted from 1970 in UTC, a date is its midnight, and a time of day is counted from
midnight. User code may also return a ``datetime`` (without a zone: UTC), ``date``, ``time`` or
``timedelta``. It is converted to the declared type; a value that does not fit is an error.
Nanoseconds are rounded down when they are read, as for the times of events. Nothing is rounded in
the other direction.

Invariant: reading a column of whole microseconds and writing the values to a column of its type
returns the same column.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa

from rvertex.user_code.durations import parse_duration

DAY_US = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_US = dt.timedelta(microseconds=1)
#: Microseconds per tick; and below, ticks per microsecond.
_TICK_US = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
_TICKS = {"s": 1, "ms": 1, "us": 1, "ns": 1_000}


def is_time(kind: pa.DataType) -> bool:
    """Return whether the type is a time or a duration that Arrow stores as an integer."""
    return bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def holds_times(kind: pa.DataType) -> bool:
    """Return whether values of the type are or contain times, at any depth."""
    if is_time(kind):
        return True
    return any(holds_times(kind.field(i).type) for i in range(kind.num_fields))


def read_times(column: pa.Array) -> list[int | None]:
    """Return the values in the form that users see."""
    kind = column.type
    raw = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    ticks = (raw.fill_null(0) if raw.null_count else raw).to_numpy()
    if _ticks(kind) > 1:
        ticks = ticks // _ticks(kind)
    values: list[int | None] = ticks.tolist()
    step = 1_000 if pa.types.is_date64(kind) else _tick_us(kind)
    if step > 1:  # multiply in Python, whose integers do not overflow
        values = [value * step for value in values if value is not None]
    if raw.null_count:
        for at in np.flatnonzero(raw.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[at] = None
    return values


def read_nested(value: Any, kind: pa.DataType) -> Any:
    """Convert the times within a Python value from Arrow to the form that users see."""
    if value is None or not holds_times(kind):
        return value
    if is_time(kind):
        return microseconds(value, kind)
    if pa.types.is_struct(kind):
        return {f.name: read_nested(value[f.name], f.type) for f in kind}
    if pa.types.is_map(kind):
        return [(read_nested(k, kind.key_type), read_nested(v, kind.item_type)) for k, v in value]
    return [read_nested(item, kind.value_type) for item in value]


def write_times(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of ``kind`` with users' values.

    Raises:
        ValueError, TypeError, pa.ArrowException: a value is no such time, or does not fit.
    """
    is_in_us = _tick_us(kind) == _ticks(kind) == 1 and not pa.types.is_time(kind)
    if is_in_us and all(value is None or type(value) is int for value in values):
        return pa.array(values, pa.int64()).view(kind)
    raw = [None if value is None else _ticks_of(value, kind) for value in values]
    return pa.array(raw, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


def write_nested(value: Any, kind: pa.DataType) -> Any:
    """Convert the times within a user's value to the unit of their type, for Arrow."""
    if value is None or not holds_times(kind):
        return value
    if is_time(kind):
        return _ticks_of(value, kind)
    if pa.types.is_struct(kind):
        members = zip(kind, _members(value, kind), strict=True)
        return {f.name: write_nested(member, f.type) for f, member in members}
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(write_nested(k, kind.key_type), write_nested(v, kind.item_type)) for k, v in pairs]
    return [write_nested(item, kind.value_type) for item in value]


def from_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert a user's Arrow column to ``kind``. One of the two types is a time.

    Integers are microseconds. Arrow converts other types, and raises if a value would change.
    """
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        return write_times(column.to_pylist(), kind)
    if is_time(column.type) and not is_time(kind):
        return pa.array(read_times(column), pa.int64()).cast(kind)
    if pa.types.is_timestamp(column.type) and not pa.types.is_timestamp(kind):
        return write_times(read_times(column), kind)
    return column.cast(kind)


def microseconds(value: Any, kind: pa.DataType | None = None) -> int:
    """Convert a user's time, or a time of type ``kind``, to microseconds; ``datetime``: since 1970.

    Raises:
        TypeError: the value is not a time.
    """
    is_int = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind is not None and pa.types.is_duration(kind):
        if isinstance(value, dt.timedelta):
            return value // _US
    elif kind is not None and pa.types.is_time(kind):
        if isinstance(value, dt.time) and value.tzinfo is None:
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return seconds * 1_000_000 + value.microsecond
    elif isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // _US
    elif isinstance(value, dt.date):
        return (value.toordinal() - _EPOCH.toordinal()) * DAY_US
    if not is_int:
        raise TypeError(f"{value!r} is no {'time' if kind is None else kind}")
    return int(value)


def moment_us(value: Any, now: int) -> int:
    """Convert an int or a ``datetime`` to an instant, us.

    ``"10m"`` and a ``timedelta`` count from ``now``.

    Raises:
        TypeError: the value is not a time.
    """
    if isinstance(value, dt.timedelta):
        return now + value // _US
    if isinstance(value, str):
        length = parse_duration(value)
        if length is not None:
            return now + length
        try:
            return microseconds(dt.datetime.fromisoformat(value))
        except ValueError:
            raise TypeError(f'{value!r} is not a time; write it like "10m"') from None
    return microseconds(value)


def _members(value: Any, kind: pa.DataType) -> list[Any] | tuple[Any, ...]:
    """Return a struct's fields from any form that Arrow accepts. Raises TypeError, ValueError."""
    if isinstance(value, list):
        value = dict(value)
    if isinstance(value, dict):
        return [value.get(f.name) for f in kind]
    if isinstance(value, tuple) and len(value) == kind.num_fields:
        return value
    raise TypeError(f"{value!r} is no {kind}")


def _ticks_of(value: Any, kind: pa.DataType) -> int:
    us = microseconds(value, kind)
    ticks, rest = divmod(us, _tick_us(kind))
    if rest:
        unit = "days" if pa.types.is_date(kind) else kind.unit
        raise ValueError(
            f"{us} us is not a whole number of {unit}: round it, or declare another type"
        )
    ticks *= _ticks(kind)
    if pa.types.is_date64(kind):
        ticks *= DAY_US // 1_000
    bits = kind.bit_width - 1
    is_of_day = not pa.types.is_time(kind) or 0 <= us < DAY_US
    if not is_of_day or not -(2**bits) <= ticks < 2**bits:
        raise ValueError(f"{us} us does not fit into {kind}")
    return ticks


def _tick_us(kind: pa.DataType) -> int:
    """Return the smallest step of values of ``kind``, us."""
    if pa.types.is_date(kind):
        return DAY_US
    return _TICK_US[kind.unit]


def _ticks(kind: pa.DataType) -> int:
    """Return the ticks per microsecond."""
    return 1 if pa.types.is_date(kind) else _TICKS[kind.unit]
