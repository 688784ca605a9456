"""Messages that change a table: upserts with tombstones, and change events of Debezium.

Not covered: how a broker stores tombstones (tests/jobmanager/test_live_changes.py).
"""

from __future__ import annotations

import io
import json
import random
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from rvertex.sources.logs.decode.avro import AvroDecoder
from rvertex.sources.logs.decode.changes import (
    CHANGE_COLUMNS,
    DELETED,
    DebeziumDecoder,
    UpsertDecoder,
    envelope,
    wrapped,
)
from rvertex.sources.logs.decode.json_objects import JsonDecoder
from rvertex.sources.logs.decode.messages import METADATA, MessageDecoder, Messages
from rvertex.sources.spec import Checks, Live, SourceSpec, Topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.sources.logs.decode.decoded import Decoded

VALUES = pa.schema([("id", pa.int64()), ("name", pa.string())])
SCHEMA = pa.schema([*VALUES, *CHANGE_COLUMNS])
KEYED = pa.schema([*VALUES, CHANGE_COLUMNS.field(DELETED)])
Sent = tuple[bytes | None, bytes | None]


def messages(sent: Sequence[Sent]) -> Messages:
    return Messages(
        0,
        np.arange(len(sent)),
        [value for _, value in sent],
        len(sent),
        lambda i: sent[i][0],
        lambda i: 1000 + i,
        lambda i: None,
    )


def upserts(sent: Sequence[Sent], schema: pa.Schema = KEYED) -> Decoded:
    values = pa.schema([f for f in schema if f.name != DELETED])
    return UpsertDecoder(schema, [schema.names[0]], JsonDecoder(values)).decode(messages(sent))


def debezium(sent: Sequence[Sent]) -> Decoded:
    decoder = DebeziumDecoder(SCHEMA, ["id"], JsonDecoder(wrapped(envelope(SCHEMA))))
    return decoder.decode(messages(sent))


def event(op: str, before: Any = None, after: Any = None, *, wrap: bool = False) -> bytes:
    payload = {"before": before, "after": after, "op": op, "ts_ms": 7, "source": {"ts_ms": 5}}
    return json.dumps(
        {"schema": {"type": "struct"}, "payload": payload} if wrap else payload
    ).encode()


def rows(found: Decoded) -> list[tuple[Any, ...]]:
    return [(r["id"], r["name"], r[DELETED]) for r in found.rows.to_pylist()]


def test_an_upsert_and_a_tombstone() -> None:
    found = upserts([(b"1", b'{"id": 1, "name": "a"}'), (b"1", None), (None, b'{"id": 2}')])
    assert rows(found) == [(1, "a", False), (1, None, True), (2, None, False)]
    assert found.value_of.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "key", [b"1", b'{"id": 1}', b'{"schema": {}, "payload": {"id": 1, "more": 2}}']
)
def test_forms_of_a_key(key: bytes) -> None:
    assert rows(upserts([(key, None)])) == [(1, None, True)]


@pytest.mark.parametrize("text", ["x", "1", '"x"', "null", "é"])
def test_a_text_key_is_the_text(text: str) -> None:
    schema = pa.schema([("name", pa.string()), ("id", pa.int64()), KEYED.field(DELETED)])
    found = upserts([(text.encode(), None)], schema)
    assert rows(found) == [(None, text, True)]


@pytest.mark.parametrize("key", [None, b"\xff", b"x", b"null", b"{}", b'{"id": null}', b"[1]"])
def test_a_tombstone_without_its_key_is_bad(key: bytes | None) -> None:
    found = upserts([(b"1", b'{"id": 1}'), (key, None)])
    assert list(found.bad) == [1]
    assert rows(found) == [(1, None, False)]


def test_a_row_with_a_null_key_is_bad() -> None:
    found = upserts([(b"1", b'{"name": "a"}'), (b"1", b"?"), (b"1", b'{"id": 1}')])
    assert {i: str(bad) for i, bad in found.bad.items()}[0] == "the key is null: id"
    assert list(found.bad) == [0, 1]
    assert rows(found) == [(1, None, False)]


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("op", ["c", "r", "u"])
def test_an_inserted_row(op: str, wrap: bool) -> None:
    found = debezium([(None, event(op, None, {"id": 1, "name": "a"}, wrap=wrap)), (b"1", None)])
    assert found.rows.to_pylist() == [
        {
            "id": 1,
            "name": "a",
            DELETED: False,
            "kafka_change_timestamp": pa.scalar(7000, pa.timestamp("us", "UTC")).as_py(),
            "kafka_commit_timestamp": pa.scalar(5000, pa.timestamp("us", "UTC")).as_py(),
        }
    ]
    assert found.bad == {}, "a tombstone after a deletion says nothing more"


