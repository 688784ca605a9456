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

from rstream.items.batch import VE, VS, int64_column
from rvertex.events.reorder_buffer import concatenated
from rvertex.events.run import Run, growing
from rvertex.operators.windows.arithmetic import Windows, floor_divided
from rvertex.operators.windows.grouping import Grouping, closed_groups
from rvertex.operators.windows.panes.open_pane import OpenPane, in_windows, rows_of_panes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rvertex.operators.protocol import OperatorState


class PaneAggregate:
    """Aggregates points by pane of ``windows`` and key; ``schema`` is that of partial events."""

    def __init__(self, windows: Windows, grouping: Grouping, schema: pa.Schema) -> None:
        self._windows = windows
        self._panes = windows.pane
        self._grouping = grouping
        self._schema = schema
        self._pane = OpenPane(grouping)
        self._last_cti: int | None = None

    def process(self, ports: Sequence[Run]) -> Run:
        """Fold the events in and emit the panes that they, or the CTIs, close."""
        (run,) = ports
        events = in_windows(self._windows, run.events, in_order=True)
        out: list[pa.RecordBatch] = []
        if events.num_rows:
            self._consume(events, out)
        if len(run.ctis) and self._pane.number is not None:
            self._close_before(self._panes.open_at(int(run.ctis[-1])), out)
        ctis = growing(self._panes.earliest_open(run.ctis), self._last_cti)
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
        vs = int64_column(events, VS)
        assert events.column(VE)[0].as_py() == int(vs[0]) + 1, "panes are for point events"
        unit = self._panes.size
        first, last = int(vs[0]) // unit, int(vs[-1]) // unit
        self._close_before(first, out)
        if first == last:
            self._pane.update(first, events)
            return
        head = int(np.searchsorted(vs, np.int64((first + 1) * unit)))
        tail = int(np.searchsorted(vs, np.int64(last * unit)))
        if self._pane.number == first:
            self._pane.update(first, events.slice(0, head))
            self._close_before(last, out)
        else:
            head = 0
        if tail > head:
            middle = events.slice(head, tail - head)
            numbers = floor_divided(vs[head:tail], unit)
            panes, keys, lanes = closed_groups(self._grouping, middle, numbers, at=None)
            out.append(self._rows(panes, keys, lanes))
        self._pane.update(last, events.slice(tail))

    def _close_before(self, pane: int, out: list[pa.RecordBatch]) -> None:
        """Emit the open pane if it lies before ``pane``."""
        if self._pane.is_before(pane):
            numbers = np.full(len(self._pane), self._pane.number)
            out.append(self._rows(numbers, *self._pane.close()))

    def _rows(
        self, panes: np.ndarray, keys: list[pa.Array], lanes: list[pa.Array]
    ) -> pa.RecordBatch:
        return rows_of_panes(self._panes, panes, keys, lanes, self._schema)
