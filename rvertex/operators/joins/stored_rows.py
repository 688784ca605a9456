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
from rstream.items.slices import Slices
from rvertex.events.arrays import numbers
from rvertex.operators.joins.max_tree import MaxTree
from rvertex.operators.protocol import INDEX_MARK
from rvertex.state.hash_index import (
    Blocks,
    BloomFilter,
    HashIndex,
    equal_keys,
    in_this_order,
    order_by_hash,
    rows_of,
    sorted_entries,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rvertex.state.memory import Holder

#: The column with the ordinal. The name is reserved, so no payload column can have it.
ORDINAL = SEQ

#: Rows of a checkpoint without an index, and of runs that are merged, become runs of about this
#: many rows, to bound the memory that sorting takes.
_RUN_ROWS = 1 << 20
#: Most rows in a run that is written from memory.
_WRITTEN_ROWS = 1 << 22
_ENTRIES = pa.schema([("entry", pa.uint64()), ("end", pa.int64())])
_WORDS = pa.schema([("word", pa.uint64())])
#: Tables beside the table of a side's rows.
_RUNS_OF, _ENTRIES_OF, _WORDS_OF = (f"{INDEX_MARK}{n}" for n in ("runs", "entries", "words"))


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
    def hashed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (probe, hash, vs) of the probes whose key is not null."""
        hashes = hash_rows(self.columns)
        if self._is_null is None:
            return np.arange(len(hashes)), hashes, self.vs
        probes = np.flatnonzero(~self._is_null)
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


class RunIndex(NamedTuple):
    """The index of a run's rows. A checkpoint has it, too, so a restore reads no row."""

    #: Columns: the sorted entries of a :class:`HashIndex`, and the end of the row of each entry.
    entries: list[pa.RecordBatch]
    #: The words of the Bloom filter.
    words: list[pa.RecordBatch]
    ve_max: int
    #: The time from which at least half of the rows are dead.
    half_dead_at: int

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch], on: Sequence[str], holder: Holder) -> RunIndex:
        """Index the rows of batches, which are verified."""
        ends: list[np.ndarray] = []
        hashes = _hashes(batches, on, holder, ends)
        entries, bloom = sorted_entries(hashes, sum(batch.num_rows for batch in batches))
        return cls.made(entries, bloom, np.concatenate(ends).take(rows_of(entries)), holder)

    @classmethod
    def made(
        cls, entries: np.ndarray, bloom: BloomFilter, ends: np.ndarray, holder: Holder
    ) -> RunIndex:
        """Write an index to scratch."""
        columns = [pa.array(entries), pa.array(ends)]
        half = len(ends) // 2
        return cls(
            holder.store([pa.RecordBatch.from_arrays(columns, schema=_ENTRIES)]),
            [pa.RecordBatch.from_arrays([pa.array(bloom.words)], schema=_WORDS)],
            int(ends.max()),
            int(np.partition(ends, half)[half]),
        )


