"""Compares the output of a replay with the recorded output: items, and digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from jobmanager.replay.feeds import StreamFeed
from rstream.items.batch import EVENT, KIND, VE, VS, item_schema
from rstream.items.dictionaries import as_declared
from rstream.items.digest import StreamDigest, content_hashes
from rvertex.sources.times import shown

if TYPE_CHECKING:
    from jobmanager.replay.recorded import Recorded, Retained
    from rstream.items.batch import Items
    from rvertex.vertex.spec import VertexSpec


@dataclass(frozen=True, slots=True)
class Difference:
    """The first item, or the first digest, that differs from the recorded one.

    For a digest both rows are None, and the difference is in ``[after_seq, seq)``.
    """

    stream: str
    seq: int
    recorded: dict[str, Any] | None
    replayed: dict[str, Any] | None
    after_seq: int = 0
    #: The columns that differ; empty for a digest, or if one of the two rows is missing.
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.recorded is None and self.replayed is None:
            where = f"items {self.after_seq:,} to {self.seq - 1:,}"
            return f"{self.stream}: the digest of {where} differs from the recorded one"
        lines = [f"{self.stream}: item {self.seq:,} differs from the recorded one"]
        for name, row in (("recorded", self.recorded), ("replayed", self.replayed)):
            lines.append(f"  {name}: {_line(row)}")
        if self.columns:
            lines.append(f"  differs in: {', '.join(self.columns)}")
        return "\n".join(lines)


class StreamCheck:
    """Compares one output stream, item by item where items are retained, else by digests."""

    def __init__(
        self,
        stream: str,
        schema: pa.Schema,
        feed: StreamFeed | None,
        ends_at: int | None,
        digest: StreamDigest,
        seq: int,
        marks: dict[int, bytes],
    ) -> None:
        """Compare a stream from ``seq`` on with what the job has recorded.

        ``marks``: recorded digests of ``[0, seq)``. ``ends_at``: the number of items.
        """
        self._stream, self._schema, self._feed, self._ends_at = stream, schema, feed, ends_at
        self._digest, self._marks = digest, marks
        self._checked_to = seq
        self.items = self.compared = self.digests = 0

    def check(self, items: Items) -> Difference | None:
        """Compare the next items. Return the first difference; None: they are as recorded."""
        batch = as_declared(items.batch, self._schema)
        self.items += batch.num_rows
        difference = None if self._feed is None else self._by_items(items.first_seq, batch)
        if difference is None and self._ends_at is not None and items.next_seq > self._ends_at:
            extra = max(self._ends_at, items.first_seq)
            return Difference(self._stream, extra, None, _row(batch, extra - items.first_seq))
        return difference or self._by_digests(items.first_seq, batch)

    def missing(self, seq: int) -> Difference | None:
        """Return the first recorded item at or after ``seq``, where a replay ended.

        None: no item.
        """
        if self._feed is not None and (items := self._feed.read(seq, 1)) is not None:
            return Difference(self._stream, seq, _row(items.batch, 0), None)
        return None

    def close(self) -> None:
        """Release files."""
        if self._feed is not None:
            self._feed.close()

    def _by_items(self, seq: int, batch: pa.RecordBatch) -> Difference | None:
        assert self._feed is not None
        at = 0
        while at < batch.num_rows:
            recorded = self._feed.read(seq + at, batch.num_rows - at)
            if recorded is None:
                return None  # no later item was durable
            own = batch.slice(at, recorded.batch.num_rows)
            apart = content_hashes(own) != content_hashes(recorded.batch)
            if apart.any():
                first = int(np.argmax(apart))
                rows = _row(recorded.batch, first), _row(own, first)
                names = tuple(
                    name
                    for name in own.schema.names
                    if _differs(own.column(name), recorded.batch.column(name), first)
                )
                return Difference(self._stream, seq + at + first, *rows, columns=names)
            at += recorded.batch.num_rows
            self.compared += recorded.batch.num_rows
        return None

    def _by_digests(self, seq: int, batch: pa.RecordBatch) -> Difference | None:
        end = seq + batch.num_rows
        at = seq
        for mark in sorted(m for m in self._marks if seq < m <= end):
            self._digest.update(at, batch.slice(at - seq, mark - at))
            at = mark
            self.digests += 1
            if self._digest.to_bytes() != self._marks[mark]:
                return Difference(self._stream, mark, None, None, self._checked_to)
            self._checked_to = mark
        self._digest.update(at, batch.slice(at - seq))
        return None


def checks_of(
    recorded: Recorded, spec: VertexSpec, start: Retained | None
) -> dict[str, StreamCheck]:
    """Return a comparison per output stream, from a checkpoint or from the beginning."""
    checks: dict[str, StreamCheck] = {}
    finished = recorded.finished(spec.id)
    for edge in spec.outputs:
        for stream, uri in zip(edge.streams, edge.uris, strict=True):
            k = len(checks)
            seq = 0 if start is None else start.outputs[k]
            digest = StreamDigest() if start is None else StreamDigest.from_bytes(start.digests[k])
            marks = {c.outputs[k]: c.digests[k] for c in recorded.checkpoints(spec.id)}
            if finished is not None:
                marks[finished.outputs[k]] = finished.digests[k]
            schema = item_schema(spec.payload_of(edge))
            log = recorded.log(stream, uri)
            is_kept = edge.durability != "volatile" and log.contiguous_end(seq) > seq
            feed = StreamFeed(log, schema) if is_kept else None
            ends_at = None if finished is None else finished.outputs[k]
            checks[stream] = StreamCheck(stream, schema, feed, ends_at, digest, seq, marks)
    return checks


def _differs(own: pa.Array, other: pa.Array, row: int) -> bool:
    one, two = own.slice(row, 1), other.slice(row, 1)
    pair = [content_hashes(_alone(array)) for array in (one, two)]
    return bool(pair[0][0] != pair[1][0])


def _alone(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], names=["value"])


def _row(batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    return {name: _plain(batch.column(name)[row]) for name in batch.schema.names}


def _plain(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):  # Python's dates end before Arrow's
        return shown(value)


def _line(row: dict[str, Any] | None) -> str:
    if row is None:
        return "nothing"
    if row[KIND] != EVENT:
        return f"CTI {row[VS]}"
    payload = ", ".join(f"{k}={v!r}" for k, v in row.items() if k not in (KIND, VS, VE))
    return f"[{row[VS]}, {row[VE]}) {payload}"
