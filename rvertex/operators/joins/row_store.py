"""An append-only store of rows, read by row number.

Invariants: (1) numbers increase by one, from 0; (2) a batch is more than twice as long as the next
one, unless both together exceed _JOINED_BYTES. So there are few batches, and appending takes
amortised time in the new rows (times a logarithm); (3) batches are never changed, so a table of
them needs no copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VS, int64_column
from rstream.items.dictionaries import join_batches
from rvertex.events.reorder_buffer import empty_batch

if TYPE_CHECKING:
    from rvertex.state.memory import Holder

_GROWTH = 2
#: Batches are joined up to this size: a join of larger ones copies more than it saves.
_JOINED_BYTES = 32 << 20
#: Smaller parts of batches on scratch stay in memory: they are joined with others.
_STORED_BYTES = 8 << 20


class RowStore:
    """Stores events of ``schema`` (with ``_vs``)."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        #: The number of the first row of each batch; the last entry is the next row's number.
        self._starts = [0]

    def __len__(self) -> int:
        return self._starts[-1]

    def add(self, rows: pa.RecordBatch) -> np.ndarray:
        """Append rows; return their numbers."""
        first = len(self)
        if rows.num_rows:
            self._batches.append(rows)
            self._starts.append(first + rows.num_rows)
            while len(self._batches) > 1 and self._is_short(-2):
                self._batches[-2:] = [join_batches(self._batches[-2:])]
                del self._starts[-2]
        return np.arange(first, len(self))

    def take(self, numbers: np.ndarray, holder: Holder | None = None) -> pa.RecordBatch:
        """Return the rows of ``numbers``; all columns null for a negative number.

        ``holder``: its pages of scratch files may be dropped between batches.
        """
        missing = numbers < 0
        if len(self._batches) <= 1:
            only = self._batches[0] if self._batches else empty_batch(self._schema)
            return only.take(pa.array(numbers, mask=missing))
        batch = np.searchsorted(self._starts, numbers, side="right") - 1
        pieces, place, count = [], np.zeros(len(numbers), np.int64), 0
        used = np.unique(batch[~missing]).tolist()
        for at in holder.read_once(used) if holder else used:
            of = np.flatnonzero(batch == at)
            pieces.append(self._batches[at].take(pa.array(numbers[of] - self._starts[at])))
            place[of] = count + np.arange(len(of))
            count += len(of)
        whole = join_batches(pieces) if pieces else empty_batch(self._schema)
        return whole.take(pa.array(place, mask=missing))

    def times(self, numbers: np.ndarray) -> np.ndarray:
        """Return ``_vs`` of the rows ``numbers``, none of which is negative."""
        if len(self._batches) == 1:
            only: np.ndarray = int64_column(self._batches[0], VS)[numbers]
            return only
        out = np.empty(len(numbers), np.int64)
        batch = np.searchsorted(self._starts, numbers, side="right") - 1
        for at in np.unique(batch).tolist():
            of = batch == at
            out[of] = int64_column(self._batches[at], VS)[numbers[of] - self._starts[at]]
        return out

    def only(self, is_kept: np.ndarray, holder: Holder) -> RowStore:
        """Return a store of some of the rows; ``is_kept``: by number.

        Rows of batches on scratch are written to scratch again.
        """
        kept, nbytes = RowStore(self._schema), 0
        parts: list[pa.RecordBatch] = []
        for batch, lo in holder.read_once(zip(self._batches, self._starts, strict=False)):
            mask = is_kept[lo : lo + batch.num_rows]
            part = batch if mask.all() else batch.filter(pa.array(mask))
            if part.nbytes >= _STORED_BYTES and part is not batch and holder.is_stored(batch):
                (part,) = holder.store([part])
            nbytes += part.nbytes
            if parts and nbytes > _JOINED_BYTES:
                kept.add(join_batches(parts))
                parts, nbytes = [], part.nbytes
            parts.append(part)
        if parts:
            kept.add(join_batches(parts))
        return kept

    def table(self) -> pa.Table:
        """Return all rows, by reference."""
        return pa.Table.from_batches(self._batches, self._schema)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return sum(int(batch.nbytes) for batch in self._batches)

    def _is_short(self, at: int) -> bool:
        before, after = self._batches[at], self._batches[at + 1]
        if before.num_rows > _GROWTH * after.num_rows:
            return False
        return bool(before.nbytes + after.nbytes <= _JOINED_BYTES)
