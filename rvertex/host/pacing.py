"""Pacing: replay a bounded source as if its events came live, X times faster than real time.

It decides only how many rows are taken per poll, which by the law of cutting cannot change any
output; so it may read the clock.

Rows are taken as soon as they are due, but not more often than once in a *step* of the wall clock
on average: a source that took none in the last step may take some twice in this one. All sources
have the same steps, so what many rows bring comes to a MERGE together. A step is the least power of
two of :data:`STEP_US` in which what a poll costs is at most a share of it: short when the host is
idle, long when it is busy or others take its processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rstream.items.batch import int64_column
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    import pyarrow as pa

    from rstream.clock import Clock


#: Rows are taken at most this often: what a poll costs is shared by the rows of so long a time.
STEP_US = 500
STEP_MAX_US = 2_000
#: A step is so many times as long as the poll that begins with it.
_STEP_TURNS = 4
#: Turns that a source which took no rows for a while may make at once.
_TURNS_MAX = 2
#: The usual length of a poll follows one poll in so many.
_USUAL_OF_TURNS = 8
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
        self._step_us = STEP_US
        #: When rows were taken last; None once it is known how long that poll was.
        self._turn_since_us: int | None = None
        self._usual_turn_us = 0.0
        #: How often rows may be taken now, and when that was counted.
        self._turns_left = _TURNS_MAX
        self._counted_us = 0

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
            return int(np.logical_and.accumulate(times == INF_TIME).sum())
        now_us = self._clock.now_us()
        self._note_poll(now_us)
        self._count_steps(now_us)
        if self._turns_left == 0:
            return 0
        if self._origin_us is None:
            self._origin_us = int(times[0])
        self._started_us = self._started_us or now_us
        due_us = self._origin_us + int((now_us - self._started_us) * self._speed)
        rows = _rows_due(times, due_us)
        if rows:
            self._turn_since_us = now_us
            self._turns_left -= 1
        return rows

    def wait_s(self, batch: pa.RecordBatch, column: str) -> float | None:
        """How long ``ready_rows`` will give 0 for ``batch`` (at least one row); None: never."""
        if self._speed == 0:
            return None
        first_us = int(int64_column(batch.slice(0, 1), column)[0])
        if self._origin_us is None or first_us == INF_TIME:
            return 0.0
        ahead_us = first_us - self._origin_us
        due_us = self._started_us + int(ahead_us / self._speed)
        now_us = self._clock.now_us()
        self._note_poll(now_us)
        self._count_steps(now_us)
        if self._turns_left == 0:
            due_us = max(due_us, (now_us // self._step_us + 1) * self._step_us)
        return max(0, due_us - now_us) / 1e6

    def _count_steps(self, now_us: int) -> None:
        """Each step that has begun allows one more poll; a clock that was set back, all of them."""
        steps = now_us // self._step_us - self._counted_us // self._step_us
        self._turns_left = min(self._turns_left + abs(steps), _TURNS_MAX)
        self._counted_us = now_us

    def _note_poll(self, now_us: int) -> None:
        """Rows are asked for again: the poll in which some were taken has ended."""
        if self._turn_since_us is None:
            return
        turn_us = min(max(now_us - self._turn_since_us, 0), STEP_MAX_US)
        self._turn_since_us = None
        self._usual_turn_us += (turn_us - self._usual_turn_us) / _USUAL_OF_TURNS
        wanted_us = self._usual_turn_us * _STEP_TURNS
        while self._step_us < min(wanted_us, STEP_MAX_US):
            self._step_us *= 2
        while self._step_us > STEP_US and self._step_us // 2 >= wanted_us:
            self._step_us //= 2


def _rows_due(times: np.ndarray, due_us: int) -> int:
    """How many leading rows have no row after ``due_us`` before them; costs no more than those.

    What is said of the end of time is due with what precedes it, and so is a bad row.
    """
    looked = _FIRST_LOOK_ROWS
    while True:  # ends with the batch
        head = times[:looked]
        greatest = np.maximum.accumulate(np.where(head == INF_TIME, MIN_TIME, head))
        if looked >= len(times) or greatest[-1] > due_us:
            return int(np.searchsorted(greatest, due_us, side="right"))
        looked *= 4
