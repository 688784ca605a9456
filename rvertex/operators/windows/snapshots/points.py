"""Snapshot windows of points: one window for each instant of a key at which it has events.

The window of a point is ``[t, t + 1)``. It is complete as soon as time has passed ``t``. Results
are those of :mod:`rvertex.operators.windows.snapshots.window`, which this replaces if all lifetimes
are points.

Invariants: (1) only rows of the greatest time so far are buffered; (2) results are sorted by (time,
keys ascending, nulls last), and the rows of a window are aggregated in row order; (3) CTIs
(watermarks) are unchanged; (4) runs of neighbours with the same time and key are found by comparing
neighbours, and only these runs are sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.items.dictionaries import join_batches
from rvertex.aggregates.accumulators import Rows
from rvertex.events.group_scan import heads_of
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run
from rvertex.events.settled_rows import parted
from rvertex.keys.sort_keys import numbered_keys
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.grouping import window_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.operators.windows.grouping import Grouping


class SnapshotPoints:
    """Aggregates points by time and key."""

    def __init__(
        self,
        grouping: Grouping,
        input_schema: pa.Schema,
        output_schema: pa.Schema,
        finish: Callable[[list[pa.Array]], list[pa.Array]],
    ) -> None:
        self._grouping = grouping
        self._needed = input_schema
        self._schema = output_schema
        self._finish = finish
        #: Buffered rows of the greatest time so far, since more may follow.
        self._waiting = empty_batch(input_schema)

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the windows of all times that have passed."""
        (run,) = ports
        rows, self._waiting, _ = parted(self._waiting, run, self._needed.names)
        return Run(self._emit(rows), run.ctis)

    def snapshot(self) -> OperatorState:
        """Return the buffered rows, by reference."""
        return OperatorState({}, {"rows": pa.Table.from_batches([self._waiting])})

    def load(self, state: OperatorState) -> None:
        """Restore the buffered rows of ``state``."""
        batches = state.tables["rows"].to_batches()
        self._waiting = join_batches(batches) if batches else empty_batch(self._needed)

    def _emit(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the results of ``rows``, which are complete for their times."""
        if rows.num_rows == 0:
            return empty_batch(self._schema)
        vs = int64_column(rows, VS)
        heads = heads_of(vs, *self._identities(rows))
        first = np.flatnonzero(heads)
        columns = [c.take(pa.array(first)) for c in self._grouping.key_columns(rows)]
        keys = numbered_keys(self._grouping.types, columns, len(first))
        starts, _, group_of_run = window_groups(vs.take(first), keys.codes, keys.span)
        members = Rows(group_of_run.take(np.cumsum(heads) - 1), len(starts), rows)
        lanes: list[pa.Array] = []
        for accumulator in self._grouping.accumulators():
            accumulator.update(members)
            lanes += accumulator.columns()
        run = np.empty(len(starts), np.int64)
        run[group_of_run[::-1]] = np.arange(len(first))[::-1]
        times = [pa.array(starts), pa.array(starts + 1)]
        payload = [*(c.take(pa.array(run)) for c in columns), *self._finish(lanes)]
        return pa.RecordBatch.from_arrays([*times, *payload], schema=self._schema)

    def _identities(self, rows: pa.RecordBatch) -> list[np.ndarray]:
        """Return one integer per row; different keys have different integers."""
        columns = self._grouping.key_columns(rows)
        if all(c.type == pa.int64() and not c.null_count for c in columns):
            return [column.to_numpy() for column in columns]
        return [numbered_keys(self._grouping.types, columns, rows.num_rows).codes]