def test_a_deleted_row() -> None:
    whole = event("d", {"id": 1, "name": "a"})
    part = event("d", {"id": 2}, wrap=True)
    none = event("d")
    found = debezium([(None, whole), (None, part), (b'{"id": 3}', none), (None, none)])
    assert rows(found) == [(1, "a", True), (2, None, True), (3, None, True)]
    assert found.rows["kafka_change_timestamp"].null_count == 0
    assert list(found.bad) == [3]


def test_a_row_whose_key_changes() -> None:
    sent = event("u", {"id": 1, "name": "a"}, {"id": 2, "name": "a"})
    found = debezium([(None, b"?"), (None, sent)])
    assert rows(found) == [(1, "a", True), (2, "a", False)]
    assert found.value_of.tolist() == [1, 1]
    same = debezium([(None, event("u", {"id": 1, "name": "a"}, {"id": 1, "name": "b"}))])
    assert rows(same) == [(1, "b", False)]


@pytest.mark.parametrize(
    "sent",
    [b"{}", b"[]", event("t"), event("m"), event("u", {"id": 1}), event("c", None, {"name": "a"})],
)
def test_messages_that_are_not_changes_are_bad(sent: bytes) -> None:
    found = debezium([(b"1", sent), (b"1", event("c", None, {"id": 1}))])
    assert list(found.bad) == [0]
    assert rows(found) == [(1, None, False)]


def test_batch_boundaries_do_not_change_rows() -> None:
    chance = random.Random(5)
    sent: list[Sent] = []
    for _ in range(60):
        row, other = ({"id": chance.randint(1, 3), "name": chance.choice("ab")} for _ in range(2))
        value = chance.choice(
            [event("c", None, row), event("u", other, row, wrap=True), event("d", row), None, b"?"]
        )
        sent.append((b"9", value))
    whole = debezium(sent)
    singly = [debezium([one]) for one in sent]
    assert rows(whole) == [row for one in singly for row in rows(one)]
    assert list(whole.bad) == [i for i, one in enumerate(singly) if one.bad]


def test_two_rows_of_a_message_share_its_metadata() -> None:
    columns = pa.schema([*SCHEMA, *METADATA])
    spec = SourceSpec(
        kind=Topic("debezium-json", ()),
        path="kafka://b:1/t",
        schema=columns,
        columns=columns,
        vs="kafka_timestamp",
        checks=Checks("skip"),
        live=Live(),
    )
    moved = event("u", {"id": 1, "name": "a"}, {"id": 2, "name": "a"})
    decoder = MessageDecoder(
        spec, DebeziumDecoder(SCHEMA, ["id"], JsonDecoder(wrapped(envelope(SCHEMA)))).decode
    )
    found, _ = decoder.decode(messages([(b"bad", b"?"), (b"good", moved)]))
    events = found.batch.to_pylist()
    assert [row["kafka_key"] for row in events] == [b"good", b"good"]
    assert [row["_vs"] for row in events] == [1_001_000, 1_001_000]


def test_debezium_events_in_avro() -> None:
    value = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "more", "type": "long"},
            {"name": "id", "type": "int"},
            {"name": "name", "type": ["null", "string"]},
        ],
    }
    source = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}
    writer: dict[str, Any] = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", value]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }

    def encoded(op: str, before: Any, after: Any) -> bytes:
        out = io.BytesIO()
        row = {"before": before, "after": after, "source": {"ts_ms": 5}, "op": op, "ts_ms": 7}
        fastavro.schemaless_writer(out, fastavro.parse_schema(writer), row)
        return out.getvalue()

    a, b = {"more": 0, "id": 1, "name": "a"}, {"more": 1, "id": 1, "name": None}
    sent = [encoded("c", None, a), encoded("u", a, b), encoded("d", b, None), None]
    decoder = DebeziumDecoder(SCHEMA, ["id"], AvroDecoder(envelope(SCHEMA), writer))
    found = decoder.decode(messages([(None, one) for one in sent]))
    assert rows(found) == [(1, "a", False), (1, None, False), (1, None, True)]
    assert found.bad == {}
