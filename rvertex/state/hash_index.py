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
from functools import cached_property
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


class Blocks:
    """An array in consecutive blocks, none of which is empty. Blocks may be mapped from files."""

    def __init__(self, blocks: Sequence[np.ndarray]) -> None:
        self.blocks = blocks
        self._starts = np.cumsum([0, *map(len, blocks)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def whole(self) -> np.ndarray:
        """Return all values; a copy if there are several blocks."""
        return self.blocks[0] if len(self.blocks) == 1 else np.concatenate(self.blocks)

    def take(self, at: np.ndarray) -> np.ndarray:
        """Return the values at these positions."""
        if len(self.blocks) == 1:
            return self.blocks[0].take(at)
        taken = np.empty(len(at), self.blocks[0].dtype)
        block = self._starts.searchsorted(at, side="right") - 1
        order = np.argsort(block, kind="stable")
        for k, some in by_block(block[order]):
            of_block = order[some]
            taken[of_block] = self.blocks[k].take(at[of_block] - self._starts[k])
        return taken

    def first_at(self, wanted: np.ndarray) -> np.ndarray:
        """Return, per sorted value, the position of the first value at or after it.

        The values of the blocks must increase.
        """
        if len(self.blocks) == 1:
            return self.blocks[0].searchsorted(wanted)
        block = np.maximum(self._fences.searchsorted(wanted, side="right") - 1, 0)
        first = self._starts[block]
        for k, at in by_block(block):
            first[at] += self.blocks[k].searchsorted(wanted[at])
        return first

    @cached_property
    def _fences(self) -> np.ndarray:
        return np.array([block[0] for block in self.blocks])


class HashIndex:
    """The rows of a run by hash: an entry for each row."""

    def __init__(self, blocks: Sequence[np.ndarray], bloom: BloomFilter) -> None:
        """Index sorted entries, uint64[n > 0] per block, increasing from block to block."""
        self.entries, self.bloom = Blocks(blocks), bloom

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
        entries, bloom = sorted_entries(blocks, rows)
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
        needles, first, count = self.ranges(hashes)
        pairs = np.repeat(np.arange(len(needles)), count)
        offset = np.arange(len(pairs)) - np.repeat(np.cumsum(count) - count, count)
        return needles[pairs], self.rows(first[pairs] + offset)

    def ranges(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions in ``hashes``; for each its first entry and its number of entries.

        Other hashes have no entries.
        """
        needles = np.flatnonzero(self.bloom.may_have(hashes))
        wanted = hashes[needles] << ROW_BITS
        order = np.argsort(wanted)  # looking up sorted hashes reads memory in order
        needles, wanted = needles[order], wanted[order]
        first = self.entries.first_at(wanted)
        # row numbers are below ROW_MASK
        return needles, first, self.entries.first_at(wanted + ROW_MASK) - first

    def between(self, low: int, high: int) -> np.ndarray:
        """Return the sorted entries whose hash is from ``low`` to ``high``, exclusive."""
        last = min(high << int(ROW_BITS), 2**64 - 1)  # no entry has all bits set
        bounds = np.array([low << int(ROW_BITS), last], np.uint64)
        first, end = self.entries.first_at(bounds).tolist()
        return self.entries.take(np.arange(first, end))

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return the rows of the entries with these numbers."""
        return rows_of(self.entries.take(numbers))


def sorted_entries(blocks: Iterable[np.ndarray], rows: int) -> tuple[np.ndarray, BloomFilter]:
    """Return the sorted entries of consecutive blocks of ``rows`` hashes, and their filter."""
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
    return entries, bloom


def rows_of(entries: np.ndarray) -> np.ndarray:
    """Return the rows of entries, int64[n]."""
    rows: np.ndarray = (entries & ROW_MASK).view(np.int64)
    return rows


def order_by_hash(entries: np.ndarray) -> np.ndarray:
    """Return the stable order of entries by hash, int64[n], whichever index they are in."""
    return np.argsort(entries >> ROW_BITS, kind="stable")


def in_this_order(entries: np.ndarray) -> np.ndarray:
    """Return entries with the same hashes, whose rows are numbered in this order."""
    return (entries & ~ROW_MASK) | np.arange(len(entries), dtype=np.uint64)


def by_block(blocks: np.ndarray) -> Iterator[tuple[int, slice]]:
    """Yield each block number of a non-decreasing array, and the slice of its occurrences."""
    starts = np.flatnonzero(heads_of(blocks)).tolist()
    for lo, hi in itertools.pairwise([*starts, len(blocks)]):
        yield int(blocks[lo]), slice(lo, hi)


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