class StoredRun:
    """Immutable rows on scratch, with an index by the hash of their key."""

    def __init__(
        self, batches: Sequence[pa.RecordBatch], index: RunIndex, on: Sequence[str], holder: Holder
    ) -> None:
        """``batches`` are not empty and begin with ORDINAL and VE. ``on``: their keys."""
        self._on, self._holder = on, holder
        #: What a checkpoint names. ``rows`` reads slices of the batches.
        self.batches, self.index = batches, index
        self.rows = StoredRows(batches, None, batches[0].schema.names).cut(holder.piece_bytes)
        self.nbytes = self.rows.nbytes
        words = [batch.column(0).to_numpy() for batch in index.words]
        # The filter is in memory. The words of a new index are, too, so they are not copied
        is_there = len(words) == 1 and not holder.is_stored(index.words[0])
        bloom = BloomFilter(words[0][:0], words[0] if is_there else np.concatenate(words))
        entries, ends = ([batch.column(i).to_numpy() for batch in index.entries] for i in range(2))
        self._by_hash = HashIndex(entries, bloom)
        self._ends = Blocks(ends)
        self._alive = MaxTree(self._ends, holder.store_array)

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the run in memory."""
        return self._by_hash.filter_bytes

    def find(self, probes: Probes) -> Found | None:
        """Return the rows with the key of a probe that end after its start.

        None if there is none.
        """
        probe, hashes, vs = probes.hashed
        needle, first, count = self._by_hash.ranges(hashes)
        there = np.flatnonzero(count)
        if len(there) == 0:
            return None
        needle, first = needle.take(there), first.take(there)
        at, number = self._alive.above(first, first + count.take(there), vs.take(needle))
        place = self._by_hash.rows(number)
        in_order = np.argsort(place, kind="stable")  # read each batch once, from its beginning
        probe, place = probe.take(needle).take(at).take(in_order), place.take(in_order)
        rows = self.rows.copied(place, self._holder)
        keys = [plain_array(rows.column(name)) for name in self._on]
        wanted = pa.array(probe)
        same = equal_keys(keys, [column.take(wanted) for column in probes.columns])
        if not same.all():
            rows, probe = rows.filter(pa.array(same)), probe[same]
        ends, ordinal = (numbers(rows.column(name)) for name in (VE, ORDINAL))
        return Found(probe, rows, np.arange(len(probe)), ends, ordinal)

    def living(self, frontier: int) -> tuple[StoredRows, np.ndarray]:
        """Return the rows that end after ``frontier``, sorted by hash, and their entries."""
        alive = np.flatnonzero(self._ends.whole() > frontier)
        entries = self._by_hash.entries.take(alive)
        return self.rows.ordered(rows_of(entries)), entries

    def check(self, frontier: int) -> None:
        """Assert the invariants (linear)."""
        rows, entries = self.rows.whole(), self._by_hash.entries.whole()
        hashes = hash_rows([rows.column(name) for name in self._on])
        made, _ = sorted_entries([hashes], len(self))
        assert (entries == made).all()
        assert self._by_hash.bloom.may_have(hashes).all()
        assert (numbers(rows.column(VE)).take(rows_of(entries)) == self._ends.whole()).all()
        assert int((self._ends.whole() <= frontier).sum()) <= len(self) // 2


def written_runs(
    batches: Sequence[pa.RecordBatch], frontier: int, on: Sequence[str], holder: Holder
) -> Iterator[StoredRun]:
    """Write the rows that end after ``frontier`` to scratch, sorted by hash; yield their runs.

    The batches have ORDINAL and VE.
    """
    pieces = [
        batch.slice(lo, _WRITTEN_ROWS)
        for batch in batches
        for lo in range(0, batch.num_rows, _WRITTEN_ROWS)
    ]
    for group in _grouped(pieces, _WRITTEN_ROWS):
        ends: list[np.ndarray] = []
        rows = sum(batch.num_rows for batch in group)
        entries, bloom = sorted_entries(_hashes(group, on, holder, ends), rows)
        ve = np.concatenate(ends).take(rows_of(entries))
        alive = np.flatnonzero(ve > frontier)
        if not len(alive):
            continue
        entries = entries.take(alive)
        blocks = _written(StoredRows(group, rows_of(entries), group[0].schema.names), holder)
        index = RunIndex.made(in_this_order(entries), bloom, ve.take(alive), holder)
        yield StoredRun(blocks, index, on, holder)


def indexed_runs(
    batches: Sequence[pa.RecordBatch], frontier: int, on: Sequence[str], holder: Holder
) -> list[StoredRun]:
    """Return runs of batches that are on scratch, as a checkpoint without an index has them."""
    runs = [
        StoredRun(group, RunIndex.of(group, on, holder), on, holder)
        for group in _grouped(batches, _RUN_ROWS)
    ]
    return [run for run in runs if run.index.ve_max > frontier]


class StoredRuns:
    """Saves and restores the runs of a side, in tables beside the table ``name`` of its rows.

    Runs may share a batch of the restored checkpoint. They get slices of it. If the slices are
    still consecutive in the next checkpoint, it has the batch again, which is not uploaded.
    """

    def __init__(self) -> None:
        #: Of the batches of rows, and of the indexes.
        self.rows, self._entries, self._words = Slices(), Slices(), Slices()

    def save(self, name: str, runs: Sequence[StoredRun]) -> dict[str, pa.Table]:
        """Return the tables of the indexes; none if there is no run."""
        if not runs:
            return {}
        indexes = [run.index for run in runs]
        entries = self._entries.joined([batch for index in indexes for batch in index.entries])
        words = self._words.joined([batch for index in indexes for batch in index.words])
        lengths = {
            "rows": [len(run) for run in runs],
            "words": [sum(batch.num_rows for batch in index.words) for index in indexes],
            "ve_max": [index.ve_max for index in indexes],
            "half_dead_at": [index.half_dead_at for index in indexes],
        }
        return {
            name + _RUNS_OF: pa.table({n: pa.array(v, pa.int64()) for n, v in lengths.items()}),
            name + _ENTRIES_OF: pa.Table.from_batches(entries, _ENTRIES),
            name + _WORDS_OF: pa.Table.from_batches(words, _WORDS),
        }

    def restore(
        self, name: str, tables: Mapping[str, pa.Table], on: Sequence[str], holder: Holder
    ) -> tuple[list[StoredRun], list[pa.RecordBatch]]:
        """Return the runs of saved tables, without reading a row; and the batches of other rows."""
        batches = [batch for batch in tables[name].to_batches() if batch.num_rows]
        if name + _RUNS_OF not in tables:
            return [], batches
        lengths = tables[name + _RUNS_OF].to_pylist()
        rows = [run["rows"] for run in lengths]
        *of_runs, others = self.rows.cut(batches, rows)
        *entries, _ = self._entries.cut(tables[name + _ENTRIES_OF].to_batches(), rows)
        counts = [run["words"] for run in lengths]
        *words, _ = self._words.cut(tables[name + _WORDS_OF].to_batches(), counts)
        runs = [
            StoredRun(b, RunIndex(e, w, run["ve_max"], run["half_dead_at"]), on, holder)
            for b, e, w, run in holder.read_once(zip(of_runs, entries, words, lengths, strict=True))
        ]
        return runs, others


def without_dead(
    runs: Sequence[StoredRun], frontier: int, on: Sequence[str], holder: Holder
) -> list[StoredRun]:
    """Rewrite half-dead runs without the rows that end by ``frontier``; merge them with short runs.

    Without that, a single row that never ends would keep its run forever.
    """
    if all(run.index.half_dead_at > frontier for run in runs):
        return list(runs)
    kept: list[StoredRun] = []
    groups: list[list[StoredRun]] = [[]]
    for run in runs:
        if run.index.half_dead_at > frontier and 2 * run.nbytes >= holder.run_bytes_min:
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
    if len(runs) == 1 and runs[0].index.half_dead_at > frontier:
        return runs[0]
    rows, entries = zip(*(run.living(frontier) for run in runs), strict=True)
    order = order_by_hash(np.concatenate(entries))
    if not len(order):
        return None
    blocks = _written(StoredRows.joined(rows).ordered(order), holder)
    return StoredRun(blocks, RunIndex.of(blocks, on, holder), on, holder)


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


def _hashes(
    batches: Sequence[pa.RecordBatch], on: Sequence[str], holder: Holder, ends: list[np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield, per batch, the hashes of the keys, and append the ends to ``ends``; all verified."""
    for batch in holder.read_once(batches):
        holder.verify(batch.select([*on, VE]))
        ends.append(numbers(batch.column(VE)))
        yield hash_rows([batch.column(name) for name in on])


def _grouped(batches: Sequence[pa.RecordBatch], rows_max: int) -> Iterator[list[pa.RecordBatch]]:
    """Yield consecutive batches with about ``rows_max`` rows, or one batch with more."""
    group: list[pa.RecordBatch] = []
    for batch in batches:
        if group and sum(b.num_rows for b in group) + batch.num_rows > rows_max:
            yield group
            group = []
        group.append(batch)
    if group:
        yield group


def _written(rows: StoredRows, holder: Holder) -> list[pa.RecordBatch]:
    """Write rows to scratch, piece by piece."""
    count = rows.num_rows
    part = sum(batch.num_rows for batch in rows.batches)
    at_once = max(holder.piece_bytes * part // max(rows.nbytes, 1), 1)
    return [
        holder.store([rows.copied(np.arange(lo, min(lo + at_once, count)), holder)])[0]
        for lo in range(0, count, at_once)
    ]
