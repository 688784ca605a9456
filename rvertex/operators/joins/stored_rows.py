"""Rows of a join side that are read in place: in a checkpoint's files, or on scratch.

A checkpoint of a join may be larger than memory, and is mapped from its files. So a restore copies
numbers only: the payload stays in the batches of the checkpoint, and the next checkpoint contains
the same batches.

Rows beyond the memory budget are runs sorted by the hash of their key. Of such a run only a Bloom
filter is in memory. A lookup of a batch of probes checks in turn the filter, binary searches in the
hashes, the ends of lifetimes, and the keys of the rows found.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from rstream.items.batch import SEQ, VE
from rstream.items.dictionaries import compact, has_dictionaries, is_dictionary, plain_array
from rstream.items.hashing import hash_rows
from rstream.types import MIN_TIME
from rvertex.events.arrays import numbers
from rvertex.events.group_scan import heads_of
from rvertex.operators.joins.max_tree import MaxTree
from rvertex.state.hash_index import BloomFilter, equal_keys, sorted_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rvertex.state.memory import Holder

#: The column with the ordinal. The name is reserved, so no payload column can have it.
ORDINAL = SEQ

#: A restore sorts the hashes of about this many rows at once, to bound its memory.
_RUN_ROWS = 1 << 20


class StoredRows:
    """Rows in a list of batches: row i is row ``at[i]``, counted from the first batch on.

    ``select`` and ``take`` work as in a record batch.
    """

    __slots__ = ("_at", "_starts", "batches", "names")

    def __init__(
        self, batches: Sequence[pa.RecordBatch], at: np.ndarray | None, names: Sequence[str]
    ) -> None:
        """Select rows ``at`` (None: all) and columns ``names``.

        The batches may have more columns.
        """
        self.batches, self._at, self.names = batches, at, names
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)])

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self._starts[-1]) if self._at is None else len(self._at)

    @property
    def nbytes(self) -> int:
        """Bytes of the batches, including rows that are not read any more."""
        numbers_bytes = 0 if self._at is None else int(self._at.nbytes)
        return numbers_bytes + sum(map(_rows_bytes, self.batches))

    def select(self, names: Sequence[str]) -> StoredRows:
        """Return the same rows with fewer columns."""
        return StoredRows(self.batches, self._at, names)

    def ordered(self, order: np.ndarray) -> StoredRows:
        """Return the rows in this order, without a copy."""
        at = order if self._at is None else self._at.take(order)
        return StoredRows(self.batches, at, self.names)

    @classmethod
    def joined(cls, parts: Sequence[StoredRows]) -> StoredRows:
        """Return the rows of one or more parts with the same columns, without a copy."""
        firsts = np.cumsum([0, *(part._starts[-1] for part in parts)])
        at = [
            first + (np.arange(part.num_rows) if part._at is None else part._at)
            for first, part in zip(firsts[:-1], parts, strict=True)
        ]
        batches = [batch for part in parts for batch in part.batches]
        return cls(batches, np.concatenate(at), parts[0].names)

    def cut(self, nbytes: int) -> StoredRows:
        """Return the same rows in slices of about ``nbytes``."""
        slices = []
        for batch in self.batches:
            rows = max(nbytes * batch.num_rows // max(_rows_bytes(batch), 1), 1)
            slices += [batch.slice(lo, rows) for lo in range(0, batch.num_rows, rows)]
        return StoredRows(slices, self._at, self.names)

    def take(self, rows: pa.Array) -> pa.RecordBatch:
        """Return a copy of these rows; no number is null."""
        return self.copied(rows.to_numpy())

    def copied(self, rows: np.ndarray, holder: Holder | None = None) -> pa.RecordBatch:
        """Return a copy of these rows. ``holder`` verifies them, and drops pages of each batch."""
        if len(rows) == 0:
            return self.batches[0].select(self.names).slice(0, 0)
        at = rows if self._at is None else self._at.take(rows)
        batch = np.searchsorted(self._starts, at, side="right") - 1
        is_sorted = bool((batch[1:] >= batch[:-1]).all())
        order = np.arange(len(at)) if is_sorted else np.argsort(batch, kind="stable")
        sorted_batch = batch.take(order)
        heads = np.flatnonzero(np.diff(sorted_batch, prepend=-1))
        parts = []
        bounds = zip(heads, [*heads[1:], len(at)], strict=True)
        for lo, hi in bounds if holder is None else holder.read_once(bounds):
            number = int(sorted_batch[lo])
            local = at.take(order[lo:hi]) - self._starts[number]
            part = self.batches[number].select(self.names)
            if holder is not None:
                holder.verify(part, local)
            part = part.take(pa.array(local))
            parts.append(_without_unused(part))
        # Dictionaries differ from file to file. Caching joined ones would keep the files in use.
        joined = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        if is_sorted:
            return joined
        place = np.empty(len(at), np.int64)
        place[order] = np.arange(len(at))
        return joined.take(pa.array(place))

    def whole(self) -> pa.RecordBatch:
        """Return a copy of all rows."""
        return self.copied(np.arange(self.num_rows))


class Probes:
    """Rows of one side to match with the other: their sorted starts, and their keys.

    ``codes``: -1 if the key is null or not in the index. ``keys``: a function that returns the key
    columns, without a null where ``is_null`` is false.
    """

    def __init__(
        self,
        codes: np.ndarray,
        vs: np.ndarray,
        keys: Callable[[], Sequence[pa.Array]],
        is_null: np.ndarray | None = None,
    ) -> None:
        self.codes, self.vs, self._keys, self._is_null = codes, vs, keys, is_null

    def __len__(self) -> int:
        return len(self.vs)

    @cached_property
    def by_hash(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (probe, hash, vs) of the probes whose key is not null, sorted by hash."""
        hashes = hash_rows(self.columns)
        if self._is_null is None:
            probes = np.argsort(hashes)
        else:
            known = np.flatnonzero(~self._is_null)
            probes = known.take(np.argsort(hashes.take(known)))
        return probes, hashes.take(probes), self.vs.take(probes)

    @cached_property
    def columns(self) -> list[pa.Array]:
        """The key columns."""
        return [plain_array(column) for column in self._keys()]


