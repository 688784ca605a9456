"""The rows of each key that later frames may have.

Rows are numbered in row order, and each refers to the previous row of its key. So the rows of a key
are found by following these references from its last row, at most as far as a frame reaches.

Invariants: (1) rows that no frame can reach are dropped once they are as many as the others; (2) a
step takes amortised time in its rows and the rows it finds; (3) snapshots are by reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.lifetime import moved
from rvertex.events.reorder_buffer import empty_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROWS_MIN = 1024
#: Most references to follow per key; for longer chains all rows are scanned instead.
_STEPS_MAX = 64


class History:
    """Stores rows of ``schema``.

    ``reach``: length of the longest frame, in rows of a key or in us.
    """

    def __init__(self, schema: pa.Schema, *, rows: bool, reach: int) -> None:
        self._schema = schema
        self._rows, self._reach = rows, reach
        #: Chunks, merged like the digits of a binary counter.
        self._chunks: list[pa.RecordBatch] = []
        #: By row: its key, its start, and the number of the previous row of its key.
        self._key = GroupArray(np.int64, -1)
        self._time = GroupArray(np.int64, 0)
        self._before = GroupArray(np.int64, -1)
        #: By key: the number of its last row.
        self._last = GroupArray(np.int64, -1)
        self._kept = 0

    def __len__(self) -> int:
        return len(self._key)

    def before(self, codes: np.ndarray, time: int) -> tuple[pa.RecordBatch, np.ndarray]:
        """Return the stored rows that windows of later rows may contain, and the rows' keys.

        Only rows of the keys ``codes``, in row order. The later rows begin at ``time``.
        """
        known = np.unique(codes)
        known = known[known < len(self._last)]
        found = self._walked(known, self._first_time(time))
        if len(found) == 0:
            return empty_batch(self._schema), found
        found.sort()
        table = pa.Table.from_batches(self._chunks).take(pa.array(found)).combine_chunks()
        (rows,) = table.to_batches()
        return rows, self._key.read()[found]

    def add(self, rows: pa.RecordBatch, codes: np.ndarray, keys: int) -> None:
        """Add rows, of keys below ``keys``."""
        first, n = len(self), rows.num_rows
        by_key = np.argsort(codes, kind="stable")
        key, number = codes[by_key], first + by_key
        last = self._last.writable(keys)
        heads = np.append(True, key[1:] != key[:-1])
        before = np.empty(n, np.int64)
        before[by_key] = np.where(heads, last[key], np.append(-1, number[:-1]))
        ends = np.append(heads[1:], True)
        last[key[ends]] = number[ends]
        self._before.writable(first + n)[first:] = before
        self._key.writable(first + n)[first:] = codes
        self._time.writable(first + n)[first:] = int64_column(rows, VS)
        self._chunks.append(rows)
        self._merge_chunks()

    def forget(self, is_crowded: bool) -> np.ndarray | None:
        """Drop rows that no frame can reach, if there are many, or if there are many keys.

        Returns the keys that are kept, ascending, to be renumbered. None: all keys are unchanged.
        """
        if len(self) <= 2 * self._kept + _ROWS_MIN and not is_crowded:
            return None
        times = self._time.read()
        keys = np.arange(len(self._last))
        first = self._first_time(int(times[-1])) if len(times) else None
        if first is None:
            kept = np.sort(self._walked(keys, None))
        else:
            kept = np.arange(int(times.searchsorted(first)), len(times))
        keys, key = np.unique(self._key.read()[kept], return_inverse=True)
        table = pa.Table.from_batches(self._chunks, self._schema).take(pa.array(kept))
        time = times[kept]
        self._chunks = []
        for array in (self._key, self._time, self._before, self._last):
            array.adopt(np.empty(0, np.int64))
        for batch in table.combine_chunks().to_batches():
            self.add(batch, key.astype(np.int64), len(keys))
        assert np.array_equal(self._time.read(), time), "rows keep their order"
        self._kept = len(kept)
        return keys

    def save(self) -> dict[str, pa.Table]:
        """Return all rows, by reference."""
        columns = {"key": self._key, "time": self._time, "before": self._before}
        return {
            "held": pa.Table.from_batches(self._chunks, self._schema),
            "links": pa.table({name: column.shared() for name, column in columns.items()}),
            "last": pa.table({"row": self._last.shared()}),
        }

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned."""
        self._chunks = tables["held"].to_batches()
        self._merge_chunks()
        columns = {"key": self._key, "time": self._time, "before": self._before}
        for name, column in columns.items():
            column.adopt(numbers(as_one_array(tables["links"].column(name))))
        self._last.adopt(numbers(as_one_array(tables["last"].column(0))))

    def _first_time(self, time: int) -> int | None:
        """Return the earliest start in frames of rows from ``time`` on.

        None if ``reach`` counts rows.
        """
        return None if self._rows else int(moved(np.array([time]), -self._reach)[0])

    def _walked(self, keys: np.ndarray, first_time: int | None) -> np.ndarray:
        """Return the rows of ``keys`` within reach, by following references, in any order."""
        times, before = self._time.read(), self._before.read()
        steps = self._reach if first_time is None else _STEPS_MAX
        row = self._last.read()[keys]
        found: list[np.ndarray] = []
        for _ in range(steps):
            row = row[row >= 0]
            if first_time is not None:
                row = row[times[row] >= first_time]
            if len(row) == 0:
                break
            found.append(row)
            row = before[row]
        else:
            if first_time is not None:
                return self._scanned(keys, first_time)
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _scanned(self, keys: np.ndarray, first_time: int) -> np.ndarray:
        """Return the same rows as :meth:`_walked`, by a scan of all rows since ``first_time``."""
        start = int(self._time.read().searchsorted(first_time))
        is_wanted = np.zeros(len(self._last), bool)
        is_wanted[keys] = True
        return start + np.flatnonzero(is_wanted[self._key.read()[start:]])

    def _merge_chunks(self) -> None:
        while len(self._chunks) > 1 and self._chunks[-2].num_rows <= 2 * self._chunks[-1].num_rows:
            last = self._chunks.pop()
            self._chunks[-1] = pa.concat_batches([self._chunks[-1], last])
