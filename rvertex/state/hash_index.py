"""An index of a run's rows by key hash, with a Bloom filter in front.

A lookup is per batch: the filter drops most hashes of other runs, and a binary search finds the
other hashes. An entry has the low bits of a hash above the number of the row, so a plain sort makes
the index. Candidates may have different keys, so callers compare the keys.

Invariants: (1) every row of a hash is a candidate for it; (2) the filter never drops a hash that
the run has. Source: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters"
(blocks of one word).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.events.group_scan import heads_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: Hashes per 64-bit word of the filter, that is, 16 bits per hash.
_PER_WORD = 4
#: Bits of a word that are set for a hash. About one unknown hash of 150 passes the filter.
_BITS = 4
_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)
_BIT = np.uint64(63)
_BIT_WIDTH = 6
_BLOCK = 1 << 16
#: Bits of an entry for the row. The other bits are for the hash.
ROW_BITS = np.uint64(23)
ROW_MASK = np.uint64(2**23 - 1)
#: Number of different hashes in entries.
HASHES = 1 << 64 - 23
_NO_HASHES = np.empty(0, np.uint64)


class BloomFilter:
    """A filter that recognises most hashes that were not added, and never rejects an added one.

    Vertices own ranges of the upper half of a hash, so the word is chosen by the lower half.
    """

    def __init__(self, hashes: np.ndarray, words: np.ndarray | None = None) -> None:
        """Add ``hashes``; ``words``: a saved filter of the same hashes, which is used instead."""
        if words is not None:
            self.words = words
            return
        self.words = no_words(len(hashes))
        self.add(hashes)

    def add(self, hashes: np.ndarray) -> None:
        """Set the bits of these hashes."""
        for lo in range(0, len(hashes), _BLOCK):  # so that temporary arrays stay small
            some = hashes[lo : lo + _BLOCK]
            np.bitwise_or.at(self.words, self._places(some), _bits(some))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.words.nbytes)

    def may_have(self, hashes: np.ndarray) -> np.ndarray:
        """Return False for hashes that were certainly not added, bool[n]."""
        bits = _bits(hashes)
        may: np.ndarray = (self.words.take(self._places(hashes)) & bits) == bits
        return may

    def _places(self, hashes: np.ndarray) -> np.ndarray:
        places: np.ndarray = (hashes & _LOW) * np.uint64(len(self.words)) >> _HALF
        return places.view(np.int64)


def _bits(hashes: np.ndarray) -> np.ndarray:
    bits = np.zeros(len(hashes), np.uint64)
    for i in range(_BITS):
        bits |= np.uint64(1) << (hashes >> np.uint64(32 + i * _BIT_WIDTH) & _BIT)
    return bits


def no_words(rows: int) -> np.ndarray:
    """Return the words of an empty filter for this number of hashes."""
    return np.zeros(rows // _PER_WORD + 1, np.uint64)


class HashIndex:
    """The rows of a run by hash, uint64[rows]."""

    def __init__(self, blocks: Sequence[np.ndarray], bloom: BloomFilter) -> None:
        """Index sorted entries, uint64[n > 0] per block, increasing from block to block."""
        #: Sorted entries; and the first entry and row number of each block.
        self.blocks, self.bloom = blocks, bloom
        self._fences = np.array([block[0] for block in blocks], np.uint64)
        self._starts = np.cumsum([0, *(len(block) for block in blocks)])

    @classmethod
    def of(
        cls,
        blocks: Iterable[np.ndarray],
        rows: int,
        store: Callable[[Sequence[pa.RecordBatch]], list[pa.RecordBatch]],
    ) -> HashIndex:
        """Return an index of the hashes of consecutive blocks of ``rows`` rows.

        ``store`` writes batches to scratch, or returns them unchanged.
        """
        assert 0 < rows <= ROW_MASK, rows
        entries, bloom = np.empty(rows, np.uint64), BloomFilter(_NO_HASHES, no_words(rows))
        at = 0
        for hashes in blocks:
            some = entries[at : at + len(hashes)]
            np.left_shift(hashes, ROW_BITS, out=some)
            some |= np.arange(at, at + len(hashes), dtype=np.uint64)
            bloom.add(hashes)
            at += len(hashes)
        entries.sort()
        (stored,) = store([pa.RecordBatch.from_arrays([pa.array(entries)], names=["entry"])])
        return cls([stored.column(0).to_numpy()], bloom)

    @property
    def filter_bytes(self) -> int:
        """Bytes of the filter, which stays in memory."""
        return self.bloom.nbytes

    def candidates(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs of a position in ``hashes`` and a row that may have that hash.

        Each is int64[m].
        """
        needles = np.flatnonzero(self.bloom.may_have(hashes))
        wanted = hashes[needles] << ROW_BITS
        order = np.argsort(wanted)  # looking up sorted hashes reads memory in order
        needles, wanted = needles[order], wanted[order]
        first = self._first_at(wanted)
        count = self._first_at(wanted + ROW_MASK) - first  # row numbers are below ROW_MASK
        pairs = np.repeat(np.arange(len(needles)), count)
        offset = np.arange(len(pairs)) - np.repeat(np.cumsum(count) - count, count)
        rows = self._entries(first[pairs] + offset) & ROW_MASK
        return needles[pairs], rows.view(np.int64)

    def between(self, low: int, high: int) -> np.ndarray:
        """Return the sorted entries whose hash is from ``low`` to ``high``, exclusive."""
        last = min(high << int(ROW_BITS), 2**64 - 1)  # no entry has all bits set
        bounds = np.array([low << int(ROW_BITS), last], np.uint64)
        first, end = self._first_at(bounds).tolist()
        return self._entries(np.arange(first, end))

    def _first_at(self, wanted: np.ndarray) -> np.ndarray:
        """Return, per sorted value, the number of the first entry at or after it."""
        block = np.maximum(self._fences.searchsorted(wanted, side="right") - 1, 0)
        first = self._starts[block]
        for k, at in by_block(block):
            first[at] += self.blocks[k].searchsorted(wanted[at])
        return first

    def _entries(self, numbers: np.ndarray) -> np.ndarray:
        """Return the entries with these sorted numbers."""
        block = self._starts.searchsorted(numbers, side="right") - 1
        parts = [self.blocks[k][numbers[at] - self._starts[k]] for k, at in by_block(block)]
        return np.concatenate([np.empty(0, np.uint64), *parts])


