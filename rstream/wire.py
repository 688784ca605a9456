"""Batches as they go to another host: indices in the batch, dictionaries beside it, each once.

Arrow Flight's generators cannot send dictionaries. So a column that is one travels as its indices,
and the values in the message's metadata, in one of :data:`SLOTS` numbered places: a batch names the
place of each of its dictionaries, and says what is there if the receiver does not have it yet.

Invariant: what is decoded equals what was encoded, if every message is decoded in order.
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import pyarrow as pa

from rstream.batch import Items
from rstream.dictionaries import Known, is_dictionary

#: Dictionaries of a column that both ends remember.
SLOTS = 8
_SEQ = struct.Struct("<q")
_MARK = {b"dictionary": b"1"}


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of ``schema`` as they travel."""
    return pa.schema(
        pa.field(f.name, f.type.index_type, metadata=_MARK) if is_dictionary(f.type) else f
        for f in schema
    )


class WireEncoder:
    """One end of a connection: from batches of ``schema`` to messages."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = wire_schema(schema)
        #: A message without rows.
        self.nothing = pa.RecordBatch.from_pylist([], schema=self.schema)
        self._sent: list[list[Known]] = [[] for _ in schema]
        self._next: list[int] = [0 for _ in schema]

    def encode(self, items: Items) -> tuple[pa.RecordBatch, bytes]:
        """The batch without its dictionaries; its first seq and what is to be told of these."""
        batch, seq = items.batch, _SEQ.pack(items.first_seq)
        if self.schema.equals(batch.schema):
            return batch, seq
        columns, told = [], []
        for i, column in enumerate(batch.columns):
            if is_dictionary(column.type):
                told.append(self._told(i, column.dictionary))
                column = column.indices
            columns.append(column)
        found = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return found, seq + msgpack.packb(told)

    def _told(self, i: int, values: pa.Array) -> tuple[int, bytes | None]:
        """Where the values are in the memory of the other end, and themselves if they are new."""
        known, sent = Known(values), self._sent[i]
        if known in sent:
            return sent.index(known), None
        if len(sent) < SLOTS:
            sent.append(known)
            return len(sent) - 1, _to_bytes(values)
        slot = self._next[i]
        self._next[i] = (slot + 1) % SLOTS
        sent[slot] = known
        return slot, _to_bytes(values)


class WireDecoder:
    """The other end."""

    def __init__(self, schema: pa.Schema) -> None:
        """``schema``: as it travels."""
        self._at = [i for i, f in enumerate(schema) if f.metadata == _MARK]
        self._known: list[dict[int, pa.Array]] = [{} for _ in self._at]

    def decode(self, batch: pa.RecordBatch, message: bytes) -> Items:
        """What was encoded."""
        (first_seq,) = _SEQ.unpack_from(message)
        if not self._at:
            return Items(first_seq, batch)
        columns: list[Any] = list(batch.columns)
        names = batch.schema.names
        fields = [pa.field(f.name, f.type, f.nullable) for f in batch.schema]
        entries = msgpack.unpackb(message[_SEQ.size :])
        for i, known, (slot, data) in zip(self._at, self._known, entries, strict=True):
            if data is not None:
                known[slot] = _from_bytes(data)
            columns[i] = pa.DictionaryArray.from_arrays(columns[i], known[slot])
            fields[i] = pa.field(names[i], columns[i].type)
        return Items(first_seq, pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))


def _to_bytes(values: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([values], names=["values"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _from_bytes(data: bytes) -> pa.Array:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch().column(0)
