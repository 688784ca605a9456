"""How many rows of each code are alive, and since when there are some, or none.

Invariant: a count follows from all births and deaths of its code up to an instant, taken together:
a row that ends at the instant at which another one begins leaves no gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.group_arrays import GroupArray
from rvertex.events.group_scan import group_start, heads_of


@dataclass(frozen=True, slots=True)
class Spans:
    """Stretches of time of a code, int64[n] each, sorted by (code, start); an end may be open."""

    codes: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Presence:
    """Counts by code; a code that never had a row is absent since MIN_TIME."""

    def __init__(self) -> None:
        self._count = GroupArray(np.int64, 0)
        self._since = GroupArray(np.int64, MIN_TIME)

    def cover(self, codes: int) -> None:
        """Grow the arrays to ``codes`` entries."""
        if codes > len(self._count):
            self._count.writable(codes)
            self._since.writable(codes)

    def now(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether each code is present, bool[n], and since when it has been so or not, int64[n]."""
        return self._count.read()[codes] > 0, self._since.read()[codes]

    def of(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many rows each code has, and since when it has some or none, int64[n] each."""
        return self._count.read()[codes], self._since.read()[codes]

    def keep(self, codes: np.ndarray) -> None:
        """Code ``codes[i]`` becomes i, all others are forgotten."""
        self.adopt(*self.of(codes))

    def change(self, codes: np.ndarray, times: np.ndarray, deltas: np.ndarray) -> Spans:
        """Count births (+1) and deaths (-1); returns the stretches in which their codes are absent.

        A stretch that ended before is left out, one that is open now is among them.
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
        # One row per code and instant, with the count after it.
        codes, times, count = codes[last], times[last], count[last]
        assert (count >= 0).all(), "more rows of a code end than began"
        head = heads_of(codes)
        before = np.append(0, count[:-1])
        before[head] = self._count.read()[codes[head]]
        turns = (before > 0) != (count > 0)
        return self._spans(codes, times, count, turns, head)

    def adopt(self, count: np.ndarray, since: np.ndarray) -> None:
        """Take over the counts of all codes, int64[codes], and since when they are 0 or are not."""
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
        """The stretches without a row that begin or end at ``turns``, and those that go on."""
        touched = codes[head]
        was = self._since.read()[touched]
        had = self._count.read()[touched] == 0
        last = np.append(head[1:], True)
        self._count.writable(len(self._count))[codes[last]] = count[last]
        since = self._since.writable(len(self._since))
        turned = np.flatnonzero(turns)
        since[codes[turned]] = times[turned]  # of several the last one stays
        opens = turned[count[turned] == 0]
        closes = turned[count[turned] > 0]
        starts = np.concatenate([was[had], times[opens]])
        of = np.concatenate([touched[had], codes[opens]])
        order = np.lexsort((starts, of))
        starts, of = starts[order], of[order]
        ends = np.full(len(starts), INF_TIME)
        # A stretch ends at the first closing of its code after its start.
        if len(closes):
            cell = np.lexsort((times[closes], codes[closes]))
            close_codes, close_times = codes[closes][cell], times[closes][cell]
            number = np.arange(len(of)) - group_start(heads_of(of)) if len(of) else of
            at = close_codes.searchsorted(of) + number
            safe = np.minimum(at, len(close_codes) - 1)
            hit = (at < len(close_codes)) & (close_codes[safe] == of)
            ends[hit] = close_times[safe[hit]]
        return Spans(of, starts, ends)
