"""Partial aggregation of point events that come in any order above the CTIs.

Behind a source whose rows would be sorted for nothing but aggregates that do not depend on order:
the rows are folded into their panes as they come, and none is kept or sorted. The output is, item
for item, that of :class:`~rvertex.operators.windows.panes.ordered.PaneAggregate` on the sorted
rows.

Invariants: (1) state is the panes that no CTI has closed, which are few as long as a pane is not
much shorter than what lies between the source's frontier and its latest row; (2) partial rows come
by (pane, key), with the pane as lifetime, when a CTI closes the pane; (3) ``CTI(t)`` becomes the
start of the pane that holds ``t``; (4) rows of equal ``vs`` are folded as they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.types import MIN_TIME
from rvertex.events.ordering import in_time_order
from rvertex.events.reorder_buffer import concatenated
from rvertex.events.run import Run, growing
from rvertex.operators.windows.grouping import Grouping, closed_groups
from rvertex.operators.windows.panes.open_pane import OpenPanes, in_windows, rows_of_panes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.protocol import OperatorState
    from rvertex.operators.windows.arithmetic import Windows

#: A batch over at most so many panes is cut at their bounds.
_CUT_PANES_MAX = 4


class UnorderedPanes:
    """Aggregates points by pane of ``windows`` and key; ``schema`` is that of partial events."""

    def __init__(self, windows: Windows, grouping: Grouping, schema: pa.Schema) -> None:
        self._windows = windows
        self._panes = windows.pane
        self._grouping = grouping
        self._schema = schema
        self._open = OpenPanes(grouping)
        self._last_cti: int | None = None

    def process(self, ports: Sequence[Run]) -> Run:
        """Fold the events in and emit the panes that the CTIs close."""
        (run,) = ports
        events = in_windows(self._windows, run.events, in_order=False)
        out: list[pa.RecordBatch] = []
        closing = self._panes.open_at(int(run.ctis[-1]) if len(run.ctis) else MIN_TIME)
        if events.num_rows:
            self._consume(events, closing, out)
        out += [self._rows(*closed) for closed in self._open.close_before(closing)]
        ctis = growing(self._panes.earliest_open(run.ctis), self._last_cti)
        if len(ctis):
            self._last_cti = int(ctis[-1])
        rows = concatenated(out, self._schema)
        # Each pane is whole in one of the batches, by key.
        return Run(rows if len(out) < 2 else in_time_order(rows)[0], ctis)

    def snapshot(self) -> OperatorState:
        """The open panes, by reference."""
        return self._open.snapshot(self._last_cti)

    def load(self, state: OperatorState) -> None:
        """Continue with the open panes of ``state``."""
        self._last_cti = self._open.load(state)

    def _consume(self, events: pa.RecordBatch, closing: int, out: list[pa.RecordBatch]) -> None:
        """Fold the events in; panes before ``closing`` that begin and end here go to ``out``."""
        vs = int64_column(events, VS)
        unit = self._panes.size
        low, high = int(vs.min()) // unit, int(vs.max()) // unit
        if high - low < _CUT_PANES_MAX:
            rest = [events]
            for pane in range(low, high):
                below, rest = _cut(rest, (pane + 1) * unit)
                self._update(pane, below)
            self._update(high, rest)
            return
        numbers = vs // unit
        whole = (numbers < closing) & ~np.isin(numbers, self._open.numbers())
        if whole.any():
            mine = events.filter(pa.array(whole))
            out.append(self._rows(*closed_groups(self._grouping, mine, numbers[whole], at=None)))
        for pane in np.unique(numbers[~whole]).tolist():
            self._update(pane, [events.filter(pa.array(numbers == pane))])

    def _update(self, pane: int, pieces: Sequence[pa.RecordBatch]) -> None:
        for events in pieces:
            if events.num_rows:
                self._open.update(pane, events)

    def _rows(
        self, panes: np.ndarray, keys: list[pa.Array], lanes: list[pa.Array]
    ) -> pa.RecordBatch:
        return rows_of_panes(self._panes, panes, keys, lanes, self._schema)


def _cut(
    pieces: Sequence[pa.RecordBatch], time: int
) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """The rows before ``time`` and the others, each in the order they have.

    Rows are nearly in order: only what lies between the first row of the one kind and the last of
    the other is copied.
    """
    below: list[pa.RecordBatch] = []
    above: list[pa.RecordBatch] = []
    for events in pieces:
        is_above = int64_column(events, VS) >= time
        first = int(is_above.argmax()) if is_above.any() else len(is_above)
        last = len(is_above) - int((~is_above[::-1]).argmax()) if not is_above.all() else 0
        if first >= last:
            below.append(events.slice(0, first))
            above.append(events.slice(first))
            continue
        mixed, mask = events.slice(first, last - first), is_above[first:last]
        below += [events.slice(0, first), mixed.filter(pa.array(~mask))]
        above += [mixed.filter(pa.array(mask)), events.slice(last)]
    return below, above
