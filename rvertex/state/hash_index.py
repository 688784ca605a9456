"""An index of a run's rows by key hash, with a Bloom filter in front.

A lookup is per batch: the filter drops most hashes of other runs, a binary search finds the rest.
An entry has the low bits of a hash above the number of the row, so a plain sort makes the index.
Candidates may have different keys, so callers compare the keys.

Invariants: (1) every row of a hash is a candidate for it; (2) the filter never drops a hash that
the run has. Source: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters"
(blocks of one word).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Hashes per 64-bit word of the filter, which is 16 bits for each.
_PER_WORD = 4
#: Bits of a word that are set for a hash. One hash of 150 passes wrongly.
_BITS = 4
_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)
_BIT = np.uint64(63)
_BIT_WIDTH = 6
_BLOCK = 1 << 16
#: Bits of an entry for the row; the others are for the hash.
_ROW_BITS = np.uint64(23)
_ROW_MASK = np.uint64(2**23 - 1)


class BloomFilter:
    """Tells for certain that a hash was not added.

    Vertices own ranges of the upper half of a hash, so the word follows from the lower half.
    """

    def __init__(self, hashes: np.ndarray) -> None:
        self._words = np.zeros(len(hashes) // _PER_WORD + 1, np.uint64)
        for lo in range(0, len(hashes), _BLOCK):  # temporaries stay small
            some = hashes[lo : lo + _BLOCK]
            np.bitwise_or.at(self._words, self._places(some), _bits(some))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self._words.nbytes)

    def may_have(self, hashes: np.ndarray) -> np.ndarray:
        """False for hashes that were not added, bool[n]."""
        bits = _bits(hashes)
        found: np.ndarray = (self._words.take(self._places(hashes)) & bits) == bits
        return found

    def _places(self, hashes: np.ndarray) -> np.ndarray:
        places: np.ndarray = (hashes & _LOW) * np.uint64(len(self._words)) >> _HALF
        return places.view(np.int64)


def _bits(hashes: np.ndarray) -> np.ndarray:
    bits = np.zeros(len(hashes), np.uint64)
    for i in range(_BITS):
        bits |= np.uint64(1) << (hashes >> np.uint64(32 + i * _BIT_WIDTH) & _BIT)
    return bits


class HashIndex:
    """The rows of a run by hash, uint64[rows]."""

    def __init__(
        self,
        hashes: np.ndarray,
        store: Callable[[Sequence[pa.RecordBatch]], list[pa.RecordBatch]],
    ) -> None:
        """``store``: writes batches to scratch, or returns them as they are."""
        assert len(hashes) <= _ROW_MASK, len(hashes)
        self._filter = BloomFilter(hashes)
        entries = hashes << _ROW_BITS
        entries |= np.arange(len(hashes), dtype=np.uint64)
        entries.sort()
        (stored,) = store([pa.RecordBatch.from_arrays([pa.array(entries)], names=["entry"])])
        self._entries: np.ndarray = stored.column(0).to_numpy()

    @property
    def filter_bytes(self) -> int:
        """Bytes of the filter, which stays in memory."""
        return self._filter.nbytes

    def candidates(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a position in ``hashes`` and a row that may have that hash, int64[m] each."""
        needles = np.flatnonzero(self._filter.may_have(hashes))
        wanted = hashes[needles] << _ROW_BITS
        order = np.argsort(wanted)  # neighbours are found in neighbouring memory
        needles, wanted = needles[order], wanted[order]
        first = np.searchsorted(self._entries, wanted)
        count = np.searchsorted(self._entries, wanted | _ROW_MASK, side="right") - first
        pairs = np.repeat(np.arange(len(needles)), count)
        offset = np.arange(len(pairs)) - np.repeat(np.cumsum(count) - count, count)
        rows = self._entries[first[pairs] + offset] & _ROW_MASK
        return needles[pairs], rows.view(np.int64)
