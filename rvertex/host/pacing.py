"""Pacing: replays a bounded source as if its events arrived live, at a multiple of real time.

Pacing only decides how many rows each poll reads. Batch boundaries never change the output, so
pacing may read the clock.

Rows are read when they are due, but on average at most once per *step* of wall time. A source that
skipped a step may read twice in the next one. All sources use the same steps, so rows of several
sources reach a MERGE together. The step length adapts to the duration of polls: it is
:data:`STEP_US` times the smallest power of two such that a poll takes at most a quarter of a step.
So steps are short on an idle host, and long on a busy one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rstream.items.batch import int64_column
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    import pyarrow as pa

    from rstream.clock import Clock


#: Shortest step, us. All rows of a step share the fixed cost of one poll.
STEP_US = 500
STEP_MAX_US = 2_000
#: A step is at least this many times as long as a poll.
_STEP_TURNS = 4
#: Most reads that a source may make at once after it skipped steps.
_TURNS_MAX = 2
#: Weight of one poll in the moving average of poll durations: 1 / 8.
_USUAL_OF_TURNS = 8
_FIRST_LOOK_ROWS = 1024


class Pace:
    """Decides which rows are due. ``speed``: event seconds per wall second; 0: as fast as possible.

    The row with event time ``origin_us`` is due at wall time ``started_us``. So a restarted source
    first reads the rows that became due meanwhile. If both are missing, the first row is due at
    once.
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
        #: When rows were last read; None once the duration of that poll is known.
        self._turn_since_us: int | None = None
        self._usual_turn_us = 0.0
        #: How many more polls may read rows now, and the number of the step when that was computed.
        self._turns_left = _TURNS_MAX
        self._counted_us = 0

    @property
    def is_live(self) -> bool:
        """Whether rows wait until they are due."""
        return self._speed > 0

    def ready_rows(self, batch: pa.RecordBatch, column: str) -> int:
        """Return how many leading rows of ``batch`` are due by their time in ``column``, us."""
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
        """Return how long ``ready_rows`` will return 0 for ``batch`` (not empty); None: no pace."""
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
        """Allow one more poll per step that has begun; if the clock was set back, all of them."""
        steps = now_us // self._step_us - self._counted_us // self._step_us
        self._turns_left = min(self._turns_left + abs(steps), _TURNS_MAX)
        self._counted_us = now_us

    def _note_poll(self, now_us: int) -> None:
        """Measure the last poll that read rows. It has ended if rows are requested again."""
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
    """Return how many rows precede the first row after ``due_us``; reads no more rows than these.

    A row at INF_TIME, such as a bad row, is due with the row before it.
    """
    looked = _FIRST_LOOK_ROWS
    while True:  # ends at the end of the batch
        head = times[:looked]
        greatest = np.maximum.accumulate(np.where(head == INF_TIME, MIN_TIME, head))
        if looked >= len(times) or greatest[-1] > due_us:
            return int(np.searchsorted(greatest, due_us, side="right"))
        looked *= 4
