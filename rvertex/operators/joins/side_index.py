"""The rows of one side of a temporal join that may still match, searched by key and time.

Invariants: (1) a row has no influence once the frontier has reached its ``ve``, and dead rows never
outnumber live rows by more than a merge in progress; (2) runs are immutable and sorted by (code,
ordinal). When a run is started, the previous run is more than ``_GROWTH`` times as long, unless
both together are large; on scratch, short runs are merged when a run is half dead; (3) a probe
takes time in its matches and the number of runs, never in expired rows or rows of other keys; (4) a
row is copied a logarithmic number of times.

Theory: a log-structured merge of runs. In a run the rows of a key are adjacent. A table from codes
to positions finds them, and a tree of maxima over ``ve`` finds the live rows. If the state exceeds
the memory budget, all runs in memory become one run on scratch that is sorted and searched by hash
(:mod:`rvertex.operators.joins.stored_rows`), so its keys need no codes. A checkpoint has the index
of such runs, too.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE
from rstream.items.dictionaries import batch_bytes, has_dictionaries, join_batches
from rstream.types import INF_TIME
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_scan import heads_of
from rvertex.events.ordering import stable_order
from rvertex.keys.code_map import CodeMap
from rvertex.operators.joins.max_tree import MaxTree
from rvertex.operators.joins.stored_rows import (
    ORDINAL,
    Found,
    Probes,
    RunIndex,
    StoredRows,
    StoredRun,
    StoredRuns,
    indexed_runs,
    without_dead,
    written_runs,
)
from rvertex.state.memory import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rvertex.keys.key_index import KeyIndex
    from rvertex.state.memory import StateMemory

_GROWTH = 3
#: Greatest size of a merged run: this many bytes, or this fraction (1 / 8) of a larger side.
#: Copying rows again and again costs more than searching a few runs.
_MERGED_BYTES, _MERGED_PART = 64 << 20, 8
#: The greatest size of a merged run if there is a memory budget, in sizes of a single run.
_MERGED_RUNS = 2
#: A side with rows on scratch writes further rows at this size, since sorting takes memory.
_SPILLED_RUNS = 4
#: Codes above both this number and 8 times the rows are found by search, without a map.
_SEARCHED_MIN, _SEARCHED_PART = 1 << 22, 8
#: A side of at least this many bytes is restored without a copy of its rows.
_REFERENCED_MIN = 1 << 20


class Rows:
    """Rows of a side with their codes, ends and ordinals, in any order."""

    __slots__ = ("codes", "ordinal", "stored", "ve")

    def __init__(
        self,
        codes: np.ndarray,
        ve: np.ndarray,
        ordinal: np.ndarray,
        stored: pa.RecordBatch | StoredRows,
    ) -> None:
        assert len(codes) == len(ve) == len(ordinal) == stored.num_rows
        self.codes, self.ve, self.ordinal, self.stored = codes, ve, ordinal, stored

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, at: np.ndarray) -> Rows:
        stored = self.stored.take(pa.array(at))
        return Rows(self.codes.take(at), self.ve.take(at), self.ordinal.take(at), stored)

    def ordered(self, order: np.ndarray) -> Rows:
        """Return the rows in this order; rows of a checkpoint are not copied."""
        if not isinstance(self.stored, StoredRows):
            return self.take(order)
        codes, ve, ordinal = (a.take(order) for a in (self.codes, self.ve, self.ordinal))
        return Rows(codes, ve, ordinal, self.stored.ordered(order))

    def batch(self) -> pa.RecordBatch:
        """Return the stored columns as one batch; rows of a checkpoint are copied."""
        return self.stored.whole() if isinstance(self.stored, StoredRows) else self.stored

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        stored = self.stored
        is_plain = not isinstance(stored, StoredRows) and not has_dictionaries(stored.schema)
        nbytes = batch_bytes(stored) if is_plain else stored.nbytes
        return int(self.codes.nbytes + self.ve.nbytes + self.ordinal.nbytes + nbytes)

    def keys(self, on: Sequence[str]) -> list[pa.Array]:
        """Return the columns ``on``; rows of a checkpoint are copied."""
        rows = self.stored.select(list(on))
        batch = rows.whole() if isinstance(rows, StoredRows) else rows
        return list(batch.columns)

    def followed_by(self, other: Rows) -> Rows:
        return Rows(
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.ve, other.ve]),
            np.concatenate([self.ordinal, other.ordinal]),
            join_batches([self.batch(), other.batch()]),
        )


class IndexedRun:
    """Immutable rows sorted by (code, ordinal), with an index by code."""

    def __init__(self, rows: Rows, code_map: CodeMap) -> None:
        """Index ``rows``: not empty, sorted by ordinal within each code. ``code_map``: empty."""
        assert len(rows) > 0
        order = stable_order(rows.codes)
        self.rows = rows if order is None else rows.ordered(order)
        codes = self.rows.codes
        at = np.flatnonzero(heads_of(codes))
        self._codes = codes[at]
        self._starts = np.append(at, len(codes))
        self._code_map = code_map
        #: A map of few high codes would be longer than the rows, so they are searched.
        self._is_searched = _SEARCHED_MIN < codes[-1] > _SEARCHED_PART * len(at)
        if not self._is_searched:
            code_map.put(self._codes, np.arange(len(at), dtype=np.int32))
        self._alive = MaxTree(self.rows.ve)
        self.ve_max = int(self.rows.ve.max())
        half = len(codes) // 2
        #: The time from which at least half of the rows are dead.
        self.half_dead_at = int(np.partition(self.rows.ve, half)[half])

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def nbytes(self) -> int:
        """Bytes in memory, counted only if there is a budget."""
        map_bytes = 0 if self._is_searched else self._code_map.nbytes
        return self.rows.nbytes + int(self._codes.nbytes + self._starts.nbytes) + map_bytes

    def find(self, codes: np.ndarray, vs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (probe, position) of each row with the probe's code that ends after its ``vs``."""
        if self._is_searched:
            group = self._codes.searchsorted(codes)
            known = np.flatnonzero(self._codes.take(group, mode="clip") == codes)
        else:
            group = self._code_map.get(codes)
            known = np.flatnonzero(group >= 0)
        if len(known) == 0:
            return known, known
        group = group[known]
        lo, hi = self._starts.take(group), self._starts[1:].take(group)
        probe, place = self._alive.above(lo, hi, vs.take(known))
        return known[probe], place

    def close(self) -> CodeMap:
        """Clear the code map and return it for reuse. The rows remain readable."""
        if not self._is_searched:
            self._code_map.clear(self._codes)
        return self._code_map


