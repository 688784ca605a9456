"""Rows in runs sorted by key, so that they can be read key by key without being in memory.

New rows are gathered, then sorted by key (stable) and written as a *run*: blocks of rows, each with
a fence, which is its first key. To read, all runs are divided at the same keys. A division costs
one binary search in one block of each run. Between two of these keys is a *piece*: all rows of a
range of keys.

Invariants: (1) pieces are in key order (ascending, NaN after numbers, nulls last) and no key is in
two pieces; (2) rows of one key are in arrival order, also after spills and merges; (3) all rows of
a run arrived before the rows of the next run. Source: external sort as in LSM trees; out-of-core
GROUP BY of DuckDB and Polars.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.dictionaries import is_dictionary, join_batches
from rvertex.events.arrays import numbers
from rvertex.events.ordering import stable_order
from rvertex.keys.sort_keys import is_packable, packed_keys, sorted_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rvertex.state.memory import Holder

#: The table of the rows on scratch, in a saved state.
RUNS = "runs"
#: Number of rows in a block, that is, between two fences.
BLOCK_ROWS = 1 << 14
#: The fractional parts of this number's multiples are spread evenly.
_GOLDEN = 0.618033988749895
#: This many runs of about one size are merged into one.
RUNS_MAX = 256
#: A range is not sorted at once if it is more than this many times as large as a piece.
_LARGE = 4
#: Rows are read in halves of a piece, because aggregating them takes more memory than sorting them.
_READ_PART = 2
_NUMBER, _NAN, _NULL = 0, 1, 2

#: A key in comparable form: per column a rank (value, NaN or null) and the value.
Place = tuple[Any, ...]


@dataclass(slots=True)
class SortedRun:
    """Blocks of rows, sorted by the key columns ``names``.

    ``level`` counts the merges that made this run. ``number`` is its position in the list of runs.
    """

    names: tuple[str, ...]
    blocks: Sequence[pa.RecordBatch]
    level: int = 0
    number: int = 0
    #: Verifies rows of a block before they are read; see :mod:`rvertex.state.unverified`.
    verify: Callable[[pa.RecordBatch, np.ndarray], None] | None = None
    #: The key of the first row of each block.
    fences: list[Place] = field(default_factory=list)
    #: The key of one row of each block. Runs with the same keys have about the same fences. But
    #: each run samples another part of its blocks, so the samples of all runs are spread evenly.
    samples: list[Place] = field(default_factory=list)
    #: The number of the first row of each block, and finally the number of all rows.
    starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.blocks = [block for block in self.blocks if block.num_rows]
        self.fences = [self._place(block, 0) for block in self.blocks]
        part = self.number * _GOLDEN % 1
        self.samples = [self._place(block, int(part * block.num_rows)) for block in self.blocks]
        counts = (block.num_rows for block in self.blocks)
        self.starts = [0, *itertools.accumulate(counts)]

    def __len__(self) -> int:
        return self.starts[-1]

    def _place(self, block: pa.RecordBatch, row: int) -> Place:
        return place_of(self._keys(block.slice(row, 1)), 0)

    def _keys(self, rows: pa.RecordBatch) -> list[pa.Array]:
        keys: list[pa.Array] = self._verified(rows.select(self.names)).columns
        return keys

    def _verified(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.verify is not None:
            self.verify(rows, np.arange(rows.num_rows))
        return rows

    def first_at(self, place: Place) -> int:
        """Return the number of the first row whose key is at or after ``place``."""
        at = bisect.bisect_left(self.fences, place)
        if at == 0:
            return 0
        # The previous block's fence is below ``place``. So the row is in that block, or it is the
        # first row of the next block.
        begin, end = self.starts[at - 1 : at + 1]
        return begin + _first_at(self._keys(self.blocks[at - 1]), end - begin, place)

    def rows(self, lo: int, hi: int) -> Iterator[pa.RecordBatch]:
        """Yield rows ``[lo, hi)``, by reference."""
        if hi <= lo:
            return
        at = bisect.bisect_right(self.starts, lo) - 1
        while lo < hi:  # ends: every block has a row
            start = self.starts[at]
            count = min(hi, self.starts[at + 1]) - lo
            yield self._verified(self.blocks[at].slice(lo - start, count))
            lo, at = lo + count, at + 1


class KeyRuns:
    """Rows by key, in memory and on scratch; see the module."""

    def __init__(self, names: Sequence[str], holder: Holder) -> None:
        self._names = tuple(names)
        self._holder = holder
        #: Rows that are not in a run yet, in arrival order.
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._runs: list[SortedRun] = []
        #: Blocks of the first ``_restored_runs`` runs, as they are in the restored checkpoint. The
        #: next checkpoint recognises these batches and does not write them again.
        self._restored: list[pa.RecordBatch] = []
        self._restored_runs = 0

    def __len__(self) -> int:
        """Return the number of rows."""
        return sum(int(b.num_rows) for b in self._gathered) + sum(map(len, self._runs))

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory, without the rows on scratch."""
        return self._gathered_bytes

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows, which arrived after all earlier rows."""
        if rows.num_rows == 0:
            return
        rows = plain_rows(rows)
        self._gathered.append(rows)
        self._gathered_bytes += rows.nbytes
        if self._gathered_bytes >= self._holder.piece_bytes:
            self.spill()

    def spill(self) -> None:
        """Write the gathered rows as a run."""
        if not self._gathered:
            return
        stored = self._holder.store(self._sorted_blocks())
        run = SortedRun(self._names, stored, number=len(self._runs))
        self._gathered_bytes = 0
        self._runs.append(run)
        self._merge_last()

    def pieces(
        self, cuts: Sequence[Place] = ()
    ) -> Iterator[tuple[list[pa.RecordBatch], Place | None]]:
        """Return all rows by ranges of keys, each about a piece long, and the end of each range.

        Each range has the rows of each run, sorted by key; rows of one key are in sequence. Ranges
        also end at ``cuts``; then a range may have no rows. The end of the last range is None. The
        rows of one key are in one range, however many they are. Call it last, since the rows in
        memory become a run.
        """
        if self._holder.may_spill and self._runs:
            self.spill()
        runs = list(self._runs)
        if self._gathered:
            runs.append(SortedRun(self._names, self._sorted_blocks(), number=len(runs)))
        yield from self._holder.read_once(key_ranges(runs, self._piece_rows(runs), cuts))

    def save(self) -> dict[str, pa.Table]:
        """Return runs and gathered rows by reference. Runs on scratch stay there."""
        tables: dict[str, pa.Table] = {}
        if self._gathered:
            tables["gathered"] = pa.Table.from_batches(self._gathered)
        if self._runs:
            later = [b for run in self._runs[self._restored_runs :] for b in run.blocks]
            tables[RUNS] = pa.Table.from_batches([*self._restored, *later])
        lengths = pa.array([len(run) for run in self._runs], pa.int64())
        levels = pa.array([run.level for run in self._runs], pa.int64())
        return tables | {"lengths": pa.table({"rows": lengths, "level": levels})}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the tables that ``save`` returned. Call it only on a new object."""
        assert not self._runs
        assert not self._gathered
        if "gathered" in tables:
            self._gathered = tables["gathered"].to_batches()
            self._gathered_bytes = tables["gathered"].nbytes
        lengths = tables["lengths"]
        at = 0
        for row in lengths.to_pylist():
            blocks = tables[RUNS].slice(at, row["rows"]).to_batches(max_chunksize=BLOCK_ROWS)
            number, verify = len(self._runs), self._holder.verify
            run = SortedRun(self._names, blocks, row["level"], number, verify)
            self._runs.append(run)
            at += row["rows"]
        self._restored_runs = len(self._runs)
        self._restored = tables[RUNS].to_batches() if self._runs else []

    def _sorted_blocks(self) -> list[pa.RecordBatch]:
        """Return the gathered rows, sorted by key, and remove them."""
        rows = join_batches(self._gathered)
        self._gathered = []
        order = stable_key_order([rows.column(name) for name in self._names], rows.num_rows)
        return blocks_of(rows if order is None else rows.take(pa.array(order)))

    def _merge_last(self) -> None:
        """Merge the last ``RUNS_MAX`` runs as long as they have the same level."""
        while len(self._runs) >= RUNS_MAX:  # ends: each round leaves fewer runs
            last = self._runs[-RUNS_MAX:]
            level = last[-1].level
            if last[0].level != level:  # levels do not increase from run to run
                return
            blocks: list[pa.RecordBatch] = []
            for rows, _ in key_ranges(last, self._piece_rows(last)):
                if rows:
                    blocks += self._holder.store(
                        blocks_of(in_key_order(rows, self._names, self._holder))
                    )
            if len(self._runs) - len(last) < self._restored_runs:
                self._restored, self._restored_runs = [], 0
            del self._runs[-len(last) :]
            self._runs.append(SortedRun(self._names, blocks, level + 1, len(self._runs)))

    def is_large(self, batches: Sequence[pa.RecordBatch]) -> bool:
        """Return whether a range is far larger than a piece, usually because of a single key."""
        nbytes: int = sum(batch.nbytes for batch in batches)
        return nbytes > _LARGE * self._holder.piece_bytes

    def _piece_rows(self, runs: Sequence[SortedRun]) -> int:
        """Return about how many rows are read at once."""
        if not runs:
            return BLOCK_ROWS
        block = runs[0].blocks[0]
        fitting = self._holder.piece_bytes // _READ_PART * block.num_rows // max(block.nbytes, 1)
        return max(int(fitting), BLOCK_ROWS)


