"""Encodes batches for another host: indices in the batch, and each dictionary only once.

Arrow Flight's generators cannot send dictionaries. So a dictionary column is sent as its indices.
Its values are sent in the message's metadata, in one of :data:`SLOTS` numbered slots. A batch names
the slot of each of its dictionaries, and carries the values that the receiver lacks. Both ends
evict the same slots, by the bytes sent: the oldest first, until there is room.

Invariants: (1) decoding all messages in order returns the encoded batches; (2) the dictionaries
kept for a column took at most :data:`KEPT_BYTES_MAX` on the wire, or there is only one.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import msgpack
import pyarrow as pa

from rstream.items.batch import Items
from rstream.items.dictionaries import Known, batch_bytes, is_dictionary

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Number of dictionaries per column that both ends keep.
SLOTS = 8
#: Most bytes of these dictionaries on the wire. A larger dictionary is kept alone.
KEPT_BYTES_MAX = 8 << 20
#: Approximate limit of a message with several rows: gRPC keeps the memory of the largest messages.
MESSAGE_BYTES_MAX = 8 << 20
_SEQ = struct.Struct("<q")
_MARK = {b"dictionary": b"1"}


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the messages."""
    return pa.schema(
        pa.field(f.name, f.type.index_type, metadata=_MARK) if is_dictionary(f.type) else f
        for f in schema
    )


def in_messages(items: Items) -> Iterator[Items]:
    """Split items into batches that each fit into a message. Most items fit into one."""
    nbytes = max(batch_bytes(items.batch), MESSAGE_BYTES_MAX)
    rows_max = max(items.batch.num_rows * MESSAGE_BYTES_MAX // nbytes, 1)
    while items.batch.num_rows > rows_max:
        yield items.head(rows_max)
        items = items.from_seq(items.first_seq + rows_max)
    yield items


class _Places:
    """The occupied slots of a column, the oldest first. Both ends have the same."""

    def __init__(self) -> None:
        self._bytes: dict[int, int] = {}

    def put(self, nbytes: int) -> tuple[int, list[int]]:
        """Return a slot for ``nbytes``, and the slots that are evicted for it."""
        forgotten: list[int] = []
        while self._bytes and (
            len(self._bytes) == SLOTS or sum(self._bytes.values()) + nbytes > KEPT_BYTES_MAX
        ):
            forgotten.append(next(iter(self._bytes)))
            del self._bytes[forgotten[-1]]
        place = next(k for k in range(SLOTS) if k not in self._bytes)
        self._bytes[place] = nbytes
        return place, forgotten


class WireEncoder:
    """The sending end of a connection: turns batches of ``schema`` into messages."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = wire_schema(schema)
        #: A message without rows.
        self.nothing = pa.RecordBatch.from_pylist([], schema=self.schema)
        self._dictionaries = [i for i, f in enumerate(schema) if is_dictionary(f.type)]
        self._sent: list[dict[Known, int]] = [{} for _ in schema]
        self._places = [_Places() for _ in schema]

    def encode(self, items: Items) -> tuple[pa.RecordBatch, bytes]:
        """Return the batch without its dictionaries, and its seq with their slots."""
        batch, seq = items.batch, _SEQ.pack(items.first_seq)
        if self.schema.equals(batch.schema):
            return batch, seq
        columns, dictionaries = [], []
        for i, column in enumerate(batch.columns):
            if is_dictionary(column.type):
                dictionaries.append(self._dictionary_for(i, column.dictionary))
                column = column.indices
            columns.append(column)
        batch_of_indices = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return batch_of_indices, seq + msgpack.packb(dictionaries)

    def new_bytes(self, batch: pa.RecordBatch) -> int:
        """Return the bytes of the dictionaries in ``batch`` that the other end lacks."""
        pairs = [(self._sent[i], batch.column(i).dictionary) for i in self._dictionaries]
        return sum(values.nbytes for sent, values in pairs if Known(values) not in sent)

    def _dictionary_for(self, i: int, values: pa.Array) -> tuple[int, bytes | None]:
        """Return the slot of a dictionary at the reader, and its bytes if it is new there."""
        known, sent = Known(values), self._sent[i]
        if known in sent:
            return sent[known], None
        data = _to_bytes(values)
        place, forgotten = self._places[i].put(len(data))
        if forgotten:
            self._sent[i] = sent = {k: at for k, at in sent.items() if at not in forgotten}
        sent[known] = place
        return place, data


class WireDecoder:
    """The receiving end of a connection."""

    def __init__(self, schema: pa.Schema) -> None:
        """Decode messages with schema ``schema``."""
        self._at = [i for i, f in enumerate(schema) if f.metadata == _MARK]
        self._known: list[dict[int, pa.Array]] = [{} for _ in self._at]
        self._places = [_Places() for _ in self._at]

    def decode(self, batch: pa.RecordBatch, message: bytes) -> Items:
        """Return the encoded items."""
        (first_seq,) = _SEQ.unpack_from(message)
        if not self._at:
            return Items(first_seq, batch)
        columns: list[Any] = list(batch.columns)
        names = batch.schema.names
        fields = [pa.field(f.name, f.type, f.nullable) for f in batch.schema]
        entries = msgpack.unpackb(message[_SEQ.size :])
        for k, (i, (place, data)) in enumerate(zip(self._at, entries, strict=True)):
            known = self._known[k]
            if data is not None:
                _, forgotten = self._places[k].put(len(data))
                for old in forgotten:
                    del known[old]
                known[place] = _from_bytes(data)
            columns[i] = pa.DictionaryArray.from_arrays(columns[i], known[place])
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
