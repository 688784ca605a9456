"""The interface of destinations: rows and the delivery's progress become visible atomically.

A delivery reads one partition of an output and passes its rows to a :class:`Destination`. The
destination stores the delivery's progress, from which the delivery continues after any failure. So
each row is visible exactly once, in the order of its partition.

Invariants: (1) ``open`` fences every writer with a lower epoch: no later write of that writer
becomes visible; (2) written rows become visible with ``commit``, all together and with the
progress, or not at all; (3) the stored digest covers the delivered items, so recomputed rows that
differ are never delivered after them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from rstream.items.edges import identities, occurrences

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The column with the kind of a change; its values are those of Flink.
OP = "op"
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"
_OPS = (INSERT, UPDATE_AFTER, DELETE, UPDATE_BEFORE)


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """All items below ``next_seq`` were delivered; ``digest`` is the digest of these items."""

    next_seq: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class DeliveredRows:
    """Events of the items ``[first_seq, next_seq)`` as a table for users.

    ``seqs`` (int64): the sequence number of each row; CTIs have seqs too, but no row.
    """

    first_seq: int
    next_seq: int
    seqs: np.ndarray
    table: pa.RecordBatch
    #: Which rows of the table are ends, bool[n]: the same row was delivered before, when it
    #: started. None: every row is delivered once, with its end.
    ends: np.ndarray | None = None
    #: If there are ``ends``: start or end of each row, int64[n], us. Rows of one instant must be
    #: committed together.
    instants: np.ndarray | None = None

    def rows_within(self, first_seq: int, next_seq: int) -> np.ndarray:
        """Return the indices of the rows of the items ``[first_seq, next_seq)``, int64[k]."""
        return np.flatnonzero((self.seqs >= first_seq) & (self.seqs < next_seq))

    def is_end(self, at: int) -> bool:
        """Return whether a row of the table is an end."""
        if self.ends is not None:
            return bool(self.ends[at])
        names = self.table.schema.names
        return names[:1] == [OP] and self.table.column(0)[at].as_py() in (UPDATE_BEFORE, DELETE)

    def without(self, seqs: set[int]) -> DeliveredRows | None:
        """Return the rows without the rows of the items ``seqs``; None if no row remains."""
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
        """Return, for each row, the index of its partner in an update, int64[n]; -1: no partner.

        An end and a start of one key at one instant are an update: the n-th end of the key with the
        n-th start. Without a key there are no updates.
        """
        count = self.table.num_rows
        partners = np.full(count, -1, np.int64)
        if self.ends is None or self.instants is None or not key:
            return partners
        columns = [*(self.table.column(name) for name in key), pa.array(self.instants)]
        same = identities(columns, count)
        cell = np.empty(count, np.int64)
        for mask in (self.ends, ~self.ends):
            cell[mask] = same[mask] * (count + 1) + occurrences(same[mask])
        ends, begins = np.flatnonzero(self.ends), np.flatnonzero(~self.ends)
        _, of_ends, of_begins = np.intersect1d(
            cell[ends], cell[begins], assume_unique=True, return_indices=True
        )
        partners[ends[of_ends]] = begins[of_begins]
        partners[begins[of_begins]] = ends[of_ends]
        return partners

    def with_op(self, key: Sequence[str]) -> DeliveredRows:
        """Return the rows as changes to append, with :data:`OP` as first column."""
        ends = np.zeros(self.table.num_rows, bool) if self.ends is None else self.ends
        ops = pa.array(_OPS).take(pa.array(2 * ends + (self.partners(key) >= 0)))
        table = self.table.add_column(0, OP, ops)
        return replace(self, table=table, ends=None, instants=None)


class Destination(Protocol):
    """The writer of one partition. One thread calls it, and each call blocks for a limited time."""

    def open(self, epoch: int) -> DeliveryProgress | None:
        """Fence older writers; return the progress, None if nothing was committed yet.

        It may be called again after any error, with the same epoch or a later one. Rows that were
        written but not committed are discarded. It stores ``epoch``, so that a writer with a lower
        epoch is rejected later.

        Raises:
            DeliveryFencedError: a writer with a greater epoch has opened it.
        """

    def write(self, rows: DeliveredRows) -> None:
        """Accept the next rows; they are not visible yet."""

    def commit(self, progress: DeliveryProgress) -> None:
        """Make the written rows visible, together with ``progress``; there may be no rows.

        Raises:
            DeliveryFencedError: another writer has taken over; no row became visible.
            DeliveryUnknownError: the response was lost; ``open`` returns whether it succeeded.
        """

    def close(self) -> None:
        """Discard the rows that were not committed; idempotent."""
