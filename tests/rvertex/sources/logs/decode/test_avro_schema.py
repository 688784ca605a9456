"""Which Avro types become which columns, however deep they stand."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from rvertex.sources.logs.decode.avro_schema import arrow_columns, is_plain, parse_avro_schema


def record(**fields: Any) -> dict[str, Any]:
    rows = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "R", "fields": rows}


#: None: no column can hold it.
TYPES: list[tuple[Any, pa.DataType | None]] = [
    ("boolean", pa.bool_()),
    ("int", pa.int32()),
    ("long", pa.int64()),
    ("float", pa.float32()),
    ("double", pa.float64()),
    ("bytes", pa.binary()),
    ("string", pa.string()),
    ("null", None),
    ("Name.of.another", None),
    ({"type": "long"}, pa.int64()),
    ({"type": {"type": "long"}}, pa.int64()),
    ({"type": "enum", "name": "E", "symbols": ["a"]}, pa.string()),
    ({"type": "fixed", "name": "F", "size": 4}, pa.binary()),
    ({"type": "map", "values": "long"}, None),
    (["null", "long"], pa.int64()),
    (["long", "null"], pa.int64()),
    (["long"], None),
    (["null", "long", "string"], None),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5}, pa.decimal128(5, 0)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, pa.decimal128(5, 2)),
    ({"type": "fixed", "logicalType": "decimal", "precision": 5, "name": "F", "size": 3}, None),
    ({"type": "int", "logicalType": "date"}, pa.date32()),
    ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC")),
    ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC")),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
    ({"type": "string", "logicalType": "uuid"}, pa.string()),
    ({"type": "int", "logicalType": "of-its-own"}, None),
    (record(), None),
]
LONG = pa.struct([("x", pa.int64())])
NESTED: list[tuple[Any, pa.DataType | None]] = [
    *(({"type": "array", "items": kind}, t and pa.list_(t)) for kind, t in TYPES),
    *((record(x="long", y=kind), t and pa.struct([*LONG, ("y", t)])) for kind, t in TYPES),
    ({"type": "array", "items": ["null", record(x="long")]}, pa.list_(LONG)),
    (record(x=record(x="long")), pa.struct([("x", LONG)])),
]


@pytest.mark.parametrize("place", range(len(TYPES + NESTED)))
def test_types(place: int) -> None:
    kind, column = (TYPES + NESTED)[place]
    schema = parse_avro_schema(json.dumps(record(a="string", b=kind, c="int")))
    found, others = arrow_columns(schema)
    wanted = {"a": pa.string(), "b": column, "c": pa.int32()}
    assert dict(zip(found.names, found.types, strict=True)) == {
        n: t for n, t in wanted.items() if t
    }
    assert others == [name for name, t in wanted.items() if t is None]
    assert is_plain(schema) == (column is not None)


@pytest.mark.parametrize("text", ["[]", '"long"', '{"type": "long"}', '{"type": "record"}'])
def test_what_is_no_record(text: str) -> None:
    with pytest.raises(ValueError, match="record"):
        parse_avro_schema(text)
