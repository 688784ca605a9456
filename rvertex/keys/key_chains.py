"""Collects row numbers per key until all numbers of a key are taken at once.

Invariants: (1) a number is returned once; (2) the time to add is proportional to the added numbers;
the time to take is proportional to the taken numbers, plus one pass for each block of the key with
the most blocks. Theory: the numbers that one call adds to a key are one contiguous block. Each
block links to the key's previous block. ``take`` follows the links of all keys at the same time.
"""

from __future__ import annotations

import numpy as np

from rvertex.events.group_scan import heads_of
from rvertex.events.timeline import sorting
from rvertex.keys.code_map import CodeMap

_NONE = -1


class _Growing:
    """An append-only array of int64 values."""

    def __init__(self) -> None:
        self._values = np.empty(1 << 10, np.int64)
        self.count = 0

    def append(self, values: np.ndarray) -> None:
        count = self.count + len(values)
        if count > len(self._values):
            grown = np.empty(max(count, 2 * len(self._values)), np.int64)
            grown[: self.count] = self._values[: self.count]
            self._values = grown
        self._values[self.count : count] = values
        self.count = count

    def take(self, at: np.ndarray) -> np.ndarray:
        return self._values.take(at)


class KeyChains:
    """Key codes -> the numbers added to them since they were last taken."""

    def __init__(self) -> None:
        self._latest = CodeMap(np.int32, _NONE)
        self._numbers = _Growing()
        self._lo, self._hi, self._before = _Growing(), _Growing(), _Growing()

    @property
    def size(self) -> int:
        """Number of row numbers ever added.

        If it is far above the numbers in use, the owner rebuilds.
        """
        return self._numbers.count

    def add(self, codes: np.ndarray, numbers: np.ndarray) -> None:
        """Add ``numbers[i]`` to the key ``codes[i]``; neither is negative."""
        if len(codes) == 0:
            return
        order = sorting(codes)
        codes = codes[order]
        at = np.flatnonzero(heads_of(codes))
        distinct = codes[at]
        block = self._lo.count + np.arange(len(at), dtype=np.int32)
        self._before.append(self._latest.get(distinct))
        self._latest.put(distinct, block)
        self._lo.append(self.size + at)
        self._hi.append(self.size + np.append(at[1:], len(codes)))
        self._numbers.append(numbers[order])

    def take(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Remove the numbers of distinct ``codes``.

        Return (i, number) for each number of ``codes[i]``.
        """
        block = self._latest.get(codes).astype(np.int64)
        which = np.flatnonzero(block != _NONE)
        block = block[which]
        self._latest.clear(codes[which])
        query, place = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        while len(block):  # Ends: every block comes after the one before it.
            lo, hi = self._lo.take(block), self._hi.take(block)
            lengths = hi - lo
            query.append(np.repeat(which, lengths))
            skipped = np.repeat(np.cumsum(lengths) - lengths, lengths)
            place.append(np.repeat(lo, lengths) + np.arange(len(skipped)) - skipped)
            block = self._before.take(block)
            more = np.flatnonzero(block != _NONE)
            which, block = which[more], block[more]
        return np.concatenate(query), self._numbers.take(np.concatenate(place))
