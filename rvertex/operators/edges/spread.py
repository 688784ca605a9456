"""SPREAD: a row with a known end becomes a start edge, and an end edge at its end.

A reader that keeps a table of live rows by key removes a row at its end edge. So every row must
have an end edge, even an interval with a known end.

    spread    in            out
              [1, 5) a      after 1: start 1 a
              CTI(9)        after 5: end 5 (of 1) a

Invariants: (1) events are handled by instant, once it has passed; (2) output order is (time, ends
first, input order); (3) the state is the live rows with known ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME
from rvertex.events.lifetime import with_times
from rvertex.events.run import Run
from rvertex.operators.edges.instants import Instants
from rvertex.operators.protocol import OperatorState, SameColumns

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class EdgeSpread(SameColumns):
    """Divides every row into a start edge and, if it ends, an end edge."""

    def open(self, inputs: Sequence[pa.Schema]) -> EdgeSpreadOperator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return EdgeSpreadOperator(payload)


class EdgeSpreadOperator:
    """The running operator of :class:`EdgeSpread`."""

    def __init__(self, payload: pa.Schema) -> None:
        self._instants = Instants([payload])

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the starts and ends at all instants before the frontier."""
        (run,) = ports
        (settled,) = self._instants.take(ports)
        births, deaths = settled.births, settled.deaths
        begun = with_times(births, ve=np.full(births.num_rows, INF_TIME))
        events = join_batches([deaths, begun])
        is_begin = np.repeat([False, True], [deaths.num_rows, births.num_rows])
        order = np.lexsort((is_begin, int64_column(events, VS)))
        return Run(events.take(pa.array(order)), run.ctis)

    def snapshot(self) -> OperatorState:
        """Return the buffered rows, by reference."""
        frontier, tables = self._instants.save()
        return OperatorState({"frontier": frontier}, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._instants.restore(state.header["frontier"], state.tables)


def in_order_of_begins(events: pa.RecordBatch) -> pa.RecordBatch:
    """Sort the edges of complete instants; rows that end together are sorted by their starts."""
    vs, ve = int64_column(events, VS), int64_column(events, VE)
    ends = ve < vs
    order = np.lexsort((np.where(ends, ve, 0), ~ends, vs))
    return events.take(pa.array(order))
