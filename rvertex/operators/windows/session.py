"""Session windows: activity of a key, ended by a gap or by a greatest length.

**Rule.** An event of a key keeps the key *active* from ``vs`` until ``gap`` after its last instant,
``ve - 1 + gap`` (for a point event: ``vs + gap``). A session begins with an event that starts while
its key is not active, or at or after ``start + max`` of the session before it; it holds the events
that start before the next begins. Its lifetime is from its first ``vs`` to the end of the activity,
at most to ``start + max``. An event is in exactly the session in which it starts.

Worked, ``gap = 5``, ``max = 12``, one key:

    event      active until   session
    [ 0, 1)     5             [ 0, 12)  begins
    [ 4, 5)     9             [ 0, 12)  4 < 5
    [ 8,15)    19             [ 0, 12)  8 < 9; the activity goes on to 19, the session to 0 + 12
    [12,13)    19             [12, 19)  begins: 12 >= 0 + 12
    [19,20)    24             [19, 24)  begins: the activity ended at 19

A session is released by a promise of its end, after all that start before it: ``CTI(t)`` becomes
the start of the earliest session of any key still open at t (end after t), or t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import InvalidWindowError
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.group_scan import group_start, heads_of, orbit, running_max
from rvertex.events.lifetime import moved
from rvertex.events.timeline import sorting
from rvertex.operators.windows.assigned import SingleWindow
from rvertex.operators.windows.hopping import aggregated_schema, gathering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.spec import AggregateSpec
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator
    from rvertex.operators.windows.window_log import WindowLog


@dataclass(frozen=True, slots=True)
class SessionAggregate:
    """Aggregates per key and session. ``max_us`` None: sessions of any length."""

    holds_ctis: ClassVar[bool] = True

    keys: tuple[str, ...]
    gap_us: int
    max_us: int | None
    aggregates: tuple[AggregateSpec, ...]

    def __post_init__(self) -> None:
        for name, value in (("gap", self.gap_us), ("max", self.max_us)):
            if value is not None and not 0 < value <= INF_TIME:
                raise InvalidWindowError(f"{name} must be at least 1 microsecond, got {value}")

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Keys, then aggregates."""
        return aggregated_schema(self.keys, self.aggregates, inputs)

    def horizon_us(self, durations: Durations) -> int | None:
        """None, even with a greatest length.

        While a key stays active, where a session begins follows from the one before it.
        """
        return None

    def output_duration(self, durations: Durations) -> int | None:
        """The greatest length, if there is one."""
        return self.max_us

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """No session yet."""
        (payload,) = inputs
        assigner = Sessions(self.gap_us, self.max_us)
        return SingleWindow(assigner, *gathering(self.keys, self.aggregates, payload))


class Sessions:
    """By key: start and number of its last session, and how long it is active."""

    def __init__(self, gap: int, longest: int | None) -> None:
        self._gap = gap
        self._longest = longest
        self._window = GroupArray(np.int64, -1)
        self._start = GroupArray(np.int64, MIN_TIME)
        self._active = GroupArray(np.int64, MIN_TIME)

    def assign(
        self, codes: np.ndarray, vs: np.ndarray, ve: np.ndarray, keys: int, log: WindowLog
    ) -> np.ndarray:
        """See :class:`~rvertex.operators.windows.assigned.WindowAssigner`.

        The last session of a key comes before its events as a row of its own.
        """
        window, start = self._window.writable(keys), self._start.writable(keys)
        active = self._active.writable(keys)
        present = np.zeros(keys, bool)
        present[codes] = True
        carried = np.flatnonzero(present & (window >= 0))
        before = len(carried)
        key = np.concatenate([carried, codes])
        order = sorting(key)
        key = key[order]
        time = np.concatenate([start[carried], vs])[order]
        until = np.concatenate([active[carried], moved(ve - 1, self._gap)])[order]
        heads = heads_of(key)
        until = running_max(until, heads)
        begins = self._begins(time, until, heads)
        first = group_start(begins)
        is_new = begins & (order >= before)
        # Numbers go by place in the sequence, so by start.
        at = np.flatnonzero(is_new)
        at = at[np.argsort(order[at])]
        of_row = np.full(len(key), -1)
        of_row[begins & ~is_new] = window[key[begins & ~is_new]]
        of_row[at] = log.add(time[at])
        of_row = of_row[first]
        self._end_sessions(of_row, time[first], until, order >= before, begins, log)
        ends = np.append(heads[1:], True)
        window[key[ends]], start[key[ends]] = of_row[ends], time[first][ends]
        active[key[ends]] = until[ends]
        result = np.empty(len(key), np.int64)
        result[order] = of_row
        return result[before:]

    def needed(self, promise: int) -> np.ndarray:
        mask: np.ndarray = self._active.read() > promise
        return mask

    def keep(self, codes: np.ndarray) -> None:
        for column in (self._window, self._start, self._active):
            column.adopt(column.read()[codes])

    def save(self) -> pa.Table:
        columns = (self._window, self._start, self._active)
        return pa.table({f"c{i}": c.shared() for i, c in enumerate(columns)})

    def restore(self, table: pa.Table) -> None:
        for i, column in enumerate((self._window, self._start, self._active)):
            column.adopt(numbers(as_one_array(table.column(i))))

    def _begins(self, time: np.ndarray, until: np.ndarray, heads: np.ndarray) -> np.ndarray:
        """The rows that begin a session (or stand for one)."""
        fresh = heads.copy()
        fresh[1:] |= time[1:] >= until[:-1]
        if self._longest is None:
            return fresh
        # For every row, the first row of its activity that is too late for a session from it.
        period = np.cumsum(fresh) - 1
        distinct, rank = np.unique(time, return_inverse=True)
        late = np.searchsorted(distinct, moved(time, self._longest))
        base = period * (len(distinct) + 1)
        return orbit(fresh, np.searchsorted(base + rank, base + late))

    def _end_sessions(
        self,
        windows: np.ndarray,
        starts: np.ndarray,
        until: np.ndarray,
        is_event: np.ndarray,
        begins: np.ndarray,
        log: WindowLog,
    ) -> None:
        """Put the ends of the sessions that have got an event into the log."""
        last = np.append(begins[1:], True) & is_event
        ends = until[last]
        if self._longest is not None:
            ends = np.minimum(ends, moved(starts[last], self._longest))
        log.set_ends(windows[last], ends, ends)
