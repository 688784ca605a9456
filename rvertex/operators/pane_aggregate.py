"""Partial aggregation of point events by pane: the part of a window aggregate that sees every row.

A point is in exactly one pane, and panes come in order because events do. So only one pane is open
at a time: a batch is one slice for it, one pass over all panes that lie within the batch, and one
slice for the pane that stays open. CTIs cost nothing per CTI.

Invariants: (1) state is the open pane alone, and is empty once a CTI or a later event closed it;
(2) partial rows come by (pane, key), with the pane as lifetime; (3) ``CTI(t)`` becomes the start of
the pane that holds ``t``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.batch import VE, VS, int64_column
from rvertex.operators.grouping import Grouping, OpenGroups, closed_groups
from rvertex.operators.protocol import OperatorState
from rvertex.run import Run
from rvertex.sorted_runs import concatenated
from rvertex.windows import Windows, floor_divided, growing

if TYPE_CHECKING:
    from collections.abc import Sequence


class PaneAggregate:
    """Aggregates points by pane of ``windows`` and key; ``schema`` is that of partial events."""

    def __init__(self, windows: Windows, grouping: Grouping, schema: pa.Schema) -> None:
        self._windows = windows
        self._panes = windows.pane
        self._grouping = grouping
        self._schema = schema
        self._groups = OpenGroups(grouping)
        #: Number of the pane that the groups belong to; None while there are none.
        self._pane: int | None = None
        self._last_cti: int | None = None

    def process(self, ports: Sequence[Run]) -> Run:
        """Fold the events in and emit the panes that they, or the CTIs, close."""
        (run,) = ports
        events = self._within_windows(run.events)
        out: list[pa.RecordBatch] = []
        if events.num_rows:
            self._consume(events, out)
        if len(run.ctis) and self._pane is not None:
            self._close_before(self._panes.open_at(int(run.ctis[-1])), out)
        ctis = growing(self._panes.earliest_open(run.ctis), self._last_cti)
        if len(ctis):
            self._last_cti = int(ctis[-1])
        return Run(concatenated(out, self._schema), ctis)

    def snapshot(self) -> OperatorState:
        """The open pane, by reference."""
        header = {"pane": self._pane, "last_cti": self._last_cti}
        return OperatorState(header, {} if self._pane is None else self._groups.save())

    def load(self, state: OperatorState) -> None:
        """Continue with the open pane of ``state``."""
        self._pane, self._last_cti = state.header["pane"], state.header["last_cti"]
        self._groups = OpenGroups(self._grouping)
        if self._pane is not None:
            self._groups.restore(state.tables)

    def _within_windows(self, events: pa.RecordBatch) -> pa.RecordBatch:
        vs = int64_column(events, VS)
        inside = self._windows.holds(vs, int(vs[0]), int(vs[-1])) if len(vs) else None
        return events if inside is None else events.filter(pa.array(inside))

    def _consume(self, events: pa.RecordBatch, out: list[pa.RecordBatch]) -> None:
        vs = int64_column(events, VS)
        assert events.column(VE)[0].as_py() == int(vs[0]) + 1, "panes are for point events"
        unit = self._panes.size
        first, last = int(vs[0]) // unit, int(vs[-1]) // unit
        self._close_before(first, out)
        if first == last:
            self._update(first, events)
            return
        head = int(np.searchsorted(vs, np.int64((first + 1) * unit)))
        tail = int(np.searchsorted(vs, np.int64(last * unit)))
        if self._pane == first:
            self._update(first, events.slice(0, head))
            self._close_before(last, out)
        else:
            head = 0
        if tail > head:
            middle = events.slice(head, tail - head)
            numbers = floor_divided(vs[head:tail], unit)
            panes, keys, lanes = closed_groups(self._grouping, middle, numbers, at=None)
            out.append(self._rows(panes, keys, lanes))
        self._update(last, events.slice(tail))

    def _update(self, pane: int, events: pa.RecordBatch) -> None:
        assert self._pane in (None, pane), (self._pane, pane)
        self._pane = pane
        self._groups.update(events)

    def _close_before(self, pane: int, out: list[pa.RecordBatch]) -> None:
        """Emit the open pane if it lies before ``pane``."""
        if self._pane is None or self._pane >= pane:
            return
        keys, lanes = self._groups.result()
        out.append(self._rows(np.full(len(self._groups), self._pane), keys, lanes))
        self._groups = OpenGroups(self._grouping)
        self._pane = None

    def _rows(
        self, panes: np.ndarray, keys: list[pa.Array], lanes: list[pa.Array]
    ) -> pa.RecordBatch:
        start = self._panes.start(panes)
        columns = [pa.array(start), pa.array(start + self._panes.size), *keys, *lanes]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
