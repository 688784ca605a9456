"""A log of windows, numbered by start: which are open, and which may be emitted.

It is used for windows whose bounds depend on the data (sessions, counts, snapshots). A window has a
start, an end and a time ``close``. A *promise* of ``t`` means that no event before t follows; it
closes the window if ``close <= t``. A window whose end is unknown closes at ``INF_TIME``.

Invariants: (1) starts do not decrease with the number; (2) a closed window does not change; (3)
only windows that start before every open window are released, so results come in start order; (4)
``CTI(t)`` (a watermark) becomes the start of the earliest window open at t, or t if there is none.
Both depend only on the windows, not on when they are checked; (5) a call takes amortised time in
the windows that it adds, changes and releases.

Theory: the number of the first open window never decreases, so one cursor is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.types import INF_TIME
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.run import growing

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The ``end`` of a window whose end is not known yet.
NO_END = -(2**63)
_LOOK_MIN = 64
_DROP_MIN = 1024


class WindowLog:
    """Windows from ``first`` to ``next``. Windows below ``released`` have been released.

    ``links``: number of additional int64 columns per window, for the caller.
    """

    def __init__(self, links: int = 0) -> None:
        self.first = 0
        self.released = 0
        self._open = 0
        self._last_cti: int | None = None
        self._starts = GroupArray(np.int64, 0)
        self._ends = GroupArray(np.int64, NO_END)
        self._closes = GroupArray(np.int64, INF_TIME)
        self._links = [GroupArray(np.int64, -1) for _ in range(links)]

    @property
    def next(self) -> int:
        """The number of the next window."""
        return self.first + len(self._starts)

    def add(self, starts: np.ndarray) -> np.ndarray:
        """Add windows, sorted by start; return their numbers."""
        known = len(self._starts)
        if len(starts) == 0:
            return np.empty(0, np.int64)
        assert (np.diff(starts) >= 0).all(), starts
        assert known == 0 or self._starts.read()[-1] <= starts[0], starts
        count = known + len(starts)
        self._starts.writable(count)[known:] = starts
        for column in (self._ends, self._closes, *self._links):
            column.writable(count)
        return np.arange(known, count) + self.first

    def set_ends(self, windows: np.ndarray, ends: np.ndarray, closes: np.ndarray) -> None:
        """Set the ends of open windows, and the times that close them (see the module)."""
        if len(windows) == 0:
            return
        assert int(windows.min()) >= self.released, (windows, self.released)
        self._ends.writable(len(self._ends))[windows - self.first] = ends
        self._closes.writable(len(self._closes))[windows - self.first] = closes

    def link(self, column: int, windows: np.ndarray, values: np.ndarray) -> None:
        """Set a column that the caller owns."""
        if len(windows):
            self._links[column].writable(len(self._starts))[windows - self.first] = values

    def starts(self, windows: np.ndarray) -> np.ndarray:
        return self._starts.read()[windows - self.first]  # type: ignore[no-any-return]

    def ends(self, windows: np.ndarray) -> np.ndarray:
        return self._ends.read()[windows - self.first]  # type: ignore[no-any-return]

    def links(self, column: int, windows: np.ndarray) -> np.ndarray:
        return self._links[column].read()[windows - self.first]  # type: ignore[no-any-return]

    def advance(self, promise: int, ctis: np.ndarray) -> tuple[int, np.ndarray]:
        """Close windows, given that no event before ``promise`` follows. ``ctis``: the new CTIs.

        Returns the first window that must not be released yet, and the output CTIs.
        """
        before = self._open
        self._open = self._first_open(promise)
        starts, closes = self._starts.read(), self._closes.read()
        span = slice(before - self.first, self._open - self.first + 1)
        at = np.searchsorted(np.maximum.accumulate(closes[span]), ctis, side="right")
        known = np.append(starts[span], INF_TIME)
        out = growing(np.minimum(ctis, known[at]), self._last_cti)
        if len(out):
            self._last_cti = int(out[-1])
        upto = self._open
        if upto < self.next:
            waiting = starts[self.released - self.first : upto - self.first]
            upto = self.released + int(waiting.searchsorted(starts[upto - self.first]))
        return upto, out

    def release(self, upto: int) -> None:
        """Drop the windows below ``upto``."""
        assert self.released <= upto <= self._open, (self.released, upto, self._open)
        self.released = upto
        done = upto - self.first
        if done > _DROP_MIN and 2 * done > len(self._starts):
            for column in (self._starts, self._ends, self._closes, *self._links):
                column.adopt(column.read()[done:].copy())
            self.first = upto

    def save(self) -> tuple[dict[str, int | None], dict[str, pa.Table]]:
        """Return header and table, by reference."""
        header = {
            "first": self.first,
            "released": self.released,
            "open": self._open,
            "last_cti": self._last_cti,
        }
        columns = {f"c{i}": pa.array(c.shared()) for i, c in enumerate(self._columns())}
        return header, {"windows": pa.table(columns)}

    def restore(self, header: Mapping[str, int | None], tables: Mapping[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned."""
        first, released, open_ = header["first"], header["released"], header["open"]
        assert first is not None
        assert released is not None
        assert open_ is not None
        self.first, self.released, self._open = first, released, open_
        self._last_cti = header["last_cti"]
        for i, column in enumerate(self._columns()):
            column.adopt(numbers(as_one_array(tables["windows"].column(i))))

    def _columns(self) -> list[GroupArray]:
        return [self._starts, self._ends, self._closes, *self._links]

    def _first_open(self, promise: int) -> int:
        """Return the first window, from the cursor on, that closes later than ``promise``."""
        at, look = self._open - self.first, _LOOK_MIN
        closes = self._closes.read()
        while at < len(closes):
            late = closes[at : at + look] > promise
            if late.any():
                return self.first + at + int(late.argmax())
            at += len(late)
            look *= 2
        return self.next
