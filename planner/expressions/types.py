"""Types as users write them, and the common type of two types.

All times are UTC: inside an expression a timestamp is ``timestamp[us]`` or ``timestamp[us, UTC]``,
for columns of all units and zones. Arithmetic on integers is done in int64, on floats in float64
(on two float32 in float32).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from planner.errors import InvalidPlanError
from planner.expressions.type_names import type_named

if TYPE_CHECKING:
    from collections.abc import Callable

TIMESTAMP = pa.timestamp("us")
TIMESTAMP_UTC = pa.timestamp("us", "UTC")
DURATION = pa.duration("us")
#: The fields of a map's entries.
KEY, VALUE = "key", "value"

#: A name, a Python type or a ``pa.DataType``.
TypeLike: TypeAlias = Any

_INT64_DIGITS, _UINT64_DIGITS = 19, 20

_NAMES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    **{str(t): t for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(t): t for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "int": pa.int64(),
    "integer": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "str": pa.string(),
    "string": pa.string(),
    "binary": pa.binary(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP_UTC,
    "datetime": TIMESTAMP_UTC,
    "duration": DURATION,
}
#: Arrow's names of types that have other names above.
_ARROW_NAMES: dict[str, pa.DataType] = {
    str(t): t
    for t in (pa.null(), pa.float16(), pa.large_string(), pa.large_binary(), pa.binary_view())
} | {"halffloat": pa.float16(), "string_view": pa.string_view()}
_DECIMAL = re.compile(r"decimal(?:128)?\((\d+)(?:,\s*(\d+))?\)")
_DECIMAL_DIGITS_MAX = 38
_PYTHON: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}


def data_type(like: TypeLike) -> pa.DataType:
    """Return the type for a name (``"int64"``, ``"decimal(10, 2)"``), a Python or an Arrow type.

    Raises:
        InvalidPlanError: there is no such type.
    """
    if isinstance(like, pa.DataType):
        return like
    name = str(like).strip()
    kind = _PYTHON.get(like) if isinstance(like, type) else _named(name.lower())
    if kind is None and isinstance(like, str):
        kind = type_named(name, _named)
    if kind is None:
        near = get_close_matches(name.lower(), _NAMES, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}? The" if near else "the"
        names = f"{', '.join(_NAMES)}, decimal(10, 2), list<item: int64>, struct<x: int64>"
        raise InvalidPlanError(
            f"no type {like!r}; {hint} types are: {names}, and every type of pyarrow, such as "
            "pa.list_(pa.int64())"
        )
    return kind


def _named(name: str) -> pa.DataType | None:
    """Return a type by its one-word name."""
    return _NAMES.get(name) or _ARROW_NAMES.get(name) or _decimal(name)


def _decimal(name: str) -> pa.DataType | None:
    written = _DECIMAL.fullmatch(name)
    if written is None:
        return None
    digits, places = int(written[1]), int(written[2] or 0)
    if not 1 <= digits <= _DECIMAL_DIGITS_MAX or places > digits:
        most = _DECIMAL_DIGITS_MAX
        raise InvalidPlanError(
            f"{name}: a decimal has 1 to {most} digits, and at most as many after the point"
        )
    return pa.decimal128(digits, places)


def schema_of(like: pa.Schema | dict[str, TypeLike]) -> pa.Schema:
    """Convert a dict from column name to type to a schema."""
    if isinstance(like, pa.Schema):
        return like
    return pa.schema([(name, data_type(kind)) for name, kind in like.items()])


def is_number(t: pa.DataType) -> bool:
    """Return whether the type is an integer, a float or a decimal."""
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def is_text(t: pa.DataType) -> bool:
    """Return whether the type is any of Arrow's string types."""
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or _is_view(t))


def is_time(t: pa.DataType) -> bool:
    """Return whether the type is a timestamp or a date."""
    return bool(pa.types.is_timestamp(t) or pa.types.is_date(t))


def is_list(t: pa.DataType) -> bool:
    """Return whether the type is any of Arrow's list types."""
    types = pa.types
    return bool(types.is_list(t) or types.is_large_list(t) or types.is_fixed_size_list(t))


def is_map(t: pa.DataType) -> bool:
    """Return whether the type is a map."""
    return bool(pa.types.is_map(t))


def entries_type(t: pa.DataType) -> pa.DataType:
    """Return a map's type as a list of structs."""
    return pa.list_(pa.struct([(KEY, t.key_type), (VALUE, t.item_type)]))


def plain(t: pa.DataType) -> pa.DataType:
    """Return the type that expressions use for values of type ``t``."""
    if pa.types.is_dictionary(t):
        return plain(t.value_type)
    if is_text(t):
        return pa.string()
    if pa.types.is_timestamp(t):
        return TIMESTAMP if t.tz is None else TIMESTAMP_UTC
    if pa.types.is_date(t):
        return pa.date32()
    if pa.types.is_duration(t):
        return DURATION
    if t in (pa.float16(),):
        return pa.float32()
    return t


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type for comparing and combining values of both; None if there is none."""
    if a.equals(b):
        return a
    a, b = plain(a), plain(b)
    if a.equals(b) or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if is_number(a) and is_number(b):
        return _common_number(a, b)
    if is_time(a) and is_time(b):
        return TIMESTAMP_UTC if TIMESTAMP_UTC in (a, b) else TIMESTAMP
    if is_list(a) and is_list(b):
        inner = common_type(a.value_type, b.value_type)
        return None if inner is None else pa.list_(inner)
    return None


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return None if pa.uint64() in (a, b) else pa.int64()
    if pa.types.is_floating(a) or pa.types.is_floating(b):
        return pa.float64()
    try:
        return (
            pa.unify_schemas(
                [pa.schema([("x", as_decimal(a))]), pa.schema([("x", as_decimal(b))])],
                promote_options="permissive",
            )
            .field("x")
            .type
        )
    except pa.ArrowException:
        return None


def as_decimal(
    t: pa.DataType, make: Callable[[int, int], pa.DataType] = pa.decimal128
) -> pa.DataType:
    """Return a decimal type (from ``make``) for a number type that is no float."""
    if not pa.types.is_decimal(t):
        return make(_UINT64_DIGITS if t == pa.uint64() else _INT64_DIGITS, 0)
    return make(t.precision, t.scale) if make is pa.decimal256 else t


def _is_view(t: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(t))


def literal_type(value: object) -> pa.DataType:
    """Return the default type of a literal."""
    if isinstance(value, datetime):
        return TIMESTAMP if value.tzinfo is None else TIMESTAMP_UTC
    if isinstance(value, timedelta):
        return DURATION
    return pa.scalar(value).type
