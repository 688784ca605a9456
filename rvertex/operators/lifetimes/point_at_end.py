"""POINT AT END: a point at the end of each event.

``[vs, ve)`` becomes ``[ve, ve + 1)``: the first instant at which the event is not alive any more.
An event with ``ve = INF_TIME`` never ends and yields nothing. Points are sorted by (time, input
order). ``CTI(t)`` (a watermark) is unchanged: an event that starts at ``t`` or later ends after
``t``.

    in               out
    [1, 9) a
    [2, 5) b
    CTI(4)           CTI(4)
    [6, 7) c         [5, 6) b           an event starts at 6, so all ends before 6 are known
    CTI(8)           [7, 8) c, CTI(8)
    CTI(INF)         [9, 10) a, CTI(INF)

Invariants: every buffered end is at or after the greatest time so far. The costs are as in
:class:`~rvertex.events.reorder_buffer.SortedRuns`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.lifetime import after, frontier_after, with_times
from rvertex.events.reorder_buffer import SortedRuns
from rvertex.events.run import Run
from rvertex.operators.protocol import OperatorState, SameColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations


@dataclass(frozen=True, slots=True)
class PointAtEnd(SameColumns):
    """Replaces every event by a point at its end."""

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the greatest input lifetime: the state keeps rows until they end."""
        return durations[0]

    def output_duration(self, durations: Durations) -> int | None:
        """Return 1 us: every output row is a point."""
        return 1

    def open(self, inputs: Sequence[pa.Schema]) -> PointAtEndOperator:
        """Return a new operator with empty state."""
        return PointAtEndOperator(event_schema(self.output_schema(inputs)))


class PointAtEndOperator:
    """The running operator of :class:`PointAtEnd`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._ends = SortedRuns(schema)
        self._frontier: int = MIN_TIME

    def process(self, ports: Sequence[Run]) -> Run:
        """Buffer the new ends, and emit the ends that have passed."""
        (run,) = ports
        self._frontier = frontier_after(self._frontier, ports)
        # the end is ``_vs`` of an end edge, and ``_ve`` of an interval: the greater of the two
        ve = np.maximum(int64_column(run.events, VS), int64_column(run.events, VE))
        points = with_times(run.events, vs=ve, ve=after(ve))
        if len(ve) and ve.max() == INF_TIME:
            points = points.filter(pa.array(ve < INF_TIME))
        self._ends.push(points)
        return Run(self._ends.take_below(self._frontier), run.ctis)

    def snapshot(self) -> OperatorState:
        """Return the buffered ends, by reference."""
        return OperatorState({"frontier": self._frontier}, {"ends": self._ends.table()})

    def load(self, state: OperatorState) -> None:
        """Restore the buffered ends of ``state``."""
        self._frontier = state.header["frontier"]
        self._ends = SortedRuns(self._schema)
        for batch in state.tables["ends"].to_batches():
            self._ends.push(batch)
