"""The digest of a stream's content: a sum, so it does not depend on batch boundaries.

``digest = sum over items of mix(row, seq)`` in two 64-bit lanes, modulo 2**64. A row is first
reduced to ``sum_i (x_i ^ (x_i >> 32)) * k_i`` over the content words of its columns
(:func:`rstream.items.hashing.content_words`), which is cheap, then mixed with the sequence number.
The digest guards against bugs and damage, not against an adversary.

Invariants: (1) equal items at equal seqs give equal digests, for any batch boundaries and order of
updates; (2) ``digest([a, c)) = digest([a, b)) + digest([b, c))``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from rstream.items.dictionaries import has_dictionaries, is_dictionary, join_batches
from rstream.items.hashing import (
    GOLDEN,
    MIX_1,
    MIX_2,
    NULL_HASH,
    content_words,
    fmix,
    null_rows,
    value_buffer,
    value_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

DIGEST_BYTES = 16
_MASK = 2**64 - 1
_HALF = np.uint64(32)
_NULL_TERM = NULL_HASH ^ (NULL_HASH >> _HALF)
_LANE_2 = np.uint64(0xD6E8FEB86659FD93)
#: Rows per block. A call costs as much as 1000 rows, and three arrays of this length fit into the
#: L2 cache.
_BLOCK_ROWS = 1 << 15
#: ``(i + 1) * G`` for each row i of a block.
_PLACES = np.arange(1, _BLOCK_ROWS + 1, dtype=np.uint64) * GOLDEN
#: In a column of bytes with at least this many rows per non-zero byte, zero bytes are skipped.
_ROWS_PER_SPARSE = 8
#: Batches with fewer rows are collected and added together.
_SMALL_ROWS = 512
_WAITING_MAX = 64


class StreamDigest:
    """A running digest of items; see the module for its definition."""

    __slots__ = ("_lane_1", "_lane_2", "_waiting", "_waiting_rows", "_waiting_seq")

    def __init__(self) -> None:
        self._lane_1 = 0
        self._lane_2 = 0
        #: Consecutive small batches that are added together, which takes little longer than adding
        #: one.
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_seq = self._waiting_rows = 0

    def update(self, first_seq: int, batch: pa.RecordBatch) -> bytes:
        """Add the items of ``batch``, the first of which has ``first_seq``.

        Small batches are added later.

        Returns the digest of these items alone, or empty bytes if they are few, since computing it
        for several joined batches is faster.
        """
        assert first_seq >= 0, first_seq
        is_next = first_seq == self._waiting_seq + self._waiting_rows
        if self._waiting and not (is_next and batch.schema.equals(self._waiting[0].schema)):
            self._flush_pending()  # a changed query may write more columns than before
        if batch.num_rows >= _SMALL_ROWS or has_dictionaries(batch.schema):
            self._flush_pending()
            added = self._add(first_seq, batch)
            return added.to_bytes() if batch.num_rows >= _SMALL_ROWS else b""
        if not self._waiting:
            self._waiting_seq = first_seq
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        if len(self._waiting) >= _WAITING_MAX:
            self._flush_pending()
        return b""

    def _flush_pending(self) -> None:
        """Add the collected batches."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._waiting_rows = 0
            self._add(self._waiting_seq, join_batches(waiting))

    def _add(self, first_seq: int, batch: pa.RecordBatch) -> StreamDigest:
        added = StreamDigest()
        for lo, words, free in _row_words(batch):
            words += _PLACES[: len(words)]
            words += np.uint64((first_seq + lo) * int(GOLDEN) & _MASK)
            _mix(words, free)
            lane_1 = int(words.sum())
            np.right_shift(words, np.uint64(29), out=free)
            words ^= free
            words *= _LANE_2
            np.right_shift(words, _HALF, out=free)
            words ^= free
            added._add_lanes(lane_1, int(words.sum()))
        self._add_lanes(added._lane_1, added._lane_2)
        return added

    def _add_lanes(self, lane_1: int, lane_2: int) -> None:
        self._lane_1 = (self._lane_1 + lane_1) & _MASK
        self._lane_2 = (self._lane_2 + lane_2) & _MASK

    def add(self, other: StreamDigest) -> None:
        """Add the items of ``other``."""
        self._flush_pending()
        other._flush_pending()
        self._add_lanes(other._lane_1, other._lane_2)

    def to_bytes(self) -> bytes:
        """Encode as 16 bytes, little endian, lane 1 first."""
        self._flush_pending()
        return self._lane_1.to_bytes(8, "little") + self._lane_2.to_bytes(8, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamDigest:
        """Decode the result of :meth:`to_bytes`."""
        assert len(data) == DIGEST_BYTES, len(data)
        digest = cls()
        digest._lane_1 = int.from_bytes(data[:8], "little")
        digest._lane_2 = int.from_bytes(data[8:], "little")
        return digest

    def hexdigest(self) -> str:
        """Return 32 hexadecimal digits."""
        return self.to_bytes().hex()

    def copy(self) -> StreamDigest:
        """Return an independent copy."""
        return StreamDigest.from_bytes(self.to_bytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamDigest) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        self._flush_pending()
        return self._lane_1

    def __repr__(self) -> str:
        return f"StreamDigest({self.hexdigest()})"


def content_hashes(batch: pa.RecordBatch) -> np.ndarray:
    """Return a hash of each row's content, uint64[n]; it depends on every bit."""
    hashes = np.empty(batch.num_rows, np.uint64)
    for lo, words, free in _row_words(batch):
        hashes[lo : lo + len(words)] = _mix(words, free)
    return hashes


def _row_words(batch: pa.RecordBatch) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield the words of the rows per block: first row, words, and scratch space of equal size.

    The arrays are reused for the next block, so that they stay in the processor's cache.
    """
    column_words = [_column(array, _multiplier(i)) for i, array in enumerate(batch.columns)]
    columns = [column for column in column_words if column is not None]
    space = np.empty((2, min(batch.num_rows, _BLOCK_ROWS)), np.uint64)
    for lo in range(0, batch.num_rows, _BLOCK_ROWS):
        words, term = space[:, : batch.num_rows - lo]
        words[:] = 0
        for column in columns:
            column.add_to(words, term, lo)
        yield lo, words, term


def _column(array: pa.Array, factor: np.uint64) -> _Dense | _Sparse | _Repeating | None:
    """Return the summand of a column; None if it is zero."""
    if is_dictionary(array.type) and 0 < len(array.dictionary) <= len(array):
        return _Repeating(array, factor)
    words, nulls = content_words(array)
    if words.dtype.itemsize == 1 and not len(nulls):
        rows = np.flatnonzero(words != 0)
        if len(rows) <= len(words) // _ROWS_PER_SPARSE:
            return _Sparse(rows, words, factor) if len(rows) else None
    return _Dense(words, nulls, factor)


class _Dense:
    """A column with one word per row."""

    def __init__(self, words: np.ndarray, nulls: np.ndarray, factor: np.uint64) -> None:
        self._words, self._nulls, self._factor = words, nulls, factor

    def add_to(self, total: np.ndarray, term: np.ndarray, lo: int) -> None:
        """Add the words of the rows from ``lo`` on to ``total``; ``term`` is scratch space."""
        words = self._words[lo : lo + len(total)]
        if words.dtype != np.uint64:
            words = words.astype(np.int64, copy=False).view(np.uint64)
        np.right_shift(words, _HALF, out=term)
        term ^= words
        if len(self._nulls):
            first, end = self._nulls.searchsorted([lo, lo + len(total)])
            term[self._nulls[first:end] - lo] = _NULL_TERM
        term *= self._factor
        total += term


class _Sparse:
    """A column of bytes that are mostly zero. Zeros add nothing to the sum and are skipped."""

    def __init__(self, rows: np.ndarray, words: np.ndarray, factor: np.uint64) -> None:
        self._rows = rows
        self._terms = _terms(words[rows].astype(np.int64).view(np.uint64), factor)

    def add_to(self, total: np.ndarray, term: np.ndarray, lo: int) -> None:
        """Implement :meth:`_Dense.add_to`."""
        del term
        first, end = self._rows.searchsorted([lo, lo + len(total)])
        total[self._rows[first:end] - lo] += self._terms[first:end]


class _Repeating:
    """A dictionary column: words are computed once per value."""

    def __init__(self, array: pa.DictionaryArray, factor: np.uint64) -> None:
        self._terms = _terms(value_words(array), factor)
        self._indices = value_buffer(array.indices, array.indices.type.to_pandas_dtype())
        self._nulls = null_rows(array)
        self._null_term = _terms(np.array([NULL_HASH]), factor)[0]

    def add_to(self, total: np.ndarray, term: np.ndarray, lo: int) -> None:
        """Implement :meth:`_Dense.add_to`."""
        indices = self._indices[lo : lo + len(total)]
        self._terms.take(indices, mode="clip", out=term)
        if len(self._nulls):
            first, end = self._nulls.searchsorted([lo, lo + len(total)])
            term[self._nulls[first:end] - lo] = self._null_term
        total += term


def _terms(words: np.ndarray, factor: np.uint64) -> np.ndarray:
    terms: np.ndarray = (words ^ (words >> _HALF)) * factor
    return terms


def _mix(x: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Compute :func:`rstream.items.hashing.fmix` with scratch space."""
    np.right_shift(x, np.uint64(30), out=free)
    x ^= free
    x *= MIX_1
    np.right_shift(x, np.uint64(27), out=free)
    x ^= free
    x *= MIX_2
    np.right_shift(x, np.uint64(31), out=free)
    x ^= free
    return x


@functools.cache
def _multiplier(column: int) -> np.uint64:
    """Return a fixed odd constant per column position."""
    seed = np.array([(column + 1) * int(GOLDEN) & _MASK], np.uint64)
    return np.uint64(int(fmix(seed)[0]) | 1)
