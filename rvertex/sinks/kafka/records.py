"""Encode rows as records of a topic: value, key, and the items that each record covers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.edges import identities
from rvertex.sinks.errors import RowsRefusedError
from rvertex.sinks.kafka.avro_rows import AvroEncoder
from rvertex.sinks.kafka.json_rows import json_rows, json_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rvertex.sinks.protocol import DeliveredRows
    from rvertex.sinks.spec import KafkaSink

#: Most rows in one record of Arrow data, so that it is far below a broker's usual limit of 1 MB.
ARROW_ROWS_MAX = 4096
ARROW_BYTES_MAX = 512 << 10


class Record(NamedTuple):
    """A record for the items ``[seq, next_seq)``, which include items without a row (CTIs)."""

    #: None: a tombstone, which deletes the value of the key.
    value: bytes | None
    #: None: the record is sent to the topic partition with the number of its output partition.
    key: bytes | None
    seq: int
    next_seq: int


class RecordEncoder:
    """Encodes the records of one delivery."""

    def __init__(self, sink: KafkaSink, schema: pa.Schema, end: str | None = None) -> None:
        """Encode rows of ``schema``. ``end``: the column with row ends that may arrive later.

        Raises:
            InvalidSinkError: the format has no type for a column.
        """
        self._sink, self._end = sink, end
        self._avro = AvroEncoder(sink.label, schema) if sink.format == "avro" else None

    def of(self, rows: DeliveredRows) -> Iterator[Record]:
        """Yield the records of these rows, in row order.

        Raises:
            RowsRefusedError: a row has a null in its key, and the topic keeps one value per key.
        """
        if self._sink.keeps_keys:
            self._check_keys(rows)
        if self._sink.format == "debezium-json":
            yield from self._events(rows)
            return
        if self._sink.upsert:
            rows = self._net(rows)
        if self._sink.format == "arrow":
            yield from _arrow_records(rows)
            return
        values: list[bytes | None] = [*self._values(rows.table)]
        if rows.ends is not None:
            values = [None if end else v for v, end in zip(values, rows.ends, strict=True)]
        for value, key, seq in zip(values, self._keys(rows.table), rows.seqs.tolist(), strict=True):
            yield Record(value, key, seq, seq + 1)

    def _check_keys(self, rows: DeliveredRows) -> None:
        if any(rows.table.column(name).null_count for name in self._sink.key):
            reason = f"a key is null, and a row needs one: {', '.join(self._sink.key)}"
            raise RowsRefusedError(self._sink.label, rows.first_seq, rows.next_seq, reason)

    def _events(self, rows: DeliveredRows) -> Iterator[Record]:
        """Return a change event for each row that begins, and each end whose key has no new row."""
        table = rows.table
        if self._end is not None:  # without the end, an ended row equals the row that began
            at = table.schema.get_field_index(self._end)
            field = table.schema.field(at)
            open_ends = pa.nulls(table.num_rows, field.type)
            if rows.ends is not None and rows.ends.any():
                open_ends = pc.if_else(pa.array(rows.ends), open_ends, table.column(at))
                table = table.set_column(at, field, open_ends)
        values, keys = self._values(table), self._keys(table)
        partner = rows.partners(self._sink.key).tolist()
        starts = rows.instants
        for i, seq in enumerate(rows.seqs.tolist()):
            is_end = rows.ends is not None and bool(rows.ends[i])
            if is_end and partner[i] >= 0:
                continue
            op = "d" if is_end else "c" if partner[i] < 0 else "u"
            before = values[i] if is_end else b"null" if op == "c" else values[partner[i]]
            after = b"null" if is_end else values[i]
            ms = b"null" if starts is None else b"%d" % (starts[i] // 1000)
            parts = (before, after, op.encode(), ms)
            value = b'{"before":%b,"after":%b,"op":"%b","ts_ms":%b}' % parts
            yield Record(value, keys[i], seq, seq + 1)

    def _net(self, rows: DeliveredRows) -> DeliveredRows:
        """Drop the ends of keys that get another row at the same instant."""
        keys = [rows.table.column(name) for name in self._sink.key]
        if rows.ends is None or rows.instants is None:
            return rows
        same = identities([*keys, pa.array(rows.instants)], rows.table.num_rows)
        kept = ~rows.ends | ~np.isin(same, same[~rows.ends])
        table = rows.table.filter(pa.array(kept))
        return replace(rows, table=table, seqs=rows.seqs[kept], ends=rows.ends[kept], instants=None)

    def _values(self, table: pa.RecordBatch) -> list[bytes]:
        if self._avro is not None:
            return self._avro.values(table)
        texts: list[bytes] = json_rows(table).cast(pa.binary()).to_pylist()
        return texts

    def _keys(self, table: pa.RecordBatch) -> list[bytes | None]:
        """Return the keys' bytes: text unchanged, other values as JSON.

        Several columns become one JSON object.
        """
        names = list(self._sink.key)
        if not names:
            return [None] * table.num_rows
        if len(names) > 1:
            keys: list[bytes | None] = json_rows(table.select(names)).cast(pa.binary()).to_pylist()
            return keys
        column = table.column(names[0])
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            return [_as_bytes(value) for value in column.to_pylist()]
        texts = json_values(column).to_pylist()
        return [None if text is None else text.strip('"').encode() for text in texts]


def _arrow_records(rows: DeliveredRows) -> Iterator[Record]:
    """Yield records that are Arrow IPC streams of many rows each."""
    table, n = rows.table, rows.table.num_rows
    row_bytes = max(table.nbytes // max(n, 1), 1)
    step = max(min(ARROW_ROWS_MAX, ARROW_BYTES_MAX // row_bytes), 1)
    for lo in range(0, n, step):
        part = table.slice(lo, step)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_batch(part)
        seqs = rows.seqs[lo : lo + step]
        yield Record(sink.getvalue().to_pybytes(), None, int(seqs[0]), int(seqs[-1]) + 1)


def _as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
