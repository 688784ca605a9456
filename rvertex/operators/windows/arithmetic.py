"""Arithmetic of hopping windows: window k is ``[kH, kH + S)``, for all integers k.

S is the size and H the step (``every``). Windows that reach beyond the time axis
``[MIN_TIME, INF_TIME]`` do not exist. All results are int64, and no intermediate value overflows
for any times, sizes and steps.

Invariants: (1) an event ``[vs, ve)`` is in exactly the windows ``first_window(vs)`` to
``last_window(ve)``; with ``H > S`` that may be none; (2) ``earliest_open(t)`` is the start of the
first window with an end after ``t``, which is the CTI that a window aggregate emits for ``CTI(t)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import InvalidWindowError

#: If at least this many rows share a quotient on average, a binary search is faster than a
#: division.
_ROWS_PER_QUOTIENT = 16


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of ``size`` microseconds, one every ``every`` microseconds; both at least 1."""

    size: int
    every: int

    def __post_init__(self) -> None:
        for name, value in (("size", self.size), ("every", self.every)):
            if not 0 < value <= INF_TIME:
                raise InvalidWindowError(f"{name} must be at least 1 microsecond, got {value}")

    @property
    def pane(self) -> Windows:
        """The tumbling windows of length ``gcd(size, every)``, of which every window consists."""
        unit = math.gcd(self.size, self.every)
        return Windows(unit, unit)

    @property
    def lowest(self) -> int:
        """The first window that exists."""
        return -(-MIN_TIME // self.every)

    @property
    def highest(self) -> int:
        """The last window that exists."""
        return (INF_TIME - self.size) // self.every

    def first_window(self, vs: np.ndarray) -> np.ndarray:
        """Return the first window with an end after ``vs``, int64[n]; ``highest + 1`` if none."""
        if len(vs) >= _ROWS_PER_QUOTIENT:
            low, high = self.first_window(np.array([vs.min(), vs.max()])).tolist()
            if low == high:
                return np.full(len(vs), low)
        whole, rest = divmod(self.size, self.every)
        step = vs // self.every
        follows = vs - step * self.every >= rest
        window = np.maximum(step, self.lowest + whole) - whole + follows
        window[step < self.lowest + whole] = self.lowest
        clipped: np.ndarray = np.minimum(window, self.highest + 1)
        return clipped

    def last_window(self, ve: np.ndarray) -> np.ndarray:
        """Return the last window that starts before ``ve``. int64[n]."""
        if len(ve) >= _ROWS_PER_QUOTIENT:
            low, high = self.last_window(np.array([ve.min(), ve.max()])).tolist()
            if low == high:
                return np.full(len(ve), low)
        window: np.ndarray = np.minimum((ve - 1) // self.every, self.highest)
        return window

    def holds(self, times: np.ndarray, least: int, greatest: int) -> np.ndarray | None:
        """Return which ``times`` are in a window; None: all of them.

        Times in a gap between windows, before the first window or after the last are in none. All
        times must be from ``least`` to ``greatest``.
        """
        low, high = self.lowest * self.every, self.highest * self.every + self.size
        inside: np.ndarray | None = None
        if least < low or greatest >= high:
            inside = (times >= low) & (times < high)
        if self.every > self.size:
            in_window = times % self.every < self.size
            inside = in_window if inside is None else inside & in_window
        return inside

    def open_at(self, time: int) -> int:
        """Return the first window that is still open if no row before ``time`` can follow."""
        return int(self.first_window(np.array([time], np.int64))[0])

    def start(self, window: np.ndarray) -> np.ndarray:
        """Return the starts of windows that exist. int64[n]."""
        return window * self.every

    def earliest_open(self, times: np.ndarray) -> np.ndarray:
        """Return the start of the earliest window open at each time; INF_TIME for INF_TIME."""
        window = self.first_window(times)
        after_all = min((self.highest + 1) * self.every, INF_TIME - 1)
        starts = np.where(window > self.highest, after_all, window * self.every)
        starts[times == INF_TIME] = INF_TIME
        return starts


def floor_divided(times: np.ndarray, unit: int) -> np.ndarray:
    """Return ``times // unit`` of non-decreasing times int64[n].

    If many rows share a quotient, its bounds are searched, since a division per row is slower.
    """
    if len(times) == 0:
        return times
    first, last = int(times[0]) // unit, int(times[-1]) // unit
    if last - first > len(times) // _ROWS_PER_QUOTIENT:
        quotients: np.ndarray = times // unit
        return quotients
    numbers = np.arange(first, last + 1, dtype=np.int64)
    bounds = np.searchsorted(times, numbers[1:] * unit)
    return np.repeat(numbers, np.diff(bounds, prepend=0, append=len(times)))