def by_block(blocks: np.ndarray) -> Iterator[tuple[int, slice]]:
    """Yield each block number of a non-decreasing array, and the slice of its occurrences."""
    starts = np.flatnonzero(heads_of(blocks)).tolist()
    for lo, hi in itertools.pairwise([*starts, len(blocks)]):
        yield int(blocks[lo]), slice(lo, hi)


def sorted_hashes(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return uint64[n] in order, and the stable sorting permutation int64[n].

    The upper bits of each hash and its row number are packed into one integer, because the plain
    sort of these takes half the time of a stable argsort.
    """
    rows = np.arange(len(hashes), dtype=np.uint64)
    row_bits = len(hashes).bit_length()
    low = hashes.min(initial=2**64 - 1)
    span = int(hashes.max(initial=low)) - int(low)
    packed = hashes - low
    packed >>= np.uint64(max(span.bit_length() + row_bits - 64, 0))
    packed <<= np.uint64(row_bits)
    packed |= rows
    packed.sort()
    packed &= np.uint64((1 << row_bits) - 1)
    order = packed.view(np.int64)
    in_order = hashes.take(order)
    if (in_order[1:] < in_order[:-1]).any():  # hashes that differ only in the lowest bits
        order = np.argsort(hashes, kind="stable")
        in_order = hashes.take(order)
    return in_order, order


def equal_keys(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> np.ndarray:
    """Return whether keys are equal row by row, bool[n]. Null equals null, NaN equals NaN."""
    same = np.ones(len(left[0]), bool)
    for a, b in zip(left, right, strict=True):
        both = _both(pc.is_null(a), pc.is_null(b))
        if pa.types.is_floating(a.type):
            a, b = a.cast(pa.float64()), b.cast(pa.float64())
            both |= _both(pc.is_nan(a), pc.is_nan(b))
        if not pa.types.is_null(a.type):
            both |= pc.equal(a, b).fill_null(False).to_numpy(zero_copy_only=False)
        same &= both
    return same


def _both(left: pa.Array, right: pa.Array) -> np.ndarray:
    masks = [m.fill_null(False).to_numpy(zero_copy_only=False) for m in (left, right)]
    both: np.ndarray = masks[0] & masks[1]
    return both
