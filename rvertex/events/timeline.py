"""Rows by key and time: the vectorised steps that coverage, clipping and stitching share.

All methods work on the rows of one step, for all keys at once.
"""

from __future__ import annotations

import numpy as np

from rvertex.events.group_scan import group_start, heads_of
from rvertex.events.ordering import stable_order


def sorting(codes: np.ndarray) -> np.ndarray:
    """Return the row numbers int64[n] that sort ``codes``, stably; 0, 1, ... if they are sorted."""
    order = stable_order(codes)
    return np.arange(len(codes)) if order is None else order


def before_each(first: np.ndarray, running: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """Return the running value before each row; ``initial`` for the first row of a group."""
    before = np.empty_like(running)
    before[1:] = running[:-1]
    return np.where(first, initial, before)


class Timeline:
    """Marks and rows of the same keys, sorted by (code, time), marks before rows at equal time.

    Both must be sorted by time when they are passed in.
    """

    def __init__(
        self,
        mark_codes: np.ndarray,
        mark_times: np.ndarray,
        row_codes: np.ndarray,
        row_times: np.ndarray,
    ) -> None:
        codes = np.concatenate([mark_codes, row_codes])
        by_time = np.argsort(np.concatenate([mark_times, row_times]), kind="stable")
        order = by_time[sorting(codes[by_time])]
        self._order, self._codes = order, codes[order]
        self._is_mark = order < len(mark_codes)
        self._place = np.flatnonzero(~self._is_mark)
        self._row = order[self._place] - len(mark_codes)

    def mark_at_or_before(self) -> np.ndarray:
        """Return, for each row, the last mark of its key at or before it; -1 if there is none."""
        last = np.maximum.accumulate(np.where(self._is_mark, np.arange(len(self._order)), -1))
        return self._answer(last[self._place], none=-1)

    def mark_after(self) -> np.ndarray:
        """Return, for each row, the first later mark of its key; -1 if there is none."""
        n = len(self._order)
        at = np.where(self._is_mark, np.arange(n), n)
        following = np.minimum.accumulate(at[::-1])[::-1]
        return self._answer(following[self._place], none=n)

    def rows_before_marks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return (rows, marks, lo, hi) such that ``rows[lo[i]:hi[i]]`` precede mark ``marks[i]``.

        These rows have the key of the mark. ``rows`` and ``marks`` are the numbers of all rows and
        marks, in the order of the timeline.
        """
        place = np.flatnonzero(self._is_mark)
        begins = group_start(heads_of(self._codes))
        rows_ahead = np.cumsum(~self._is_mark) - ~self._is_mark
        return self._row, self._order[place], rows_ahead[begins[place]], rows_ahead[place]

    def _answer(self, positions: np.ndarray, none: int) -> np.ndarray:
        exists = positions != none
        positions = np.where(exists, positions, 0)
        exists &= self._codes[positions] == self._codes[self._place] if len(positions) else exists
        out = np.empty(len(positions), np.int64)
        out[self._row] = np.where(exists, self._order[positions], -1)
        return out
