"""Rows and nested values as JSON text, for places that have no type for them.

Records become objects, and lists become arrays. Maps become arrays of pairs, or objects on request.
Values for which JSON has no form become text: decimals, times (ISO 8601; after the year 9999 a
number), bytes (hexadecimal), NaN and infinities.
"""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.items.batch import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Texts of doubles that JSON has no form for, as PostgreSQL and Java write them.
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain_rows(rows: pa.RecordBatch | pa.Table) -> Iterator[dict[str, Any]]:
    """Return each row as Python values.

    A time beyond Python's calendar becomes a number in its unit.
    """
    columns = [plain_values(column) for column in rows.columns]
    for row in zip(*columns, strict=True):
        yield dict(zip(rows.column_names, row, strict=True))


def plain_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of one column, as :func:`plain_rows` does."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        return [_value(value) for value in column]


def _value(value: pa.Scalar) -> Any:
    """Return a Python value; for a time beyond Python's calendar, the number in its unit."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        if isinstance(value, pa.StructScalar):
            return {name: _value(inner) for name, inner in value.items()}
        if isinstance(value, pa.MapScalar):
            return [tuple(pair.values()) for pair in plain_values(value.values)]
        if hasattr(value, "values"):
            return plain_values(value.values)
        return value.value


def json_texts(column: pa.Array, *, maps_as_objects: bool = False) -> pa.Array:
    """Return the JSON text of each value; null stays null."""
    values = plain_values(column)
    if maps_as_objects:
        values = [_with_objects(value, column.type) for value in values]
    texts = [None if value is None else json_text(value) for value in values]
    return pa.array(texts, pa.string())


def _with_objects(value: Any, kind: pa.DataType) -> Any:
    """Return the value with its maps as dicts, whose keys are texts."""
    types = pa.types
    if value is None or not types.is_nested(kind):
        return value
    if types.is_map(kind):
        return {_key(key): _with_objects(inner, kind.item_type) for key, inner in value}
    if types.is_struct(kind):
        return {field.name: _with_objects(value[field.name], field.type) for field in kind}
    return [_with_objects(inner, kind.value_type) for inner in value]


def _key(key: Any) -> str:
    plain = _plain(key)
    return plain if isinstance(plain, str) else json_text(plain)


def json_rows(rows: pa.RecordBatch) -> list[bytes]:
    """Return each row as an object, without the columns that the engine adds."""
    names = [name for name in rows.schema.names if name not in RESERVED]
    return [json_text(row).encode() for row in plain_rows(rows.select(names))]


def json_text(value: Any) -> str:
    """Return one value as JSON."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(name): _plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _NOT_FINITE[str(value)]
        case bytes():
            return value.hex()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    return str(value)
