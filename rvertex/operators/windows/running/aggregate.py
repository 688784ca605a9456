"""Running aggregates: over all events of a key, or of its session, that have started.

**Rule.** For events that never end, a window begins at each time at which events of a key start. It
has all events that have started, and lives until the next such time; the last window never ends. So
the result equals the result of :mod:`rvertex.operators.windows.snapshots.window`. But that operator
aggregates all live events of each window. Here the accumulators of the previous window are reused,
and only the events of one time are merged in.

Example: one key, events at 1, 4 and 4 with x = 3, 1, 1:

    window      sum(x)
    [1, 4)      3
    [4, INF)    5

For a session (:mod:`rvertex.operators.windows.session`) the same holds from its first event to its
end: a window has the session's events that have started, and lives until the next one or the end.

    session(5)  events at 1, 4, 12      [1, 4) 1 event   [4, 9) 2 events   [12, 17) 1 event

A window is released once no event at or before the start that ended it can follow (or before the
end of its session), after all windows that start before it. ``CTI(t)`` (a watermark) becomes the
start of the earliest window, of any key, that is still open.

Invariants: (1) only events of the greatest time so far are buffered. Events of one key and time are
merged in row order, then into the accumulators, so no result depends on batch boundaries; (2) a
step takes amortised time in its events and the windows that it releases, times the most steps of a
key; (3) the state of a session is dropped once it has ended and its results have been released,
amortised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.items.dictionaries import join_batches
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.spec import lanes_of
from rvertex.events.group_scan import heads_of
from rvertex.events.reorder_buffer import SortedRuns, empty_batch
from rvertex.events.run import Run
from rvertex.events.settled_rows import parted
from rvertex.keys.key_table import KeyTable
from rvertex.keys.sort_keys import sorted_keys
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.hopping import Aggregates, gathering
from rvertex.operators.windows.running.carried import CarriedLanes, NewValues
from rvertex.operators.windows.running.steps import Endless, OfSessions
from rvertex.operators.windows.session import OverSessions
from rvertex.operators.windows.window_log import WindowLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.spec import AggregateSpec
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator
    from rvertex.operators.windows.running.steps import Steps


@dataclass(frozen=True, slots=True)
class RunningAggregate(Aggregates):
    """Aggregates per key over events that never end; holistic functions are not supported."""

    holds_ctis: ClassVar[bool] = True

    keys: tuple[str, ...]
    aggregates: tuple[AggregateSpec, ...]

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return _Running(self, payload, Endless())


@dataclass(frozen=True, slots=True)
class RunningSessionAggregate(OverSessions):
    """Running aggregates per key over a session; holistic functions are not supported."""

    def output_duration(self, durations: Durations) -> int | None:
        """Return the smaller of ``max_us`` and an event's greatest activity, us.

        The activity of an event is its lifetime - 1 us + gap.
        """
        (duration,) = durations
        most = [None if duration is None else duration - 1 + self.gap_us, self.max_us]
        return min((m for m in most if m is not None), default=None)

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return _Running(self, payload, OfSessions(self.gap_us, self.max_us))


class _Running:
    """The running operator of :class:`RunningAggregate` and :class:`RunningSessionAggregate`."""

    def __init__(
        self, spec: RunningAggregate | RunningSessionAggregate, payload: pa.Schema, steps: Steps
    ) -> None:
        self._new_values = NewValues(spec.aggregates, payload)
        self._needed = gathering(spec.keys, spec.aggregates, payload)[1]
        aggregates, payload = self._new_values.aggregates, self._new_values.payload
        made = gathering(spec.keys, aggregates, payload)
        self._grouping, _, self._schema, self._finish = made
        self._keys = KeyTable(self._grouping.types)
        self._log = WindowLog()
        self._steps = steps
        #: By key: the accumulators of its open window.
        self._carried = CarriedLanes(lanes_of(aggregates, payload))
        #: Buffered events of the greatest time so far, since more may follow.
        self._waiting = empty_batch(self._needed)
        #: Buffered results, with the number of their window in ``_vs``.
        self._results = SortedRuns(self._schema)

    def process(self, ports: Sequence[Run]) -> Run:
        """Add the events of all times that have passed, and emit released windows."""
        (run,) = ports
        rows, self._waiting, promise = parted(self._waiting, run, self._needed.names)
        if rows.num_rows:
            self._take(rows)
        upto, ctis = self._log.advance(promise, run.ctis)
        out = self._emit(self._results.take_below(upto))
        self._log.release(upto)
        self._forget(promise)
        return Run(out, ctis)

    def snapshot(self) -> OperatorState:
        """Return keys, windows, accumulators, buffered events and results, by reference."""
        header, windows = self._log.save()
        tables = {**self._keys.save(), **windows, **self._carried.save()}
        tables |= self._new_values.save()
        tables["open"] = self._steps.save()
        tables["waiting"] = pa.Table.from_batches([self._waiting])
        tables["results"] = self._results.table()
        return OperatorState(dict(header), tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._keys.restore(state.tables)
        self._log.restore(state.header, state.tables)
        self._steps.restore(state.tables["open"])
        self._carried.restore(state.tables)
        self._new_values.restore(state.tables)
        batches = state.tables["waiting"].to_batches()
        self._waiting = join_batches(batches) if batches else empty_batch(self._needed)
        for batch in state.tables["results"].combine_chunks().to_batches():
            self._results.push(batch)

    def _take(self, rows: pa.RecordBatch) -> None:
        """Open a window for each key and time of ``rows``, which are complete for their times."""
        columns = self._grouping.key_columns(rows)
        codes = self._keys.codes(columns, rows.num_rows)
        order = np.lexsort((codes, int64_column(rows, VS)))
        heads = heads_of(int64_column(rows, VS)[order], codes[order])
        step_of = np.empty(len(codes), np.int64)
        step_of[order] = np.cumsum(heads) - 1
        first = order[heads]
        code, time = codes[first], int64_column(rows, VS)[first]
        last = np.maximum.reduceat(int64_column(rows, VE)[order], np.flatnonzero(heads))
        steps = self._steps.number(code, time, last, len(self._keys), self._log)
        marked = self._new_values.marked(rows, steps.belongs[step_of])
        given = Rows(step_of, len(first), marked)
        partial: list[pa.Array] = []
        for accumulator in self._grouping.accumulators():
            accumulator.update(given)
            partial += accumulator.columns()
        lanes = self._carried.merged(code, time, partial, len(self._keys), steps.begins)
        numbers_ = self._log.next - len(first) + np.arange(len(first))
        at = pa.array(first)
        times = [pa.array(numbers_), pa.array(time)]
        payload = [*(c.take(at) for c in columns), *self._finish(lanes)]
        self._results.push(pa.RecordBatch.from_arrays([*times, *payload], schema=self._schema))

    def _forget(self, promise: int) -> None:
        """Drop keys that are not active any more, and the distinct values of ended sessions."""
        if self._keys.is_crowded() and (needed := self._steps.needed(promise)) is not None:
            kept = np.flatnonzero(needed)
            self._keys.keep(kept)
            self._carried.keep(kept)
            self._steps.keep(kept)
        if self._new_values.is_crowded() and (going_on := self._steps.going_on()) is not None:
            self._new_values.keep(going_on)

    def _emit(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the results by (start, key), with their lifetimes."""
        if rows.num_rows == 0:
            return rows
        windows = int64_column(rows, VS)
        starts, ends = self._log.starts(windows), self._log.ends(windows)
        keys = [rows.column(2 + i) for i in range(len(self._grouping.types))]
        order = sorted_keys([pa.array(starts), *keys], rows.num_rows)
        payload = [column.take(pa.array(order)) for column in rows.columns[2:]]
        times = [pa.array(starts[order]), pa.array(ends[order])]
        return pa.RecordBatch.from_arrays([*times, *payload], schema=self._schema)
