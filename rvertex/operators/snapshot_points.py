"""Snapshot windows of points: a window for every instant of a key at which it has events.

A point ends before anything else can begin, so its window ``[t, t + 1)`` is known to be whole as
soon as anything later is promised. Rows come out as from
:mod:`rvertex.operators.snapshot_window`, which this replaces where all lifetimes are points.

Invariants: (1) only rows of the greatest time seen wait; (2) results come by (time, keys ascending,
nulls last), rows of a window are aggregated in sequence order; (3) CTIs pass unchanged; (4) rows
that follow each other with the same time and key are told apart from others by comparing
neighbours; only such runs are indexed and sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.batch import VS, int64_column
from rstream.dictionaries import join_batches
from rstream.types import MIN_TIME
from rvertex.accumulators import Rows
from rvertex.keys import KeyIndex
from rvertex.operators.protocol import OperatorState
from rvertex.operators.single_window import WindowResults
from rvertex.run import Run
from rvertex.segments import heads_of
from rvertex.sorted_runs import empty_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.operators.grouping import Grouping


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
        self._schema = input_schema
        self._results = WindowResults(grouping, output_schema, finish)
        #: Rows of one time, to which others may come.
        self._waiting = empty_batch(input_schema)

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the windows of all times that are past."""
        (run,) = ports
        promise = int(run.ctis[-1]) if len(run.ctis) else MIN_TIME
        rows = self._waiting
        if run.events.num_rows:
            new = run.events.select(self._schema.names)
            promise = max(promise, int(int64_column(new, VS)[-1]))
            rows = join_batches([rows, new]) if rows.num_rows else new
        count = int(int64_column(rows, VS).searchsorted(promise))
        self._waiting = rows.slice(count)
        return Run(self._emit(rows.slice(0, count)), run.ctis)

    def snapshot(self) -> OperatorState:
        """The rows that wait, by reference."""
        return OperatorState({}, {"rows": pa.Table.from_batches([self._waiting])})

    def load(self, state: OperatorState) -> None:
        """Continue with the rows of ``state``."""
        batches = state.tables["rows"].to_batches()
        self._waiting = join_batches(batches) if batches else empty_batch(self._schema)

    def _emit(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if rows.num_rows == 0:
            return empty_batch(self._results.schema)
        vs = int64_column(rows, VS)
        heads = heads_of(vs, *self._identities(rows))
        first = np.flatnonzero(heads)
        codes = np.cumsum(heads) - 1
        starts = vs.take(first)
        if (starts[1:] == starts[:-1]).any():
            of_run, starts = self._windows(rows.take(pa.array(first)), starts)
            codes = of_run.take(codes)
        return self._results.batch(Rows(codes, len(starts), rows), starts, starts + 1)

    def _identities(self, rows: pa.RecordBatch) -> list[np.ndarray]:
        """Integers that tell the keys of the rows apart."""
        columns = self._grouping.key_columns(rows)
        if all(c.type == pa.int64() and not c.null_count for c in columns):
            return [column.to_numpy(zero_copy_only=True) for column in columns]
        return [KeyIndex(self._grouping.types).codes_of_rows(columns, rows.num_rows)]

    def _windows(self, heads: pa.RecordBatch, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of the window of each run, given their first rows, and where each begins."""
        index = KeyIndex([pa.int64(), *self._grouping.types])
        columns = [pa.array(starts), *self._grouping.key_columns(heads)]
        codes = index.codes(columns)
        first = np.empty(len(index), np.int64)
        first[codes[::-1]] = np.arange(len(codes))[::-1]
        return codes, starts.take(first)
