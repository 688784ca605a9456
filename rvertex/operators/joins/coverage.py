"""When is any right event of a key alive? The lifetimes of a key, merged, as time goes on.

Invariants: (1) ``end`` of a key is the greatest end of its events that have started; when time has
passed it, the key is not covered; (2) the entries of the queue of ends are those that are to come
(some are out of date: the key's end has grown since); they are all of the state; (3) time is spent
on new events and on each end once.
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
    """Keys that stop to be covered, and when. Sorted by time."""

    codes: np.ndarray
    times: np.ndarray


class Coverage:
    """Over right events of ``keys`` columns, given complete up to a common time."""

    def __init__(self, keys: pa.Schema, codes_of: Callable[[pa.RecordBatch], np.ndarray]) -> None:
        self._schema = event_schema(keys)
        self._codes_of = codes_of
        self._end = CodeMap(np.int64, MIN_TIME)
        self._ends = SortedRuns(self._schema)

    @property
    def keys_held(self) -> int:
        """Keys that are covered, or more."""
        return self._ends.rows

    def table(self) -> pa.Table:
        """The ends to come, by reference."""
        return self._ends.table()

    def load(self, table: pa.Table) -> None:
        """Continue with the ends of ``table``."""
        for batch in table.to_batches():
            self._ends.push(batch)
            codes = self._codes_of(batch)
            # Sorted by end, so of a repeated key the greatest is put last.
            ends = np.maximum(int64_column(batch, VS), self._end.get(codes))
            self._end.put(codes, ends)

    def covered_until(
        self, codes: np.ndarray, times: np.ndarray, rows: Rights | None
    ) -> np.ndarray:
        """The end of what covers each key (codes >= 0) at each time, or some earlier time.

        ``rows`` are right events not yet in :meth:`advance`; ``times`` are sorted.
        """
        until = self._end.get(codes)
        if rows is None:
            return until
        found = Timeline(rows.codes, rows.vs, codes, times).mark_at_or_before()
        has = np.flatnonzero(found >= 0)
        until[has] = np.maximum(until[has], rows.running[found[has]])
        return until

    def rights(self, events: pa.RecordBatch) -> Rights | None:
        """New right events with what they make of their keys' ends; keys are not null."""
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
        """Take the events in; the keys whose cover ends in ``[before, frontier)``."""
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
        """Set the new ends and put those that are to come into the queue."""
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
    """Right events of one step. ``running``: the key's end with each, ``before``: without it."""

    events: pa.RecordBatch
    codes: np.ndarray
    vs: np.ndarray
    running: np.ndarray
    before: np.ndarray
