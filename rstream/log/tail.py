"""The volatile tail: the newest items of a stream, in memory.

Invariants: (1) ``first_seq <= durable_seq <= flushing_seq <= next_seq``; (2) the kept batches are
contiguous from ``first_seq`` to ``next_seq``; (3) ``bytes`` is the sum over the kept batches. Items
below ``durable_seq`` may leave memory: they are in Parquet, or no reader needs them any more. Marks
only move forward, except that a failed flush resets ``flushing_seq`` to ``durable_seq``.

Pure: no I/O, no threads. Source: etcd/raft, ``log_unstable.go``.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream.items.batch import Items
from rstream.items.dictionaries import batch_bytes, join_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

#: Type alias, because ``bytes`` is a property of the class below.
_Digest = bytes
#: Memory of a batch besides its buffers, bytes.
BATCH_OVERHEAD_BYTES = 1024
#: Batches with at least this many rows are returned by reference; smaller batches are joined.
JOIN_ROWS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Cut:
    """Consecutive batches that become one segment. There is at least one row."""

    first_seq: int
    batches: tuple[pa.RecordBatch, ...]
    #: Digest of each batch; empty if unknown.
    digests: tuple[bytes, ...]

    @classmethod
    def of(cls, parts: Sequence[Items]) -> Cut:
        """Make a cut of one or more consecutive parts."""
        batches = tuple(part.batch for part in parts)
        return cls(parts[0].first_seq, batches, tuple(part.digest for part in parts))

    @property
    def next_seq(self) -> int:
        return self.first_seq + sum(int(batch.num_rows) for batch in self.batches)

    def below(self, seq: int) -> Cut:
        """Return the part below ``seq``, by reference."""
        return self._part(self.first_seq, seq)

    def from_seq(self, seq: int) -> Cut:
        """Return the part at and after ``seq``, by reference."""
        return self._part(seq, self.next_seq)

    def _part(self, lo: int, hi: int) -> Cut:
        assert self.first_seq <= lo < hi <= self.next_seq, (self.first_seq, lo, hi, self.next_seq)
        parts: list[Items] = []
        first = self.first_seq
        for batch, digest in zip(self.batches, self.digests, strict=True):
            items = Items(first, batch, digest)
            start, end = max(lo, first), min(hi, items.next_seq)
            if start < end:
                parts.append(items.from_seq(start).head(end - start))
            first = items.next_seq
        return Cut.of(parts)


class VolatileTail:
    """Contiguous items ``[first_seq, next_seq)``."""

    def __init__(self, first_seq: int) -> None:
        assert first_seq >= 0, first_seq
        self._items: list[Items] = []
        self._sizes: list[int] = []
        self._head = 0
        self._bytes = 0
        self._unflushed_bytes = 0
        self._first_seq = first_seq
        self._durable_seq = first_seq
        self._flushing_seq = first_seq
        self._next_seq = first_seq

    @property
    def first_seq(self) -> int:
        return self._first_seq

    @property
    def durable_seq(self) -> int:
        return self._durable_seq

    @property
    def flushing_seq(self) -> int:
        return self._flushing_seq

    @property
    def next_seq(self) -> int:
        return self._next_seq

    @property
    def bytes(self) -> int:
        """Bytes of the kept items. A slice counts only its own rows."""
        return self._bytes

    def append(self, batch: pa.RecordBatch, digest: _Digest = b"") -> None:
        """Append a batch at ``next_seq``, by reference, with its digest if it is known."""
        assert batch.num_rows > 0
        nbytes = batch_bytes(batch)
        if self._flushing_seq == self._next_seq:
            self._unflushed_bytes = 0
        size = nbytes + BATCH_OVERHEAD_BYTES
        self._items.append(Items(self._next_seq, batch, digest))
        self._sizes.append(size)
        self._bytes += size
        self._unflushed_bytes += nbytes
        self._next_seq += batch.num_rows

    def read(self, seq: int, items_max: int) -> Items | None:
        """Return 1 to ``items_max`` items from ``seq`` on; None at the end.

        A large batch is returned by reference; several small batches are joined.
        """
        assert self._first_seq <= seq <= self._next_seq, (self._first_seq, seq, self._next_seq)
        assert items_max > 0, items_max
        if seq == self._next_seq:
            return None
        parts: list[pa.RecordBatch] = []
        rows = 0
        for items in self._from(seq):
            part = items.from_seq(max(seq, items.first_seq)).batch
            if parts and part.num_rows >= JOIN_ROWS_MAX:
                break
            parts.append(part)
            rows += part.num_rows
            if rows >= min(items_max, JOIN_ROWS_MAX):
                break
        batch = join_batches(parts)
        return Items(seq, batch.slice(0, items_max) if rows > items_max else batch)

    def cut(self, rows_max: int, bytes_max: int) -> Cut | None:
        """Return the next items to flush, from ``flushing_seq`` on, by reference; None: no items.

        It moves ``flushing_seq`` past them. A batch with a digest is not split if the cut is then
        at least half as large as the limits allow.
        """
        if self._flushing_seq == self._next_seq:
            return None
        parts: list[Items] = []
        rows = size = 0
        first = self._flushing_seq
        for items in self._from(first):
            part = items.from_seq(max(first, items.first_seq))
            room_bytes = bytes_max - size
            part_bytes = batch_bytes(part.batch)
            fits = part_bytes <= room_bytes and rows + part.batch.num_rows <= rows_max
            is_enough = size * 2 >= bytes_max or rows * 2 >= rows_max
            if not fits and is_enough and part.digest:
                break
            if part_bytes > room_bytes:
                fit = int(part.batch.num_rows * room_bytes / part_bytes)
                part = part.head(max(fit, 0 if parts else 1))
            part = part.head(rows_max - rows)
            if part.batch.num_rows:
                parts.append(part)
            rows += part.batch.num_rows
            size += batch_bytes(part.batch)
            if first + rows < items.next_seq or rows >= rows_max:
                break
        self._flushing_seq = first + rows
        self._unflushed_bytes -= size
        return Cut.of(parts)

    @property
    def unflushed_bytes(self) -> int:
        """Bytes from ``flushing_seq`` on. Approximate, since parts of a batch add up to more."""
        return 0 if self._flushing_seq == self._next_seq else max(self._unflushed_bytes, 0)

    def mark_durable(self, seq: int) -> None:
        """Allow everything below ``seq`` to leave memory."""
        assert self._durable_seq <= seq <= self._next_seq, (self._durable_seq, seq, self._next_seq)
        self._durable_seq = seq
        if seq > self._flushing_seq:
            self._unflushed_bytes -= self._bytes_between(self._flushing_seq, seq)
            self._flushing_seq = seq

    def abandon_flush(self) -> None:
        """Reset ``flushing_seq``, because a flush failed and its items must be flushed again."""
        self._flushing_seq = self._durable_seq
        self._unflushed_bytes = self._bytes_between(self._durable_seq, self._next_seq)

    def drop_below(self, seq: int) -> None:
        """Free memory below ``seq``, as far as it is durable."""
        seq = min(seq, self._durable_seq)
        while self._head < len(self._items) and self._items[self._head].next_seq <= seq:
            self._drop_first()
        if self._head < len(self._items) and seq > self._first_seq:
            items = self._items[self._head].from_seq(max(seq, self._first_seq))
            size = batch_bytes(items.batch) + BATCH_OVERHEAD_BYTES
            self._bytes += size - self._sizes[self._head]
            self._items[self._head], self._sizes[self._head] = items, size
        self._first_seq = max(self._first_seq, seq)

    def drop_until(self, bytes_max: int) -> None:
        """Free the oldest durable batches until at most ``bytes_max`` bytes are kept."""
        while (
            self._bytes > bytes_max
            and self._head < len(self._items)
            and self._items[self._head].next_seq <= self._durable_seq
        ):
            self._first_seq = self._items[self._head].next_seq
            self._drop_first()

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert self._first_seq <= self._durable_seq <= self._flushing_seq <= self._next_seq
        seq = self._first_seq
        for items in self._items[self._head :]:
            assert items.first_seq == seq, (items.first_seq, seq)
            seq = items.next_seq
        assert seq == self._next_seq, (seq, self._next_seq)
        assert self._bytes == sum(self._sizes[self._head :])

    def _at(self, seq: int) -> int:
        at = bisect_right(self._items, seq, lo=self._head, key=lambda i: i.first_seq) - 1
        assert at >= self._head, (seq, self._first_seq)
        return at

    def _bytes_between(self, lo: int, hi: int) -> int:
        if lo == hi:
            return 0
        total = 0
        for at in range(self._at(lo), len(self._items)):
            items = self._items[at]
            if items.first_seq >= hi:
                break
            if lo <= items.first_seq and items.next_seq <= hi:
                total += self._sizes[at] - BATCH_OVERHEAD_BYTES
                continue
            part = items.from_seq(max(lo, items.first_seq))
            total += batch_bytes(part.head(min(hi, items.next_seq) - part.first_seq).batch)
        return total

    def _from(self, seq: int) -> Iterator[Items]:
        for at in range(self._at(seq), len(self._items)):
            yield self._items[at]

    def _drop_first(self) -> None:
        self._bytes -= self._sizes[self._head]
        self._items[self._head] = Items(0, None)
        self._head += 1
        if self._head * 2 > len(self._items):
            del self._items[: self._head], self._sizes[: self._head]
            self._head = 0
