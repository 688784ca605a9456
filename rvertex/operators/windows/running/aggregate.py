"""Running aggregates: of all events of a key that have started, as none of them ever ends.

**Rule.** At each time at which events of a key start, a window begins: it holds all that have
started, and lives until the next such time, the last of all for ever. So the result is that of
:mod:`rvertex.operators.windows.snapshots.window`, which looks at all that is alive for each window;
here a window's lanes are those of the one before, with the events of one time merged in.

Worked, one key: events at 1, 4 and 4 with x = 3, 1, 1:

    window      sum(x)
    [1, 4)      3
    [4, INF)    5

A window is released by a promise beyond its end, after all that start before it. ``CTI(t)`` becomes
the start of the earliest window of any key that is still open.

Invariants: (1) only events of the greatest time seen wait; those of one key and time are merged in
sequence order, then into what is carried, so no result depends on how the input was cut; (2) a step
costs time in its events and in what it releases, amortised, times the steps of one key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.spec import lanes_of
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.group_scan import heads_of
from rvertex.events.reorder_buffer import SortedRuns, empty_batch
from rvertex.events.run import Run
from rvertex.events.settled_rows import parted
from rvertex.keys.key_table import KeyTable
from rvertex.keys.sort_keys import sorted_keys
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.hopping import aggregated_schema, gathering
from rvertex.operators.windows.running.carried import CarriedLanes, FirstSeen
from rvertex.operators.windows.window_log import WindowLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.spec import AggregateSpec
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator


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
        """No event yet."""
        (payload,) = inputs
        return _Running(self, payload)


class _Running:
    """See :class:`RunningAggregate`."""

    def __init__(self, spec: RunningAggregate, payload: pa.Schema) -> None:
        self._first_seen = FirstSeen(spec.aggregates, payload)
        self._needed = gathering(spec.keys, spec.aggregates, payload)[1]
        aggregates, payload = self._first_seen.aggregates, self._first_seen.payload
        made = gathering(spec.keys, aggregates, payload)
        self._grouping, _, self._schema, self._finish = made
        self._keys = KeyTable(self._grouping.types)
        self._log = WindowLog()
        #: By key: its open window, and what is carried into the next.
        self._window = GroupArray(np.int64, -1)
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
        return Run(out, ctis)

    def snapshot(self) -> OperatorState:
        """Keys, windows, what is carried and what waits, by reference."""
        header, windows = self._log.save()
        tables = {**self._keys.save(), **windows, **self._carried.save()}
        tables |= self._first_seen.save()
        tables["open"] = pa.table({"window": self._window.shared()})
        tables["waiting"] = pa.Table.from_batches([self._waiting])
        tables["results"] = self._results.table()
        return OperatorState(dict(header), tables)

    def load(self, state: OperatorState) -> None:
        """Continue from ``state``."""
        self._keys.restore(state.tables)
        self._log.restore(state.header, state.tables)
        self._window.adopt(numbers(as_one_array(state.tables["open"].column(0))))
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
        self._number(code, time)
        given = Rows(step_of, len(first), self._first_seen.marked(rows, codes))
        partial: list[pa.Array] = []
        for accumulator in self._grouping.accumulators():
            accumulator.update(given)
            partial += accumulator.columns()
        lanes = self._carried.merged(code, time, partial, len(self._keys))
        numbers_ = self._log.next - len(first) + np.arange(len(first))
        at = pa.array(first)
        times = [pa.array(numbers_), pa.array(time)]
        payload = [*(c.take(at) for c in columns), *self._finish(lanes)]
        self._results.push(pa.RecordBatch.from_arrays([*times, *payload], schema=self._schema))

    def _number(self, code: np.ndarray, time: np.ndarray) -> None:
        """New windows, each of which ends the one of its key before it."""
        by_key = np.lexsort((time, code))
        window = self._window.writable(len(self._keys))
        new = self._log.add(time)
        self._log.set_ends(new, np.full(len(new), INF_TIME), np.full(len(new), INF_TIME))
        key, number = code[by_key], new[by_key]
        heads = heads_of(key)
        before = np.where(heads, window[key], np.concatenate([[-1], number[:-1]]))
        ended = before >= 0
        ends = time[by_key][ended]
        self._log.set_ends(before[ended], ends, ends + 1)
        last = np.append(heads[1:], True)
        window[key[last]] = number[last]

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
