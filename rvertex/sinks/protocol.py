"""What a destination is: rows and the delivery's progress become visible in one atomic act.

A delivery reads one partition of an output and hands its rows to a :class:`Destination`. The
destination keeps how far the delivery is, so that after any failure the delivery goes on there:
each row is visible exactly once, in the order of its partition.

Invariants: (1) ``open`` fences every writer that was opened with a lesser epoch: nothing of it
becomes visible afterwards; (2) what was written becomes visible with ``commit``, all of it together
with the progress, or nothing; (3) the digest at the destination is that of what was delivered, so
rows that were computed differently are never delivered on top. Source: LIVE 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from rstream.items.edges import identities, occurrences

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The column with the kind of a change, and its values, as Flink writes them.
OP = "op"
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"
_OPS = (INSERT, UPDATE_AFTER, DELETE, UPDATE_BEFORE)


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """All items below ``next_seq`` were delivered; ``digest`` is the stream's over these items."""

    next_seq: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class DeliveredRows:
    """Events of the items ``[first_seq, next_seq)`` as a table that people read.

    ``seqs`` (int64): the sequence number of each row; CTIs have numbers too, but no row.
    """

    first_seq: int
    next_seq: int
    seqs: np.ndarray
    table: pa.RecordBatch
    #: Which rows of the table end, bool[n]: the same row came before, when it began. None: no row
    #: of this output ends later than it comes.
    ends: np.ndarray | None = None
    #: With ``ends``: when each row begins or ends, int64[n], us; an instant is never cut.
    instants: np.ndarray | None = None

    def rows_within(self, first_seq: int, next_seq: int) -> np.ndarray:
        """The numbers of the rows of the items ``[first_seq, next_seq)``, int64[k]."""
        return np.flatnonzero((self.seqs >= first_seq) & (self.seqs < next_seq))

    def is_end(self, at: int) -> bool:
        """Whether a row of the table ends."""
        if self.ends is not None:
            return bool(self.ends[at])
        names = self.table.schema.names
        return names[:1] == [OP] and self.table.column(0)[at].as_py() in (UPDATE_BEFORE, DELETE)

    def without(self, seqs: set[int]) -> DeliveredRows | None:
        """The rows that are not of the items ``seqs``; None if there are none."""
        kept = ~np.isin(self.seqs, np.fromiter(seqs, np.int64, len(seqs)))
        if kept.all():
            return self
        if not kept.any():
            return None
        return replace(
            self,
            seqs=self.seqs[kept],
            table=self.table.filter(pa.array(kept)),
            ends=None if self.ends is None else self.ends[kept],
            instants=None if self.instants is None else self.instants[kept],
        )

    def partners(self, key: Sequence[str]) -> np.ndarray:
        """Per row the one that it is an update with, int64[n]; -1: none.

        An end and a begin of one key at one instant are an update: the n-th end of the key there
        and the n-th begin. Without a key nothing is.
        """
        count = self.table.num_rows
        found = np.full(count, -1, np.int64)
        if self.ends is None or self.instants is None or not key:
            return found
        columns = [*(self.table.column(name) for name in key), pa.array(self.instants)]
        same = identities(columns, count)
        cell = np.empty(count, np.int64)
        for mask in (self.ends, ~self.ends):
            cell[mask] = same[mask] * (count + 1) + occurrences(same[mask])
        ends, begins = np.flatnonzero(self.ends), np.flatnonzero(~self.ends)
        _, of_ends, of_begins = np.intersect1d(
            cell[ends], cell[begins], assume_unique=True, return_indices=True
        )
        found[ends[of_ends]] = begins[of_begins]
        found[begins[of_begins]] = ends[of_ends]
        return found

    def with_op(self, key: Sequence[str]) -> DeliveredRows:
        """The rows behind a column :data:`OP`, to be appended."""
        ends = np.zeros(self.table.num_rows, bool) if self.ends is None else self.ends
        ops = pa.array(_OPS).take(pa.array(2 * ends + (self.partners(key) >= 0)))
        table = self.table.add_column(0, OP, ops)
        return replace(self, table=table, ends=None, instants=None)


class Destination(Protocol):
    """One partition's place at a destination. One thread calls it; each call may wait, bounded."""

    def open(self, epoch: int) -> DeliveryProgress | None:
        """Fence older writers; how far the delivery is, None if nothing was committed yet.

        May be called again after any error, with the same epoch or a later one; what was written
        before and not committed is given up. Keeps ``epoch``, so that a writer of a lesser one
        that comes later is refused.

        Raises:
            DeliveryFencedError: a writer of a greater epoch has been here.
        """

    def write(self, rows: DeliveredRows) -> None:
        """Take rows that follow those before; not visible yet."""

    def commit(self, progress: DeliveryProgress) -> None:
        """Make what was written visible, together with ``progress``; there may be no rows.

        Raises:
            DeliveryFencedError: another writer has taken over; nothing of this became visible.
            DeliveryUnknownError: the answer was lost; ``open`` again tells which of both happened.
        """

    def close(self) -> None:
        """Give up what was not committed; idempotent."""
