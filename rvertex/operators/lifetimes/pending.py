"""A buffer of events in order of start whose ends may still change; it releases them in order.

Each event has a *due* time: the smallest CTI (watermark) at which its end is final. An event is
released when it and all earlier events are due, which keeps the output in ``vs`` order. ``CTI(t)``
becomes the start of the first event that is not due at ``t``, but at most ``t`` itself.

Invariants: (1) events are numbered from 0 by order of start, and ``first`` is the number of the
earliest buffered event; (2) ``due > vs``; (3) a release takes amortised time in the released
events, since it scans from the front, in stretches of growing length; (4) a snapshot is by
reference, so the next change of an end copies times (24 bytes per event, not the rows).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rstream.items.batch import SEQ, VE, VS, int64_column
from rstream.items.dictionaries import join_batches
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.lifetime import with_times
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import Run, growing
from rvertex.state.memory import UNLIMITED
from rvertex.state.numbered import Numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.state.memory import StateMemory

#: The column with the due time. The name is reserved, so no payload column can have it.
DUE = SEQ
_STARTS, _ENDS, _DUES = 0, 1, 2
_STRETCH, _STRETCH_MAX = 1 << 10, 1 << 18


class Pending:
    """A buffer of events of ``schema`` (with ``_vs``, ``_ve``), added in order of ``vs``."""

    def __init__(self, schema: pa.Schema, memory: StateMemory = UNLIMITED) -> None:
        self._schema = schema
        self._rows: deque[pa.RecordBatch] = deque()
        self._times = Numbered(3, memory)
        #: Length of the prefix of events known to be due. A due event stays due.
        self._due = 0
        self.last_cti: int | None = None
        #: Every event that starts before this time was released.
        self.released_before: int = MIN_TIME

    def __len__(self) -> int:
        return len(self._times)

    @property
    def first(self) -> int:
        """Return the number of the earliest buffered event."""
        return self._times.first

    @first.setter
    def first(self, number: int) -> None:
        self._times.renumber(number)

    def push(self, events: pa.RecordBatch, due: np.ndarray) -> int:
        """Add events, none earlier than the buffered events; return the first one's number."""
        if events.num_rows:
            self._rows.append(events)
        return self._times.append([int64_column(events, VS), int64_column(events, VE), due])

    def ends(self, numbers: np.ndarray) -> np.ndarray:
        """Return the current ends of buffered events."""
        return self._times.get(_ENDS, numbers)

    def complete(
        self, numbers: np.ndarray, ends: np.ndarray, due: np.ndarray | None = None
    ) -> None:
        """Set the ends of buffered events, and their due times if ``due`` is given."""
        self._times.put(_ENDS, numbers, ends)
        if due is not None:
            self._times.put(_DUES, numbers, due)

    def release(self, frontier: int, ctis: np.ndarray) -> Run:
        """Return the events that may be released, and the CTIs.

        All events that start before ``frontier`` must have been added.
        """
        n, blocked = self._leaving(frontier)
        starts, due = (self._times.read(k, self.first, self.first + n) for k in (_STARTS, _DUES))
        self.released_before = min(frontier, blocked)
        # The first event that is not due at a CTI is the first whose running maximum of due exceeds
        # it.
        at = np.maximum.accumulate(due).searchsorted(ctis, side="right")
        bounds = np.append(starts, blocked)[at]
        out = growing(np.minimum(ctis, bounds), self.last_cti)
        if len(out):
            self.last_cti = int(out[-1])
        return Run(self._take(n), out)

    def first_held(self, columns: Sequence[str]) -> tuple[int, dict[str, Any]] | None:
        """Return start and columns of the earliest event that is not due; None: there is none."""
        left = self._due
        for rows in self._rows:
            if left < rows.num_rows:
                key = {name: rows.column(name)[left].as_py() for name in columns}
                at = self.first + self._due
                return int(self._times.read(_STARTS, at, at + 1)[0]), key
            left -= rows.num_rows
        return None

    def table(self) -> pa.Table:
        """Return the buffered events with their due times, by reference."""
        rows = pa.Table.from_batches(self._rows, self._schema)
        columns = [
            *(pa.chunked_array(map(pa.array, self._times.shared(k)), pa.int64()) for k in range(3)),
            *(rows.column(name) for name in self._schema.names[2:]),
        ]
        return pa.Table.from_arrays(columns, names=[VS, VE, DUE, *self._schema.names[2:]])

    def load(self, table: pa.Table) -> list[pa.RecordBatch]:
        """Restore a table that :meth:`table` returned, numbered from 0; return its events."""
        due = table.column(DUE).to_numpy()
        batches: list[pa.RecordBatch] = table.drop_columns([DUE]).cast(self._schema).to_batches()
        assert len(self) == self.first == 0
        lo = 0
        for events in batches:
            self.push(events, due[lo : lo + events.num_rows])
            lo += events.num_rows
        return batches

    def _leaving(self, frontier: int) -> tuple[int, int]:
        """Return how many events at the front can be released, and the start of the next event.

        Events of one start are released together: the following CTI has that time and must precede
        all of them.
        """
        n, stretch = self._due, _STRETCH
        while n < len(self):  # ends: n grows until some event is not due
            lo = self.first + n
            held = self._times.read(_DUES, lo, min(lo + stretch, self._times.next)) > frontier
            if held.any():
                n += int(held.argmax())
                break
            n += len(held)
            stretch = min(2 * stretch, _STRETCH_MAX)
        self._due = n
        if n == len(self):
            return n, INF_TIME
        starts = self._times.read(_STARTS, self.first, self.first + n + 1)
        blocked = int(starts[n])
        return int(starts.searchsorted(blocked)), blocked

    def _take(self, n: int) -> pa.RecordBatch:
        """Remove the first ``n`` events; return them with their ends."""
        taken: list[pa.RecordBatch] = []
        left = n
        while left:
            rows = self._rows[0]
            if rows.num_rows > left:
                self._rows[0] = rows.slice(left)
                rows = rows.slice(0, left)
            else:
                self._rows.popleft()
            taken.append(rows)
            left -= rows.num_rows
        # Copy: readers use these ends after this array has changed.
        ends = self._times.read(_ENDS, self.first, self.first + n).copy()
        self._times.drop(n)
        self._due -= n
        return with_times(join_batches(taken), ve=ends) if n else empty_batch(self._schema)
