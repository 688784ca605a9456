"""Which texts are valid Avro schemas of rows, and the column type of each Avro type."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from rvertex.sources.logs.decode.avro_schema import arrow_columns, parse_avro_schema


def record(**fields: Any) -> dict[str, Any]:
    rows = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "R", "fields": rows}


def decimal(digits: int, **more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": digits, **more}


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


ENUM = {"type": "enum", "name": "E", "symbols": ["a"]}
LONG = pa.struct([("x", pa.int64())])
TYPES: list[tuple[Any, pa.DataType]] = [
    ("boolean", pa.bool_()),
    ("int", pa.int32()),
    ("long", pa.int64()),
    ("float", pa.float32()),
    ("double", pa.float64()),
    ("bytes", pa.binary()),
    ("string", pa.string()),
    ("null", pa.string()),
    ({"type": "long"}, pa.int64()),
    ({"type": {"type": "long"}}, pa.int64()),
    (ENUM, pa.string()),
    (fixed(4), pa.binary()),
    ({"type": "map", "values": "long"}, pa.map_(pa.string(), pa.int64())),
    (["null", "long"], pa.int64()),
    (["long", "null"], pa.int64()),
    (["long"], pa.int64()),
    (["null"], pa.string()),
    (["null", "long", "int"], pa.int64()),
    (["float", "double"], pa.float64()),
    (
        ["null", "int", "long", "string"],
        pa.struct([("member0", pa.int32()), ("member1", pa.int64()), ("member2", pa.string())]),
    ),
    (
        ["int", {"type": "long", "logicalType": "timestamp-micros"}],
        pa.struct([("member0", pa.int32()), ("member1", pa.timestamp("us", "UTC"))]),
    ),
    (decimal(5), pa.decimal128(5, 0)),
    (decimal(5, scale=2), pa.decimal128(5, 2)),
    (decimal(38, scale=38), pa.decimal128(38, 38)),
    (decimal(39), pa.decimal256(39, 0)),
    (decimal(5, scale=6), pa.binary()),
    (decimal(0), pa.binary()),
    (fixed(3, logicalType="decimal", precision=5), pa.decimal128(5, 0)),
    (fixed(16, logicalType="uuid"), pa.string()),
    (fixed(15, logicalType="uuid"), pa.binary()),
    (fixed(12, logicalType="duration"), pa.binary()),
    ({"type": "int", "logicalType": "date"}, pa.date32()),
    ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
    ({"type": "long", "logicalType": "time-micros"}, pa.time64("us")),
    ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC")),
    ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC")),
    ({"type": "long", "logicalType": "timestamp-nanos"}, pa.timestamp("ns", "UTC")),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
    ({"type": "long", "logicalType": "local-timestamp-nanos"}, pa.timestamp("ns")),
    ({"type": "string", "logicalType": "uuid"}, pa.string()),
    ({"type": "string", "logicalType": "date"}, pa.string()),
    ({"type": "int", "logicalType": "of-its-own"}, pa.int32()),
    (record(x="long") | {"name": "Long"}, LONG),
]
NESTED: list[tuple[Any, pa.DataType]] = [
    *(({"type": "array", "items": kind}, pa.list_(t)) for kind, t in TYPES),
    *((record(x="long", y=kind), pa.struct([*LONG, ("y", t)])) for kind, t in TYPES),
    ({"type": "array", "items": ["null", record(x="long")]}, pa.list_(LONG)),
    (record(x=record(x="long") | {"name": "Inner"}), pa.struct([("x", LONG)])),
]


@pytest.mark.parametrize("place", range(len(TYPES + NESTED)))
def test_each_avro_type_has_its_arrow_type(place: int) -> None:
    kind, column = (TYPES + NESTED)[place]
    outer = record(a="string", b=kind, c="int") | {"name": "Outer"}
    schema = parse_avro_schema(json.dumps(outer))
    wanted = {"a": pa.string(), "b": column, "c": pa.int32()}
    assert arrow_columns(schema) == pa.schema(list(wanted.items()))


@pytest.mark.parametrize("text", ["[]", '"long"', '{"type": "long"}', '{"type": "record"}'])
def test_an_invalid_avro_schema_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="record"):
        parse_avro_schema(text)
