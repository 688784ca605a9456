"""EXTEND: every event ends later, or earlier if the duration is negative.

``[vs, ve)`` becomes ``[vs, ve + d)``; an event that would be empty (``ve + d <= vs``) is deleted.
``ve = INF_TIME`` stays, and an end past the time axis is INF_TIME. CTIs pass.

    extend(-3)    in             out
                  [1, 5) a       [1, 2) a
                  [2, 5) b       (deleted: it would be empty)
                  [3, INF) c     [3, INF) c
                  CTI(4)         CTI(4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.types import INF_TIME
from rvertex.events.lifetime import lasting, with_times
from rvertex.events.run import Run
from rvertex.operators.horizon import sum_us
from rvertex.operators.protocol import Stateless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations


@dataclass(frozen=True, slots=True)
class Extend:
    """Moves every end by ``duration_us``; INF_TIME is for ever."""

    holds_ctis: ClassVar[bool] = False

    duration_us: int

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's schema."""
        (payload,) = inputs
        return payload

    def horizon_us(self, durations: Durations) -> int | None:
        """Nothing is kept."""
        return 0

    def output_duration(self, durations: Durations) -> int | None:
        """That of the input and the duration; an event that stays lives for an instant at least."""
        if self.duration_us == INF_TIME:
            return None
        total = sum_us(durations[0], self.duration_us)
        return None if total is None else max(total, 1)

    def open(self, inputs: Sequence[pa.Schema]) -> ExtendOperator:
        """The operator; it has no state."""
        return ExtendOperator(self.duration_us)


class ExtendOperator(Stateless):
    """See :class:`Extend`."""

    def __init__(self, duration_us: int) -> None:
        self._duration_us = duration_us

    def process(self, ports: Sequence[Run]) -> Run:
        """Move every end and leave out what is empty."""
        (run,) = ports
        ve = lasting(int64_column(run.events, VE), self._duration_us)
        events = with_times(run.events, ve=ve)
        if self._duration_us < 0:
            events = events.filter(pa.array(ve > int64_column(events, VS)))
        return Run(events, run.ctis)
