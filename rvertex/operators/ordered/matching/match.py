"""MATCH: sequences of rows of a key that match a pattern (MATCH_RECOGNIZE).

**Rule.** The rows of a key are sorted by start, ties in row order; ends are ignored. The search
takes the preferred match that begins at the first row
(:mod:`rvertex.operators.ordered.matching.pattern`). If there is none, it tries the next row. After
a match it continues where ``skip`` states. With ``within_us`` the last row of a match starts at
most that much later than its first.

A match is a point at the start of its last row, whether the output is one row or all of its rows.
An empty match, and a row in no match, are points at the start of the row. Output order is time,
then the last row of the match, its first row, and the position in the match.

Example: ``A B+``, A where x is 1, B where x is 2:

    row          match
    [1, 2) x=1   begins
    [3, 4) x=2
    [5, 6) x=2   ends: known when the next row of the key arrives, a point [5, 6)
    [7, 8) x=3

A match that can still grow holds back all later output, for at most ``within_us``. So does a row
whose conditions read rows that have not arrived. A row that might only begin a match holds back
nothing.

Runs of many keys are searched together (:mod:`rvertex.operators.ordered.matching.lockstep`).

Invariants: (1) the matches of a key depend only on its rows, and on the end of the stream; (2) a
row is stored while an open search, PREV or a measure may read it; (3) a row is processed once:
searches continue where they stopped, regardless of batch boundaries. After a restore they restart
at their first row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.items.dictionaries import plain_array
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import OperatorTypeError, UnknownColumnError
from rvertex.events.group_scan import heads_of
from rvertex.events.lifetime import frontier_after
from rvertex.events.ordering import stable_sorted
from rvertex.events.reorder_buffer import SortedRuns
from rvertex.events.run import NO_CTIS, Run
from rvertex.keys.key_table import KeyTable
from rvertex.operators.cti_hold import HeldCtis
from rvertex.operators.ordered.matching import lockstep
from rvertex.operators.ordered.matching.automaton import Automaton
from rvertex.operators.ordered.matching.conditions import Conditions
from rvertex.operators.ordered.matching.keys import OpenKeys
from rvertex.operators.ordered.matching.lockstep import Lockstep, suits
from rvertex.operators.ordered.matching.pool import Segments
from rvertex.operators.ordered.matching.results import ORDER, Results
from rvertex.operators.ordered.matching.rows import Searching
from rvertex.operators.ordered.matching.spec import MatchParts
from rvertex.operators.ordered.matching.store import RowStore
from rvertex.operators.ordered.matching.threads import Threads
from rvertex.operators.protocol import OperatorState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations
    from rvertex.operators.ordered.matching.rows import Found, KeyRows
    from rvertex.operators.protocol import Operator


_NO_CODES = np.zeros(0, np.int64)
_NO_ROWS = Segments(*[_NO_CODES] * 6)


@dataclass(frozen=True, slots=True)
class MatchRows(MatchParts):
    """Finds matches per key. Output: the columns ``kept``, then the measures."""

    holds_ctis: ClassVar[bool] = True

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return the kept columns, then the measures.

        Raises:
            UnknownColumnError: a column that the input does not have.
            OperatorTypeError: two columns of one name.
        """
        (payload,) = inputs
        read = [leaf.column for leaf in (*self.condition_leaves, *self.measure_leaves)]
        for name in (*self.keys, *self.kept, *(name for name in read if name is not None)):
            if name not in payload.names and name not in (VS, VE):
                raise UnknownColumnError("match", name, tuple(payload.names))
        kept = [payload.field(name) for name in self.kept]
        made = [pa.field(measure.name, measure.type) for measure in self.measures]
        for field in made:
            if field.name in self.kept:
                raise OperatorTypeError("match", f"the input has a column {field.name!r} already")
        return pa.schema([*kept, *made])

    def horizon_us(self, durations: Durations) -> int | None:
        """Return None: the start of a search depends on all earlier matches."""
        return None

    def output_duration(self, durations: Durations) -> int | None:
        """Return 1 us: every output row is a point."""
        return 1

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        return MatchOperator(self, payload, self.output_schema(inputs))


