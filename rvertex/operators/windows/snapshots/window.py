"""Snapshot windows: a window between every two neighbouring lifetime endpoints of a key.

**Rule.** The endpoints of a key are the ``vs`` and ``ve`` of its events. Between two neighbouring
endpoints the set of live events does not change. If it is not empty, that interval is a window over
the live events. So at each instant the result is the aggregate over the key's live events.

Example: one key, events a = [0, 6), b = [2, 9), c = [6, 9), d = [12, 14):

    window     events
    [ 0, 2)    a
    [ 2, 6)    a b
    [ 6, 9)    b c
    [12,14)    d          no event is alive in [9, 12)

A window is released once no event before its end can follow, after all windows that start before
it. ``CTI(t)`` (a watermark) becomes the start of the earliest window, of any key, that the events
before t leave open at t; or t if there is none. If only the start of an event at t ends a window,
that is certain only after a CTI beyond t.

Invariants: (1) every pair (event, window) is processed once, so the time is linear in the pairs: a
row is buffered under the number of the next window that it is in; (2) the rows of a window are
aggregated in row order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.types import MIN_TIME
from rvertex.aggregates.accumulators import Rows
from rvertex.events.group_scan import heads_of
from rvertex.events.reorder_buffer import SortedRuns, empty_batch
from rvertex.events.run import Run
from rvertex.keys.key_table import KeyTable
from rvertex.operators.horizon import SameLifetimes, sum_us
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.assigned import WindowResults
from rvertex.operators.windows.hopping import Aggregates, gathering
from rvertex.operators.windows.snapshots.endpoints import Endpoints
from rvertex.operators.windows.snapshots.points import SnapshotPoints
from rvertex.operators.windows.window_log import WindowLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.aggregates.spec import AggregateSpec
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator
    from rvertex.operators.windows.grouping import Grouping

_SEQ = "@seq"
#: Most windows aggregated in one pass.
_WINDOWS_MAX = 1 << 13


@dataclass(frozen=True, slots=True)
class SnapshotAggregate(Aggregates, SameLifetimes):
    """Aggregates per key and snapshot window."""

    holds_ctis: ClassVar[bool] = True

    keys: tuple[str, ...]
    aggregates: tuple[AggregateSpec, ...]
    #: Whether all lifetimes are points.
    points: bool = False

    def horizon_us(self, durations: Durations) -> int | None:
        """Return twice the greatest lifetime.

        An open window has a live event, which started at most one lifetime ago. The window may
        begin where another event ended, which started up to one lifetime earlier.
        """
        return sum_us(durations[0], durations[0])

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        make = SnapshotPoints if self.points else SnapshotWindows
        return make(*gathering(self.keys, self.aggregates, payload))


class SnapshotWindows:
    """Aggregates events by the snapshot windows in which they are alive."""

    def __init__(
        self,
        grouping: Grouping,
        input_schema: pa.Schema,
        output_schema: pa.Schema,
        finish: Callable[[list[pa.Array]], list[pa.Array]],
    ) -> None:
        self._grouping = grouping
        #: The schema of buffered rows; ``_vs`` is the number of the row's next window.
        self._schema = input_schema.append(pa.field(_SEQ, pa.int64()))
        self._results = WindowResults(grouping, output_schema, finish)
        self._keys = KeyTable(grouping.types)
        #: Links of a window: the key's next window if there is no gap, and the first window of such
        #: a chain.
        self._log = WindowLog(links=2)
        self._endpoints = Endpoints(self._log)
        self._rows = SortedRuns(self._schema)
        self._events = 0

    def process(self, ports: Sequence[Run]) -> Run:
        """Begin and end windows at the endpoints passed, and emit released windows."""
        (run,) = ports
        if run.is_empty:
            return Run(empty_batch(self._results.schema), run.ctis)
        promise = int(run.ctis[-1]) if len(run.ctis) else MIN_TIME
        if run.events.num_rows:
            promise = max(promise, int(int64_column(run.events, VS)[-1]))
        self._add(run.events, promise)
        upto, ctis = self._log.advance(promise, run.ctis)
        out = self._emit(upto)
        self._log.release(upto)
        if self._keys.is_crowded(beside=self._endpoints.waiting):
            self._keys.keep(self._endpoints.forget())
        return Run(out, ctis)

    def snapshot(self) -> OperatorState:
        """Return keys, endpoints, windows and rows, by reference."""
        header, windows = self._log.save()
        tables = {**self._keys.save(), **windows, **self._endpoints.save()}
        return OperatorState(
            {**header, "events": self._events}, tables | {"rows": self._rows.table()}
        )

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._events = state.header["events"]
        self._keys.restore(state.tables)
        self._log.restore(state.header, state.tables)
        self._endpoints.restore(state.tables)
        for batch in state.tables["rows"].combine_chunks().to_batches():
            self._rows.push(batch)

    def _add(self, events: pa.RecordBatch, promise: int) -> None:
        """Add events, and buffer each under the first window that it is in."""
        codes = self._keys.codes(self._grouping.key_columns(events), events.num_rows)
        vs, ve = int64_column(events, VS), int64_column(events, VE)
        windows = self._endpoints.pass_until(promise, codes, vs, ve, len(self._keys))
        seq = np.arange(self._events, self._events + events.num_rows)
        self._events += events.num_rows
        columns = [events.column(name) for name in self._schema.names[1:-1]]
        columns = [pa.array(windows), *columns, pa.array(seq)]
        self._rows.push(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _emit(self, upto: int) -> pa.RecordBatch:
        """Return the results of all windows below ``upto``, in several passes."""
        out: list[pa.RecordBatch] = []
        low = self._log.released
        while low < upto:
            high = upto
            if upto - low > _WINDOWS_MAX:
                # Windows with one start must be in one pass, since it sorts them by key.
                starts = self._log.starts(np.arange(low, upto))
                high = low + int(starts.searchsorted(starts[_WINDOWS_MAX], side="left"))
                if high == low:
                    high = low + int(starts.searchsorted(starts[0], side="right"))
            out.append(self._emit_part(low, high))
            low = high
        return pa.concat_batches(out) if out else empty_batch(self._results.schema)

    def _emit_part(self, low: int, high: int) -> pa.RecordBatch:
        """Return the results of the windows from ``low`` to ``high - 1``, in one pass."""
        rows = self._rows.take_below(high)
        if rows.num_rows == 0:
            return empty_batch(self._results.schema)
        first, ve = int64_column(rows, VS), int64_column(rows, VE)
        numbers = np.arange(low, high)
        starts, ends = self._log.starts(numbers), self._log.ends(numbers)
        # Sort windows by chain. Then the windows of a row are neighbours.
        chain = self._log.links(1, numbers)
        lie = np.lexsort((numbers, chain))
        place = np.empty(len(lie), np.int64)
        place[lie] = np.arange(len(lie))
        _chains, rank = np.unique(chain, return_inverse=True)
        distinct, when = np.unique(starts, return_inverse=True)
        width = len(distinct) + 1
        begin = place[first - low]
        end = np.searchsorted(
            (rank * width + when)[lie], rank[first - low] * width + np.searchsorted(distinct, ve)
        )
        count = end - begin
        assert (count > 0).all(), "a row waits for a window that it is in"
        last = lie[end - 1]
        self._wait(rows, last + low, ve > ends[last])
        at = np.repeat(np.arange(len(count)), count)
        step = np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)
        window = lie[begin[at] + step]
        order = np.lexsort((int64_column(rows, _SEQ)[at], window))
        heads = heads_of(window[order])
        filled = window[order][heads]  # without empty windows, whose keys another vertex has now
        members = Rows(np.cumsum(heads) - 1, len(filled), rows, at[order])
        return self._results.batch(members, starts[filled], ends[filled])

    def _wait(self, rows: pa.RecordBatch, windows: np.ndarray, lives: np.ndarray) -> None:
        """Buffer rows that are still alive under the window that follows ``windows``."""
        if not lives.any():
            return
        follows = self._log.links(0, windows[lives])
        rows = rows.filter(pa.array(lives))
        columns = [pa.array(follows), *rows.columns[1:]]
        self._rows.push(pa.RecordBatch.from_arrays(columns, schema=self._schema))
