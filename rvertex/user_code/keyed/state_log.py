"""A log of rows that replace and end each other, saved by reference.

Every row has a number, given in the order of writing; who writes a newer row in place of it, or
none, names the number as gone. Batches are merged as they grow, like the digits of a binary
counter, and a batch of which half is gone is written anew.

Invariants: (1) the numbers rise within a batch and from batch to batch, and no two rows that are
current have one; (2) rows that are gone are at most half of each batch after ``append`` and
``load``, so no batch is without current rows, however a snapshot was cut meanwhile; (3) batches
without a change are the same in the next snapshot, where only a mask says which rows are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBER = "number"
_MASK = pa.schema([("is_current", pa.bool_())])


@dataclass(frozen=True, slots=True)
class _Part:
    """A batch, and which of its rows are current (the mask changes in place)."""

    batch: pa.RecordBatch
    current: np.ndarray

    @property
    def numbers(self) -> np.ndarray:
        return self.batch.column(0).to_numpy()  # type: ignore[no-any-return]

    @property
    def rows(self) -> int:
        return len(self.current)

    def rest(self) -> pa.RecordBatch:
        """The current rows."""
        return self.batch if self.current.all() else self.batch.filter(pa.array(self.current))


class RowLog:
    """Rows of ``schema``, whose first column is the int64 ``NUMBER``."""

    def __init__(self, schema: pa.Schema) -> None:
        assert schema.names[0] == NUMBER, schema.names
        self._schema = schema
        self._parts: list[_Part] = []
        #: Of the next row.
        self.next_number = 0

    def append(self, batches: list[pa.RecordBatch], gone: list[int]) -> None:
        """Add rows, which are numbered from ``next_number``; rows ``gone`` are current no more."""
        self._end(np.array(gone, np.int64))
        rows = [batch for batch in batches if batch.num_rows]
        if rows:
            batch = pa.concat_batches(rows)
            assert batch.column(0)[0].as_py() == self.next_number, self.next_number
            self.next_number += batch.num_rows
            self._parts.append(_whole(batch))
        parts = self._parts
        for k in range(len(parts) - 1, 0, -1):
            if parts[k - 1].rows <= 2 * parts[k].rows:
                both = [parts[k - 1].rest(), parts[k].rest()]
                parts[k - 1 : k + 1] = [_whole(pa.concat_batches(both))]

    def save(self) -> dict[str, pa.Table]:
        """All rows, by reference, and which of them are current."""
        masks = [pa.record_batch([pa.array(p.current)], schema=_MASK) for p in self._parts]
        return {
            "keys": pa.Table.from_batches([p.batch for p in self._parts], self._schema),
            "current": pa.Table.from_batches(masks, _MASK),
        }

    def load(self, rows: pa.Table, current: pa.Table) -> Iterator[pa.RecordBatch]:
        """Take over what ``save`` returned; gives the current rows. Only called on a new log."""
        assert not self._parts, len(self._parts)
        mask = current.column(0).to_numpy()
        start = 0
        for batch in rows.cast(self._schema).to_batches():
            given = _Part(batch, mask[start : start + batch.num_rows].copy())
            start += batch.num_rows
            if given.rows:
                self.next_number = int(given.numbers[-1]) + 1
            part = _compacted(given)
            if part.rows:
                self._parts.append(part)
                yield part.rest()

    def _end(self, gone: np.ndarray) -> None:
        if not len(gone):
            return
        for k, part in enumerate(self._parts):
            numbers = part.numbers
            here = gone[(gone >= numbers[0]) & (gone <= numbers[-1])]
            if len(here):
                part.current[numbers.searchsorted(here)] = False
                self._parts[k] = _compacted(part)
        self._parts = [part for part in self._parts if part.rows]


def _compacted(part: _Part) -> _Part:
    """The part, or its current rows where they are less than half."""
    return _whole(part.rest()) if 2 * int(part.current.sum()) < part.rows else part


def _whole(batch: pa.RecordBatch) -> _Part:
    return _Part(batch, np.ones(batch.num_rows, bool))
