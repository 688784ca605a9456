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


#: Rows are taken at most this often: what a turn costs is shared by the rows of so long a time.
STEP_US = 2_000
_FIRST_LOOK_ROWS = 1024


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
        self._taken_us = -STEP_US

    @property
    def is_live(self) -> bool:
        """Whether rows are held back until they are due."""
        return self._speed > 0

    def ready_rows(self, batch: pa.RecordBatch, column: str) -> int:
        """How many leading rows of ``batch`` are due by their time in ``column`` (us)."""
        if self._speed == 0 or batch.num_rows == 0:
            return int(batch.num_rows)
        times = int64_column(batch, column)
        if times[0] == INF_TIME:
            return 1
        now_us = self._clock.now_us()
        if 0 <= now_us - self._taken_us < STEP_US:
            return 0
        if self._origin_us is None:
            self._origin_us = int(times[0])
        self._started_us = self._started_us or now_us
        due_us = self._origin_us + int((now_us - self._started_us) * self._speed)
        rows = _rows_due(times, due_us)
        if rows:
            self._taken_us = now_us
        return rows

    def wait_s(self, batch: pa.RecordBatch, column: str) -> float | None:
        """How long ``ready_rows`` will give 0 for ``batch`` (at least one row); None: never."""
        if self._speed == 0:
            return None
        first_us = int(int64_column(batch.slice(0, 1), column)[0])
        if self._origin_us is None or first_us == INF_TIME:
            return 0.0
        ahead_us = first_us - self._origin_us
        due_us = max(self._started_us + int(ahead_us / self._speed), self._taken_us + STEP_US)
        return max(0, due_us - self._clock.now_us()) / 1e6


def _rows_due(times: np.ndarray, due_us: int) -> int:
    """How many leading rows have no row after ``due_us`` before them; costs no more than those.

    What is said of the end of time is due with what precedes it.
    """
    looked = _FIRST_LOOK_ROWS
    while True:  # ends with the batch
        head = times[:looked]
        greatest = np.maximum.accumulate(np.where(head == INF_TIME, MIN_TIME, head))
        if looked >= len(times) or greatest[-1] > due_us:
            return int(np.searchsorted(greatest, due_us, side="right"))
        looked *= 4
