"""A log of rows in which a newer row may delete older rows; saved by reference, searched by key.

Every row has a number, in the order of writing. ``append`` takes new rows and the numbers of the
rows that they delete. Batches are merged into *parts* of doubling size, like the digits of a binary
counter, up to PART_ROWS_MAX rows. A part is compacted when half of its rows are deleted. If the
memory budget is exceeded, parts are on scratch.

A caller may keep the values of a row in memory: the row is *held*. ``find`` returns rows that are
not held, by key and per batch, through an index of hashes (:mod:`rvertex.state.hash_index`).

Invariants: (1) numbers increase within a part and from part to part, and two current rows never
have the same number; (2) after ``append`` and ``load`` at most half of each part is deleted, so
every part has current rows, wherever a snapshot was taken; (3) unchanged batches are the same
objects in the next snapshot, and a mask marks the deleted rows. Source: log-structured merge trees
(O'Neil et al. 1996).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.dictionaries import plain_array
from rstream.items.hashing import hash_rows
from rstream.types import MIN_TIME
from rvertex.events.group_scan import heads_of
from rvertex.state.hash_index import HASHES, BloomFilter, HashIndex, equal_keys
from rvertex.state.log_part import Fences, LogPart, fences_of, joined_fences, replaced
from rvertex.state.memory import UNLIMITED
from rvertex.state.stored_times import RUNS, TIMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rvertex.state.memory import Holder

NUMBER = "number"
#: Prefix of the names of a log's tables, in the state of operators that also have others.
LOG = "log."
#: Saved tables of the indexes, also by time. They are valid only for exactly the saved rows. The
#: rows can be loaded without them.
INDEX_TABLES = frozenset({"parts", "entries", "words", "fences", TIMES, RUNS})
#: Most rows in a part. A part's index is sorted in memory at once, which limits its size.
PART_ROWS_MAX = 1 << 21
#: Bytes of a block on scratch, about the size of a part of a checkpoint.
_BLOCK_BYTES = 4 << 20
#: Rows that are compared at once.
_COMPARED_ROWS = 1 << 18
_MASK = pa.schema([("is_current", pa.bool_())])


class RowLog:
    """Stores rows of ``schema``, whose first column is the int64 ``NUMBER``.

    ``keys``: the columns that :meth:`find` compares. ``until``: an int64 column with each row's
    expiry time.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str] = (),
        until: str | None = None,
        holder: Holder | None = None,
        merged_rows: int | None = None,
    ) -> None:
        """``merged_rows``: parts are merged up to this size, if it is less than PART_ROWS_MAX."""
        assert schema.names[0] == NUMBER, schema.names
        self._merged_rows = merged_rows
        self._schema, self._keys, self._until = schema, tuple(keys), until
        self.holder = holder or UNLIMITED.holder()
        self._parts: list[LogPart] = []
        #: Whether new parts go to scratch.
        self._is_stored = False
        #: The number of the next row.
        self.next_number = 0
        #: Rows with smaller hashes were compared last; see :meth:`drop_replaced`.
        self._compared_until = 0
        #: Rows that expire at or before this time are treated as deleted.
        self._now: int = MIN_TIME

    @property
    def free_rows(self) -> int:
        """Number of current rows that are not held."""
        return sum(part.free for part in self._parts)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the log that are in memory."""
        total = 0
        for part in self._parts:
            total += 2 * part.rows + (0 if part.is_stored else part.nbytes)
            total += 0 if part.index is None else part.index.filter_bytes
        return total

    def append(
        self, batches: list[pa.RecordBatch], gone: Sequence[int] | np.ndarray, *, held: bool = True
    ) -> None:
        """Append rows, numbered from ``next_number``, and delete the rows numbered ``gone``."""
        rows = [batch for batch in batches if batch.num_rows]
        if not rows and not len(gone):
            return
        self._end(np.array(gone, np.int64))
        if rows:
            assert rows[0].column(0)[0].as_py() == self.next_number, self.next_number
            count = sum(batch.num_rows for batch in rows)
            self.next_number += count
            self._parts.append(self._part(rows, np.full(count, held)))
        parts = self._parts
        for k in range(len(parts) - 1, 0, -1):
            before, last = parts[k - 1], parts[k]
            rows_max = min(PART_ROWS_MAX, self._merged_rows or PART_ROWS_MAX)
            if before.rows <= 2 * last.rows and before.rows + last.rows <= rows_max:
                parts[k - 1 : k + 1] = self._merged([before, last])

    def drop_replaced(self, rows: int | None = None) -> None:
        """Delete rows whose key has a newer row. Call it only if no row is held.

        ``rows``: about how many rows to compare; each call continues with other hashes. None: all.
        """
        total = sum(part.rows for part in self._parts)
        if not total:
            return
        left, step = (
            HASHES * min(total if count is None else count, total) // total + 1
            for count in (rows, _COMPARED_ROWS)
        )
        while left > 0 and self._parts:  # ends: each round compares at least one hash
            low = self._compared_until
            high = min(low + min(step, left), HASHES)
            for part in self._parts:
                self._index_of(part)
            gone = replaced(self._parts, self._keys, low, high, self.holder)
            kept: list[LogPart] = []
            for part, at in zip(self._parts, gone, strict=True):
                part.end(at)
                kept += self._compacted(part)
            self._parts = kept
            left -= high - low
            self._compared_until = high % HASHES

    def find(self, columns: Sequence[pa.Array], *, hold: bool = True) -> list[pa.RecordBatch]:
        """Return the current rows of these keys that are not held, in any order.

        With ``hold`` they are held afterwards.
        """
        found = []
        for part, candidates, _, at in self._matches(columns):
            rows = np.flatnonzero(heads_of(at))
            if hold:
                part.hold(at[rows])
            found.append(candidates if len(rows) == len(at) else candidates.take(pa.array(rows)))
        return found

    def newest(
        self, columns: Sequence[pa.Array], names: Sequence[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """Yield each key's newest current row that is not held.

        Yields rows, with the columns ``names``, and the positions of their keys in ``columns``. A
        key that is in ``columns`` twice has its row twice.
        """
        names = None if names is None else [*self._keys, *names]
        for _, candidates, needle, _ in self._matches(columns, names, newest=True):
            rows = np.full(len(columns[0]), -1)
            rows[needle] = np.arange(len(needle))  # the last row of a part wins
            rows = rows[rows >= 0]
            yield candidates.take(pa.array(rows)), needle[rows]

    def look_up(self, columns: Sequence[pa.Array], name: str, missing: int) -> np.ndarray:
        """Return the int64 column ``name`` of the rows of :meth:`newest`.

        The result is int64[n], ``missing`` for a key without such a row.
        """
        values = np.full(len(columns[0]), missing, np.int64)
        for rows, needle in self.newest(columns, [name]):
            values[needle] = rows.column(name).to_numpy()
        return values

    def free_among(self, numbers: np.ndarray) -> np.ndarray:
        """Return which of these numbers belong to current rows that are not held, bool[n]."""
        free = [part.numbers(at) for part, at in self._free(numbers)]
        is_free: np.ndarray = np.isin(numbers, np.concatenate([np.empty(0, np.int64), *free]))
        return is_free

    def take(self, numbers: np.ndarray) -> list[pa.RecordBatch]:
        """Return the current rows with these numbers that are not held, and hold them."""
        batches = []
        for part, at in self._free(numbers):
            if len(at):
                part.hold(at)
                batches.append(part.take(at, self.holder))
        return batches

    def take_all(self) -> list[pa.RecordBatch]:
        """Return all current rows, and hold them."""
        for part in self._parts:
            part.hold_all(held=True)
        return self.current()

    def release(self) -> None:
        """Mark all rows as not held. If there is a budget, write all parts to scratch."""
        for part in self._parts:
            part.hold_all(held=False)
        if not self.holder.may_spill:
            return
        self._is_stored = True
        for part in self._parts:
            if not part.is_stored and part.nbytes >= self.holder.run_bytes_min:
                blocks = map(part.block, range(len(part.blocks)))
                part.move(*self._stored(blocks))

    def expire(self, now: int) -> None:
        """Drop the parts whose rows all expire at or before ``now``. A merge drops single rows."""
        self._now = now
        if any(part.last <= now for part in self._parts):
            self._parts = [part for part in self._parts if part.last > now]

    def current(self) -> list[pa.RecordBatch]:
        """Return all current rows."""
        return [rows for part in self._parts for rows in part.rest()]

    def masked(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """Return all rows, with these columns, and which of them are current. Makes no copies."""
        return (pair for part in self._parts for pair in part.masked(columns))

    def save(self) -> dict[str, pa.Table]:
        """Return all rows by reference, and the mask of current rows."""
        parts = self._parts
        masks = [pa.record_batch([pa.array(p.current)], schema=_MASK) for p in parts]
        blocks = [block for part in parts for block in part.blocks]
        tables = {
            "keys": pa.Table.from_batches(blocks, self._schema),
            "current": pa.Table.from_batches(masks, _MASK),
        }
        if not any(part.is_stored and part.index for part in parts):
            return tables
        indexes = [part.index if part.is_stored else None for part in parts]
        entries = [block for index in indexes if index for block in index.entries.blocks]
        words = [index.bloom.words for index in indexes if index]
        of_part = {
            "rows": [part.rows for part in parts],
            "words": [0 if index is None else len(index.bloom.words) for index in indexes],
            "last": [int(part.last) for part in parts],
            "fences": [len(part.fences[0]) for part in parts],
            "next": [self.next_number] * len(parts),
        }
        columns = {name: pa.array(values, pa.int64()) for name, values in of_part.items()}
        numbers, rows = joined_fences([part.fences for part in parts])
        return tables | {
            "parts": pa.table(columns),
            "fences": pa.table({"number": numbers, "row": rows}),
            "entries": pa.table({"entry": pa.chunked_array(entries, pa.uint64())}),
            "words": pa.table({"word": pa.chunked_array(words, pa.uint64())}),
        }

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the tables that ``save`` returned; no row is held. Call it only on a new log."""
        assert not self._parts, len(self._parts)
        mask = tables["current"].column(0).to_numpy()
        rows = tables["keys"].cast(self._schema)
        if "parts" in tables:
            self._load_parts(tables, rows, mask)
            return
        blocks = [block for block in rows.to_batches() if block.num_rows]
        for block in blocks:
            self.holder.verify(block)
        if blocks:
            self.next_number = int(blocks[-1].column(0)[-1].as_py()) + 1
        start = end = first = 0
        for k, block in enumerate(blocks):
            end += block.num_rows
            if k + 1 == len(blocks) or end - start >= PART_ROWS_MAX:
                held = np.zeros(end - start, bool)
                current = mask[start:end].copy()
                part = self._loaded(blocks[first : k + 1], current, held)
                self._parts += self._compacted(part)
                start, first = end, k + 1

    def _loaded(
        self,
        blocks: list[pa.RecordBatch],
        current: np.ndarray,
        held: np.ndarray,
        last: int | None = None,
        fences: Fences | None = None,
    ) -> LogPart:
        """Return a restored part. Its large blocks may be mapped from the checkpoint's files."""
        total = outside = 0
        for block in blocks:  # sizes, without reading rows
            nbytes = block.get_total_buffer_size()
            total += nbytes
            outside += 0 if self.holder.is_stored(block) else nbytes
        is_stored = outside < min(total, self.holder.run_bytes_min)
        return LogPart(
            blocks, current, held, self._until, last, is_stored, None, fences, self.holder.verify
        )

    def _load_parts(self, tables: Mapping[str, pa.Table], rows: pa.Table, mask: np.ndarray) -> None:
        """Restore parts with their saved indexes, without reading a row."""
        row = entry = word = fence = 0
        fences = tables.get("fences")
        for part in tables["parts"].to_pylist():
            count, words = part["rows"], part["words"]
            blocks = [b for b in rows.slice(row, count).to_batches() if b.num_rows]
            current = mask[row : row + count].copy()
            held = np.zeros(count, bool)
            known = None
            if fences is not None:
                some = fences.slice(fence, part["fences"])
                known = some["number"].to_numpy(), some["row"].to_numpy()
                fence += len(some)
            loaded = self._loaded(blocks, current, held, part["last"], known)
            row += count
            if words:
                chunks = tables["entries"].column(0).slice(entry, count).chunks
                bits = tables["words"].column(0).slice(word, words).to_numpy()
                bloom = BloomFilter(np.empty(0, np.uint64), bits)
                loaded.index = HashIndex([c.to_numpy() for c in chunks if len(c)], bloom)
                entry, word = entry + count, word + words
            self._parts.append(loaded)
        if "next" in tables["parts"].schema.names:
            self.next_number = part["next"]
        else:  # an older checkpoint
            self.next_number = int(self._parts[-1].numbers(np.array([count - 1]))[0]) + 1

    def _matches(
        self,
        columns: Sequence[pa.Array],
        names: Sequence[str] | None = None,
        *,
        newest: bool = False,
    ) -> Iterator[tuple[LogPart, pa.RecordBatch, np.ndarray, np.ndarray]]:
        """Yield each part with current rows of these keys that are not held.

        With each part: the positions of the rows' keys in ``columns``, and the rows' increasing
        positions in the part. A key that is in ``columns`` twice has its rows twice. ``newest``:
        only for each key the rows of the newest part with such rows, newest part first.
        """
        if not self.free_rows or not len(columns[0]):
            return
        columns = [plain_array(column) for column in columns]
        hashes, open_keys = hash_rows(columns), np.arange(len(columns[0]))
        for part in self.holder.read_once(self._parts[::-1] if newest else self._parts):
            if not part.free:
                continue
            needle, at = self._index_of(part).candidates(hashes[open_keys])
            is_free = part.current[at] & ~part.held[at]
            needle, at = open_keys[needle[is_free]], at[is_free]
            by_position = np.argsort(at, kind="stable")
            needle, at = needle[by_position], at[by_position]
            if not len(at):
                continue
            candidates, wanted = part.take(at, self.holder, names), pa.array(needle)
            keys = [plain_array(candidates.column(name)) for name in self._keys]
            same = equal_keys(keys, [column.take(wanted) for column in columns])
            if not same.all():
                candidates = candidates.filter(pa.array(same))
                needle, at = needle[same], at[same]
            if len(at):
                yield part, candidates, needle, at
            if newest:
                is_open = np.zeros(len(hashes), bool)
                is_open[open_keys] = True
                is_open[needle] = False
                open_keys = np.flatnonzero(is_open)

    def _index_of(self, part: LogPart) -> HashIndex:
        """Return the index of a part. It is built at its first use."""
        if part.index is None:
            store = self.holder.store if part.is_stored else list
            hashes = self.holder.read_once(part.hashes(self._keys))
            part.index = HashIndex.of(hashes, part.rows, store)
        return part.index

    def _free(self, numbers: np.ndarray) -> Iterator[tuple[LogPart, np.ndarray]]:
        """Yield each part, and its current, not held rows with these numbers, as positions."""
        for part, here in self.holder.read_once(self._split(np.unique(numbers))):
            at = part.positions(here)
            yield part, at[part.current[at] & ~part.held[at]]

    def _end(self, gone: np.ndarray) -> None:
        parts: list[LogPart] = []
        ended = {id(part): here for part, here in self._split(np.unique(gone))}
        for part in self.holder.read_once(self._parts):
            if id(part) not in ended:
                parts.append(part)
                continue
            part.end(part.positions(ended[id(part)]))
            parts += self._compacted(part)
        self._parts = parts

    def _split(self, numbers: np.ndarray) -> Iterator[tuple[LogPart, np.ndarray]]:
        """Yield each part that contains some of these sorted numbers, and these numbers."""
        if not self._parts:
            return
        firsts = np.array([part.first for part in self._parts])
        bounds = [*numbers.searchsorted(firsts).tolist(), len(numbers)]
        for part, (lo, hi) in zip(self._parts, itertools.pairwise(bounds), strict=True):
            if hi > lo:
                yield part, numbers[lo:hi]

    def _compacted(self, part: LogPart) -> list[LogPart]:
        """Return the part, or a new part if less than half of its rows are current.

        The result is empty if no row is current.
        """
        return self._merged([part]) if 2 * part.alive < part.rows else [part]

    def _merged(self, parts: Sequence[LogPart]) -> list[LogPart]:
        """Merge the current rows of parts into one part; empty if there are none."""
        for part in parts:
            if part.until is not None:
                part.current &= np.concatenate(part.times()) > self._now
        held = np.concatenate([part.held[part.current] for part in parts])
        if not len(held):
            return []
        return [self._part((rows for part in parts for rows in part.rest()), held)]

    def _part(self, batches: Iterable[pa.RecordBatch], held: np.ndarray) -> LogPart:
        current = np.ones(len(held), bool)
        if not self._is_stored:
            block = pa.concat_batches(batches)
            fences = fences_of(block.column(0).to_numpy(), 0)
            return LogPart([block], current, held, self._until, known_fences=fences)
        blocks, fences = self._stored(batches)
        return LogPart(blocks, current, held, self._until, is_stored=True, known_fences=fences)

    def _stored(self, batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], Fences]:
        """Write batches to scratch, a block per file, so that a lookup maps one block at most."""
        stored: list[pa.RecordBatch] = []
        fences: list[Fences] = []
        rows = 0
        for gathered in self._together(batches):
            block = pa.concat_batches(gathered)
            gathered.clear()
            fences.append(fences_of(block.column(0).to_numpy(), rows))
            rows += block.num_rows
            stored += self.holder.store([block])
        return stored, joined_fences(fences)

    def _together(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """Group batches by about the size of a block."""
        gathered: list[pa.RecordBatch] = []
        nbytes = 0
        for batch in batches:
            gathered.append(batch)
            nbytes += batch.nbytes
            if nbytes >= min(self.holder.piece_bytes, _BLOCK_BYTES):
                yield gathered
                gathered, nbytes = [], 0
        if gathered:
            yield gathered
