"""EXTEND of rows whose ends are not known yet: starts pass unchanged, ends come later.

**Rule.** As :mod:`rvertex.operators.lifetimes.extend` with a duration of at least 0, and as
:mod:`rvertex.operators.lifetimes.extend_by`. An end edge has the payload of its row, so the column
with the duration is available at the end.

    extend(3)    start 1 a           after 1: start 1 a
                 end 5 (of 1) a      after 8: end 8 (of 1) a

Invariants: (1) output order is (time, ends first, input order); (2) the state is the ends that are
ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.items.dictionaries import join_batches
from rstream.items.edges import is_end
from rstream.types import INF_TIME
from rvertex.events.lifetime import with_times
from rvertex.events.reorder_buffer import SortedRuns
from rvertex.events.run import Run
from rvertex.events.settled_rows import SettledRows
from rvertex.operators.protocol import OperatorState, SameColumns

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class EdgeExtend(SameColumns):
    """Moves every end by ``by``: microseconds, or the name of a column as in ``extend_by``."""

    by: int | str

    def open(self, inputs: Sequence[pa.Schema]) -> EdgeExtendOperator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return EdgeExtendOperator(self.by, event_schema(payload))


class EdgeExtendOperator:
    """The running operator of :class:`EdgeExtend`."""

    def __init__(self, by: int | str, schema: pa.Schema) -> None:
        self._by = by
        self._settled = SettledRows([schema])
        self._ahead = SortedRuns(schema)

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the starts and ends at all instants before the frontier."""
        (run,) = ports
        (rows,) = self._settled.take(ports)
        vs, ve = int64_column(rows, VS), int64_column(rows, VE)
        ends = is_end(vs, ve)
        by = np.full(len(vs), self._by) if isinstance(self._by, int) else self._of_column(rows)
        if ends.any():
            gone = with_times(rows, vs=_later(vs, by))
            self._ahead.push(gone.filter(pa.array(ends & (_later(vs, by) < INF_TIME))))
        births = with_times(rows, ve=_later(ve, by)).filter(pa.array(~ends))
        due = self._ahead.take_below(self._settled.frontier)
        events = join_batches([due, births])
        is_begin = np.repeat([False, True], [due.num_rows, births.num_rows])
        order = pa.array(np.lexsort((is_begin, int64_column(events, VS))))
        return Run(events.take(order), run.ctis)

    def snapshot(self) -> OperatorState:
        """Return the buffered rows, by reference."""
        (waiting,) = self._settled.tables()
        tables = {"waiting": waiting, "ahead": self._ahead.table()}
        return OperatorState({"frontier": self._settled.frontier}, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._settled.load(state.header["frontier"], [state.tables["waiting"]])
        for batch in state.tables["ahead"].combine_chunks().to_batches():
            self._ahead.push(batch)

    def _of_column(self, rows: pa.RecordBatch) -> np.ndarray:
        """Return the microseconds by which the column moves the end of each row."""
        assert isinstance(self._by, str)
        return int64_column(rows, self._by) - 1


def _later(times: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Return ``times`` plus ``by``, int64[n]; at most the end of the time axis.

    No value of ``by`` is negative.
    """
    return np.where(times > INF_TIME - by, INF_TIME, times + np.where(times == INF_TIME, 0, by))
