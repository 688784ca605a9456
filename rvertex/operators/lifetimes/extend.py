"""EXTEND: every event ends later by a duration, or earlier if the duration is negative.

``[vs, ve)`` becomes ``[vs, ve + d)``. An event whose lifetime would be empty (``ve + d <= vs``) is
deleted. ``ve = INF_TIME`` is unchanged, and an end past the time axis becomes INF_TIME. CTIs
(watermarks) pass unchanged.

    extend(-3)    in             out
                  [1, 5) a       [1, 2) a
                  [2, 5) b       (deleted: it would be empty)
                  [3, INF) c     [3, INF) c
                  CTI(4)         CTI(4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.types import INF_TIME
from rvertex.events.lifetime import lasting, with_times
from rvertex.events.run import Run
from rvertex.operators.horizon import sum_us
from rvertex.operators.lifetimes.template import ChangesLifetimes

if TYPE_CHECKING:
    from rvertex.operators.horizon import Durations


@dataclass(frozen=True, slots=True)
class Extend(ChangesLifetimes):
    """Moves every end by ``duration_us``. INF_TIME: to the end of time."""

    duration_us: int

    def output_duration(self, durations: Durations) -> int | None:
        """Return the input's greatest lifetime plus ``duration_us``, at least 1 us.

        An event that would be empty is dropped.
        """
        if self.duration_us == INF_TIME:
            return None
        total = sum_us(durations[0], self.duration_us)
        return None if total is None else max(total, 1)

    def change(self, run: Run) -> Run:
        """Move every end, and drop events that become empty."""
        ve = lasting(int64_column(run.events, VE), self.duration_us)
        events = with_times(run.events, ve=ve)
        if self.duration_us < 0:
            events = events.filter(pa.array(ve > int64_column(events, VS)))
        return Run(events, run.ctis)
