"""A table in PostgreSQL: its name, its columns, and the PostgreSQL type for each Arrow type.

Values are stored without loss. Types that PostgreSQL cannot store exactly, such as nanoseconds, are
refused when the delivery opens. Nested values become ``jsonb``. A timestamp keeps its instant, but
not the name of its zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.json_text import json_texts
from rvertex.sinks.errors import DestinationSchemaError

PROGRESS_TABLE = "streamscope_deliveries"
#: A temporary table of the connection. Rows are copied into it, and then merged by their keys.
STAGE = "streamscope_stage"
#: Column of the stage: the sequence number of the row's item.
STAGE_SEQ = "streamscope_seq"
#: Columns of the stage: whether the item ends a row, and a hash of the row without its end.
STAGE_ENDS, STAGE_ROW = "streamscope_ends", "streamscope_row"
#: The server shortens longer names, so two names could become one.
NAME_BYTES_MAX = 63
_NAME = r'"[^"\0]+"|[^."\0]+'
_TABLE = re.compile(rf"(?:{_NAME})(?:\.(?:{_NAME}))?")
_PART = re.compile(r'"([^"]+)"|([^."]+)')
#: First byte of the binary form of ``jsonb``: its version.
_JSONB_VERSION = "\x01"
#: Hidden columns that PostgreSQL adds to every table, and the delivery's own column in the stage.
SYSTEM_COLUMNS = (
    "tableoid",
    "xmin",
    "cmin",
    "xmax",
    "cmax",
    "ctid",
    STAGE_SEQ,
    STAGE_ENDS,
    STAGE_ROW,
)
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_TEXTS = ("text", "character varying", "character", "citext")
_SIMPLE: dict[pa.DataType, tuple[str, pa.DataType]] = {
    pa.null(): ("text", pa.string()),
    pa.bool_(): ("boolean", pa.bool_()),
    pa.int8(): ("smallint", pa.int16()),
    pa.uint8(): ("smallint", pa.int16()),
    pa.int16(): ("smallint", pa.int16()),
    pa.uint16(): ("integer", pa.int32()),
    pa.int32(): ("integer", pa.int32()),
    pa.uint32(): ("bigint", pa.int64()),
    pa.int64(): ("bigint", pa.int64()),
    pa.uint64(): ("numeric(20,0)", pa.decimal128(20, 0)),
    pa.float16(): ("real", pa.float32()),
    pa.float32(): ("real", pa.float32()),
    pa.float64(): ("double precision", pa.float64()),
    pa.date32(): ("date", pa.date32()),
    pa.date64(): ("date", pa.date32()),
}


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """A column of the table. ``sent``: the Arrow type of the values that the client sends."""

    name: str
    kind: str
    sent: pa.DataType

    def convert(self, values: pa.Array) -> pa.Array:
        """Convert values to the type in which they are sent."""
        if self.kind == "jsonb":
            return pc.binary_join_element_wise(_JSONB_VERSION, json_texts(values), "")
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        return values if values.type.equals(self.sent) else values.cast(self.sent)

    def fits(self, kind: str) -> bool:
        """Return whether an existing column of type ``kind`` stores every value unchanged."""
        if kind == self.kind:
            return True
        if self.kind == "text":
            return kind in _TEXTS or kind.startswith("character varying(")
        if not self.kind.startswith("numeric"):
            return False
        own, other = _NUMERIC.fullmatch(self.kind), _NUMERIC.fullmatch(kind)
        if own is None or other is None:
            return kind == "numeric"
        digits, scale = int(own[1]), int(own[2])
        return int(other[2]) >= scale and int(other[1]) - int(other[2]) >= digits - scale


def columns_of(destination: str, schema: pa.Schema) -> tuple[PostgresColumn, ...]:
    """Return the PostgreSQL columns for a table of ``schema``.

    Raises:
        DestinationSchemaError: PostgreSQL cannot store a column's name or type.
    """
    names = schema.names
    for name in names:
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX or "\0" in name or names.count(name) > 1:
            raise DestinationSchemaError(
                destination,
                f"column {name!r}: names must be unique and have 1 to {NAME_BYTES_MAX} "
                "bytes; rename it in the query",
            )
        if name in SYSTEM_COLUMNS:
            raise DestinationSchemaError(
                destination, f"column {name!r}: PostgreSQL reserves this name; rename it"
            )
    return tuple(_column(destination, field) for field in schema)


def _column(destination: str, field: pa.Field) -> PostgresColumn:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if kind in _SIMPLE:
        return PostgresColumn(field.name, *_SIMPLE[kind])
    column = _text_or_bytes(kind) or _decimal(kind) or _time(destination, field.name, kind)
    if column is not None:
        return PostgresColumn(field.name, *column)
    if pa.types.is_nested(kind):
        return PostgresColumn(field.name, "jsonb", pa.string())
    raise DestinationSchemaError(
        destination, f"column {field.name!r}: PostgreSQL has no type for {kind}; cast it"
    )


def _text_or_bytes(kind: pa.DataType) -> tuple[str, pa.DataType] | None:
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(test(kind) for test in is_text):
        return "text", pa.large_string() if pa.types.is_large_string(kind) else pa.string()
    is_bytes = (pa.types.is_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    if any(test(kind) for test in is_bytes):
        return "bytea", pa.binary()
    return ("bytea", pa.large_binary()) if pa.types.is_large_binary(kind) else None


def _decimal(kind: pa.DataType) -> tuple[str, pa.DataType] | None:
    if not pa.types.is_decimal(kind):
        return None
    make = pa.decimal256 if pa.types.is_decimal256(kind) else pa.decimal128
    return f"numeric({kind.precision},{kind.scale})", make(kind.precision, kind.scale)


def _time(destination: str, name: str, kind: pa.DataType) -> tuple[str, pa.DataType] | None:
    if not pa.types.is_temporal(kind):
        return None
    if kind.unit == "ns":
        raise DestinationSchemaError(
            destination,
            f"column {name!r}: {kind} has nanoseconds, PostgreSQL keeps microseconds; cast it",
        )
    if pa.types.is_time(kind):
        return "time without time zone", pa.time64("us")
    if pa.types.is_duration(kind):
        return "interval", pa.duration("us")
    assert pa.types.is_timestamp(kind), kind
    if kind.tz is None:
        return "timestamp without time zone", pa.timestamp("us")
    return "timestamp with time zone", pa.timestamp("us", "UTC")


def split_table(table: str) -> tuple[str, str]:
    """Return schema (may be empty) and name of ``schema.table``.

    Both parts may be in double quotes.

    Raises:
        ValueError: the text has another form, or a name is longer than the server allows.
    """
    if _TABLE.fullmatch(table) is None:
        raise ValueError(
            "a table is NAME or SCHEMA.NAME; put a name with a dot or a space in double quotes"
        )
    parts = [quoted or bare for quoted, bare in _PART.findall(table)]
    for part in parts:
        size = len(part.encode())
        if size > NAME_BYTES_MAX:
            raise ValueError(
                f"the name {part!r} has {size} bytes; PostgreSQL cuts names off after "
                f"{NAME_BYTES_MAX} bytes, so two tables could become one: choose a shorter name"
            )
    if parts[-1] in (PROGRESS_TABLE, STAGE):
        raise ValueError(f"the name {parts[-1]!r} is used by the delivery itself: choose another")
    return (parts[0], parts[1]) if len(parts) == 2 else ("", parts[0])
