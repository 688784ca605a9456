"""The live rows of one side, searched by key code, and the ends that become known later.

Rows are numbered in the order of their starts. A run of the index is sorted by (code, number). So
the rows of a code are a range, and so are its rows with one start.

Invariants: (1) a row's end is set once; (2) rows that ended before the last step are dropped once
they outnumber the others, and the order of the remaining rows stays; (3) runs are merged like the
digits of a binary counter. So a probe searches logarithmically many runs, and takes time in these
and in its results; (4) merging runs drops rows that ended before, so a key whose rows come and go
stays cheap among many live rows; (5) a snapshot is by reference, so the next end that is set copies
the ends, 8 bytes per row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import SEQ, VE, VS, int64_column
from rstream.items.edges import UnmatchedEndError, identities, occurrences
from rstream.types import INF_TIME
from rvertex.events.group_arrays import GroupArray
from rvertex.events.lifetime import after, with_times
from rvertex.events.ordering import stable_order
from rvertex.events.reorder_buffer import SortedRuns
from rvertex.events.run import growing
from rvertex.operators.edges.instants import Instants
from rvertex.operators.joins.row_store import RowStore
from rvertex.operators.protocol import OperatorState

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.events.run import Run

_GROWTH = 3
_SLACK = 1 << 12
#: A run's table of positions has at most this many entries per row of the run.
_SPARSE = 4
#: Snapshot column with the end of each row. A reserved name, so no payload column can have it.
_ENDED = SEQ


class LivingRows:
    """Live rows of ``schema``, with ``_vs``, ``_ve`` (the end known at the start) and key codes."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows = RowStore(schema)
        self._codes = GroupArray(np.int64, -1)
        self._starts = GroupArray(np.int64, 0)
        #: The end known when the row began; INF_TIME: none.
        self._known = GroupArray(np.int64, 0)
        #: When the row ended; INF_TIME: it lives.
        self._ended = GroupArray(np.int64, INF_TIME)
        self._runs: list[_IndexRun] = []
        self._dead = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def alive(self) -> int:
        """Number of rows without an end so far."""
        return len(self) - self._dead

    def living(self) -> np.ndarray:
        """Return the numbers of the rows without an end so far, increasing."""
        return np.flatnonzero(self._ended.read()[: len(self)] == INF_TIME)

    def add(
        self, births: pa.RecordBatch, codes: np.ndarray, *, points_end: bool = True
    ) -> np.ndarray:
        """Add rows that begin, none earlier than those before; return their numbers.

        ``points_end`` False: points count as ended from the start, and no end is ever set for them.
        """
        numbers = self._rows.add(births)
        if len(numbers) == 0:
            return numbers
        first, count = int(numbers[0]), len(self._rows)
        for array, values in (
            (self._codes, codes),
            (self._starts, int64_column(births, VS)),
            (self._known, int64_column(births, VE)),
        ):
            array.writable(count)[first:] = values
        self._ended.writable(count)
        self._index(numbers)
        if not points_end:
            # Set ends after indexing: the index omits ended rows, but points may still match now.
            starts, known = int64_column(births, VS), int64_column(births, VE)
            points = np.flatnonzero(known == after(starts))
            self.set_ends(numbers[points], known[points])
        return numbers

    def take(self, numbers: np.ndarray) -> pa.RecordBatch:
        """Return the rows; all columns null for a negative number."""
        return self._rows.take(numbers)

    def codes(self, numbers: np.ndarray) -> np.ndarray:
        values: np.ndarray = self._codes.read()[numbers]
        return values

    def starts(self, numbers: np.ndarray) -> np.ndarray:
        values: np.ndarray = self._starts.read()[numbers]
        return values

    def known_ends(self, numbers: np.ndarray) -> np.ndarray:
        values: np.ndarray = self._known.read()[numbers]
        return values

    def ends(self, numbers: np.ndarray) -> np.ndarray:
        """Return the ends of the rows; INF_TIME for a live row."""
        values: np.ndarray = self._ended.read()[numbers]
        return values

    def find(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (i, number) of the rows with code ``codes[i]`` that live or end now, int64 each.

        The result may also have rows that ended before the last :meth:`add`.
        """
        probes, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for run in self._runs:
            probe, place = expanded(*run.places(codes))
            probes.append(probe)
            numbers.append(run.numbers[place])
        return np.concatenate(probes), np.concatenate(numbers)

    def end(self, deaths: pa.RecordBatch, codes: np.ndarray, known: np.ndarray) -> np.ndarray:
        """End the live row of each end edge; return its number, int64[n].

        ``known``: the end that was known at the row's start, or INF_TIME.

        Raises:
            UnmatchedEndError: there is no such live row.
        """
        times = int64_column(deaths, VS)
        numbers = self.dying(deaths, codes, known)
        if (numbers < 0).any():
            row = int((numbers < 0).argmax())
            shown = str(deaths.slice(row, 1).to_pylist()[0])
            raise UnmatchedEndError(int(times[row]), int(int64_column(deaths, VE)[row]), shown)
        self.set_ends(numbers, times)
        return numbers

    def dying(self, deaths: pa.RecordBatch, codes: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return a live row for each death, equal in payload, code and times; -1: none."""
        began = int64_column(deaths, VE)
        numbers = np.full(len(codes), -1, np.int64)
        probe, number = self._of_start(codes, began)
        kept = self._ended.read()[number] == INF_TIME
        probe, number = probe[kept], number[kept]
        if len(probe) == 0:
            return numbers
        candidates, first = np.unique(number, return_index=True)
        rows = self.take(candidates)
        names = self._schema.names[2:]
        columns = [pa.concat_arrays(_alike(deaths.column(n), rows.column(n))) for n in names]
        columns += [pa.array(np.concatenate([codes, codes[probe[first]]]))]
        columns += [pa.array(np.concatenate([began, self.starts(candidates)]))]
        columns += [pa.array(np.concatenate([known, self.known_ends(candidates)]))]
        same = identities(columns, len(codes) + len(candidates))
        wanted, offered = same[: len(codes)], same[len(codes) :]
        # Of equal rows, the k-th end edge ends the k-th row.
        span = len(same) + 1
        cells = offered * span + occurrences(offered)
        order = np.argsort(cells)
        wanted_cells = wanted * span + occurrences(wanted)
        at = np.minimum(cells[order].searchsorted(wanted_cells), len(order) - 1)
        hit = cells[order][at] == wanted_cells
        numbers[hit] = candidates[order[at[hit]]]
        return numbers

    def set_ends(self, numbers: np.ndarray, times: np.ndarray) -> None:
        """Set the ends of live rows."""
        if len(numbers) == 0:
            return
        ended = self._ended.writable(len(self))
        assert (ended[numbers] == INF_TIME).all(), "a row ends twice"
        ended[numbers] = times
        self._dead += len(numbers)

    def forget(self) -> np.ndarray | None:
        """Drop rows that have ended, if they outnumber the others.

        Returns the numbers of the remaining rows: row ``kept[i]`` becomes i. None: no row was
        dropped.
        """
        if self._dead <= self.alive + _SLACK:
            return None
        kept = self.living()
        self.recode(None)
        return kept

    def recode(self, new_codes: np.ndarray | None) -> None:
        """Drop rows that have ended, and replace code c by ``new_codes[c]``."""
        codes = self._codes.read()[self._ended.read() == INF_TIME]
        codes = codes if new_codes is None else new_codes[codes]
        self.load(self.table(), lambda _: codes)

    def table(self) -> pa.Table:
        """Return all rows, by reference, with their ends."""
        ended = pa.array(self._ended.shared())
        return self._rows.table().append_column(pa.field(_ENDED, pa.int64()), ended)

    def load(self, table: pa.Table, codes_of: Callable[[pa.RecordBatch], np.ndarray]) -> None:
        """Restore the live rows of a table that :meth:`table` returned, numbered from 0."""
        alive = table.filter(pa.array(self.is_alive(table)))
        rows = alive.drop_columns([_ENDED]).cast(self._schema).combine_chunks().to_batches()
        codes = codes_of(rows[0]) if rows else np.empty(0, np.int64)
        self.__init__(self._schema)  # type: ignore[misc]
        if rows:
            self.add(rows[0], codes)

    @staticmethod
    def is_alive(table: pa.Table) -> np.ndarray:
        """Return which rows of a table that :meth:`table` returned are alive, bool[n]."""
        alive: np.ndarray = table.column(_ENDED).to_numpy() == INF_TIME
        return alive

    def check(self) -> None:
        """Assert the invariants (linear)."""
        indexed = np.concatenate([run.numbers for run in self._runs] or [np.empty(0, int)])
        alive = np.flatnonzero(self._ended.read() == INF_TIME)
        assert len(np.unique(indexed)) == len(indexed)
        assert np.isin(alive, indexed).all()
        assert int((self._ended.read() != INF_TIME).sum()) == self._dead
        for run in self._runs:
            codes, every = self._codes.read()[run.numbers], np.arange(len(run.numbers))
            assert (self._starts.read()[run.numbers] == run.starts).all()
            assert (np.lexsort((run.numbers, codes)) == every).all()
            lo, hi = run.places(codes)
            assert ((lo <= every) & (every < hi)).all()

    def _of_start(self, codes: np.ndarray, began: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (i, number) of all rows with code ``codes[i]`` and start ``began[i]``."""
        probes, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for run in self._runs:
            lo, hi = run.places(codes)
            probe, place = expanded(
                bisected(run.starts, lo, hi, began, after=False),
                bisected(run.starts, lo, hi, began, after=True),
            )
            probes.append(probe)
            numbers.append(run.numbers[place])
        return np.concatenate(probes), np.concatenate(numbers)

    def _index(self, numbers: np.ndarray) -> None:
        """Add a run for new rows, merged with short runs before it."""
        while self._runs and len(self._runs[-1].numbers) <= _GROWTH * len(numbers):
            older = self._runs.pop().numbers
            lives = self._ended.read()[older] == INF_TIME
            numbers = np.concatenate([older[lives], numbers])
        codes = self._codes.read()[numbers]
        order = stable_order(codes)
        if order is not None:
            codes, numbers = codes[order], numbers[order]
        self._runs.append(_IndexRun(codes, numbers, self._starts.read()[numbers]))


class _IndexRun:
    """Numbers and starts of rows sorted by (code, number), and the position of each code.

    A table from codes to positions makes probes fast at any length. But a run that is short
    compared to the range of codes stores its sorted codes instead, so a table is never much longer
    than its run.
    """

    __slots__ = ("_codes", "_first", "numbers", "starts")

    def __init__(self, codes: np.ndarray, numbers: np.ndarray, starts: np.ndarray) -> None:
        self.numbers, self.starts = numbers, starts
        #: By code: the position of its first row, or of the next row if it has none.
        self._first: np.ndarray | None = None
        self._codes = codes
        if len(codes) and codes[-1] < _SPARSE * len(codes):
            counts = np.bincount(codes)
            self._first = np.zeros(len(counts) + 2, np.int32)
            np.cumsum(counts, out=self._first[1:-1])
            self._first[-1] = len(codes)
            self._codes = codes[:0]

    def places(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``lo`` and ``hi``: rows of ``codes[i]`` are at positions ``[lo[i], hi[i])``."""
        if self._first is None:
            lo = self._codes.searchsorted(codes, side="left")
            return lo, self._codes.searchsorted(codes, side="right")
        at = np.minimum(codes, len(self._first) - 2)
        return self._first[at].astype(np.int64), self._first[at + 1].astype(np.int64)


class ClosingRows:
    """Live rows for an operator that closes spans of time one after another: cells, windows.

    An end edge is buffered until its span is closed.
    """

    def __init__(self, schema: pa.Schema) -> None:
        """Make an empty store; ``schema`` is the schema of events."""
        self._instants = Instants([pa.schema(list(schema)[2:])])
        self.living = LivingRows(schema)
        self._deaths = SortedRuns(schema)
        self._last_cti: int | None = None

    @property
    def frontier(self) -> int:
        """The first instant that has not passed yet."""
        return self._instants.frontier

    @property
    def waiting_ends(self) -> int:
        """Number of buffered end edges."""
        return int(self._deaths.table().num_rows)

    def take(self, run: Run) -> None:
        """Add the starts and ends in ``run``; use them up to the frontier."""
        (settled,) = self._instants.take([run])
        births = with_times(settled.births, ve=np.full(settled.births.num_rows, INF_TIME))
        self.living.add(births, np.zeros(births.num_rows, np.int64))
        if settled.deaths.num_rows:
            self._deaths.push(settled.deaths)

    def end_before(self, time: int) -> None:
        """Set the ends that are before ``time``."""
        deaths = self._deaths.take_below(time)
        if deaths.num_rows:
            nothing = np.zeros(deaths.num_rows, np.int64)
            self.living.end(deaths, nothing, np.full(deaths.num_rows, INF_TIME))

    def passed(self, ctis: np.ndarray) -> np.ndarray:
        """Return the CTIs that are greater than the last one; call it at the end of a step."""
        self.living.forget()
        passed = growing(ctis, self._last_cti)
        if len(passed):
            self._last_cti = int(passed[-1])
        return passed

    def snapshot(self, first_open: int | None) -> OperatorState:
        """Return live rows, buffered ends and rows by reference, and the first open span."""
        frontier, tables = self._instants.save()
        header = {"frontier": frontier, "open": first_open, "last_cti": self._last_cti}
        tables |= {"rows": self.living.table(), "deaths": self._deaths.table()}
        return OperatorState(header, tables)

    def load(self, state: OperatorState) -> Any:
        """Restore ``state``; return the first open span."""
        self._last_cti = state.header["last_cti"]
        self._instants.restore(state.header["frontier"], state.tables)
        self.living.load(state.tables["rows"], lambda rows: np.zeros(rows.num_rows, np.int64))
        for batch in state.tables["deaths"].to_batches():
            self._deaths.push(batch)
        return state.header["open"]


def expanded(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (i, position) for every position in ``[lo[i], hi[i])``, int64 each."""
    length = np.maximum(hi - lo, 0)
    probe = np.repeat(np.arange(len(lo)), length)
    before = np.repeat(np.cumsum(length) - length, length)
    return probe, np.repeat(lo, length) + np.arange(len(probe)) - before


def bisected(
    values: np.ndarray, lo: np.ndarray, hi: np.ndarray, wanted: np.ndarray, *, after: bool
) -> np.ndarray:
    """Return the insertion point of ``wanted[i]`` in the sorted ``values[lo[i]:hi[i]]``.

    With ``after`` it is after equal values, otherwise before them.
    """
    lo, hi = lo.copy(), hi.copy()
    while True:  # ends: each round halves every range
        open_ = np.flatnonzero(lo < hi)
        if len(open_) == 0:
            return lo
        middle = (lo[open_] + hi[open_]) // 2
        value = values[middle]
        below = value <= wanted[open_] if after else value < wanted[open_]
        lo[open_[below]] = middle[below] + 1
        hi[open_[~below]] = middle[~below]


def _alike(a: pa.Array, b: pa.Array) -> list[pa.Array]:
    """Convert two columns to one type and decode dictionaries, so that they can be compared."""
    return [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in (a, b)]
