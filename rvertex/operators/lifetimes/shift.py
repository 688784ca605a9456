"""SHIFT: all events move later by a duration, or earlier if it is negative.

``[vs, ve)`` becomes ``[vs + d, ve + d)``, and ``CTI(t)`` (a watermark) becomes ``CTI(t + d)``.
``ve = INF_TIME`` and ``CTI(INF_TIME)`` are unchanged. An end past the time axis becomes INF_TIME. A
start outside the axis is an error. A CTI outside the axis is dropped.

    shift(+3)     in                 out
                  [1, 5) a           [4, 8) a
                  CTI(2)             CTI(5)
                  [2, INF) b         [5, INF) b
                  CTI(INF)           CTI(INF)
"""

from __future__ import annotations

from dataclasses import dataclass

from rstream.items.batch import VE, VS, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import TimeAxisError
from rvertex.events.lifetime import moved, with_times
from rvertex.events.run import Run
from rvertex.operators.horizon import RowByRow
from rvertex.operators.lifetimes.template import ChangesLifetimes


@dataclass(frozen=True, slots=True)
class Shift(ChangesLifetimes, RowByRow):
    """Moves lifetimes and CTIs by ``duration_us``."""

    duration_us: int

    def change(self, run: Run) -> Run:
        """Move all lifetimes and CTIs.

        Raises:
            TimeAxisError: an event would start outside the time axis.
        """
        by = self.duration_us
        # The starts and CTIs in this range stay on the time axis after the shift.
        low, high = max(MIN_TIME, MIN_TIME - by), min(INF_TIME - 1, INF_TIME - 1 - by)
        vs, ve = int64_column(run.events, VS), int64_column(run.events, VE)
        if len(vs) and not (low <= vs[0] and vs[-1] <= high):
            raise TimeAxisError("shift", int(vs[0] if vs[0] < low else vs[-1]), by)
        ctis = run.ctis
        kept = ((ctis >= low) & (ctis <= high)) | (ctis == INF_TIME)
        events = with_times(run.events, vs=moved(vs, by), ve=moved(ve, by))
        return Run(events, moved(ctis[kept], by))
