"""The first phase of sessions as an operator: accumulators per pane and key of events in order.

Invariants: (1) the state is the open pane alone; (2) rows come by (pane, first start, key), and
live from the first start to the last end of their events; (3) ``CTI(t)`` becomes the start of the
pane that holds ``t``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.arrays import numbers, whole
from rvertex.events.group_arrays import GroupArray
from rvertex.events.ordering import in_time_order
from rvertex.events.reorder_buffer import concatenated
from rvertex.events.run import Run, growing
from rvertex.operators.windows.arithmetic import floor_divided
from rvertex.operators.windows.grouping import Grouping, closed_groups
from rvertex.operators.windows.panes.open_pane import OpenPane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.accumulators import Rows, Saved
    from rvertex.operators.protocol import OperatorState

#: After all panes.
LAST_PANE = 2**63


class SessionPanes:
    """Aggregates events by pane and key; ``schema`` is that of partial events."""

    def __init__(self, unit_us: int, grouping: Grouping, schema: pa.Schema) -> None:
        self._unit = unit_us
        self._grouping = grouping
        self._schema = schema
        self._pane = OpenPane(grouping)
        self._last_cti: int | None = None

    def process(self, ports: Sequence[Run]) -> Run:
        """Fold the events in and emit the panes that they, or the CTIs, close."""
        (run,) = ports
        out: list[pa.RecordBatch] = []
        if run.events.num_rows:
            self._consume(run.events, out)
        if len(run.ctis):
            last = int(run.ctis[-1])
            self._close_before(LAST_PANE if last == INF_TIME else last // self._unit, out)
        ctis = growing(starts_of_panes(run.ctis, self._unit), self._last_cti)
        if len(ctis):
            self._last_cti = int(ctis[-1])
        return Run(concatenated(out, self._schema), ctis)

    def snapshot(self) -> OperatorState:
        """The open pane, by reference."""
        return self._pane.snapshot(self._last_cti)

    def load(self, state: OperatorState) -> None:
        """Continue with the open pane of ``state``."""
        self._last_cti = self._pane.load(state)

    def _consume(self, events: pa.RecordBatch, out: list[pa.RecordBatch]) -> None:
        """A slice for the open pane, one pass over all that end here, a slice for the last one."""
        panes = floor_divided(int64_column(events, VS), self._unit)
        first, last = int(panes[0]), int(panes[-1])
        self._close_before(first, out)
        lo, hi = 0, int(panes.searchsorted(last))
        if hi and self._pane.number == first:
            lo = int(panes.searchsorted(first, side="right"))
            self._pane.update(first, events.slice(0, lo))
        self._close_before(last, out)
        if lo < hi:
            whole_panes = events.slice(lo, hi - lo)
            _, keys, lanes = closed_groups(self._grouping, whole_panes, panes[lo:hi], at=None)
            out.append(self._rows(keys, lanes))
        self._pane.update(last, events.slice(hi))

    def _close_before(self, pane: int, out: list[pa.RecordBatch]) -> None:
        """Emit the open pane if it lies before ``pane``."""
        if self._pane.is_before(pane):
            out.append(self._rows(*self._pane.close()))

    def _rows(self, keys: list[pa.Array], lanes: list[pa.Array]) -> pa.RecordBatch:
        return by_start(living(keys, lanes, self._schema))


def living(keys: list[pa.Array], lanes: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Partial rows, of which the last two lanes are the lifetimes."""
    *lanes, start, end = lanes
    return pa.RecordBatch.from_arrays([start, end, *keys, *lanes], schema=schema)


def by_start(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows by start; of equal start, which are of one pane, by key, as they come."""
    return in_time_order(rows)[0]


def starts_of_panes(times: np.ndarray, unit: int) -> np.ndarray:
    """The start of the pane that holds each time, on the time axis; INF_TIME for INF_TIME."""
    lowest = -(2**63 // unit)
    panes = times // unit
    starts = np.where(panes < lowest, MIN_TIME, np.maximum(panes, lowest) * unit)
    return np.where(times == INF_TIME, INF_TIME, starts)


class _Bound:
    """The least or greatest time of a group's events: a lane of lifetimes, not of values."""

    def __init__(self, column: str, fold: np.ufunc, fill: int) -> None:
        self._column = column
        self._fold = fold
        self._times = GroupArray(np.int64, fill)

    def update(self, rows: Rows) -> None:
        assert rows.at is None, "an event is in one pane"
        times = int64_column(rows.events, self._column)
        self._fold.at(self._times.writable(rows.groups), rows.codes, times)

    def columns(self) -> list[pa.Array]:
        return [pa.array(self._times.shared())]

    def save(self) -> list[Saved]:
        return [*self.columns()]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        self._times.adopt(numbers(whole(state[0])))


def first_start() -> _Bound:
    return _Bound(VS, np.minimum, INF_TIME)


def last_end() -> _Bound:
    return _Bound(VE, np.maximum, MIN_TIME)
