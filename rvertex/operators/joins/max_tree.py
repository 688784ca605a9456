"""Find the positions in ranges of an array whose values exceed a bound, for many ranges at once.

Joins search the ends of lifetimes: which rows of this key are still alive at this time? The time
depends on the positions found (times a logarithm), never on the positions skipped. Hence many
expired rows around a live one do not slow the search down.

Theory: a tree of maxima over the array, level by level. A range is the union of at most two nodes
per level. Nodes whose maximum exceeds the bound are expanded level by level, for all ranges
together. Short ranges are scanned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rvertex.state.hash_index import Blocks

if TYPE_CHECKING:
    from collections.abc import Callable

_SCAN_MAX = 16
#: A level of at least this many bytes is written to a file.
_KEPT_MIN = 1 << 20

#: Indexes of ranges, and for each range a node of the tree or a position in the array.
Found = tuple[np.ndarray, np.ndarray]


class MaxTree:
    """A tree of maxima over ``values`` int64[n], which must not change; built on first use.

    ``kept`` returns an equal array, which is kept instead of a level.
    """

    def __init__(
        self, values: np.ndarray | Blocks, kept: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> None:
        self._levels: list[np.ndarray | Blocks] = [values]
        self._kept = kept

    @property
    def values(self) -> np.ndarray | Blocks:
        return self._levels[0]

    def above(self, lo: np.ndarray, hi: np.ndarray, bound: np.ndarray) -> Found:
        """Return (i, p) for every p in ``[lo[i], hi[i])`` with ``values[p] > bound[i]``.

        The pairs are in any order.
        """
        lengths = hi - lo
        longest = int(lengths.max(initial=0))
        if longest <= _SCAN_MAX:
            return self._scan(lo, lengths, bound, longest)
        is_long = lengths > _SCAN_MAX
        longs, shorts = np.flatnonzero(is_long), np.flatnonzero(~is_long)
        i, p = self._scan(lo[shorts], lengths[shorts], bound[shorts], _SCAN_MAX)
        j, q = self._search(lo[longs], hi[longs], bound[longs])
        return np.concatenate([shorts[i], longs[j]]), np.concatenate([p, q])

    def _scan(self, lo: np.ndarray, lengths: np.ndarray, bound: np.ndarray, longest: int) -> Found:
        """Compare all positions of short ranges."""
        if longest <= 1 and bool(lengths.all()):
            matches = np.flatnonzero(self.values.take(lo) > bound)
            return matches, lo[matches]
        total = int(lengths.sum())
        query = np.repeat(np.arange(len(lo)), lengths)
        ends = np.cumsum(lengths)
        place = np.arange(total) + (lo - ends + lengths).take(query)
        matches = np.flatnonzero(self.values.take(place) > bound.take(query))
        return query[matches], place[matches]

    def _search(self, lo: np.ndarray, hi: np.ndarray, bound: np.ndarray) -> Found:
        """Expand nodes from the top; for long ranges."""
        entries = self._cover(lo, hi)
        query, node = np.empty(0, np.int64), np.empty(0, np.int64)
        for level in range(len(entries) - 1, -1, -1):
            entered = entries[level]
            query = np.concatenate([query, *(q for q, _ in entered)])
            node = np.concatenate([node, *(n for _, n in entered)])
            keep = np.flatnonzero(self._level(level).take(node) > bound.take(query))
            query, node = query[keep], node[keep]
            if level:
                query = np.repeat(query, 2)
                node = np.repeat(2 * node, 2)
                node[1::2] += 1
        return query, node

    def _cover(self, lo: np.ndarray, hi: np.ndarray) -> list[list[Found]]:
        """Return, per level, the nodes that together cover the ranges."""
        entries: list[list[Found]] = []
        query = np.arange(len(lo))
        while len(query):  # ends: each round halves the ranges
            first, last = (lo & 1).astype(bool), (hi & 1).astype(bool)
            entries.append([(query[first], lo[first]), (query[last], hi[last] - 1)])
            lo, hi = (lo + 1) >> 1, hi >> 1
            keep = lo < hi
            query, lo, hi = query[keep], lo[keep], hi[keep]
        return entries

    def _level(self, level: int) -> np.ndarray | Blocks:
        """Return the maxima of ``2**level`` positions each.

        The last maximum may be of fewer positions, and no cover uses it.
        """
        while len(self._levels) <= level:
            below = self._levels[-1]
            if isinstance(below, Blocks):
                below = below.whole()
            even = len(below) & ~1
            maxima = np.maximum(below[:even:2], below[1:even:2])
            if self._kept is not None and maxima.nbytes >= _KEPT_MIN:
                maxima = self._kept(maxima)
            self._levels.append(maxima)
        return self._levels[level]
