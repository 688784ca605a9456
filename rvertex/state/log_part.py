"""A part of a log of rows: blocks, which rows are current, and an index of their keys."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.hashing import hash_rows
from rstream.types import INF_TIME
from rvertex.state.hash_index import (
    ROW_BITS,
    HashIndex,
    by_block,
    equal_keys,
    in_this_order,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rvertex.state.memory import Holder

#: A fence is the number of a row; there is one for at least each of this number of rows.
FENCE_ROWS = 1 << 13
_FIRST = np.zeros(1, np.int64)
#: Numbers of rows, ascending, and the positions of these rows, int64[n] each.
Fences = tuple[np.ndarray, np.ndarray]


def fences_of(numbers: np.ndarray, position: int) -> Fences:
    """Return the fences of rows with these numbers; the first row is at ``position``."""
    at = np.arange(0, len(numbers), FENCE_ROWS)
    return numbers[at], at + position


def joined_fences(fences: Sequence[Fences]) -> Fences:
    """Return the fences of parts with consecutive rows as one pair of arrays."""
    numbers, positions = zip(*fences, strict=True)
    return np.concatenate(numbers), np.concatenate(positions)


@dataclass(slots=True)
class LogPart:
    """Blocks of rows, with masks of the current and of the held rows.

    Masks are changed in place.
    """

    blocks: list[pa.RecordBatch]
    current: np.ndarray
    held: np.ndarray
    #: The column of expiry times; and the greatest expiry time, if it is known.
    until: str | None = None
    known_last: int | None = None
    is_stored: bool = False
    index: HashIndex | None = None
    #: The first row has a fence. None: the first row of each block has one.
    known_fences: Fences | None = None
    #: Verifies a block before its first use; see :mod:`rvertex.state.unverified`.
    verify: Callable[..., None] | None = None
    last: int = field(init=False, default=INF_TIME)
    fences: Fences = field(init=False)
    #: The position of the first row of each block, and the end of the last block.
    starts: np.ndarray = field(init=False)
    #: The number of current rows, and of free rows: current rows that no reader holds.
    alive: int = field(init=False)
    free: int = field(init=False)

    def __post_init__(self) -> None:
        self.starts = np.cumsum([0, *(block.num_rows for block in self.blocks)])
        if self.known_fences is not None:
            self.fences = self.known_fences
        else:
            blocks = (self.block(k, rows=_FIRST) for k in range(len(self.blocks)))
            firsts = [block.column(0)[0].as_py() for block in blocks]
            self.fences = np.array(firsts, np.int64), self.starts[:-1]
        if self.known_last is not None:
            self.last = self.known_last
        elif self.until is not None:
            self.last = max(int(times.max()) for times in self.times())
        self.alive = int(np.count_nonzero(self.current))
        self.free = int(np.count_nonzero(self.current & ~self.held))

    @property
    def rows(self) -> int:
        return len(self.current)

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks)

    @property
    def first(self) -> int:
        """The number of the first row."""
        return int(self.fences[0][0])

    def block(
        self, k: int, names: Sequence[str] | None = None, rows: np.ndarray | None = None
    ) -> pa.RecordBatch:
        """Return these columns of block ``k``, after a check if it is mapped from a file.

        If ``rows`` is given, only these rows are checked. Do not use the others.
        """
        block = self.blocks[k] if names is None else self.blocks[k].select(names)
        if self.verify is not None:
            self.verify(block, rows)
        return block

    def _numbers(self, k: int) -> np.ndarray:
        if self.verify is not None:
            self.verify(self.blocks[k].select([0]))
        numbers: np.ndarray = self.blocks[k].column(0).to_numpy()
        return numbers

    def move(self, blocks: list[pa.RecordBatch], fences: Fences) -> None:
        """Replace the blocks by equal rows on scratch. The next lookup builds the index again."""
        self.blocks, self.known_fences, self.index, self.is_stored = blocks, fences, None, True
        self.__post_init__()

    def times(self) -> list[np.ndarray]:
        """Return the expiry times of each block."""
        assert self.until is not None
        blocks = (self.block(k, [self.until]) for k in range(len(self.blocks)))
        return [block.column(0).to_numpy() for block in blocks]

    def hold(self, at: np.ndarray) -> None:
        """Hold the free rows at these distinct positions."""
        self.held[at] = True
        self.free -= len(at)

    def hold_all(self, *, held: bool) -> None:
        """Hold all rows, or none."""
        self.held[:] = held
        self.free = 0 if held else self.alive

    def end(self, at: np.ndarray) -> None:
        """Delete the rows at these distinct positions."""
        ended = at[self.current[at]]
        self.alive -= len(ended)
        self.free -= int(np.count_nonzero(~self.held[ended]))
        self.current[ended] = False

    def positions(self, numbers: np.ndarray) -> np.ndarray:
        """Return the positions of the rows with these sorted numbers; skip numbers without a row.

        No number may be below the part's first number.
        """
        known, rows = self.fences
        fence = known.searchsorted(numbers, side="right") - 1
        ends = np.append(rows[1:], self.rows)[fence]
        low, high = (self.starts.searchsorted(x, side="right") - 1 for x in (rows[fence], ends - 1))
        positions = [np.empty(0, np.int64)]
        while len(numbers):  # ends: the rows between two fences are in a few blocks
            for k, local in by_block(low):
                of_block = self._numbers(k)
                inside = of_block.searchsorted(numbers[local])
                is_row = of_block.take(inside, mode="clip") == numbers[local]
                positions.append(self.starts[k] + inside[is_row])
            more = low < high
            numbers, low, high = numbers[more], low[more] + 1, high[more]
        found = np.concatenate(positions)
        found.sort()
        return found

    def take(
        self, at: np.ndarray, holder: Holder, names: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """Return the rows at increasing positions."""
        block = self.starts.searchsorted(at, side="right") - 1
        parts = []
        for k, local in holder.read_once(by_block(block)):
            rows = at[local] - self.starts[k]
            parts.append(self.block(k, names, rows).take(pa.array(rows)))
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def numbers(self, at: np.ndarray) -> np.ndarray:
        """Return the numbers of the rows at increasing positions."""
        block = self.starts.searchsorted(at, side="right") - 1
        parts = [self._numbers(k)[at[local] - self.starts[k]] for k, local in by_block(block)]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def masked(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """Yield each block with these columns, and which of its rows are current."""
        for k, (lo, hi) in enumerate(itertools.pairwise(self.starts)):
            yield self.block(k, columns), self.current[lo:hi]

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the current rows, block by block."""
        for block, mask in self.masked(self.blocks[0].schema.names):
            kept = block if mask.all() else block.filter(pa.array(mask))
            if kept.num_rows:
                yield kept

    def hashes(self, keys: Sequence[str]) -> Iterator[np.ndarray]:
        """Yield the hashes of all rows by their keys, uint64[n] for each block."""
        for k in range(len(self.blocks)):
            yield hash_rows(self.block(k, keys).columns)


