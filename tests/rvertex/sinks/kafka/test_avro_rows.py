"""Rows as Avro: fastavro's own reader returns the same values."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
import pytest

from rvertex.sinks.errors import InvalidSinkError
from rvertex.sinks.kafka.avro_rows import AvroEncoder, avro_schema
from tests.rvertex.sinks.places import TYPED

#: Columns whose type Avro lacks.
REFUSED = ("u64", "span", "fine", "map")


def test_every_type_is_read_back() -> None:
    kept = [name for name in TYPED.schema.names if name not in REFUSED]
    table = TYPED.select(kept)
    schema = fastavro.parse_schema(json.loads(avro_schema("t", table.schema)))
    values = AvroEncoder("t", table.schema).values(table)
    found = [fastavro.schemaless_reader(io.BytesIO(value), schema, None) for value in values]
    assert found == table.to_pylist()


@pytest.mark.parametrize("name", REFUSED)
def test_a_column_without_an_avro_type_is_named(name: str) -> None:
    with pytest.raises(InvalidSinkError, match=f"no type for column '{name}'"):
        AvroEncoder("t", TYPED.select([name]).schema)


def test_a_name_that_avro_does_not_allow_is_rejected() -> None:
    with pytest.raises(InvalidSinkError, match="rename the column"):
        avro_schema("t", pa.schema([("a-b", pa.int64())]))
