"""The base of session and count windows: each event is in exactly one window.

An *assigner* determines the window of each event and when windows end. Rows are buffered here,
sorted by window, until the window log releases their window. Then each window is aggregated in one
pass.

Invariants: (1) results are sorted by (window start, keys ascending, nulls last); (2) each row is
buffered once and taken once. So a step takes amortised time in its rows and the rows of the windows
that it releases (a logarithmic factor more if windows overlap); (3) windows that never end are
dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rvertex.aggregates.accumulators import Rows
from rvertex.events.group_scan import heads_of
from rvertex.events.reorder_buffer import SortedRuns, empty_batch
from rvertex.events.run import Run
from rvertex.keys.key_table import KeyTable
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.grouping import Grouping, numbered_groups
from rvertex.operators.windows.window_log import NO_END, WindowLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class WindowAssigner(Protocol):
    """Assigns events to windows; stores its state by key code."""

    def assign(
        self, codes: np.ndarray, vs: np.ndarray, ve: np.ndarray, keys: int, log: WindowLog
    ) -> np.ndarray:
        """Return the window of each event, int64[n]; add new windows and ends to ``log``.

        Events are sorted by ``vs``; ``codes`` are their keys, all below ``keys``.
        """

    def needed(self, promise: int) -> np.ndarray:
        """Return a mask of the keys that may still influence a window.

        No event before ``promise`` can follow.
        """

    def keep(self, codes: np.ndarray) -> None:
        """Renumber key ``codes[i]`` to i and drop all other keys."""

    def save(self) -> pa.Table:
        """Return the state by key code, by reference."""

    def restore(self, table: pa.Table) -> None:
        """Restore the state that ``save`` returned."""


class WindowResults:
    """Builds result rows from the rows of released windows."""

    def __init__(
        self,
        grouping: Grouping,
        schema: pa.Schema,
        finish: Callable[[list[pa.Array]], list[pa.Array]],
    ) -> None:
        self._grouping = grouping
        self.schema = schema
        self._finish = finish

    def batch(self, rows: Rows, starts: np.ndarray, ends: np.ndarray) -> pa.RecordBatch:
        """Return one result row per window. ``rows.codes`` number the windows; none is empty."""
        order, keys, lanes = numbered_groups(self._grouping, rows, starts)
        times = [pa.array(starts[order]), pa.array(ends[order])]
        return pa.RecordBatch.from_arrays([*times, *keys, *self._finish(lanes)], schema=self.schema)


class SingleWindow:
    """Aggregates events by the window to which ``assigner`` assigns them."""

    def __init__(
        self,
        assigner: WindowAssigner,
        grouping: Grouping,
        input_schema: pa.Schema,
        output_schema: pa.Schema,
        finish: Callable[[list[pa.Array]], list[pa.Array]],
    ) -> None:
        self._assigner = assigner
        self._grouping = grouping
        self._input_schema = input_schema
        self._results = WindowResults(grouping, output_schema, finish)
        self._keys = KeyTable(grouping.types)
        self._log = WindowLog()
        #: Buffered events, with the number of their window in ``_vs``.
        self._rows = SortedRuns(input_schema)

    def process(self, ports: Sequence[Run]) -> Run:
        """Assign the events to windows, and emit the windows that events or CTIs release."""
        (run,) = ports
        if run.is_empty:
            return Run(empty_batch(self._results.schema), run.ctis)
        promise = int(run.ctis[-1]) if len(run.ctis) else -(2**63)
        if run.events.num_rows:
            promise = max(promise, int(int64_column(run.events, VS)[-1]))
            self._add(run.events)
        upto, ctis = self._log.advance(promise, run.ctis)
        out = self._emit(self._rows.take_below(upto))
        self._log.release(upto)
        if self._keys.is_crowded():
            kept = np.flatnonzero(self._assigner.needed(promise))
            self._keys.keep(kept)
            self._assigner.keep(kept)
        return Run(out, ctis)

    def snapshot(self) -> OperatorState:
        """Return keys, windows and rows, by reference."""
        header, windows = self._log.save()
        tables = {**self._keys.save(), **windows, "rows": self._rows.table()}
        return OperatorState(header, tables | {"assigner": self._assigner.save()})

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._keys.restore(state.tables)
        self._assigner.restore(state.tables["assigner"])
        self._log.restore(state.header, state.tables)
        for batch in state.tables["rows"].combine_chunks().to_batches():
            self._rows.push(batch)

    def _add(self, events: pa.RecordBatch) -> None:
        """Assign events to windows, and buffer them."""
        codes = self._keys.codes(self._grouping.key_columns(events), events.num_rows)
        vs, ve = int64_column(events, VS), int64_column(events, VE)
        windows = self._assigner.assign(codes, vs, ve, len(self._keys), self._log)
        columns = [events.column(name) for name in self._input_schema.names[1:]]
        columns = [pa.array(windows), *columns]
        self._rows.push(pa.RecordBatch.from_arrays(columns, schema=self._input_schema))

    def _emit(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the results of the windows of ``rows``, which are sorted by window."""
        windows = int64_column(rows, VS)
        is_whole = self._log.ends(windows) != NO_END
        if not is_whole.all():
            rows, windows = rows.filter(pa.array(is_whole)), windows[is_whole]
        if rows.num_rows == 0:
            return empty_batch(self._results.schema)
        heads = heads_of(windows)
        closed = windows[heads]
        members = Rows(np.cumsum(heads) - 1, len(closed), rows)
        return self._results.batch(members, self._log.starts(closed), self._log.ends(closed))