def replaced(
    parts: Sequence[LogPart], names: Sequence[str], low: int, high: int, holder: Holder
) -> list[np.ndarray]:
    """Return the positions of each part's current rows whose key has a newer current row.

    Only rows are compared whose hash, as in the index, is from ``low`` to ``high``, exclusive.
    ``parts``: the oldest first; all have an index. ``names``: the columns of the key.
    """
    entries = []
    for part in holder.read_once(parts):
        assert part.index is not None
        here = part.index.between(low, high)
        entries.append(here[part.current[rows_of(here)]])
    bounds = np.cumsum([0, *map(len, entries)])
    joined = np.concatenate(entries)
    order, rows = in_this_order(joined), rows_of(joined)
    order.sort()
    hashes = order >> ROW_BITS
    repeats = np.flatnonzero(hashes[1:] == hashes[:-1])
    shared = np.zeros(len(hashes), bool)
    shared[repeats] = shared[repeats + 1] = True
    hashes, members = hashes[shared], rows_of(order[shared])
    if not len(members):
        return [members] * len(parts)
    keys = _keys_at(parts, names, rows, members, bounds, holder)
    is_old = np.zeros(len(rows), bool)
    at, distance = np.arange(len(members)), 1
    while len(at := at[at < len(members) - distance]):  # ends: the distance grows
        at = at[hashes[at] == hashes[at + distance]]
        pair = [keys.take(pa.array(side)).columns for side in (at, at + distance)]
        same = equal_keys(*pair)
        is_old[members[at[same]]] = True
        at, distance = at[~same], distance + 1
    return [rows[lo:hi][is_old[lo:hi]] for lo, hi in itertools.pairwise(bounds.tolist())]


def _keys_at(
    parts: Sequence[LogPart],
    names: Sequence[str],
    rows: np.ndarray,
    members: np.ndarray,
    bounds: np.ndarray,
    holder: Holder,
) -> pa.RecordBatch:
    """Return the keys of ``rows[members]``; ``bounds``: the first row of each part in ``rows``."""
    of_part = bounds.searchsorted(members, side="right") - 1
    # A plain sort of packed integers takes a third of the time of a sort by two columns
    packed = of_part.astype(np.uint64) << ROW_BITS | rows[members].view(np.uint64)
    packed = packed << ROW_BITS | np.arange(len(members), dtype=np.uint64)
    packed.sort()
    in_order = rows_of(packed)
    place = np.empty(len(members), np.int64)
    place[in_order] = np.arange(len(members))
    of_part = of_part[in_order]
    batches = [
        parts[k].take(rows[members[in_order[of]]], holder, names) for k, of in by_block(of_part)
    ]
    return pa.concat_batches(batches).take(pa.array(place))
