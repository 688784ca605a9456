"""A buffer of left events of an as-of join, with the matches known so far.

Invariants: (1) events are numbered from 0 by order of start, and ``first`` is the number of the
earliest buffered event; (2) a snapshot is by reference, so the next change of a match copies the
numbers of the matches (24 bytes per event, not the rows); (3) a release takes time in the released
events.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from rstream.items.batch import KIND, SEQ, VS, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.reorder_buffer import empty_batch

_VS, _BEFORE, _AFTER = 0, 1, 2


class WaitingRows:
    """Left events in order of start, with the numbers of their matches; -1: none."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: deque[pa.RecordBatch] = deque()
        self._known = np.empty((3, 1 << 10), np.int64)
        self._head = self._tail = 0
        self._is_shared = False
        #: Number of the earliest buffered event.
        self.first = 0

    def __len__(self) -> int:
        return self._tail - self._head

    def push(self, events: pa.RecordBatch, before: np.ndarray, after: np.ndarray) -> int:
        """Add events, none earlier than the buffered events; return the first one's number."""
        first, n = self.first + len(self), events.num_rows
        if n:
            self._make_room(n)
            new = slice(self._tail, self._tail + n)
            self._known[_VS, new] = int64_column(events, VS)
            self._known[_BEFORE, new], self._known[_AFTER, new] = before, after
            self._tail += n
            self._rows.append(events)
        return first

    def follow(self, events: np.ndarray, numbers: np.ndarray) -> None:
        """Set the match after each of these buffered events."""
        if len(events):
            self._own()
            self._known[_AFTER, events - self.first + self._head] = numbers

    def release(self, until: int) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
        """Remove and return the events that start before ``until`` (INF_TIME: all events)."""
        held = self._known[_VS, self._head : self._tail]
        n = len(held) if until == INF_TIME else int(held.searchsorted(max(until, MIN_TIME)))
        leaving = slice(self._head, self._head + n)
        before, after = (self._known[row, leaving].copy() for row in (_BEFORE, _AFTER))
        self._head += n
        self.first += n
        return self._take(n), before, after

    def matches(self) -> np.ndarray:
        """Return the numbers of all matches of the buffered events."""
        held = self._known[_BEFORE:, self._head : self._tail].ravel()
        numbers: np.ndarray = held[held >= 0]
        return numbers

    def renumber(self, numbers: np.ndarray) -> None:
        """Replace match numbers: ``old`` becomes ``numbers[old]``."""
        self._own()
        held = self._known[_BEFORE:, self._head : self._tail]
        known = held >= 0
        held[known] = numbers[held[known]]

    def table(self) -> pa.Table:
        """Return the buffered events with their matches, by reference."""
        self._is_shared = True
        rows = pa.Table.from_batches(self._rows, self._schema)
        for row, name in ((_BEFORE, SEQ), (_AFTER, KIND)):
            known = pa.array(self._known[row, self._head : self._tail])
            rows = rows.append_column(name, pa.chunked_array([known]))
        return rows

    def load(self, table: pa.Table) -> tuple[pa.RecordBatch, np.ndarray]:
        """Restore a table that :meth:`table` returned; return the events and their later matches.

        Events are numbered from 0.
        """
        before, after = (table.column(n).to_numpy() for n in (SEQ, KIND))
        batches = table.drop_columns([SEQ, KIND]).to_batches()
        whole = join_batches(batches) if batches else empty_batch(self._schema)
        assert len(self) == self.first == 0
        self.push(whole, before, after)
        return whole, after

    def _own(self) -> None:
        """Copy the arrays that a snapshot shares, before they are changed."""
        if self._is_shared:
            self._known = self._known.copy()
            self._is_shared = False

    def _take(self, n: int) -> pa.RecordBatch:
        """Remove and return the first ``n`` events."""
        taken: list[pa.RecordBatch] = []
        left = n
        while left:  # ends: each round takes at least one row
            rows = self._rows.popleft()
            if rows.num_rows > left:
                self._rows.appendleft(rows.slice(left))
                rows = rows.slice(0, left)
            taken.append(rows)
            left -= rows.num_rows
        return join_batches(taken) if taken else empty_batch(self._schema)

    def _make_room(self, n: int) -> None:
        if self._tail + n <= self._known.shape[1]:
            return
        held = len(self)
        grown = np.empty((3, max(1 << 10, 2 * (held + n))), np.int64)
        grown[:, :held] = self._known[:, self._head : self._tail]
        self._known, self._head, self._tail = grown, 0, held
        self._is_shared = False
