"""The digest of a stream's content: additive, so it does not depend on how the stream was cut.

``digest = sum over items of mix(row, seq)`` in two 64-bit lanes, modulo 2**64. The row is reduced
to ``sum_i (x_i ^ (x_i >> 32)) * k_i`` over its columns' content words
(:func:`rstream.hashing.content_words`), which is cheap; then mixed with the sequence number. It
guards against bugs and damage, not against an adversary.

Invariants: (1) equal items at equal seqs give equal digests, under any cutting and order of
updates; (2) ``digest([a, c)) = digest([a, b)) + digest([b, c))``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from rstream.dictionaries import has_dictionaries, join_batches
from rstream.hashing import GOLDEN, NULL_HASH, content_words, fmix

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

DIGEST_BYTES = 16
_MASK = 2**64 - 1
_HALF = np.uint64(32)
_NULL_TERM = NULL_HASH ^ (NULL_HASH >> _HALF)
_LANE_2 = np.uint64(0xD6E8FEB86659FD93)
_BLOCK_ROWS = 16384
#: Batches of fewer rows are added so many at a time.
_SMALL_ROWS = 512
_WAITING_MAX = 64


class StreamDigest:
    """A running digest of items; see the module for its definition."""

    __slots__ = ("_lane_1", "_lane_2", "_waiting", "_waiting_rows", "_waiting_seq")

    def __init__(self) -> None:
        self._lane_1 = 0
        self._lane_2 = 0
        #: Small batches that follow each other, to be added together: that costs little more.
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_seq = self._waiting_rows = 0

    def update(self, first_seq: int, batch: pa.RecordBatch) -> None:
        """Add the items of ``batch``, the first of which has ``first_seq``; at once, or later."""
        assert first_seq >= 0, first_seq
        if first_seq != self._waiting_seq + self._waiting_rows:
            self._settle()
        if batch.num_rows >= _SMALL_ROWS or has_dictionaries(batch.schema):
            self._settle()
            self._add(first_seq, batch)
            return
        if not self._waiting:
            self._waiting_seq = first_seq
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        if len(self._waiting) >= _WAITING_MAX:
            self._settle()

    def _settle(self) -> None:
        """Add what waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._waiting_rows = 0
            self._add(self._waiting_seq, join_batches(waiting))

    def _add(self, first_seq: int, batch: pa.RecordBatch) -> None:
        columns = [content_words(column) for column in batch.columns]
        for lo in range(0, batch.num_rows, _BLOCK_ROWS):
            rows = _row_words(columns, lo, min(lo + _BLOCK_ROWS, batch.num_rows))
            seq = first_seq + lo
            seqs = np.arange(seq + 1, seq + 1 + len(rows), dtype=np.uint64)
            seqs *= GOLDEN
            rows += seqs
            fmix(rows)
            self._lane_1 = (self._lane_1 + int(rows.sum())) & _MASK
            rows ^= rows >> np.uint64(29)
            rows *= _LANE_2
            rows ^= rows >> np.uint64(32)
            self._lane_2 = (self._lane_2 + int(rows.sum())) & _MASK

    def add(self, other: StreamDigest) -> None:
        """Add the items of ``other``."""
        self._settle()
        other._settle()
        self._lane_1 = (self._lane_1 + other._lane_1) & _MASK
        self._lane_2 = (self._lane_2 + other._lane_2) & _MASK

    def to_bytes(self) -> bytes:
        """16 bytes, little endian, lane 1 first."""
        self._settle()
        return self._lane_1.to_bytes(8, "little") + self._lane_2.to_bytes(8, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamDigest:
        """The digest that ``to_bytes`` wrote."""
        assert len(data) == DIGEST_BYTES, len(data)
        digest = cls()
        digest._lane_1 = int.from_bytes(data[:8], "little")
        digest._lane_2 = int.from_bytes(data[8:], "little")
        return digest

    def hexdigest(self) -> str:
        """32 hexadecimal digits."""
        return self.to_bytes().hex()

    def copy(self) -> StreamDigest:
        """An independent copy."""
        return StreamDigest.from_bytes(self.to_bytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamDigest) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        self._settle()
        return self._lane_1

    def __repr__(self) -> str:
        return f"StreamDigest({self.hexdigest()})"


def content_hashes(batch: pa.RecordBatch) -> np.ndarray:
    """A hash of each row's content, uint64[n]; it sees every bit."""
    return fmix(_row_words([content_words(column) for column in batch.columns], 0, batch.num_rows))


def _row_words(columns: Sequence[tuple[np.ndarray, np.ndarray]], lo: int, hi: int) -> np.ndarray:
    """The words of the rows ``[lo, hi)``; of each column its words and the rows that are null."""
    total = np.zeros(hi - lo, np.uint64)
    term = np.empty(hi - lo, np.uint64)
    for i, (column, nulls) in enumerate(columns):
        words = column[lo:hi]
        if words.dtype != np.uint64:
            words = words.astype(np.int64, copy=False).view(np.uint64)
        np.right_shift(words, _HALF, out=term)
        term ^= words
        if len(nulls):
            first, end = nulls.searchsorted([lo, hi])
            term[nulls[first:end] - lo] = _NULL_TERM
        term *= _multiplier(i)
        total += term
    return total


@functools.cache
def _multiplier(column: int) -> np.uint64:
    """A fixed odd constant per column position."""
    seed = np.array([(column + 1) * int(GOLDEN) & _MASK], np.uint64)
    return np.uint64(int(fmix(seed)[0]) | 1)
