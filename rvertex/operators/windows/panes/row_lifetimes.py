"""The panes, and the lifetimes of their partial rows: as long as the pane, or as its events.

For hopping windows of points the panes are within the time axis, and a row lives as long as its
pane. For sessions the panes cover the whole axis, and a row lives from the first start to the last
end of its events, which two additional lanes accumulate.

Invariants: (1) partial rows start within their pane; (2) ``ctis`` are the starts of the panes that
contain the times, so no pane that starts before one of them is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rvertex.aggregates.accumulators import Accumulator, Rows, Saved
    from rvertex.operators.windows.arithmetic import Windows

#: A pane number above all panes.
_LAST_PANE = 2**63


class PaneLifetimes:
    """Point events in panes of ``windows``; rows live as long as their pane."""

    rows_last_as_panes: ClassVar[bool] = True

    def __init__(self, windows: Windows, schema: pa.Schema) -> None:
        self._windows = windows
        self._panes = windows.pane
        self.schema = schema
        self.unit_us = self._panes.size

    def inside(self, events: pa.RecordBatch, *, in_order: bool) -> pa.RecordBatch:
        """Return the events that are in any window."""
        vs = int64_column(events, VS)
        if len(vs) == 0:
            return events
        assert int64_column(events, VE)[0] == vs[0] + 1, "panes are for point events"
        least, greatest = (vs[0], vs[-1]) if in_order else (vs.min(), vs.max())
        is_inside = self._windows.holds(vs, int(least), int(greatest))
        return events if is_inside is None else events.filter(pa.array(is_inside))

    def open_at(self, cti: int) -> int:
        """Return the first pane that is open after ``CTI(cti)`` (a watermark)."""
        return self._panes.open_at(cti)

    def ctis(self, times: np.ndarray) -> np.ndarray:
        """Return the output CTIs for CTIs at ``times`` int64[n]. There may be duplicates."""
        return self._panes.earliest_open(times)

    def rows(
        self, panes: np.ndarray, keys: list[pa.Array], lanes: list[pa.Array]
    ) -> pa.RecordBatch:
        """Return partial rows of groups, sorted by pane and key.

        ``panes`` int64[n]: the pane of each.
        """
        start = self._panes.start(panes)
        columns = [pa.array(start), pa.array(start + self.unit_us), *keys, *lanes]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class EventLifetimes:
    """Events in panes of ``unit_us``; rows live from their first start to their last end.

    The last two accumulators of a group accumulate its lifetime: see :func:`with_lifetime`.
    """

    rows_last_as_panes: ClassVar[bool] = False

    def __init__(self, unit_us: int, schema: pa.Schema) -> None:
        self.unit_us = unit_us
        self.schema = schema

    def inside(self, events: pa.RecordBatch, *, in_order: bool) -> pa.RecordBatch:
        """Return all events: panes cover the time axis."""
        return events

    def open_at(self, cti: int) -> int:
        """Return the same as :meth:`PaneLifetimes.open_at`; at the end of time no pane is open."""
        return _LAST_PANE if cti == INF_TIME else cti // self.unit_us

    def ctis(self, times: np.ndarray) -> np.ndarray:
        """Return the same as :meth:`PaneLifetimes.ctis`, within the time axis; INF_TIME is kept."""
        lowest = -(2**63 // self.unit_us)
        panes = times // self.unit_us
        starts = np.where(panes < lowest, MIN_TIME, np.maximum(panes, lowest) * self.unit_us)
        return np.where(times == INF_TIME, INF_TIME, starts)

    def rows(
        self, panes: np.ndarray, keys: list[pa.Array], lanes: list[pa.Array]
    ) -> pa.RecordBatch:
        """Return the same as :meth:`PaneLifetimes.rows`."""
        *lanes, start, end = lanes
        return pa.RecordBatch.from_arrays([start, end, *keys, *lanes], schema=self.schema)


#: How many accumulators :func:`with_lifetime` adds.
LIFETIME_LANES = 2


def with_lifetime(accumulators: Iterable[Accumulator]) -> list[Accumulator]:
    """Add the accumulators of the lifetime of a group's events."""
    return [*accumulators, _Bound(VS, np.minimum, INF_TIME), _Bound(VE, np.maximum, MIN_TIME)]


class _Bound:
    """Accumulates the minimum or maximum time of a group's events: lanes of lifetimes."""

    takes_gaps: ClassVar[bool] = True

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
        self._times.adopt(numbers(as_one_array(state[0])))
