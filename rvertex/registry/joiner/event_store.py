"""Primary rows by id: the newest in memory, older ones on scratch, both with an index of hashes.

The store is a cache of the primary log. A process that starts reads the log again, so the store
itself need not survive. Source: Photon 3.4, CacheEventStore in front of LogsEventStore.

Invariants: (1) a row is found from the call that adds it until :meth:`EventStore.expire` drops it;
(2) a row without an id is never found.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.types import MIN_TIME
from rvertex.state.memory import StateMemory
from rvertex.state.row_log import NUMBER, RowLog

if TYPE_CHECKING:
    from rvertex.state.scratch import Scratch

_UNTIL = "_until"


class EventStore:
    """Stores rows of ``payload``, found by the column ``on``."""

    def __init__(
        self, payload: pa.Schema, on: str, cache_bytes: int, scratch: Scratch | None = None
    ) -> None:
        self._payload, self._on, self._cache_bytes = payload, on, cache_bytes
        self._schema = pa.schema(
            [pa.field(NUMBER, pa.int64()), pa.field(_UNTIL, pa.int64()), *payload]
        )
        self._recent = RowLog(self._schema, (on,), _UNTIL)
        memory = StateMemory(cache_bytes, scratch)
        self._older = RowLog(self._schema, (on,), _UNTIL, memory.holder())
        self._older.release()  # rows on scratch take no memory from now on
        #: The newest time of each addition, and the log's number of its first row.
        self._added: deque[tuple[int, int]] = deque()
        #: Number of rows found in memory and on scratch, and of ids without a row.
        self.hits, self.disk_hits, self.misses = 0, 0, 0
        self.newest_us = int(MIN_TIME)
        self._below_us = int(MIN_TIME)

    @property
    def rows(self) -> int:
        """Number of rows; some may have expired."""
        return self._recent.free_rows + self._older.free_rows

    @property
    def first_seq(self) -> int | None:
        """Number, in the log, of the first row that has not expired; None: there is none."""
        return self._added[0][1] if self._added else None

    def add(self, first_seq: int, rows: pa.RecordBatch, times_us: np.ndarray) -> None:
        """Add rows from the log. ``times_us`` int64[rows], MIN_TIME where there is no time.

        A row without a time expires as if it had the newest time.
        """
        self.newest_us = max(self.newest_us, int(times_us.max()))
        times_us = np.where(times_us == MIN_TIME, self.newest_us, times_us)
        self._added.append((int(times_us.max()), first_seq))
        has_id = pc.is_valid(rows.column(self._on)).to_numpy(zero_copy_only=False)
        if not has_id.all():
            rows, times_us = rows.filter(pa.array(has_id)), times_us[has_id]
        self._append(self._recent, rows, times_us)
        if self._recent.memory_bytes > self._cache_bytes:
            moved = self._recent.current()
            for batch in moved:
                kept = pa.RecordBatch.from_arrays(batch.columns[2:], schema=self._payload)
                self._append(self._older, kept, batch.column(1).to_numpy())
            self._recent = RowLog(self._schema, (self._on,), _UNTIL)

    def find(self, ids: pa.Array) -> tuple[pa.RecordBatch, np.ndarray]:
        """Return rows, and for each id the position of its row in them, int64[ids]; -1: no row.

        If several rows have an id, memory is searched first, and the first row found is returned.
        """
        recent = self._rows_of(self._recent, ids)
        at = self._positions(ids, recent)
        missing = np.flatnonzero(at < 0)
        self.hits += len(ids) - len(missing)
        if not len(missing) or not self._older.free_rows:
            self.misses += len(missing)
            return recent, at
        rest = ids.take(pa.array(missing))
        older = self._rows_of(self._older, rest)
        found = self._positions(rest, older)
        self.disk_hits += int((found >= 0).sum())
        self.misses += int((found < 0).sum())
        at[missing] = np.where(found < 0, -1, found + recent.num_rows)
        return pa.concat_batches([recent, older]), at

    def expire(self, below_us: int) -> None:
        """Hide rows with earlier times; their memory is freed later.

        A successor reads the log again from :attr:`first_seq`, so it would not find them either.
        """
        self._below_us = max(below_us, int(MIN_TIME))
        self._recent.expire(below_us - 1)
        self._older.expire(below_us - 1)
        while len(self._added) > 1 and self._added[0][0] < below_us:
            self._added.popleft()

    def _append(self, log: RowLog, rows: pa.RecordBatch, times_us: np.ndarray) -> None:
        if rows.num_rows:
            numbers = np.arange(log.next_number, log.next_number + rows.num_rows)
            columns = [pa.array(numbers), pa.array(times_us), *rows.columns]
            log.append([pa.RecordBatch.from_arrays(columns, schema=self._schema)], (), held=False)

    def _rows_of(self, log: RowLog, ids: pa.Array) -> pa.RecordBatch:
        found = log.find([ids], hold=False)
        if not found:
            return pa.RecordBatch.from_pylist([], schema=self._payload)
        rows = pa.concat_batches(found).sort_by(NUMBER)
        rows = rows.filter(pc.greater_equal(rows.column(_UNTIL), self._below_us))
        return rows.select(self._payload.names)

    def _positions(self, ids: pa.Array, rows: pa.RecordBatch) -> np.ndarray:
        at = pc.index_in(ids, value_set=rows.column(self._on), skip_nulls=True)
        positions: np.ndarray = at.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return positions
