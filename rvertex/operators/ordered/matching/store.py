"""A store of rows by number: the rows that searches keep, and the rows of the current run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.reorder_buffer import empty_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROWS_MIN = 4096


class RowStore:
    """Stores rows of ``schema``. Numbers increase, and are consecutive within the current run."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        #: Chunks of rows, merged like the digits of a binary counter.
        self._chunks: list[pa.RecordBatch] = []
        self._numbers = GroupArray(np.int64, 0)
        self._fresh = empty_batch(schema)
        self._first = 0
        self._kept = 0

    def begin(self, rows: pa.RecordBatch, first: int) -> None:
        """Add the rows of the current run; ``first`` is the number of its first row."""
        self._fresh, self._first = rows, first

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """Return the positions in :meth:`table` of the rows ``numbers``; -1 for the number -1."""
        known = self._numbers.read()
        places: np.ndarray = np.where(
            numbers >= self._first,
            len(known) + numbers - self._first,
            np.searchsorted(known, numbers),
        )
        return np.where(numbers < 0, -1, places)

    def table(self) -> pa.Table:
        """Return all rows, in order of their numbers."""
        return pa.Table.from_batches([*self._chunks, self._fresh], self._schema)

    def end(self, kept: np.ndarray) -> None:
        """End the current run. Keep its rows with the numbers ``kept``, ascending."""
        if len(kept):
            rows = self._fresh.take(pa.array(kept - self._first))
            count = len(self._numbers)
            self._numbers.writable(count + len(kept))[count:] = kept
            self._chunks.append(rows)
            while len(self._chunks) > 1 and (
                self._chunks[-2].num_rows <= 2 * self._chunks[-1].num_rows
            ):
                last = self._chunks.pop()
                self._chunks[-1] = pa.concat_batches([self._chunks[-1], last])
        self._first += self._fresh.num_rows
        self._fresh = empty_batch(self._schema)

    @property
    def is_crowded(self) -> bool:
        """Return whether many rows were added since :meth:`keep`, so it should be called again."""
        return len(self._numbers) > 2 * self._kept + _ROWS_MIN

    def keep(self, kept: np.ndarray) -> None:
        """Drop all rows except the numbers ``kept``, ascending. There must be no current run."""
        places = self._numbers.read().searchsorted(kept)
        table = pa.Table.from_batches(self._chunks, self._schema).take(pa.array(places))
        self._chunks = table.combine_chunks().to_batches()
        self._numbers.adopt(np.array(kept, np.int64))
        self._kept = len(kept)

    def save(self) -> dict[str, pa.Table]:
        """Return all rows, by reference."""
        return {
            "rows": pa.Table.from_batches(self._chunks, self._schema),
            "numbers": pa.table({"number": self._numbers.shared()}),
        }

    def restore(self, tables: Mapping[str, pa.Table], first: int) -> None:
        """Restore the state that ``save`` returned; ``first`` is the number of the next row."""
        self._chunks = tables["rows"].to_batches()
        self._numbers.adopt(numbers(as_one_array(tables["numbers"].column(0))))
        self._first = first
