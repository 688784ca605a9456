"""Rows as Avro: each record of the topic is one Avro record without a header.

The schema is derived from the columns; every field may be null. Times have Avro's logical types in
microseconds, decimals the logical type over bytes. Only this file of the sinks imports fastavro.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa

from rvertex.sinks.errors import InvalidSinkError

#: The name of the record.
RECORD = "Row"


class AvroEncoder:
    """Encodes rows of one schema as Avro."""

    def __init__(self, label: str, schema: pa.Schema) -> None:
        """Derive the schema.

        Raise InvalidSinkError if a column has no Avro type or fastavro is missing.
        """
        try:
            import fastavro
        except ImportError as error:
            reason = "format='avro' needs fastavro: pip install fastavro"
            raise InvalidSinkError(label, reason) from error
        self._parsed = fastavro.parse_schema(json.loads(avro_schema(label, schema)))
        self._write = fastavro.schemaless_writer

    def values(self, table: pa.RecordBatch) -> list[bytes]:
        """Return a value for each row."""
        columns = [_as_plain(column) for column in table.columns]
        rows = pa.RecordBatch.from_arrays(columns, names=table.schema.names).to_pylist()
        values = []
        for row in rows:
            out = io.BytesIO()
            self._write(out, self._parsed, row)
            values.append(out.getvalue())
        return values


def avro_schema(label: str, schema: pa.Schema) -> str:
    """Return the schema of the records, as JSON.

    Raises:
        InvalidSinkError: Avro has no type for a column.
    """
    return json.dumps(_record(label, RECORD, list(schema)))


def _record(label: str, name: str, fields: list[pa.Field]) -> dict[str, Any]:
    described = [
        {"name": f.name, "type": ["null", _type(label, f"{name}_{f.name}", f.type)]} for f in fields
    ]
    for field in fields:
        if not (field.name.isidentifier() and field.name.isascii()):
            raise InvalidSinkError(
                label, f"Avro does not allow the name {field.name!r}: rename the column"
            )
    return {"type": "record", "name": name, "fields": described}


def _type(label: str, name: str, kind: pa.DataType) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    match kind:
        case pa.TimestampType(unit=unit) if unit != "ns":
            local = "" if kind.tz is not None else "local-"
            return {"type": "long", "logicalType": f"{local}timestamp-micros"}
        case pa.Decimal128Type() | pa.Decimal256Type():
            size = {"precision": kind.precision, "scale": kind.scale}
            return {"type": "bytes", "logicalType": "decimal", **size}
        case pa.FixedSizeBinaryType():
            return "bytes"
        case pa.DictionaryType():
            return _type(label, name, kind.value_type)
        case pa.ListType() | pa.LargeListType():
            return {"type": "array", "items": ["null", _type(label, name, kind.value_type)]}
        case pa.StructType():
            return _record(label, name, list(kind.fields))
    column = name.removeprefix(f"{RECORD}_")
    raise InvalidSinkError(
        label, f"Avro has no type for column {column!r}, which is {kind}: cast it"
    )


def _as_plain(column: pa.Array) -> pa.Array:
    """Convert times to integers, which is faster than Python's objects."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column


_PLAIN: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), "int"),
    **dict.fromkeys((pa.int64(), pa.uint32()), "long"),
    pa.float32(): "float",
    pa.float64(): "double",
    **dict.fromkeys((pa.string(), pa.large_string()), "string"),
    **dict.fromkeys((pa.binary(), pa.large_binary()), "bytes"),
    pa.date32(): {"type": "int", "logicalType": "date"},
    **{
        kind: {"type": "long", "logicalType": "time-micros"}
        for kind in (pa.time64("us"), pa.time32("ms"), pa.time32("s"))
    },
}
