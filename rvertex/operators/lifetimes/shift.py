"""SHIFT: the same events a duration later, or earlier if it is negative.

``[vs, ve)`` becomes ``[vs + d, ve + d)`` and ``CTI(t)`` becomes ``CTI(t + d)``, since what it
promises has moved too. ``ve = INF_TIME`` and ``CTI(INF_TIME)`` stay. An end that would reach past
the time axis is INF_TIME; a start that would leave it is an error; a CTI that would is left out.

    shift(+3)     in                 out
                  [1, 5) a           [4, 8) a
                  CTI(2)             CTI(5)
                  [2, INF) b         [5, INF) b
                  CTI(INF)           CTI(INF)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rstream.items.batch import VE, VS, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import TimeAxisError
from rvertex.events.lifetime import moved, with_times
from rvertex.events.run import Run
from rvertex.operators.horizon import RowByRow
from rvertex.operators.protocol import Stateless

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Shift(RowByRow):
    """Moves lifetimes and CTIs by ``duration_us``."""

    holds_ctis: ClassVar[bool] = False

    duration_us: int

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's schema."""
        (payload,) = inputs
        return payload

    def open(self, inputs: Sequence[pa.Schema]) -> ShiftOperator:
        """A shift; it has no state."""
        return ShiftOperator(self.duration_us)


class ShiftOperator(Stateless):
    """See :class:`Shift`."""

    def __init__(self, duration_us: int) -> None:
        self._duration_us = duration_us
        #: The times that may start an event, or be a CTI, after the shift.
        self._low = max(MIN_TIME, MIN_TIME - duration_us)
        self._high = min(INF_TIME - 1, INF_TIME - 1 - duration_us)

    def process(self, ports: Sequence[Run]) -> Run:
        """Move everything.

        Raises:
            TimeAxisError: an event would start outside the time axis.
        """
        (run,) = ports
        vs, ve = int64_column(run.events, VS), int64_column(run.events, VE)
        if len(vs) and not (self._low <= vs[0] and vs[-1] <= self._high):
            bad = int(vs[0] if vs[0] < self._low else vs[-1])
            raise TimeAxisError("shift", bad, self._duration_us)
        ctis = run.ctis
        kept = ((ctis >= self._low) & (ctis <= self._high)) | (ctis == INF_TIME)
        events = with_times(
            run.events, vs=moved(vs, self._duration_us), ve=moved(ve, self._duration_us)
        )
        return Run(events, moved(ctis[kept], self._duration_us))
