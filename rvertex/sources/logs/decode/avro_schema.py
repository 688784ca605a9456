"""Avro schemas: their columns as Arrow types, and which of them are decoded in blocks."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import pyarrow as pa

#: A parsed Avro schema: a record is a dict with "type": "record".
AvroSchema: TypeAlias = dict[str, Any]

_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}


def parse_avro_schema(text: str) -> AvroSchema:
    """The record that the text describes.

    Raises:
        ValueError: it describes none.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or found.get("type") != "record":
        raise ValueError("an Avro schema for rows is a record")
    if not isinstance(found.get("fields"), list):
        raise ValueError("an Avro record needs a list of fields")
    return found


def arrow_columns(schema: AvroSchema) -> tuple[pa.Schema, list[str]]:
    """The fields as columns, and the names of those that no column can hold."""
    columns, others = [], []
    for field in schema["fields"]:
        kind = _arrow_type(field["type"])
        if kind is None:
            others.append(field["name"])
        else:
            columns.append(pa.field(field["name"], kind))
    return pa.schema(columns), others


def is_plain(schema: AvroSchema) -> bool:
    """Whether values of all fields can be decoded in blocks."""
    return not arrow_columns(schema)[1]


def _arrow_type(kind: Any) -> pa.DataType | None:
    if isinstance(kind, list):
        others = [k for k in kind if k != "null"]
        return _arrow_type(others[0]) if len(others) == 1 < len(kind) else None
    if isinstance(kind, str):
        return _PLAIN.get(kind) if kind not in ("enum", "fixed") else None
    name, logical = kind["type"], kind.get("logicalType")
    if logical == "decimal" and name == "bytes":
        return pa.decimal128(kind["precision"], kind.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical is not None:
        return None
    if name == "array":
        items = _arrow_type(kind["items"])
        return None if items is None else pa.list_(items)
    if name == "record":
        columns, others = arrow_columns(kind)
        return None if others or not len(columns) else pa.struct(list(columns))
    return _arrow_type(name) if isinstance(name, dict | list) else _PLAIN.get(name)