class SortedColumns:
    """Columns in memory by key. ``keys`` are sorted, and no key occurs twice.

    ``lanes``: other columns. ``order``: their row for each key, int64[keys]; None: the same row.
    """

    def __init__(
        self, keys: Sequence[pa.Array], lanes: Sequence[pa.Array], order: np.ndarray | None
    ) -> None:
        self._keys, self._lanes, self._order = keys, lanes, order

    def __len__(self) -> int:
        return len((self._keys or self._lanes)[0])

    def piece_rows(self, piece_bytes: int) -> int:
        """Return the number of rows of a piece."""
        nbytes: int = sum(column.nbytes for column in (*self._keys, *self._lanes))
        return max(piece_bytes * len(self) // max(nbytes, 1), 1)

    def cuts(self, rows: int) -> list[Place]:
        """Return the keys at which to divide the rows into pieces of ``rows``."""
        return [place_of(self._keys, i) for i in range(rows, len(self), rows)]

    def first_at(self, place: Place) -> int:
        """Return the number of the first row whose key is at or after ``place``."""
        return _first_at(self._keys, len(self), place)

    def rows(self, lo: int, hi: int) -> tuple[list[pa.Array], list[pa.Array]]:
        """Return the key columns and other columns of rows ``[lo, hi)``."""
        keys = [column.slice(lo, hi - lo) for column in self._keys]
        if self._order is None:
            return keys, [column.slice(lo, hi - lo) for column in self._lanes]
        at = pa.array(self._order[lo:hi])
        return keys, [column.take(at) for column in self._lanes]


def key_ranges(
    runs: Sequence[SortedRun], rows_max: int, cuts: Sequence[Place] = ()
) -> Iterator[tuple[list[pa.RecordBatch], Place | None]]:
    """See :meth:`KeyRuns.pieces`."""
    before = [0] * len(runs)
    ends = sorted({*cuts, *_cuts(runs, rows_max)})
    for end in (*ends, None):
        after = [len(run) if end is None else run.first_at(end) for run in runs]
        bounds = zip(runs, before, after, strict=True)
        batches = [rows for run, lo, hi in bounds for rows in run.rows(lo, hi)]
        before = after
        yield batches, end


def sorted_runs(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> list[SortedRun] | None:
    """Return consecutive batches sorted by key, in as few runs as possible.

    Returns None if the rows are not sorted. Only a key of a single integer or time is examined.
    """
    chains: list[list[pa.RecordBatch]] = []
    last: Any = None
    for batch in (batch for batch in batches if batch.num_rows):
        if len(names) != 1 or not is_packable(column := batch.column(names[0])):
            return None
        keys = numbers(column)
        falls = np.flatnonzero(keys[1:] < keys[:-1]) + 1
        if len(chains) + len(falls) > RUNS_MAX:
            return None
        if last is None or keys[0] < last:
            chains.append([])
        last = keys[-1]
        for lo, hi in itertools.pairwise([0, *falls.tolist(), len(keys)]):
            if lo:
                chains.append([])
            chains[-1].append(batch.slice(lo, hi - lo))
    return [SortedRun(tuple(names), chain, number=k) for k, chain in enumerate(chains)]


def in_key_order(
    batches: Sequence[pa.RecordBatch], names: Sequence[str], holder: Holder
) -> pa.RecordBatch:
    """Join one or more batches, each sorted by the keys ``names``, into one sorted batch."""
    rows = holder.joined(batches)
    if sum(b.num_rows > 0 for b in batches) == 1:
        return rows
    order = stable_key_order([rows.column(n) for n in names], rows.num_rows)
    return rows if order is None else rows.take(pa.array(order))


def _cuts(runs: Sequence[SortedRun], rows_max: int) -> list[Place]:
    """Return keys at which to divide the rows into pieces of about ``rows_max`` rows."""
    samples = sorted(
        (sample, block.num_rows)
        for run in runs
        for sample, block in zip(run.samples, run.blocks, strict=True)
    )
    cuts: list[Place] = []
    rows = 0
    for (sample, count), (following, _) in itertools.pairwise(samples):
        rows += count
        if rows >= rows_max and following > sample:
            cuts.append(following)
            rows = 0
    return cuts


def stable_key_order(keys: Sequence[pa.Array], rows: int) -> np.ndarray | None:
    """Return the stable sort order of rows by key; None if they are already sorted."""
    packed = packed_keys(keys, rows)
    if packed is not None:
        return stable_order(packed.codes)
    return sorted_keys([*keys, pa.array(np.arange(rows))], rows)


def _first_at(keys: Sequence[pa.Array], rows: int, place: Place) -> int:
    """Return the first row of sorted rows whose key is at or after ``place``."""
    if len(keys) == 1 and place[0] == _NUMBER and is_packable(keys[0]):
        return int(np.searchsorted(numbers(keys[0]), place[1]))
    low, high = 0, rows
    while low < high:  # ends: each round halves the range
        middle = (low + high) // 2
        if place_of(keys, middle) < place:
            low = middle + 1
        else:
            high = middle
    return low


def is_value(place: Place) -> bool:
    """Return whether the first column of a key is a value, not NaN or null."""
    return bool(place[0] == _NUMBER)


def place_of(keys: Sequence[pa.Array], row: int) -> Place:
    """Return the key of a row in comparable form."""
    return tuple(part for key in keys for part in _part(key[row]))


def _part(value: pa.Scalar) -> tuple[int, Any]:
    if not value.is_valid:
        return _NULL, 0
    plain = value.value if pa.types.is_temporal(value.type) else value.as_py()
    if isinstance(plain, float) and math.isnan(plain):
        return _NAN, 0
    return _NUMBER, plain


def plain_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows with dictionaries decoded."""
    columns = [_plain(column) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _plain(column: pa.Array) -> pa.Array:
    kind = column.type
    if is_dictionary(kind):
        return column.dictionary_decode()
    if pa.types.is_struct(kind) and any(is_dictionary(child.type) for child in kind):
        children = [_plain(child) for child in column.flatten()]
        names = [child.name for child in kind]
        return pa.StructArray.from_arrays(children, names, mask=column.is_null())
    return column


def blocks_of(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return the rows in batches of at most ``BLOCK_ROWS``."""
    return [rows.slice(at, BLOCK_ROWS) for at in range(0, rows.num_rows, BLOCK_ROWS)]
