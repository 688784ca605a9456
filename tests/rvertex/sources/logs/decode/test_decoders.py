"""Every decoder: which values are bad, and rows independent of the batches of values.

Not covered: a value that the library decodes wrongly.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rvertex.sources.logs.decode.arrow_stream import ArrowDecoder
from rvertex.sources.logs.decode.avro import AvroDecoder
from rvertex.sources.logs.decode.json_objects import JsonDecoder
from rvertex.sources.logs.decode.raw import RawDecoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.logs.decode.avro_schema import AvroSchema
    from rvertex.sources.logs.decode.decoded import Decoder

fastavro = pytest.importorskip("fastavro", reason="Avro is an extra")
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64())])
WRITER: AvroSchema = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "more", "type": "boolean"},
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"]},
    ],
}
OTHER: AvroSchema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "double"}]}
#: A map is decoded one by one, even if it is not used.
SLOW: AvroSchema = {
    **WRITER,
    "fields": [*WRITER["fields"], {"name": "m", "type": {"type": "map", "values": "int"}}],
}


class Schemas:
    """A registry with two schemas."""

    def schema(self, number: int) -> AvroSchema | None:
        return {1: WRITER, 7: OTHER}.get(number)


def avro(schema: AvroSchema, row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(schema)), row)
    return stream.getvalue()


def ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def with_head(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


JSON_VALUES = [
    b'{"id": 1, "name": "a", "x": 1.5}',
    b'{"id": 2}',
    b'{"name": "b", "later": {"x": [1]}}',
    b' {"id":\n 3,\r\n "x": 2} ',
    b"{}",
    b'{"id": null, "name": "\\n}\\n{"}',
    None,
    b"",
    b"  \n",
    b'{"id": "4"}',
    b'{"id": 1.5}',
    b'{"id": 4}{"id": 5}',
    b'{"id": 4}\n{"id": 5}',
    b'[{"id": 4}]',
    b'{"id": 4',
    b'"id": 4}',
    b'{"a": [{}',
    b"{}]}",
    b"{" * 60 + b"}" * 60,
    b"\xff\xfe",
    b'{"name": "\xff"}',
    b'{"name": "a\nb"}',
    b"7",
    b"null",
]
AVRO_VALUES = [
    avro(WRITER, {"more": True, "id": 5, "name": "five"}),
    avro(WRITER, {"more": False, "id": -1, "name": None}),
    avro(WRITER, {"more": False, "id": 2**31 - 1, "name": ""}),
    avro(WRITER, {"more": True, "id": 5, "name": "five"})[:-1],
    avro(WRITER, {"more": True, "id": 5, "name": "five"}) + b"v",
    avro(WRITER, {"more": True, "id": 5, "name": "five"})[1:],
    b"",
    None,
    b"\xff" * 20,
    b"\1\2\3" + b"\xfe\xff\xff\xff\x0f",
]
SLOW_VALUES = [
    avro(SLOW, {"more": True, "id": 5, "name": "five", "m": {"k": 1}}),
    avro(SLOW, {"more": True, "id": 6, "name": None, "m": {}}),
    avro(SLOW, {"more": True, "id": 5, "name": "five", "m": {"k": 1}})[:-1],
    avro(SLOW, {"more": True, "id": 5, "name": "five", "m": {"k": 1}}) + b"0",
    b"",
    None,
]
HEADED_VALUES = [
    *(with_head(1, value) for value in AVRO_VALUES if value is not None),
    with_head(7, avro(OTHER, {"x": 0.5})),
    with_head(7, avro(OTHER, {"x": -0.5})),
    with_head(9, b"\0"),
    b"\1" + with_head(7, avro(OTHER, {"x": 0.5}))[1:],
    b"\0\0",
    None,
]
ARROW_VALUES = [
    ipc(pa.table({"id": [1, 2], "x": [0.5, None]})),
    ipc(pa.table({"name": ["a"], "id": pa.array([3], pa.int8()), "more": [1]})),
    ipc(pa.table({"id": pa.array([], pa.int64())})),
    ipc(pa.table({"id": ["1"]})),
    ipc(pa.table({"id": [1, 2]}))[:-40],
    b"",
    b"?" * 30,
    None,
]
RAW_VALUES = [b"a", b"", None, b"\xff", "é".encode()]
DECODERS: dict[str, tuple[Decoder, list[bytes | None]]] = {
    "json": (JsonDecoder(SCHEMA), JSON_VALUES),
    "avro": (AvroDecoder(SCHEMA, WRITER), AVRO_VALUES),
    "avro-rows": (AvroDecoder(SCHEMA, SLOW), SLOW_VALUES),
    "registry": (AvroDecoder(SCHEMA, Schemas()), HEADED_VALUES),
    "arrow": (ArrowDecoder(SCHEMA), ARROW_VALUES),
    "bytes": (RawDecoder(pa.schema([("value", pa.binary())])), RAW_VALUES),
    "text": (RawDecoder(pa.schema([("value", pa.string())])), RAW_VALUES),
}


def decode(decoder: Decoder, values: Sequence[bytes | None]) -> tuple[list[Any], dict[int, str]]:
    """The rows, each with its value's number; the bad values with reasons."""
    found = decoder.decode(values)
    found.rows.validate(full=True)
    assert len(found.value_of) == found.rows.num_rows
    assert (np.diff(found.value_of) >= 0).all()
    rows = zip(found.value_of.tolist(), found.rows.to_pylist(), strict=True)
    return list(rows), {i: str(bad) for i, bad in found.bad.items()}


