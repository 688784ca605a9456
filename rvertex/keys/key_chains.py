"""Numbers that wait by key until all those of a key are taken at once.

Invariants: (1) a number is given back once; (2) adding costs time in what is added; taking costs
time in what is taken, and one pass per step in which the longest waiting key was added to.
Theory: the numbers that one step adds to a key lie side by side, and each such block knows the
block before it. All keys walk back along their blocks together.
"""

from __future__ import annotations

import numpy as np

from rvertex.events.group_scan import heads_of
from rvertex.events.timeline import sorting
from rvertex.keys.code_map import CodeMap

_NONE = -1


class _Growing:
    """int64 values that are only added to."""

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
        """Numbers ever added: what the owner compares with what is in use."""
        return self._numbers.count

    def add(self, codes: np.ndarray, numbers: np.ndarray) -> None:
        """Let ``numbers`` wait under ``codes``, none negative."""
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
        """(i, number) for every number that waits under ``codes[i]``; the codes are distinct."""
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
