"""Keeps, among events with equal lifetimes, those with the extreme value of a column.

Extreme means greatest or smallest. All ties are kept; events with a null value are dropped. The
planner inserts it before a join with the greatest value of a window
(``planner/optimizer/rules/keep_extremes.py``).

Invariants: (1) events at the frontier are buffered, as more may start at the same time; (2) order,
lifetimes, payload and CTIs (watermarks) are unchanged. Only neighbours are compared. So if events
that start together end at different times, more events may be kept than necessary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rvertex.errors import OperatorTypeError, UnknownColumnError
from rvertex.events.arrays import numbers
from rvertex.events.group_scan import heads_of
from rvertex.events.run import Run
from rvertex.events.settled_rows import SettledRows
from rvertex.operators.horizon import RowByRow
from rvertex.operators.protocol import OperatorState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.protocol import Operator


@dataclass(frozen=True, slots=True)
class Extremes(RowByRow):
    """Keeps the events with the extreme value of ``column``, a column of integers."""

    holds_ctis: ClassVar[bool] = False

    column: str
    is_max: bool

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the input's columns."""
        (payload,) = inputs
        if self.column not in payload.names:
            raise UnknownColumnError("extremes", self.column, tuple(payload.names))
        kind = payload.field(self.column).type
        if not pa.types.is_integer(kind):
            raise OperatorTypeError("extremes", f"column {self.column!r} is {kind}, not an integer")
        return payload

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        return _Extremes(self.column, self.is_max, self.output_schema(inputs))


class _Extremes:
    """The running operator of :class:`Extremes`."""

    def __init__(self, column: str, is_max: bool, payload: pa.Schema) -> None:
        self._column = column
        self._fold = np.maximum if is_max else np.minimum
        self._settled = SettledRows([event_schema(payload)])

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the extreme events of all lifetimes that no further event can have."""
        (run,) = ports
        (events,) = self._settled.take(ports)
        return Run(self._extreme(events), run.ctis)

    def snapshot(self) -> OperatorState:
        """Return the buffered events, by reference."""
        (waiting,) = self._settled.tables()
        return OperatorState({"frontier": self._settled.frontier}, {"waiting": waiting})

    def load(self, state: OperatorState) -> None:
        """Restore the buffered events of ``state``."""
        self._settled.load(state.header["frontier"], [state.tables["waiting"]])

    def _extreme(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the extreme rows among neighbours of equal lifetimes."""
        column = events.column(self._column)
        if column.null_count:
            events = events.filter(column.is_valid())
            column = events.column(self._column)
        if events.num_rows == 0:
            return events
        heads = heads_of(int64_column(events, VS), int64_column(events, VE))
        values = numbers(column)
        best = self._fold.reduceat(values, np.flatnonzero(heads))
        return events.filter(pa.array(values == best[np.cumsum(heads) - 1]))