class Found(NamedTuple):
    """Pairs of a probe and a row of ``stored``, and the end and ordinal of that row."""

    probe: np.ndarray
    stored: pa.RecordBatch | StoredRows
    place: np.ndarray
    ve: np.ndarray
    ordinal: np.ndarray


class StoredRun:
    """Immutable rows on scratch, sorted by the hash of their key."""

    def __init__(
        self,
        rows: StoredRows,
        hashes: np.ndarray,
        ve: np.ndarray,
        on: Sequence[str],
        holder: Holder,
    ) -> None:
        """Index ``rows``, which are not empty and begin with ORDINAL and VE. ``on``: their keys."""
        assert rows.num_rows == len(hashes) == len(ve) > 0
        self._on, self._holder = on, holder
        #: The batches that a checkpoint names. ``rows`` reads slices of them.
        self.batches = rows.batches
        self.rows = rows.cut(holder.piece_bytes)
        self.nbytes = rows.nbytes
        self.ve_max = int(ve.max())
        stored = sum(batch.num_rows for batch in rows.batches)
        # A checkpoint may have rows that were dead already
        dying = stored // 2 - (stored - len(ve))
        #: The time from which at least half of the rows in the batches are dead.
        self.half_dead_at = int(np.partition(ve, dying)[dying]) if dying >= 0 else MIN_TIME
        self._bloom = BloomFilter(hashes[heads_of(hashes)])
        self._hashes = holder.store_array(hashes)
        self._alive = MaxTree(holder.store_array(ve), holder.store_array)

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the run in memory."""
        return self._bloom.nbytes

    def find(self, probes: Probes) -> Found | None:
        """Return the rows with the key of a probe that end after its start.

        None if there is none.
        """
        probe, hashes, vs = probes.by_hash
        may = np.flatnonzero(self._bloom.may_have(hashes))
        if len(may) == 0:
            return None
        probe, hashes, vs = probe.take(may), hashes.take(may), vs.take(may)
        lo, hi = (self._hashes.searchsorted(hashes, side) for side in ("left", "right"))
        there = np.flatnonzero(hi > lo)
        if len(there) == 0:
            return None
        at, place = self._alive.above(lo.take(there), hi.take(there), vs.take(there))
        in_order = np.argsort(place, kind="stable")  # read each batch once, from its beginning
        probe, place = probe.take(there).take(at).take(in_order), place.take(in_order)
        rows = self.rows.copied(place, self._holder)
        keys = [plain_array(rows.column(name)) for name in self._on]
        wanted = pa.array(probe)
        same = equal_keys(keys, [column.take(wanted) for column in probes.columns])
        if not same.all():
            rows, probe = rows.filter(pa.array(same)), probe[same]
        ends, ordinal = (numbers(rows.column(name)) for name in (VE, ORDINAL))
        return Found(probe, rows, np.arange(len(probe)), ends, ordinal)

    def living(self, frontier: int) -> tuple[StoredRows, np.ndarray, np.ndarray]:
        """Return the rows that end after ``frontier``, their hashes, and their ends."""
        at = np.flatnonzero(self._alive.values > frontier)
        return self.rows.ordered(at), self._hashes.take(at), self._alive.values.take(at)

    def check(self, frontier: int) -> None:
        """Assert the invariants (linear)."""
        assert (self._hashes[1:] >= self._hashes[:-1]).all()
        rows = self.rows.whole()
        assert (hash_rows([rows.column(name) for name in self._on]) == self._hashes).all()
        assert (numbers(rows.column(VE)) == self._alive.values).all()
        assert int((self._alive.values <= frontier).sum()) <= len(self) // 2


def stored_runs(
    batches: Sequence[pa.RecordBatch],
    frontier: int,
    on: Sequence[str],
    holder: Holder,
    *,
    writes: bool,
) -> Iterator[StoredRun]:
    """Yield runs of the rows that end after ``frontier``, sorted by hash.

    The batches have ORDINAL and VE. ``writes``: write the rows to scratch, as one run; otherwise
    the batches are there already.
    """
    group: list[pa.RecordBatch] = []
    for i, batch in enumerate(batches):
        group.append(batch)
        is_last = i + 1 == len(batches)
        if not is_last and (writes or sum(b.num_rows for b in group) < _RUN_ROWS):
            continue
        pairs = zip(*_numbers_of(group, on, holder), strict=True)
        # Join few arrays at a time, since the budget is exceeded already
        hashes, ve = map(np.concatenate, pairs)
        alive = np.flatnonzero(ve > frontier)
        if len(alive) < len(ve):
            hashes, ve = hashes.take(alive), ve.take(alive)
        # A stable sort gives the same order of equal hashes on every processor
        hashes, order = sorted_hashes(hashes)
        ve = ve.take(order)
        at = order if len(alive) == sum(b.num_rows for b in group) else alive.take(order)
        del alive, order
        rows = StoredRows(group, at, batch.schema.names)
        if len(at) and writes:
            yield _written(rows, hashes, ve, on, holder)
        elif len(at):
            is_all = np.array_equal(at, np.arange(sum(b.num_rows for b in group)))
            known = None if is_all else holder.store_array(at)
            yield StoredRun(StoredRows(group, known, rows.names), hashes, ve, on, holder)
        group = []


def without_dead(
    runs: Sequence[StoredRun], frontier: int, on: Sequence[str], holder: Holder
) -> list[StoredRun]:
    """Rewrite half-dead runs without the rows that end by ``frontier``; merge them with short runs.

    Without that, a single row that never ends would keep its run forever.
    """
    if all(run.half_dead_at > frontier for run in runs):
        return list(runs)
    kept: list[StoredRun] = []
    groups: list[list[StoredRun]] = [[]]
    for run in runs:
        if run.half_dead_at > frontier and 2 * run.nbytes >= holder.run_bytes_min:
            kept.append(run)
            continue
        if groups[-1] and sum(map(len, groups[-1])) + len(run) > _RUN_ROWS:
            groups.append([])
        groups[-1].append(run)
    merged = [_merged(group, frontier, on, holder) for group in groups]
    return [*(run for run in merged if run is not None), *kept]


def _merged(
    runs: Sequence[StoredRun], frontier: int, on: Sequence[str], holder: Holder
) -> StoredRun | None:
    """Return the rows of at least one run that end after ``frontier``, in new files.

    None: no rows.
    """
    if len(runs) == 1 and runs[0].half_dead_at > frontier:
        return runs[0]
    parts = [run.living(frontier) for run in runs]
    rows, hashes, ve = parts[0]
    if len(parts) > 1:
        rows = StoredRows.joined([part[0] for part in parts])
        hashes, ve = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
        hashes, order = sorted_hashes(hashes)
        rows, ve = rows.ordered(order), ve.take(order)
    return _written(rows, hashes, ve, on, holder) if len(hashes) else None


def _rows_bytes(batch: pa.RecordBatch) -> int:
    """Return the bytes of the rows. A dictionary counts with one value per row at most.

    Other values are not copied: see `copied`.
    """
    nbytes = int(batch.nbytes)
    for column in batch.columns if has_dictionaries(batch.schema) else ():
        if is_dictionary(column.type) and (unused := len(column.dictionary) - len(column)) > 0:
            nbytes -= int(column.dictionary.nbytes) * unused // len(column.dictionary)
    return nbytes


def _without_unused(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows; dictionaries have no null, and at most one value per row."""
    if not has_dictionaries(batch.schema):
        return batch
    columns = [
        compact(column)
        if is_dictionary(column.type)
        and (len(column.dictionary) > len(column) or column.dictionary.null_count)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _numbers_of(
    batches: Sequence[pa.RecordBatch], on: Sequence[str], holder: Holder
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, per batch, the hashes of the keys and the ends, both verified."""
    for batch in batches:
        holder.verify(batch.select([*on, VE]))
        yield hash_rows([batch.column(name) for name in on]), numbers(batch.column(VE))


def _written(
    rows: StoredRows, hashes: np.ndarray, ve: np.ndarray, on: Sequence[str], holder: Holder
) -> StoredRun:
    """Write rows to scratch, piece by piece."""
    count = rows.num_rows
    part = sum(batch.num_rows for batch in rows.batches)
    at_once = max(holder.piece_bytes * part // max(rows.nbytes, 1), 1)
    blocks = [
        holder.store([rows.copied(np.arange(lo, min(lo + at_once, count)), holder)])[0]
        for lo in range(0, count, at_once)
    ]
    return StoredRun(StoredRows(blocks, None, rows.names), hashes, ve, on, holder)
