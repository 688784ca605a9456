"""Pacing: replay a bounded source as if its events came live, X times faster than real time.

It decides only how many rows are taken per turn, which by the law of cutting cannot change any
output; so it may read the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rstream.batch import int64_column

if TYPE_CHECKING:
    import pyarrow as pa

    from rstream.clock import Clock

_US_PER_S = 1_000_000


class Pace:
    """``speed``: event seconds per wall second; 0 means as fast as possible."""

    def __init__(self, speed: float, clock: Clock) -> None:
        assert speed >= 0, speed
        self._speed = speed
        self._clock = clock
        self._origin: tuple[int, float] | None = None

    def ready_rows(self, batch: pa.RecordBatch, column: str) -> int:
        """How many leading rows of ``batch`` are due by their time in ``column`` (us)."""
        if self._speed == 0 or batch.num_rows == 0:
            return int(batch.num_rows)
        times = np.maximum.accumulate(int64_column(batch, column))
        now = self._clock.monotonic_s()
        if self._origin is None:
            self._origin = (int(times[0]), now)
        start_us, start_s = self._origin
        due = start_us + int((now - start_s) * self._speed * _US_PER_S)
        return int(np.searchsorted(times, due, side="right"))
