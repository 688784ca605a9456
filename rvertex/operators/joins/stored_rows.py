"""Rows of a restored checkpoint, read where they are.

A checkpoint of a join may be larger than memory, and is mapped from its files. So a restore copies
numbers only: the payload stays in the batches of the checkpoint, and the next checkpoint finds them
unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.dictionaries import join_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class StoredRows:
    """Rows in a list of batches: row i is row ``at[i]``, counted from the first batch.

    ``select`` and ``take`` work as in a record batch.
    """

    __slots__ = ("_at", "_starts", "batches", "names")

    def __init__(
        self, batches: Sequence[pa.RecordBatch], at: np.ndarray, names: Sequence[str]
    ) -> None:
        """``names``: the columns that are read; the batches may have more."""
        self.batches, self._at, self.names = batches, at, names
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)])

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self._at)

    @property
    def nbytes(self) -> int:
        """Bytes of the batches, with rows that are not read any more."""
        return int(self._at.nbytes) + sum(int(batch.nbytes) for batch in self.batches)

    def select(self, names: Sequence[str]) -> StoredRows:
        """The same rows with fewer columns."""
        return StoredRows(self.batches, self._at, names)

    def ordered(self, order: np.ndarray) -> StoredRows:
        """Return the rows in this order, without a copy."""
        return StoredRows(self.batches, self._at.take(order), self.names)

    def moved(
        self,
        batches: Callable[[pa.RecordBatch], pa.RecordBatch],
        array: Callable[[np.ndarray], np.ndarray],
    ) -> StoredRows:
        """Return the same rows in equal batches, which these functions return."""
        return StoredRows([batches(batch) for batch in self.batches], array(self._at), self.names)

    def take(self, rows: pa.Array) -> pa.RecordBatch:
        """A copy of these rows, none of which is null."""
        if len(rows) == 0:
            return self.batches[0].select(self.names).slice(0, 0)
        at = self._at.take(rows.to_numpy())
        batch = np.searchsorted(self._starts, at, side="right") - 1
        order = np.argsort(batch, kind="stable")
        sorted_batch = batch.take(order)
        heads = np.flatnonzero(np.diff(sorted_batch, prepend=-1))
        parts = []
        for lo, hi in zip(heads, [*heads[1:], len(at)], strict=True):
            number = int(sorted_batch[lo])
            local = at.take(order[lo:hi]) - self._starts[number]
            parts.append(self.batches[number].select(self.names).take(pa.array(local)))
        place = np.empty(len(at), np.int64)
        place[order] = np.arange(len(at))
        return join_batches(parts).take(pa.array(place))

    def whole(self) -> pa.RecordBatch:
        """A copy of all rows."""
        return self.take(pa.array(np.arange(len(self._at))))