class MatchOperator:
    """The running operator of :class:`MatchRows`."""

    def __init__(self, spec: MatchRows, payload: pa.Schema, output: pa.Schema) -> None:
        self._spec = spec
        leaves = (*spec.condition_leaves, *spec.measure_leaves)
        read = {leaf.column for leaf in leaves} | {*spec.keys, *spec.kept}
        self._needed = event_schema(pa.schema([f for f in payload if f.name in read]))
        self._keys = KeyTable(tuple(payload.field(key).type for key in spec.keys))
        searching = Searching(
            spec.pattern, spec.skip, spec.within_us, spec.context, spec.rows == "unmatched"
        )
        asking = spec.asking
        self._threads = Threads(searching, asking) if asking else None
        self._automaton = self._threads or Automaton(searching)
        self._store = RowStore(self._needed)
        self._conditions = Conditions(spec, asking, self._automaton, self._needed, self._store)
        self._results = Results(spec, self._automaton, self._needed, self._store, output)
        counts = any(leaf.kind == "match_number" for leaf in leaves)
        self._open = OpenKeys(
            self._automaton, spec.context[0], keeps_all=counts or searching.tells_unmatched
        )
        is_many = suits(spec) and self._automaton.least > 0
        #: Searches many keys at once; None: the pattern does not allow it.
        self._lockstep = (
            Lockstep(self._automaton, len(spec.names), spec.within_us) if is_many else None
        )
        self._output = event_schema(output)
        self._waiting = SortedRuns(self._results.schema)
        self._held = HeldCtis(keeps_own=False)
        self._frontier: int = MIN_TIME
        #: The number of the next row.
        self._next = 0

    def process(self, ports: Sequence[Run]) -> Run:
        """Emit the known matches that no later match can precede."""
        return self._held.follow(ports, self._process)

    def snapshot(self) -> OperatorState:
        """Return keys, stored rows, and buffered results."""
        header = {"frontier": self._frontier, "next": self._next, "held": self._held.save()}
        tables = {**self._keys.save(), **self._store.save(), **self._open.save()}
        return OperatorState(header, {**tables, "waiting": self._waiting.table()})

    def load(self, state: OperatorState) -> None:
        """Restore ``state``; open searches restart at their first row."""
        self._frontier, self._next = state.header["frontier"], state.header["next"]
        self._held.load(state.header["held"])
        self._keys.restore(state.tables)
        self._store.restore(state.tables, self._next)
        self._open.restore(state.tables)
        for batch in state.tables["waiting"].to_batches():
            self._waiting.push(batch)
        if self._lockstep is not None:
            self._open.to_pool(self._open.alone())
            self._search_many(_NO_ROWS, self._open.pool.codes())
        matches = self._scanned(self._open.alone())
        assert not matches, "an open search has ended by itself"

    def _process(self, ports: Sequence[Run]) -> Run:
        (run,) = ports
        self._frontier = frontier_after(self._frontier, ports)
        fresh = self._taken(run.events) if run.events.num_rows else _NO_ROWS
        is_end = self._frontier == INF_TIME
        due = self._open.codes() if is_end else self._open.due_before(self._frontier)
        touched: dict[int, KeyRows] = {}
        kept = _NO_CODES
        is_many = self._lockstep is not None and len(fresh.codes) + len(due) >= lockstep.KEYS_MIN
        if is_many:
            fresh, due, left, kept = self._search_many(fresh, due)
            touched = {rows.code: rows for rows in left}
        self._add(fresh, touched)
        touched |= {code: self._open.rows_of(code) for code in due.tolist()}
        self._conditions.know(touched.values(), is_end=is_end)
        alone = list(touched.values())
        matches = self._scanned(alone)
        if matches:
            self._waiting.push(self._results.of(matches))
        if is_many:
            self._open.to_pool(alone)
        self._tidy(run.events.num_rows, alone, kept)
        return self._released()

    def _taken(self, events: pa.RecordBatch) -> Segments:
        """Return the new rows by key. A symbol that is not known yet is 0."""
        rows = events.select(self._needed.names)
        columns = [plain_array(events.column(key)) for key in self._spec.keys]
        codes = self._keys.codes(columns, rows.num_rows)
        key, order = stable_sorted(codes)
        if order is None:
            order = np.arange(len(key))
        starts = np.flatnonzero(heads_of(key))
        self._store.begin(rows, self._next)
        symbols = self._conditions.of_fresh(rows, order)
        if symbols is None:
            symbols = np.zeros(len(key), np.int64)
        taken = Segments(
            key[starts],
            np.diff(np.append(starts, len(key))),
            np.zeros(len(starts), np.int64),
            self._next + order,
            int64_column(rows, VS)[order],
            symbols,
        )
        self._next += rows.num_rows
        return taken

    def _search_many(
        self, fresh: Segments, due: np.ndarray
    ) -> tuple[Segments, np.ndarray, list[KeyRows], np.ndarray]:
        """Search all keys whose rows are in arrays, and emit their matches.

        Returns the new rows and the due keys that were not searched, the keys that must be searched
        alone, and the numbers of the stored rows of the other keys.
        """
        assert self._lockstep is not None
        codes = np.union1d(fresh.codes, due)
        codes = codes[~self._open.is_alone(codes)]
        is_many = np.isin(fresh.codes, codes)
        pooled = self._open.pool.take(codes)
        rows, places = pooled.joined(fresh.picked(is_many))
        self._conditions.add_symbols(rows, places)
        matches, ends = self._lockstep.search(rows, self._frontier)
        if len(matches.key):
            self._waiting.push(self._results.of_segments(rows, matches))
        left, kept = self._open.settle_all(rows, ends)
        return fresh.picked(~is_many), due[~np.isin(due, codes)], left, kept

    def _add(self, fresh: Segments, touched: dict[int, KeyRows]) -> None:
        """Add new rows to the lists of their keys."""
        numbers, times, symbols = (
            column.tolist() for column in (fresh.numbers, fresh.times, fresh.symbols)
        )
        at = 0
        for code, size in zip(fresh.codes.tolist(), fresh.sizes.tolist(), strict=True):
            rows = touched[code] = self._open.rows_of(code)
            rows.extend(numbers[at : at + size], times[at : at + size])
            if self._conditions.is_by_row:
                rows.symbols += symbols[at : at + size]
            at += size

    def _scanned(self, keys: list[KeyRows]) -> list[Found]:
        """Scan the rows of keys; return the results."""
        matches: list[Found] = []
        if self._threads is not None:
            self._threads.scan_all(keys, self._frontier, matches, self._conditions.answers)
        else:
            for rows in keys:
                self._automaton.scan(rows, self._frontier, matches)
        for rows in keys:
            self._open.settle(rows)
        return matches

    def _tidy(self, new: int, alone: list[KeyRows], kept: np.ndarray) -> None:
        """Drop rows and keys that no search needs. ``kept``: rows of keys other than ``alone``."""
        first = self._next - new
        more = [n for rows in alone for n in rows.numbers if n >= first] if new else []
        kept = np.append(kept[kept >= first], np.array(more, np.int64))
        self._store.end(np.sort(kept))
        if self._store.is_crowded:
            self._store.keep(self._open.numbers())
        if self._keys.is_crowded():
            self._keys.keep(self._open.renumber())

    def _released(self) -> Run:
        """Return the buffered results that no later match can precede, and the CTIs."""
        bound = min(self._frontier, self._open.hold)
        rows = self._waiting.take_below(bound)
        ends, starts, places = (rows.column(name).to_numpy() for name in ORDER)
        order = np.lexsort((places, starts, ends, int64_column(rows, VS)))
        events = rows.select(self._output.names).take(pa.array(order))
        assert events.schema.names[:2] == [VS, VE], events.schema
        ctis = np.array([bound], np.int64) if bound > MIN_TIME else NO_CTIS
        return Run(events, ctis)