class JoinSide:
    """The stored rows of one side."""

    def __init__(
        self, stored: pa.Schema, on: Sequence[str], memory: StateMemory = UNLIMITED
    ) -> None:
        """Make an empty side; ``stored`` are the columns of a row, with its keys ``on``."""
        self._stored, self._on = stored, tuple(on)
        self.holder = memory.holder()
        self._runs: list[IndexedRun] = []
        self._stored_runs: list[StoredRun] = []
        self._saved_runs = StoredRuns()
        self._free_maps: list[CodeMap] = []
        #: Ordinal of the next row: its number among all rows of this side so far.
        self.next_ordinal = 0

    def __len__(self) -> int:
        return self.rows_in_memory + sum(map(len, self._stored_runs))

    @property
    def rows_in_memory(self) -> int:
        """The number of rows whose keys need a code."""
        return sum(map(len, self._runs))

    @property
    def runs(self) -> int:
        """Number of runs that a probe searches."""
        return len(self._runs) + len(self._stored_runs)

    def find(self, probes: Probes) -> Iterator[Found]:
        """Yield per run the rows that have the key of a probe and end after the probe starts."""
        if not self.runs or not len(probes):
            return
        first = probes.vs[0]
        codes, vs, known = probes.codes, probes.vs, None
        if self._runs and int(codes.min()) < 0:
            known = np.flatnonzero(codes >= 0)
            codes, vs = codes.take(known), vs.take(known)
        for run in self._runs:
            if run.ve_max > first:
                probe, place = run.find(codes, vs)
                if len(probe):
                    probe = probe if known is None else known.take(probe)
                    ve, ordinal = run.rows.ve.take(place), run.rows.ordinal.take(place)
                    yield Found(probe, run.rows.stored, place, ve, ordinal)
        for stored in self.holder.read_once(self._stored_runs):
            if stored.index.ve_max > first and (found := stored.find(probes)) is not None:
                yield found

    def insert(self, rows: Rows, frontier: int) -> None:
        """Store ``rows``, sorted by ordinal: alive at ``frontier``, later than all stored rows."""
        if len(rows) == 0:
            return
        while self._runs and self._merges(self._runs[-1], rows):
            last = self._close(self._runs.pop())
            rows = _living(last, frontier).followed_by(rows)
        self._runs.append(IndexedRun(rows, self._open_map()))
        self._keep_to_memory(frontier)

    def load(
        self, name: str, tables: Mapping[str, pa.Table], frontier: int, keys: KeyIndex
    ) -> None:
        """Store the live rows of saved :meth:`tables` in an empty side; many rows are not copied.

        Batches that are on scratch, because the state exceeds the budget, are read in place.
        """
        assert not self.runs
        batches = [batch for batch in tables[name].to_batches() if batch.num_rows]
        if self._are_stored(batches):
            of_side = self._on, self.holder
            self._stored_runs, batches = self._saved_runs.restore(name, tables, *of_side)
            if self._are_stored(batches):
                there = list(filter(self.holder.is_stored, batches))
                self._stored_runs += indexed_runs(there, frontier, *of_side)
                batches = [batch for batch in batches if not self.holder.is_stored(batch)]
        table = pa.Table.from_batches(batches, tables[name].schema)
        for batch in batches:
            self.holder.verify(batch)
        if table.nbytes >= _REFERENCED_MIN and are_mostly_alive(table, frontier):
            loaded = restored_rows(table, frontier, keys, self._on)
        else:
            ve, ordinal, rows = living_rows(table, frontier)
            codes = keys.codes([rows.column(name) for name in self._on])
            loaded = Rows(codes, ve, ordinal, rows)
        if len(loaded):
            self._runs.append(IndexedRun(loaded, self._open_map()))
        self._keep_to_memory(frontier)

    def _are_stored(self, batches: Sequence[pa.RecordBatch]) -> bool:
        """Return whether enough bytes of the batches are on scratch for a run."""
        if not self.holder.may_spill:
            return False
        stored = sum(int(batch.nbytes) for batch in batches if self.holder.is_stored(batch))
        return 0 < stored >= self.holder.run_bytes_min

    def renumber(self, keys: KeyIndex, frontier: int) -> None:
        """Assign the codes of a new index to the live rows in memory."""
        runs, self._runs = self._runs, []
        for run in runs:
            rows = _living(self._close(run), frontier)
            if len(rows):
                codes = keys.codes(rows.keys(self._on))
                again = Rows(codes, rows.ve, rows.ordinal, rows.stored)
                self._runs.append(IndexedRun(again, self._open_map()))
        if self.holder.may_spill:
            self._report()

    def _merges(self, last: IndexedRun, rows: Rows) -> bool:
        """Return whether the last run is merged with the new rows."""
        if len(last) > _GROWTH * len(rows):
            return False
        merged_bytes = last.rows.nbytes + rows.nbytes  # merging does not lengthen the code map
        limit = _MERGED_BYTES
        if merged_bytes > limit:
            limit = max(limit, sum(run.rows.nbytes for run in self._runs) // _MERGED_PART)
        if self.holder.may_spill:
            limit = min(limit, _MERGED_RUNS * self.holder.run_bytes)
        return merged_bytes <= limit

    def _report(self) -> None:
        used_bytes = sum(run.nbytes for run in self._runs)
        self.holder.used_bytes = used_bytes + sum(run.memory_bytes for run in self._stored_runs)

    def _keep_to_memory(self, frontier: int) -> None:
        """Report the bytes of the rows. If they exceed the budget, move all rows to scratch."""
        if not self.holder.may_spill:
            return
        self._report()
        is_due = self.holder.must_spill
        if not is_due and not self._stored_runs:
            return
        rows_bytes = sum(run.rows.nbytes for run in self._runs)
        is_due = is_due or rows_bytes >= _SPILLED_RUNS * self.holder.run_bytes
        if rows_bytes < max(self.holder.run_bytes_min, 1) or not is_due:
            return
        batches = [batch for run in self._runs for batch in self._batches(run.rows)]
        self._stored_runs += written_runs(batches, frontier, self._on, self.holder)
        self._runs, self._free_maps = [], []
        self._report()

    def expire(self, frontier: int) -> None:
        """Drop rows with ``ve <= frontier``, once that removes a whole run or half of one."""
        runs: list[IndexedRun | RunIndex] = [*self._runs, *(r.index for r in self._stored_runs)]
        if min((run.half_dead_at for run in runs), default=INF_TIME) > frontier:
            return
        kept: list[IndexedRun] = []
        for run in self._runs:
            if run.half_dead_at > frontier:
                kept.append(run)
                continue
            rows = _living(self._close(run), frontier)
            if len(rows):
                kept.append(IndexedRun(rows, self._open_map()))
        self._runs = kept
        self._stored_runs = without_dead(self._stored_runs, frontier, self._on, self.holder)
        self._keep_to_memory(frontier)

    def tables(self, name: str) -> dict[str, pa.Table]:
        """Return the :meth:`table` as ``name``, and the indexes of the rows on scratch."""
        return {name: self.table(), **self._saved_runs.save(name, self._stored_runs)}

    def table(self) -> pa.Table:
        """Return the stored rows, without copies; some are deleted (:func:`restored_rows`)."""
        batches = [batch for run in self._stored_runs for batch in run.batches]
        batches += [batch for run in self._runs for batch in self._batches(run.rows)]
        return pa.Table.from_batches(self._saved_runs.rows.joined(batches), schema=self._saved)

    @property
    def _saved(self) -> pa.Schema:
        return pa.schema([(ORDINAL, pa.int64()), (VE, pa.int64()), *self._stored])

    def _batches(self, rows: Rows) -> Sequence[pa.RecordBatch]:
        """Return the rows with ORDINAL and VE. For a checkpoint the result includes dead rows."""
        if isinstance(rows.stored, StoredRows):
            return rows.stored.batches
        columns = [pa.array(rows.ordinal), pa.array(rows.ve), *rows.stored.columns]
        return [pa.RecordBatch.from_arrays(columns, schema=self._saved)]

    def check(self, frontier: int) -> None:
        """Assert the invariants (linear)."""
        for run in self._runs:
            rows = run.rows
            assert int((rows.ve <= frontier).sum()) <= len(rows) // 2
            assert run.ve_max > frontier
            sorted_codes = rows.codes[1:] >= rows.codes[:-1]
            same = rows.codes[1:] == rows.codes[:-1]
            assert sorted_codes.all()
            assert (rows.ordinal[1:] > rows.ordinal[:-1])[same].all()
            assert rows.ordinal.max() < self.next_ordinal
        for stored in self._stored_runs:
            stored.check(frontier)
            assert stored.index.ve_max > frontier

    def _open_map(self) -> CodeMap:
        """Return a code map for a new run, reused if possible."""
        return self._free_maps.pop() if self._free_maps else CodeMap(np.int32, -1)

    def _close(self, run: IndexedRun) -> Rows:
        """Close a run and keep its code map for reuse; return the rows."""
        self._free_maps.append(run.close())
        return run.rows


def are_mostly_alive(table: pa.Table, frontier: int) -> bool:
    """Return whether enough rows of a :meth:`JoinSide.table` are alive to use it without a copy."""
    alive = sum(int((ve.to_numpy() > frontier).sum()) for ve in table.column(VE).chunks)
    return 2 * alive >= len(table)


def restored_rows(table: pa.Table, frontier: int, keys: KeyIndex, on: Sequence[str]) -> Rows:
    """Return a :meth:`JoinSide.table`'s live rows, by reference, by ordinal within each code."""
    ordinal, ve = (numbers(as_one_array(table.column(name))) for name in (ORDINAL, VE))
    alive = ve > frontier
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    codes = [np.empty(0, np.int64)]
    row = 0
    for batch in batches:
        living = pa.array(alive[row : row + batch.num_rows])
        codes.append(keys.codes([batch.column(name).filter(living) for name in on]))
        row += batch.num_rows
    at = np.flatnonzero(alive)
    names = [name for name in table.schema.names if name not in (ORDINAL, VE)]
    rows = Rows(np.concatenate(codes), ve[at], ordinal[at], StoredRows(batches, at, names))
    order = stable_order(rows.codes)
    in_order = rows if order is None else rows.ordered(order)
    falls = in_order.ordinal[1:] < in_order.ordinal[:-1]
    if (falls & ~heads_of(in_order.codes)[1:]).any():  # out of order: the table has merged runs
        return rows.ordered(np.argsort(rows.ordinal, kind="stable"))
    return in_order


def living_rows(table: pa.Table, frontier: int) -> tuple[np.ndarray, np.ndarray, pa.RecordBatch]:
    """Return (ve, ordinal, stored) of the live rows of a :meth:`JoinSide.table`, by ordinal."""
    ordinal = table.column(ORDINAL).to_numpy()
    ve = table.column(VE).to_numpy()
    alive = np.flatnonzero(ve > frontier)
    order = stable_order(ordinal[alive])
    at = alive if order is None else alive[order]
    stored = table.drop_columns([ORDINAL, VE])
    assert stored.num_columns > 0, "a side stores at least its keys"
    merged = join_batches(stored.to_batches()) if len(table) else None
    batch = merged.take(pa.array(at)) if merged is not None else _no_rows(stored.schema)
    return ve[at], ordinal[at], batch


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.nulls(0, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _living(rows: Rows, frontier: int) -> Rows:
    """Return the rows that end after ``frontier``."""
    alive = np.flatnonzero(rows.ve > frontier)
    return rows if len(alive) == len(rows) else rows.take(alive)
