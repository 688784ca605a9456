"""A buffer of left events of an as-of join, with the matches known so far.

Invariants: (1) events are numbered from 0 by order of start, and ``first`` is the number of the
earliest buffered event; (2) a snapshot is by reference, so the next change of a match copies
numbers of matches (24 bytes per event, not the rows); (3) a release takes time in the released
events.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import KIND, SEQ, VS, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.reorder_buffer import empty_batch
from rvertex.state.memory import UNLIMITED
from rvertex.state.numbered import Numbered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rvertex.state.memory import StateMemory

_VS, _BEFORE, _AFTER = 0, 1, 2


class WaitingRows:
    """Left events in order of start, with the numbers of their matches; -1: none."""

    def __init__(self, schema: pa.Schema, memory: StateMemory = UNLIMITED) -> None:
        self._schema = schema
        self._rows: deque[pa.RecordBatch] = deque()
        self._known = Numbered(3, memory)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def first(self) -> int:
        """Return the number of the earliest buffered event."""
        return self._known.first

    def push(self, events: pa.RecordBatch, before: np.ndarray, after: np.ndarray) -> int:
        """Add events, none earlier than the buffered events; return the first one's number."""
        if events.num_rows:
            self._rows.append(events)
        return self._known.append([int64_column(events, VS), before, after])

    def follow(self, events: np.ndarray, numbers: np.ndarray) -> None:
        """Set the match after each of these buffered events."""
        self._known.put(_AFTER, events, numbers)

    def release(self, until: int) -> tuple[pa.RecordBatch, np.ndarray, np.ndarray]:
        """Remove and return the events that start before ``until`` (INF_TIME: all events)."""
        n = len(self) if until == INF_TIME else self._known.below(_VS, max(until, MIN_TIME))
        of = (self.first, self.first + n)
        before, after = (self._known.read(row, *of).copy() for row in (_BEFORE, _AFTER))
        self._known.drop(n)
        return self._take(n), before, after

    def matches(self) -> Iterator[np.ndarray]:
        """Yield the numbers of all matches of the buffered events, part by part."""
        for row in (_BEFORE, _AFTER):
            for held in self._known.parts(row):
                yield held[held >= 0]

    def renumber(self, numbers: np.ndarray) -> None:
        """Replace match numbers: ``old`` becomes ``numbers[old]``, -1 stays."""
        extended = np.append(numbers, -1)
        for row in (_BEFORE, _AFTER):
            self._known.change(row, lambda held: extended[held])

    def table(self) -> pa.Table:
        """Return the buffered events with their matches, by reference."""
        rows = pa.Table.from_batches(self._rows, self._schema)
        for row, name in ((_BEFORE, SEQ), (_AFTER, KIND)):
            known = map(pa.array, self._known.shared(row))
            rows = rows.append_column(name, pa.chunked_array(known, pa.int64()))
        return rows

    def load(self, table: pa.Table) -> tuple[list[pa.RecordBatch], np.ndarray]:
        """Restore a table that :meth:`table` returned; return the events and later matches."""
        before, after = (table.column(n).to_numpy() for n in (SEQ, KIND))
        batches = table.drop_columns([SEQ, KIND]).to_batches()
        assert len(self) == self.first == 0
        lo = 0
        for batch in batches:
            hi = lo + batch.num_rows
            self.push(batch, before[lo:hi], after[lo:hi])
            lo = hi
        return batches, after

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
