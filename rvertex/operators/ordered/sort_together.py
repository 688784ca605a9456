"""Sorts events that start together by columns.

Invariants: (1) only events of the greatest time so far are buffered; (2) output order is (``vs``,
columns, row order); (3) CTIs (watermarks) are unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.batch import VS, event_schema
from rstream.items.dictionaries import join_batches
from rvertex.aggregates.ranked.top_rows import sort_columns, sort_keys
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run
from rvertex.events.settled_rows import parted
from rvertex.operators.horizon import SameLifetimes
from rvertex.operators.protocol import OperatorState, SameColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator


@dataclass(frozen=True, slots=True)
class SortTogether(SameColumns, SameLifetimes):
    """Sorts events with equal start. ``ways``: per sort column (is descending, has nulls first)."""

    by: tuple[str, ...]
    ways: tuple[tuple[bool, bool], ...]

    def horizon_us(self, durations: Durations) -> int | None:
        """Return 0: only events that no CTI has passed are buffered."""
        return 0

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return _Sorter(self, event_schema(payload))


class _Sorter:
    """The running operator of :class:`SortTogether`."""

    def __init__(self, spec: SortTogether, schema: pa.Schema) -> None:
        self._spec = spec
        self._schema = schema
        self._waiting = empty_batch(schema)

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the events of all times that have passed, sorted."""
        (run,) = ports
        rows, self._waiting, _ = parted(self._waiting, run, self._schema.names)
        return Run(self._sorted(rows), run.ctis)

    def snapshot(self) -> OperatorState:
        """Return the buffered events, by reference."""
        return OperatorState({}, {"rows": pa.Table.from_batches([self._waiting])})

    def load(self, state: OperatorState) -> None:
        """Restore the buffered events of ``state``."""
        batches = state.tables["rows"].to_batches()
        self._waiting = join_batches(batches) if batches else empty_batch(self._schema)

    def _sorted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if rows.num_rows < 2:
            return rows
        by = sort_columns([rows.column(name) for name in self._spec.by], self._spec.ways)
        columns = {VS: rows.column(VS), **by}
        columns["at"] = pa.array(np.arange(rows.num_rows))
        order = pc.sort_indices(pa.table(columns), sort_keys=sort_keys(columns, self._spec.ways))
        return rows.take(order)
