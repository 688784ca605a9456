"""Pacing: replay a bounded source as if its events came live, X times faster than real time.

It decides only how many rows are taken per turn, which by the law of cutting cannot change any
output; so it may read the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rstream.batch import int64_column
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    import pyarrow as pa

    from rstream.clock import Clock


class Pace:
    """``speed``: event seconds per wall second; 0 means as fast as possible.

    The event time ``origin_us`` was due at the wall time ``started_us``; so a restarted source
    first catches up with what it missed. Without them, the first row it sees is due at once.
    """

    def __init__(
        self, speed: float, clock: Clock, *, started_us: int = 0, origin_us: int | None = None
    ) -> None:
        assert speed >= 0, speed
        self._speed = speed
        self._clock = clock
        self._started_us = started_us
        self._origin_us = origin_us

    def ready_rows(self, batch: pa.RecordBatch, column: str) -> int:
        """How many leading rows of ``batch`` are due by their time in ``column`` (us)."""
        if self._speed == 0 or batch.num_rows == 0:
            return int(batch.num_rows)
        times = _finite(int64_column(batch, column))
        if times[0] == MIN_TIME:
            return 1
        return int(np.searchsorted(times, self._due_us(int(times[0])), side="right"))

    def wait_s(self, batch: pa.RecordBatch, column: str) -> float | None:
        """How long until the first row of ``batch`` (at least one) is due; None: it always is."""
        if self._speed == 0:
            return None
        first_us = int(_finite(int64_column(batch.slice(0, 1), column))[0])
        return (
            0.0
            if first_us == MIN_TIME
            else max(0.0, (first_us - self._due_us(first_us)) / self._speed / 1e6)
        )

    def _due_us(self, first_us: int) -> int:
        """The event time that is due now; ``first_us`` is the first one seen."""
        now_us = self._clock.now_us()
        if self._origin_us is None:
            self._origin_us = first_us
        self._started_us = self._started_us or now_us
        return self._origin_us + int((now_us - self._started_us) * self._speed)


def _finite(times: np.ndarray) -> np.ndarray:
    """Running maxima int64[n]: what is said of the end of time is due with what precedes it."""
    return np.maximum.accumulate(np.where(times == INF_TIME, MIN_TIME, times))
