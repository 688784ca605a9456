"""Computes when any right event of a key is alive: the union of the lifetimes per key.

Invariants: (1) ``end`` of a key is the greatest end of its events that have started. Once time has
passed it, the key is not covered; (2) the queue has the ends after the frontier, and is the whole
state. An entry is obsolete if the key's end has grown since; (3) time is spent on new events, and
once on each end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.types import MIN_TIME
from rvertex.events.group_scan import heads_of, running_max
from rvertex.events.lifetime import with_times
from rvertex.events.reorder_buffer import SortedRuns
from rvertex.events.timeline import Timeline, before_each, sorting
from rvertex.keys.code_map import CodeMap

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Ended:
    """The keys whose cover ends, and the time of each. Sorted by time."""

    codes: np.ndarray
    times: np.ndarray


class Coverage:
    """Tracks which keys are covered by right events.

    Events must be complete up to a common time.
    """

    def __init__(self, keys: pa.Schema, codes_of: Callable[[pa.RecordBatch], np.ndarray]) -> None:
        self._schema = event_schema(keys)
        self._codes_of = codes_of
        self._end = CodeMap(np.int64, MIN_TIME)
        self._ends = SortedRuns(self._schema)

    @property
    def keys_held(self) -> int:
        """Upper bound of the number of covered keys."""
        return self._ends.rows

    def table(self) -> pa.Table:
        """Return the ends after the frontier, by reference."""
        return self._ends.table()

    def load(self, table: pa.Table) -> None:
        """Restore the ends of ``table``."""
        for batch in table.to_batches():
            self._ends.push(batch)
            codes = self._codes_of(batch)
            # Sorted by end, so the greatest end of a repeated key is written last.
            ends = np.maximum(int64_column(batch, VS), self._end.get(codes))
            self._end.put(codes, ends)

    def covered_until(
        self, codes: np.ndarray, times: np.ndarray, rows: Rights | None
    ) -> np.ndarray:
        """Return the end of the cover of each key at each of ``times``, which are sorted.

        Codes are not negative. If a result is not after the key's time, the key is not covered
        then. ``rows`` are right events that :meth:`advance` has not added yet.
        """
        until = self._end.get(codes)
        if rows is None:
            return until
        last = Timeline(rows.codes, rows.vs, codes, times).mark_at_or_before()
        has = np.flatnonzero(last >= 0)
        until[has] = np.maximum(until[has], rows.running[last[has]])
        return until

    def rights(self, events: pa.RecordBatch) -> Rights | None:
        """Return right events without null keys, and the end of the key's cover at each."""
        if events.num_rows == 0:
            return None
        codes = self._codes_of(events)
        order = sorting(codes)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        by_key = codes[order]
        first, ends = heads_of(by_key), self._end.get(by_key)
        running = np.maximum(running_max(int64_column(events, VE)[order], first), ends)
        before = before_each(first, running, ends)
        vs = int64_column(events, VS)
        return Rights(events, codes, vs, running[back], before[back])

    def advance(self, rows: Rights | None, before: int, frontier: int) -> Ended:
        """Add the events; return the keys whose cover ends in ``[before, frontier)``."""
        due = self._ends.take_below(frontier)
        codes, times = [], []
        if rows is not None:
            gap = (rows.vs > rows.before) & (rows.before >= max(before, MIN_TIME + 1))
            codes.append(rows.codes[gap])
            times.append(rows.before[gap])
            self._grow(rows, frontier)
        touched = [] if rows is None else [rows.codes]
        if due.num_rows:
            touched.append(self._codes_of(due))
        keys = np.unique(np.concatenate(touched)) if touched else np.empty(0, np.int64)
        ends = self._end.get(keys)
        over = (ends >= before) & (ends < frontier)
        all_codes = np.concatenate([*codes, keys[over]])
        all_times = np.concatenate([*times, ends[over]])
        order = sorting(all_times)
        return Ended(all_codes[order], all_times[order])

    def _grow(self, rows: Rights, frontier: int) -> None:
        """Set the new ends, and queue the ends after the frontier."""
        order = sorting(rows.codes)
        is_last = np.append(heads_of(rows.codes[order])[1:], True)
        places = order[is_last]
        self._end.put(rows.codes[places], rows.running[places])
        places = places[rows.running[places] >= frontier]
        ends = rows.running[places]
        entries = rows.events.select(self._schema.names).take(pa.array(places))
        self._ends.push(with_times(entries, vs=ends, ve=ends))


@dataclass(frozen=True, slots=True)
class Rights:
    """Right events of one step, and the end of the key's cover before and after each of them.

    ``before``: without the event; ``running``: with it. Both int64[n].
    """

    events: pa.RecordBatch
    codes: np.ndarray
    vs: np.ndarray
    running: np.ndarray
    before: np.ndarray