def test_json_objects_become_rows_and_other_values_are_bad() -> None:
    rows, bad = decode(*DECODERS["json"])
    text: dict[int, dict[str, Any]] = {i: {"id": None, "name": None, "x": None} for i in range(6)}
    text[0] |= {"id": 1, "name": "a", "x": 1.5}
    text[1] |= {"id": 2}
    text[2] |= {"name": "b"}
    text[3] |= {"id": 3, "x": 2.0}
    text[5] |= {"name": "\n}\n{"}
    assert dict(rows) == text
    assert sorted(bad) == list(range(6, len(JSON_VALUES)))
    assert bad[6] == "the record has no value (a tombstone)"
    assert bad[9] == "column 'id': not of type int64: \"4\""
    assert bad[14] == "not a JSON object"
    assert "nested" in bad[18]


def test_two_messages_that_together_look_like_one_are_not_joined() -> None:
    """One message has two objects and the other none: together as many objects as messages."""
    decoder = JsonDecoder(SCHEMA)
    for two, none in ((b'{"id":1}{"id":2}', b" "), (b'{"id":1}\n{"id":2}', b"")):
        rows, bad = decode(decoder, [b'{"id":0}', two, none])
        assert [i for i, _ in rows] == [0]
        assert sorted(bad) == [1, 2]


def test_json_without_a_column_is_still_checked() -> None:
    found = JsonDecoder(pa.schema([])).decode([b'{"a": 1}', b"?", b"{}"])
    assert found.value_of.tolist() == [0, 2]
    assert list(found.bad) == [1]


@pytest.mark.parametrize(("name", "good"), [("avro", 3), ("avro-rows", 2)])
def test_avro_records_are_read_to_their_exact_end(name: str, good: int) -> None:
    decoder, values = DECODERS[name]
    rows, bad = decode(decoder, values)
    assert [i for i, _ in rows] == list(range(good))
    assert rows[0][1] == {"id": 5, "name": "five", "x": None}
    assert sorted(bad) == list(range(good, len(values)))


def test_a_short_record_takes_no_bytes_of_the_next() -> None:
    whole = avro(WRITER, {"more": True, "id": 5, "name": "five"})
    found = DECODERS["avro"][0].decode([whole[:-1], b"e" + whole, whole])
    assert found.value_of.tolist() == [2]


def test_schemas_of_a_registry_are_distinguished() -> None:
    rows, bad = decode(*DECODERS["registry"])
    assert [i for i, _ in rows] == [0, 1, 2, 9, 10]
    assert rows[3][1] == {"id": None, "name": None, "x": 0.5}
    assert bad[11] == "the schema registry has no schema 9"
    assert bad[12] == bad[13] == "no header of a schema registry (a byte 0 and the schema's number)"


def test_an_arrow_message_has_all_of_its_rows_or_none() -> None:
    rows, bad = decode(*DECODERS["arrow"])
    assert rows == [
        (0, {"id": 1, "name": None, "x": 0.5}),
        (0, {"id": 2, "name": None, "x": None}),
        (1, {"id": 3, "name": "a", "x": None}),
    ]
    assert sorted(bad) == [3, 4, 5, 6, 7]
    assert bad[3] == "column 'id': it is string here, but int64 in the plan"


def test_bytes_are_unchanged_and_text_is_checked() -> None:
    rows, bad = decode(*DECODERS["bytes"])
    assert [row["value"] for _, row in rows] == RAW_VALUES
    assert not bad
    rows, bad = decode(*DECODERS["text"])
    assert [row["value"] for _, row in rows] == ["a", "", None, "é"]
    assert list(bad) == [3]


def test_unread_fields_are_ignored() -> None:
    found = RawDecoder(pa.schema([])).decode(RAW_VALUES)
    assert (found.rows.num_rows, found.rows.num_columns) == (len(RAW_VALUES), 0)
    assert found.value_of.tolist() == list(range(len(RAW_VALUES)))
    assert not found.bad


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.data())
def test_a_value_has_the_same_rows_beside_any_others(name: str, data: st.DataObject) -> None:
    decoder, values = DECODERS[name]
    one_by_one = [decode(decoder, [value]) for value in values]
    picked = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=12))
    rows, bad = decode(decoder, [values[i] for i in picked])
    expected = [(k, row) for k, i in enumerate(picked) for _, row in one_by_one[i][0]]
    assert rows == expected
    assert bad == {k: one_by_one[i][1][0] for k, i in enumerate(picked) if one_by_one[i][1]}


@given(values=st.lists(st.binary(max_size=12), max_size=6))
@pytest.mark.parametrize("name", DECODERS)
def test_any_bytes_are_rows_or_bad(name: str, values: list[bytes]) -> None:
    decoder, _ = DECODERS[name]
    rows, bad = decode(decoder, values)
    assert {i for i, _ in rows} | set(bad) == set(range(len(values))) or name == "arrow"
    assert not {i for i, _ in rows} & set(bad)
    assert json.dumps(list(bad.values()))
