"""The number of live rows per code, and since when there are some, or none.

Invariant: a count takes all starts and ends of its code at an instant together. So a row that
ends at the instant at which another one begins leaves no gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.group_arrays import GroupArray
from rvertex.events.group_scan import group_start, heads_of


@dataclass(frozen=True, slots=True)
class Spans:
    """Time spans of codes, int64[n] each, sorted by (code, start). The end INF_TIME is unknown."""

    codes: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Presence:
    """Counts rows by code; a code that never had a row has count 0 since MIN_TIME."""

    def __init__(self) -> None:
        self._count = GroupArray(np.int64, 0)
        self._since = GroupArray(np.int64, MIN_TIME)

    def cover(self, codes: int) -> None:
        """Grow the arrays to ``codes`` entries."""
        if codes > len(self._count):
            self._count.writable(codes)
            self._since.writable(codes)

    def now(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each code has rows, bool[n], and since when that is so, int64[n]."""
        return self._count.read()[codes] > 0, self._since.read()[codes]

    def of(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the count of each code, and since when it is 0 or positive, int64[n] each."""
        return self._count.read()[codes], self._since.read()[codes]

    def keep(self, codes: np.ndarray) -> None:
        """Renumber code ``codes[i]`` to i and drop all other codes."""
        self.adopt(*self.of(codes))

    def change(self, codes: np.ndarray, times: np.ndarray, deltas: np.ndarray) -> Spans:
        """Add starts (+1) and ends (-1); return the spans in which their codes have no rows.

        The result has the spans that begin or end in this step, and all open ones.
        """
        if len(codes) == 0:
            return Spans(*(np.empty(0, np.int64) for _ in range(3)))
        order = np.lexsort((times, codes))
        codes, times, deltas = codes[order], times[order], deltas[order]
        last = np.append(heads_of(codes, times)[1:], True)
        total = np.cumsum(deltas)
        heads = heads_of(codes)
        first = group_start(heads)
        count = total - total[first] + deltas[first] + self._count.read()[codes]
        # Keep one entry per code and instant: the count after all changes at that instant.
        codes, times, count = codes[last], times[last], count[last]
        assert (count >= 0).all(), "more rows of a code end than began"
        head = heads_of(codes)
        before = np.append(0, count[:-1])
        before[head] = self._count.read()[codes[head]]
        turns = (before > 0) != (count > 0)
        return self._spans(codes, times, count, turns, head)

    def adopt(self, count: np.ndarray, since: np.ndarray) -> None:
        """Restore the counts of all codes, int64[codes], and since when each is 0 or positive."""
        self._count.adopt(count)
        self._since.adopt(since)

    def _spans(
        self,
        codes: np.ndarray,
        times: np.ndarray,
        count: np.ndarray,
        turns: np.ndarray,
        head: np.ndarray,
    ) -> Spans:
        """Return the spans without rows that begin or end at ``turns``, and all open ones."""
        touched = codes[head]
        was = self._since.read()[touched]
        had = self._count.read()[touched] == 0
        last = np.append(head[1:], True)
        self._count.writable(len(self._count))[codes[last]] = count[last]
        since = self._since.writable(len(self._since))
        turned = np.flatnonzero(turns)
        since[codes[turned]] = times[turned]  # on repeated codes the last assignment wins
        opens = turned[count[turned] == 0]
        closes = turned[count[turned] > 0]
        starts = np.concatenate([was[had], times[opens]])
        of = np.concatenate([touched[had], codes[opens]])
        order = np.lexsort((starts, of))
        starts, of = starts[order], of[order]
        ends = np.full(len(starts), INF_TIME)
        # A span ends at the first time after its start at which its code has rows again.
        if len(closes):
            cell = np.lexsort((times[closes], codes[closes]))
            close_codes, close_times = codes[closes][cell], times[closes][cell]
            number = np.arange(len(of)) - group_start(heads_of(of)) if len(of) else of
            at = close_codes.searchsorted(of) + number
            safe = np.minimum(at, len(close_codes) - 1)
            hit = (at < len(close_codes)) & (close_codes[safe] == of)
            ends[hit] = close_times[safe[hit]]
        return Spans(of, starts, ends)
