"""int64 columns of rows with consecutive numbers, of which the first leave: a queue read by number.

The rows are in chunks. So appending never copies many rows, and chunks beyond the memory budget are
moved to scratch and read there one at a time (:mod:`rvertex.state.array_spill`).

Invariants: (1) numbers never change; (2) arrays that :meth:`Numbered.shared` returned never change:
a chunk is copied before the next write; (3) the time of a call is amortised in its rows, plus the
number of chunks that it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rvertex.state.memory import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rvertex.state.memory import StateMemory

_CAPACITY_MIN = 1 << 10
#: Rows of a full chunk. It must be large enough to be moved to scratch.
_CHUNK_ROWS = 1 << 18


class Numbered:
    """``columns`` int64 values per row; rows are numbered from 0."""

    def __init__(self, columns: int, memory: StateMemory = UNLIMITED) -> None:
        self._columns, self._memory = columns, memory
        self._chunks = [np.empty((columns, min(_CAPACITY_MIN, _CHUNK_ROWS)), np.int64)]
        self._is_shared = [False]
        #: The number of the first row of each chunk.
        self._starts = [0]
        #: The numbers of the first row and of the next one.
        self.first = self.next = 0

    def __len__(self) -> int:
        return self.next - self.first

    def append(self, values: Sequence[np.ndarray]) -> int:
        """Append rows, given by column; return the number of the first one."""
        first, count, at = self.next, len(values[0]), 0
        while at < count:  # ends: there is room after :meth:`_make_room`
            self._make_room(count - at)
            lo = self.next - self._starts[-1]
            chunk = self._chunks[-1]
            rows = min(chunk.shape[1] - lo, count - at)
            for column, whole in zip(chunk, values, strict=True):
                column[lo : lo + rows] = whole[at : at + rows]
            self.next += rows
            at += rows
        return first

    def renumber(self, first: int) -> None:
        """Give the first row this number."""
        moved = first - self.first
        self._starts = [start + moved for start in self._starts]
        self.first, self.next = first, self.next + moved

    def drop(self, rows: int) -> None:
        """Remove the first rows."""
        self.first += rows
        while len(self._chunks) > 1 and self._starts[1] <= self.first:
            del self._chunks[0], self._starts[0], self._is_shared[0]

    def read(self, column: int, lo: int, hi: int) -> np.ndarray:
        """Return the values of rows ``[lo, hi)`` in a column; valid until the next call."""
        start = self._starts[-1]
        if lo >= start:
            last: np.ndarray = self._chunks[-1][column, lo - start : hi - start]
            return last
        parts = [chunk[column, a:b] for chunk, a, b in self._within(lo, hi)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0, np.int64)])

    def get(self, column: int, numbers: np.ndarray) -> np.ndarray:
        """Return the values of rows in a column."""
        if len(self._chunks) == 1:
            one: np.ndarray = self._chunks[0][column, numbers - self._starts[0]]
            return one
        values = np.empty(len(numbers), np.int64)
        for i, at in self._by_chunk(numbers):
            values[at] = self._chunks[i][column, numbers[at] - self._starts[i]]
        return values

    def put(self, column: int, numbers: np.ndarray, values: np.ndarray) -> None:
        """Set the values of rows in a column; of a repeated number the last one."""
        if len(self._chunks) == 1 and len(numbers):
            self._own(0)
            self._chunks[0][column, numbers - self._starts[0]] = values
            return
        for i, at in self._by_chunk(numbers):
            self._own(i)
            self._chunks[i][column, numbers[at] - self._starts[i]] = values[at]

    def parts(self, column: int) -> Iterator[np.ndarray]:
        """Yield the values of all rows in a column; each part is valid until the next."""
        for chunk, a, b in self._within(self.first, self.next):
            yield chunk[column, a:b]
            self._memory.drop_pages()

    def below(self, column: int, value: int) -> int:
        """Return how many rows have values below ``value``, in a column in increasing order."""
        if len(self._chunks) == 1:
            return int(self.read(column, self.first, self.next).searchsorted(value))
        return sum(int(part.searchsorted(value)) for part in self.parts(column))

    def change(self, column: int, values_of: Callable[[np.ndarray], np.ndarray]) -> None:
        """Replace the values of all rows in a column."""
        for i, start in enumerate(self._starts):
            self._own(i)
            chunk = self._chunks[i][column]
            a, b = max(self.first - start, 0), min(self.next - start, len(chunk))
            chunk[a:b] = values_of(chunk[a:b])
            self._memory.drop_pages()

    def shared(self, column: int) -> list[np.ndarray]:
        """Return the values of all rows in a column, by reference."""
        self._is_shared = [True] * len(self._chunks)
        return [chunk[column, a:b] for chunk, a, b in self._within(self.first, self.next)]

    def _within(self, lo: int, hi: int) -> Iterator[tuple[np.ndarray, int, int]]:
        """Yield each chunk with rows of ``[lo, hi)``, and where these rows begin and end in it."""
        for chunk, start in zip(self._chunks, self._starts, strict=True):
            a, b = max(lo - start, 0), min(hi - start, chunk.shape[1])
            if a < b:
                yield chunk, a, b

    def _by_chunk(self, numbers: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each chunk's index, and which of ``numbers`` are in it. Skip other chunks."""
        chunk = np.searchsorted(self._starts, numbers, side="right") - 1
        for i in np.unique(chunk).tolist():
            yield i, np.flatnonzero(chunk == i)
            self._memory.drop_pages()

    def _own(self, i: int) -> None:
        """Copy a chunk that a snapshot shares, before it is changed."""
        if self._is_shared[i]:
            copy, self._is_shared[i] = self._chunks[i].copy(), False
            address = self._chunks[i].__array_interface__["data"][0]
            is_stored = self._memory.scratch.holds(address)
            self._chunks[i] = self._memory.store_array(copy) if is_stored else copy

    def _make_room(self, rows: int) -> None:
        """Make room for at least one of ``rows`` more rows."""
        start, capacity = self._starts[-1], self._chunks[-1].shape[1]
        if self.next + min(rows, _CHUNK_ROWS) <= start + capacity:
            return
        lo = max(self.first, start)
        held = self.next - lo
        if capacity < _CHUNK_ROWS or (self.next == start + capacity and held <= capacity // 4):
            size = min(max(_CAPACITY_MIN, 2 * (held + rows)), _CHUNK_ROWS)
            grown = np.empty((self._columns, size), np.int64)
            grown[:, :held] = self._chunks[-1][:, lo - start : self.next - start]
            self._chunks[-1], self._starts[-1], self._is_shared[-1] = grown, lo, False
        elif self.next == start + capacity:
            self._chunks.append(np.empty((self._columns, _CHUNK_ROWS), np.int64))
            self._starts.append(self.next)
            self._is_shared.append(False)
