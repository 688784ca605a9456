"""Running results of open sessions: one result per key, emitted at its start.

**Rule.** Sessions and results are as in
:class:`rvertex.operators.windows.running.aggregate.RunningSessionAggregate`. A result is emitted
when the watermark has passed its start; its end edge comes at the next change or at the session's
end. An equal new result does not end the old one, unless ``renews``. A row whose end is not known
yet keeps its key active.

    session(5), count    event 1    after 1: start 1 (1)
                         event 4    after 4: end 4 (of 1) (1), start 4 (2)
                         CTI(20)    after 9: end 9 (of 4) (2)

Invariants: (1) rows of one key and time are merged in row order, once that time has passed; (2) a
step takes time in its rows and in the sessions that end; (3) the state of a session is dropped
after its end, amortised; (4) live rows are counted per key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.items.dictionaries import join_batches, plain_array, plain_schema, plain_type
from rstream.items.edges import identities, is_end, occurrences
from rstream.types import INF_TIME, MIN_TIME
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.spec import lanes_of
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.group_scan import heads_of
from rvertex.events.reorder_buffer import SortedRuns, empty_batch
from rvertex.events.run import Run
from rvertex.events.settled_rows import parted
from rvertex.keys.key_table import KeyTable
from rvertex.operators.edges.results import Results
from rvertex.operators.protocol import OperatorState
from rvertex.operators.windows.hopping import gathering
from rvertex.operators.windows.running.carried import CarriedLanes, NewValues
from rvertex.operators.windows.session import OverSessions, SessionStarts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations

#: Payload of an entry in the queue of session ends: the key's code.
_CODE = pa.schema([("code", pa.int64())])


@dataclass(frozen=True, slots=True)
class EdgeRunningSessions(OverSessions):
    """Running aggregates per key over its open session.

    ``renews``: each instant with rows of a key ends its result and begins a new one, even if equal.
    """

    holds_ctis: ClassVar[bool] = False

    renews: bool = False

    def output_duration(self, durations: Durations) -> int | None:
        """Return None: a row may never end."""
        return None

    def open(self, inputs: Sequence[pa.Schema]) -> EdgeRunningSessionsOperator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return EdgeRunningSessionsOperator(self, payload)


@dataclass(frozen=True, slots=True)
class _Ends:
    """The sessions that end in a step, as arrays int64[n]: codes of keys, end times, and steps.

    ``of``: the step that had the session's last result; -1: a step of an earlier call.
    """

    codes: np.ndarray
    times: np.ndarray
    of: np.ndarray


class EdgeRunningSessionsOperator:
    """The running operator of :class:`EdgeRunningSessions`."""

    def __init__(self, spec: EdgeRunningSessions, payload: pa.Schema) -> None:
        self._needed = gathering(spec.keys, spec.aggregates, payload)[1]
        self._distinct = NewValues(spec.aggregates, payload)
        aggregates, payload = self._distinct.aggregates, self._distinct.payload
        made = gathering(spec.keys, aggregates, payload)
        self._grouping, _, schema, self._finish = made
        self._keys = KeyTable([plain_type(kind) for kind in self._grouping.types])
        self._results = Results(plain_schema(schema), len(spec.keys), renews=spec.renews)
        self._carried = CarriedLanes(lanes_of(aggregates, payload))
        self._starts = SessionStarts(spec.gap_us, spec.max_us)
        #: By key: number and end of its last session.
        self._session = GroupArray(np.int64, -1)
        self._end = GroupArray(np.int64, MIN_TIME)
        #: By key: the number of live rows, and the time until which its other rows keep it active.
        self._living = GroupArray(np.int64, 0)
        self._upto = GroupArray(np.int64, MIN_TIME)
        self._sessions = 0
        #: Queue of session ends after the frontier. An entry whose session end has moved is
        #: ignored.
        self._ahead = SortedRuns(event_schema(_CODE))
        self._waiting = empty_batch(self._needed)

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the changes at all instants before the frontier."""
        (run,) = ports
        rows, self._waiting, promise = parted(self._waiting, run, self._needed.names)
        is_death = is_end(int64_column(rows, VS), int64_column(rows, VE))
        deaths = rows.filter(pa.array(is_death))
        rows = rows.filter(pa.array(~is_death)) if deaths.num_rows else rows
        codes, times, ended, made = self._steps(rows, deaths)
        due = self._due(promise, codes)
        ends = _Ends(*(np.concatenate(p) for p in zip(*map(_parts, (ended, due)), strict=True)))
        before = self._results.values(ends.codes[ends.of < 0])
        place = np.where(ends.of < 0, len(codes) + np.cumsum(ends.of < 0) - 1, ends.of)
        at = np.concatenate([np.arange(len(codes)), place])
        out = self._results.change(
            np.concatenate([codes, ends.codes]),
            np.concatenate([times, ends.times]),
            join_batches([made, before]).take(pa.array(at)),
            np.arange(len(at)) < len(codes),
        )
        self._forget(promise)
        return Run(out, run.ctis)

    def snapshot(self) -> OperatorState:
        """Return keys, sessions, results, accumulated lanes and buffered rows, by reference."""
        tables = {**self._keys.save(), **self._results.save(), **self._carried.save()}
        tables |= self._distinct.save()
        arrays = {f"c{i}": column.shared() for i, column in enumerate(self._by_key)}
        tables |= {"sessions": pa.table(arrays), "ahead": self._ahead.table()}
        tables["waiting"] = pa.Table.from_batches([self._waiting])
        return OperatorState({"sessions": self._sessions}, tables)

    def load(self, state: OperatorState) -> None:
        """Restore ``state``."""
        self._sessions = state.header["sessions"]
        self._keys.restore(state.tables)
        self._results.restore(state.tables)
        self._carried.restore(state.tables)
        self._distinct.restore(state.tables)
        for column, saved in zip(self._by_key, state.tables["sessions"].columns, strict=True):
            column.adopt(numbers(as_one_array(saved)))
        for batch in state.tables["ahead"].combine_chunks().to_batches():
            self._ahead.push(batch)
        batches = state.tables["waiting"].to_batches()
        self._waiting = join_batches(batches) if batches else empty_batch(self._needed)

    def _steps(
        self, rows: pa.RecordBatch, deaths: pa.RecordBatch
    ) -> tuple[np.ndarray, np.ndarray, _Ends, pa.RecordBatch]:
        """Return key, time and result of each step, and the sessions that end before a step.

        Steps are sorted by (time, key).
        """
        columns = [plain_array(column) for column in self._grouping.key_columns(rows)]
        code_of = self._keys.codes(columns, rows.num_rows)
        self._results.cover(len(self._keys))
        for column in self._by_key:
            if len(self._keys) > len(column):
                column.writable(len(self._keys))
        ends = self._known_ends(rows, code_of, deaths)
        if rows.num_rows == 0:
            nothing = np.empty(0, np.int64)
            made = self._results.values(nothing)
            return nothing, nothing, _Ends(nothing, nothing, nothing), made
        vs = int64_column(rows, VS)
        order = np.lexsort((code_of, vs))
        heads = heads_of(vs[order], code_of[order])
        step_of = np.empty(len(vs), np.int64)
        step_of[order] = np.cumsum(heads) - 1
        first = order[heads]
        last = np.maximum.reduceat(ends[order], np.flatnonzero(heads))
        begins, session, ended = self._follow(code_of[first], vs[first], last)
        marked = self._distinct.marked(rows, session[step_of])
        given = Rows(step_of, len(first), marked)
        partial: list[pa.Array] = []
        for accumulator in self._grouping.accumulators():
            accumulator.update(given)
            partial += accumulator.columns()
        keys = len(self._keys)
        lanes = self._carried.merged(code_of[first], vs[first], partial, keys, begins)
        payload = [*(c.take(pa.array(first)) for c in columns), *self._finish(lanes)]
        made = pa.RecordBatch.from_arrays(payload, schema=self._results.payload)
        return code_of[first], vs[first], ended, made

    def _known_ends(
        self, rows: pa.RecordBatch, codes: np.ndarray, deaths: pa.RecordBatch
    ) -> np.ndarray:
        """End older rows; return the ends of new rows as far as they are known, int64[n]."""
        vs, ve = int64_column(rows, VS), int64_column(rows, VE).copy()
        ended, began = int64_column(deaths, VS), int64_column(deaths, VE)
        keys = [plain_array(column) for column in self._grouping.key_columns(deaths)]
        code = self._keys.codes(keys, deaths.num_rows)
        is_open = np.flatnonzero(ve == INF_TIME)
        # Rows of one key and start are interchangeable here, so each takes the next end.
        is_new = np.zeros(len(code), bool)
        if len(is_open) and len(code):
            pairs = [pa.array(np.append(codes[is_open], code))]
            pairs.append(pa.array(np.append(vs[is_open], began)))
            same = identities(pairs, len(is_open) + len(code))
            span = len(same) + 1
            offered, wanted = same[: len(is_open)], same[len(is_open) :]
            cells = offered * span + occurrences(offered)
            ends = wanted * span + occurrences(wanted)
            order = np.argsort(cells)
            at = np.minimum(cells[order].searchsorted(ends), len(order) - 1)
            is_new = cells[order][at] == ends
            ve[is_open[order[at[is_new]]]] = ended[is_new]
        self._end_older(code[~is_new], ended[~is_new])
        living, upto = self._living.writable(len(self._keys)), self._upto.writable(len(self._keys))
        lives = ve == INF_TIME
        np.add.at(living, codes[lives], 1)
        np.maximum.at(upto, codes[~lives], self._starts.until(ve[~lives]))
        return ve

    def _end_older(self, codes: np.ndarray, ended: np.ndarray) -> None:
        """End rows of earlier steps, and thus the activity of keys that have no live rows now."""
        if len(codes) == 0:
            return
        keys = len(self._keys)
        living, upto, end = (c.writable(keys) for c in (self._living, self._upto, self._end))
        start, active = self._starts.start.read(), self._starts.active.writable(keys)
        np.add.at(living, codes, -1)
        assert (living >= 0).all(), "more rows of a key end than began"
        np.maximum.at(upto, codes, self._starts.until(ended))
        idle = np.unique(codes)
        idle = idle[living[idle] == 0]
        active[idle] = upto[idle]
        ends = self._starts.ends(start[idle], active[idle])
        moved = (ends != end[idle]) & (ends < INF_TIME)
        end[idle] = ends
        columns = [ends[moved], ends[moved], idle[moved]]
        order = np.argsort(ends[moved], kind="stable")
        arrays = [pa.array(column[order]) for column in columns]
        self._ahead.push(pa.RecordBatch.from_arrays(arrays, schema=event_schema(_CODE)))

    def _follow(
        self, codes: np.ndarray, times: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, _Ends]:
        """Return which steps begin a session, the session of each, and sessions that end before."""
        keys = len(self._keys)
        session, end = self._session.writable(keys), self._end.writable(keys)
        starts = self._starts.follow(codes, times, last, keys, session >= 0)
        place = starts.order - starts.carried
        is_event = starts.is_event
        begins, belongs = np.empty(len(codes), bool), np.empty(len(codes), np.int64)
        begins[place[is_event]] = starts.begins[is_event]
        # New sessions are numbered by (time, key); open ones keep their numbers.
        belongs[begins] = self._sessions + np.arange(int(begins.sum()))
        self._sessions += int(begins.sum())
        of_row = np.full(len(starts.key), -1)
        of_row[~is_event] = session[starts.key[~is_event]]
        of_row[is_event] = belongs[place[is_event]]
        of_row = of_row[starts.first]
        belongs[place[is_event]] = of_row[is_event]
        ends = starts.ends(self._starts.longest)
        row = np.flatnonzero(~starts.is_last)
        row = row[starts.begins[row + 1] & (ends[row] < starts.time[row + 1])]
        ended = _Ends(starts.key[row], ends[row], np.where(is_event[row], place[row], -1))
        at = starts.is_last
        moved = np.flatnonzero(at)[(ends[at] != end[starts.key[at]]) & (ends[at] < INF_TIME)]
        end[starts.key[at]], session[starts.key[at]] = ends[at], of_row[at]
        columns = [ends[moved], ends[moved], starts.key[moved]]
        self._ahead.push(pa.RecordBatch.from_arrays(columns, schema=event_schema(_CODE)))
        return begins, belongs, ended

    def _due(self, promise: int, codes: np.ndarray) -> _Ends:
        """Return the sessions that end before the time ``promise``.

        ``codes``: the keys of this call's steps.
        """
        due = self._ahead.take_below(promise)
        time, code = int64_column(due, VS), int64_column(due, "code")
        holds = self._end.read()[code] == time
        code, first = np.unique(code[holds], return_index=True)  # a session may be queued twice
        time = time[holds][first]
        by_code = np.argsort(codes, kind="stable")
        at = codes[by_code].searchsorted(code, side="right") - 1
        is_new = at >= 0
        is_new[is_new] = codes[by_code[at[is_new]]] == code[is_new]
        of = np.full(len(code), -1)
        of[is_new] = by_code[at[is_new]]
        return _Ends(code, time, of)

    @property
    def _by_key(self) -> tuple[GroupArray, ...]:
        starts = self._starts
        return (self._session, self._end, starts.start, starts.active, self._living, self._upto)

    def _forget(self, promise: int) -> None:
        """Drop keys whose sessions have ended, with their values, once there are many.

        An event that outlives its session, because of ``max``, keeps its key active.
        """
        if self._keys.is_crowded():
            is_active = self._starts.active.read() > promise
            kept = np.union1d(self._results.living(), np.flatnonzero(is_active))
            self._keys.keep(kept)
            self._results.keep(kept)
            self._carried.keep(kept)
            new_codes = np.full(len(self._session), -1)
            new_codes[kept] = np.arange(len(kept))
            for column in self._by_key:
                column.adopt(column.read()[kept])
            self._recode(new_codes)
        if self._distinct.is_crowded():
            self._distinct.keep(self._session.read()[self._results.living()])

    def _recode(self, new_codes: np.ndarray) -> None:
        ahead, self._ahead = self._ahead.table(), SortedRuns(event_schema(_CODE))
        for batch in ahead.combine_chunks().to_batches():
            codes = new_codes[int64_column(batch, "code")]
            alive = codes >= 0
            columns = [int64_column(batch, name)[alive] for name in (VS, VE)]
            columns.append(codes[alive])
            self._ahead.push(pa.RecordBatch.from_arrays(columns, schema=batch.schema))


def _parts(ends: _Ends) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return ends.codes, ends.times, ends.of
