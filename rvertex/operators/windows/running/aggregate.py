"""Running aggregates: of all events of a key, or of its session, that have started.

**Rule.** Of events that never end: at each time at which events of a key start, a window begins.
It holds all that have started, and lives until the next such time, the last of all for ever. So the
result is that of :mod:`rvertex.operators.windows.snapshots.window`, which looks at all that is
alive for each window; here a window's lanes are those of the one before, with the events of one
time merged in.

Worked, one key: events at 1, 4 and 4 with x = 3, 1, 1:

    window      sum(x)
    [1, 4)      3
    [4, INF)    5

Of a session (:mod:`rvertex.operators.windows.session`) the same holds from its first event to its
end: a window holds its events that have started, and lives until the next of them or the end.

    session(5)  events at 1, 4, 12      [1, 4) 1 event   [4, 9) 2 events   [12, 17) 1 event

A window is released by a promise beyond the start that ended it, or of its session's end, after all
that start before it. ``CTI(t)`` becomes the start of the earliest window of any key still open.

Invariants: (1) only events of the greatest time seen wait; those of one key and time are merged in
sequence order, then into what is carried, so no result depends on how the input was cut; (2) a step
costs time in its events and in what it releases, amortised, times the steps of one key; (3) of
sessions nothing is kept once they have ended and their results have been released, amortised.
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
from rvertex.operators.windows.hopping import aggregated_schema, gathering
from rvertex.operators.windows.running.carried import CarriedLanes, FirstSeen
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
class RunningAggregate:
    """Aggregates per key over events that never end; no function needs all of them at once."""

    holds_ctis: ClassVar[bool] = True

    keys: tuple[str, ...]
    aggregates: tuple[AggregateSpec, ...]

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Keys, then aggregates."""
        return aggregated_schema(self.keys, self.aggregates, inputs)

    def horizon_us(self, durations: Durations) -> int | None:
        """None: results hold all that ever came."""
        return None

    def output_duration(self, durations: Durations) -> int | None:
        """None: results may never change."""
        return None

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """A new operator with empty state."""
        (payload,) = inputs
        return _Running(self, payload, Endless())


@dataclass(frozen=True, slots=True)
class RunningSessionAggregate(OverSessions):
    """Aggregates per key of a session so far; no function needs all of its events at once."""

    def output_duration(self, durations: Durations) -> int | None:
        """The gap behind the last instant of an event, or the greatest length of a session."""
        (duration,) = durations
        most = [None if duration is None else duration - 1 + self.gap_us, self.max_us]
        return min((m for m in most if m is not None), default=None)

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """A new operator with empty state."""
        (payload,) = inputs
        return _Running(self, payload, OfSessions(self.gap_us, self.max_us))


class _Running:
    """See :class:`RunningAggregate` and :class:`RunningSessionAggregate`."""

    def __init__(
        self, spec: RunningAggregate | RunningSessionAggregate, payload: pa.Schema, steps: Steps
    ) -> None:
        self._first_seen = FirstSeen(spec.aggregates, payload)
        self._needed = gathering(spec.keys, spec.aggregates, payload)[1]
        aggregates, payload = self._first_seen.aggregates, self._first_seen.payload
        made = gathering(spec.keys, aggregates, payload)
        self._grouping, _, self._schema, self._finish = made
        self._keys = KeyTable(self._grouping.types)
        self._log = WindowLog()
        self._steps = steps
        #: By key: what its open window carries into the next.
        self._carried = CarriedLanes(lanes_of(aggregates, payload))
        #: Events of one time, to which others may come.
        self._waiting = empty_batch(self._needed)
        #: Results with the number of their window in ``_vs``.
        self._results = SortedRuns(self._schema)

    def process(self, ports: Sequence[Run]) -> Run:
        """Take in the events of all times that are past, and emit what is released."""
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
        """Keys, windows, what is carried and what waits, by reference."""
        header, windows = self._log.save()
        tables = {**self._keys.save(), **windows, **self._carried.save()}
        tables |= self._first_seen.save()
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
        self._first_seen.restore(state.tables)
        batches = state.tables["waiting"].to_batches()
        self._waiting = join_batches(batches) if batches else empty_batch(self._needed)
        for batch in state.tables["results"].combine_chunks().to_batches():
            self._results.push(batch)

    def _take(self, rows: pa.RecordBatch) -> None:
        """A window for each key and time of ``rows``, which are all of those times."""
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
        marked = self._first_seen.marked(rows, steps.belongs[step_of])
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
        """Be done with keys that will begin anew, if they come again, and with what has ended."""
        if self._keys.is_crowded() and (needed := self._steps.needed(promise)) is not None:
            kept = np.flatnonzero(needed)
            self._keys.keep(kept)
            self._carried.keep(kept)
            self._steps.keep(kept)
        if self._first_seen.is_crowded() and (going_on := self._steps.going_on()) is not None:
            self._first_seen.keep(going_on)

    def _emit(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Results by (start, key), with their lifetimes."""
        if rows.num_rows == 0:
            return rows
        windows = int64_column(rows, VS)
        starts, ends = self._log.starts(windows), self._log.ends(windows)
        keys = [rows.column(2 + i) for i in range(len(self._grouping.types))]
        order = sorted_keys([pa.array(starts), *keys], rows.num_rows)
        payload = [column.take(pa.array(order)) for column in rows.columns[2:]]
        times = [pa.array(starts[order]), pa.array(ends[order])]
        return pa.RecordBatch.from_arrays([*times, *payload], schema=self._schema)
