"""Events that end at the first mark of their key that is later than their start.

A mark is the start of a right event. A mark at the start of an event does not end it. An event is
due (its end is final, see :mod:`rvertex.operators.lifetimes.pending`) at its end, or just after the
mark that ended it.

Invariants: (1) marks and events arrive complete up to a common time, so every buffered event starts
before every later mark; (2) the events of a key wait in one chain, and a mark takes the whole
chain. So an event is visited once when it arrives and once when a mark ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rstream.items.batch import VE, VS, int64_column
from rvertex.events.group_scan import heads_of
from rvertex.events.lifetime import after, with_times
from rvertex.events.timeline import Timeline, sorting
from rvertex.keys.key_chains import KeyChains
from rvertex.operators.lifetimes.pending import Pending
from rvertex.state.memory import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from rvertex.state.memory import StateMemory


class Clipping:
    """Ends events of ``schema`` at marks. An event with code -1 has no marks."""

    def __init__(self, schema: pa.Schema, memory: StateMemory = UNLIMITED) -> None:
        self.pending = Pending(schema, memory)
        self._chains = KeyChains()

    @property
    def chained(self) -> int:
        """Number of chain entries so far.

        If it exceeds twice the buffered events, rebuild the chains.
        """
        return self._chains.size

    def advance(
        self, events: pa.RecordBatch, codes: np.ndarray, mark_codes: np.ndarray, marks: np.ndarray
    ) -> None:
        """Add events, sorted by start, and marks, sorted by time with codes >= 0."""
        self._cut_held(mark_codes, marks)
        if events.num_rows == 0:
            return
        ve = int64_column(events, VE)
        ends, is_cut = ve, np.zeros(len(ve), bool)
        if len(marks):
            cuts = Timeline(mark_codes, marks, codes, int64_column(events, VS)).mark_after()
            times = marks[cuts]
            is_cut = (cuts >= 0) & (times < ve)
            ends = np.where(is_cut, times, ve)
        due = np.where(is_cut, after(ends), ends)
        first = self.pending.push(with_times(events, ve=ends), due)
        waits = np.flatnonzero(~is_cut & (codes >= 0))
        self._chains.add(codes[waits], first + waits)

    def load(self, table: pa.Table, codes_of: Callable[[pa.RecordBatch], np.ndarray]) -> None:
        """Restore a table that ``self.pending.table()`` returned."""
        batches = self.pending.load(table)
        codes = np.concatenate([np.empty(0, np.int64), *map(codes_of, batches)])
        waits = np.flatnonzero(codes >= 0)
        # The chains also get events that a mark has already ended, which no later mark changes.
        self._chains.add(codes[waits], waits)

    def _cut_held(self, mark_codes: np.ndarray, marks: np.ndarray) -> None:
        """End the buffered events of marked keys at the first mark of each key."""
        order = sorting(mark_codes)
        first = heads_of(mark_codes[order])
        earliest = order[first]
        codes = mark_codes[earliest]
        which, numbers = self._chains.take(codes)
        held = np.flatnonzero(numbers >= self.pending.first)
        numbers, times = numbers[held], marks[earliest[which[held]]]
        is_cut = np.flatnonzero(times < self.pending.ends(numbers))
        numbers, times = numbers[is_cut], times[is_cut]
        self.pending.complete(numbers, times, after(times))
