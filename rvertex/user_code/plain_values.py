"""Converts Arrow columns to lists of plain Python values for user code, and back.

Numbers, booleans, strings and bytes are Python's own types, and null is None. Times, dates and
durations are int microseconds for every unit of the column (:mod:`rvertex.user_code.times`), so
``event.vs - event.when`` is plain arithmetic. Other types are converted as by Arrow's
``to_pylist``. Keys and states are *raw*: a time is Arrow's int, in the unit of its column.
"""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.items.batch import VE, VS
from rstream.items.dictionaries import plain_array
from rvertex.user_code.times import (
    holds_times,
    is_time,
    read_nested,
    read_times,
    write_nested,
    write_times,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The only NaN object in keys, because a dictionary finds a NaN key only by identity.
NAN = float("nan")


def plain_list(column: pa.Array) -> list[Any]:
    """Return the values of ``column`` in the form that users see."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if is_time(kind):
        return list(read_times(plain_array(column)))
    values = raw_list(column)
    return [read_nested(v, kind) for v in values] if holds_times(kind) else values


def raw_list(column: pa.Array) -> list[Any]:
    """Return the raw values of ``column``. For common types no Python code runs per value."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if is_time(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return _numbers(column)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def plain_keys(column: pa.Array) -> list[Any]:
    """Return raw keys, normalised so that dictionaries find equal keys: one NaN, no -0.0."""
    values = raw_list(column)
    if pa.types.is_floating(column.type):
        return [v if v is None else NAN if v != v else v + 0.0 for v in values]
    return values


def arrow_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of ``kind`` with a user's values.

    Raises:
        ValueError, TypeError, OverflowError, pa.ArrowException: a value does not fit.
    """
    if is_time(kind):
        return write_times(values, kind)
    if holds_times(kind):
        return pa.array([write_nested(value, kind) for value in values], kind)
    if _holds_integers(kind):
        for value in values:
            _check_integers(value, kind)
    return raw_column(values, kind)


def _holds_integers(kind: pa.DataType) -> bool:
    """Return whether values of the type are integers or contain some."""
    if pa.types.is_dictionary(kind):
        return _holds_integers(kind.value_type)
    if pa.types.is_nested(kind):
        return any(_holds_integers(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_integer(kind))


def _check_integers(value: Any, kind: pa.DataType) -> None:
    """Raise for a fraction where an integer is declared, because Arrow would truncate it."""
    if value is None or not _holds_integers(kind):
        return
    if pa.types.is_dictionary(kind):
        _check_integers(value, kind.value_type)
    elif pa.types.is_integer(kind):
        is_number = isinstance(value, Real | Decimal) and not isinstance(value, Integral)
        if is_number and not (math.isfinite(value) and value == int(value)):
            raise ValueError(f"{value!r} is not an integer")
    elif pa.types.is_struct(kind):
        by_name = value if isinstance(value, dict) else {}
        for field in kind:
            _check_integers(by_name.get(field.name), field.type)
    elif pa.types.is_map(kind):
        for key, held in value.items() if isinstance(value, dict) else value:
            _check_integers(key, kind.key_type)
            _check_integers(held, kind.item_type)
    else:
        for held in value:
            _check_integers(held, kind.value_type)


def key_view(kinds: Sequence[pa.DataType]) -> Callable[[Any], Any] | None:
    """Return a function from raw keys to the form that users see; None: both are the same."""
    if not any(holds_times(kind) for kind in kinds):
        return None

    def view(value: Any, kind: pa.DataType) -> Any:
        return plain_list(raw_column([value], kind))[0]

    if len(kinds) == 1:
        return lambda key: view(key, kinds[0])
    return lambda key: tuple(view(value, kind) for value, kind in zip(key, kinds, strict=True))


def as_given(value: Any, kind: pa.DataType) -> Any:
    """Return a message's value in the form that users see: a raw time becomes microseconds."""
    if is_time(kind) and isinstance(value, int):
        return plain_list(raw_column([value], kind))[0]
    return value


def raw_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of ``kind`` with these raw values; the inverse of ``raw_list``."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def _numbers(column: pa.Array) -> list[Any]:
    if column.null_count == 0:
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    zero = False if pa.types.is_boolean(column.type) else 0
    nulls = column.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist()
    filled = column.fill_null(pa.scalar(zero, column.type))
    values: list[Any] = filled.to_numpy(zero_copy_only=False).tolist()
    for at in nulls:
        values[at] = None
    return values


def event_class(columns: Sequence[str]) -> type:
    """Return a class of events with the lifetime and ``columns`` as attributes.

    It is made from a tuple of values in this order. ``vs`` and ``ve`` are the lifetime, unless
    columns have these names. Names that are not Python identifiers are read with ``getattr(event,
    "the name")``. The class has slots, which are several times faster than named tuples.
    """
    fields = [VS, VE, *columns]
    prefix = "_value"
    while any(name.startswith(prefix) for name in columns):
        prefix += "_"
    slots = tuple(f"{prefix}{i}" for i in range(len(fields)))

    def fill(self: Any, values: Sequence[Any]) -> None:
        for slot, value in zip(slots, values, strict=True):
            setattr(self, slot, value)

    def show(self: Any) -> str:
        pairs = zip(fields, event_values(self), strict=True)
        return f"Event({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    special = {"__slots__": slots, "__init__": fill, "__repr__": show}
    made = type("Event", (), special)
    getters = [made.__dict__[slot] for slot in slots]
    by_name: dict[str, Any] = {"vs": getters[0], "ve": getters[1]}
    for name, getter in (by_name | dict(zip(fields, getters, strict=True))).items():
        if name not in special:
            setattr(made, name, getter)
    return made


def event_values(event: Any) -> tuple[Any, ...]:
    """Return the lifetime and the values of an event."""
    return tuple([getattr(event, slot) for slot in type(event).__slots__])
