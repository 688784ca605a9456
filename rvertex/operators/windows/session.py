"""Session windows: activity of a key, ended by a gap or by a greatest length.

**Rule.** An event keeps its key *active* from ``vs`` until ``gap`` after its last instant, which is
``ve - 1 + gap`` (for a point event: ``vs + gap``). A session begins with an event that starts while
its key is not active, or at or after ``start + max`` of the previous session. It has all events
that start before the next session begins. Its lifetime is from its first ``vs`` to the end of the
activity, at most to ``start + max``. So each event is in exactly one session: the session in which
it starts.

Example: ``gap = 5``, ``max = 12``, one key:

    event      active until   session
    [ 0, 1)     5             [ 0, 12)  begins
    [ 4, 5)     9             [ 0, 12)  4 < 5
    [ 8,15)    19             [ 0, 12)  8 < 9; the activity lasts to 19, the session to 0 + 12
    [12,13)    19             [12, 19)  begins: 12 >= 0 + 12
    [19,20)    24             [19, 24)  begins: the activity ended at 19

A session is released once no event before its end can follow, after all sessions that start before
it. ``CTI(t)`` (a watermark) becomes the start of the earliest session, of any key, that ends after
t; or t if there is none.
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
from rvertex.operators.horizon import Unbounded
from rvertex.operators.windows.assigned import SingleWindow
from rvertex.operators.windows.hopping import Aggregates, gathering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.aggregates.spec import AggregateSpec
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator
    from rvertex.operators.windows.window_log import WindowLog


@dataclass(frozen=True, slots=True)
class OverSessions(Aggregates, Unbounded):
    """Base: aggregates per key and session. ``max_us`` None: sessions of any length."""

    holds_ctis: ClassVar[bool] = True

    keys: tuple[str, ...]
    gap_us: int
    max_us: int | None
    aggregates: tuple[AggregateSpec, ...]

    def __post_init__(self) -> None:
        check_lengths(self.gap_us, self.max_us)


@dataclass(frozen=True, slots=True)
class SessionAggregate(OverSessions):
    """Aggregates per key and session, emitted after its end."""

    def output_duration(self, durations: Durations) -> int | None:
        """Return ``max_us``; None: a session may have any length."""
        return self.max_us

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        (payload,) = inputs
        assigner = Sessions(self.gap_us, self.max_us)
        return SingleWindow(assigner, *gathering(self.keys, self.aggregates, payload))


def check_lengths(gap_us: int, max_us: int | None) -> None:
    """Check the lengths of a session.

    Raises:
        InvalidWindowError: a length is not positive.
    """
    for name, value in (("gap", gap_us), ("max", max_us)):
        if value is not None and not 0 < value <= INF_TIME:
            raise InvalidWindowError(f"{name} must be at least 1 microsecond, got {value}")


@dataclass(frozen=True, slots=True)
class Activity:
    """Events sorted by (key, start), each key's events after a row for its last session."""

    #: Input position of each row: first the last sessions of the keys, then the events.
    order: np.ndarray
    #: The number of rows that represent last sessions.
    carried: int
    key: np.ndarray
    #: The start of each row, and the time until which its key is active after it.
    time: np.ndarray
    until: np.ndarray
    #: Whether a row is the last of its key, and whether it begins a session or represents one.
    is_last: np.ndarray
    begins: np.ndarray
    #: The number of the first row of each row's session.
    first: np.ndarray
    is_event: np.ndarray

    def ends(self, longest: int | None) -> np.ndarray:
        """Return the end of each row's session, as known after that row."""
        if longest is None:
            return self.until
        most: np.ndarray = np.minimum(self.until, moved(self.time[self.first], longest))
        return most


class SessionStarts:
    """Stores, by key, the start of its last session, and the time until which it is active."""

    def __init__(self, gap: int, longest: int | None) -> None:
        self._gap = gap
        self.longest = longest
        self.start = GroupArray(np.int64, MIN_TIME)
        self.active = GroupArray(np.int64, MIN_TIME)

    def follow(
        self, codes: np.ndarray, vs: np.ndarray, ve: np.ndarray, keys: int, known: np.ndarray
    ) -> Activity:
        """Add events, sorted by ``vs``. ``known`` bool[keys]: keys that already had a session."""
        start, active = self.start.writable(keys), self.active.writable(keys)
        present = np.zeros(keys, bool)
        present[codes] = True
        carried = np.flatnonzero(present & known)
        key = np.concatenate([carried, codes])
        order = sorting(key)
        key = key[order]
        time = np.concatenate([start[carried], vs])[order]
        until = np.concatenate([active[carried], self.until(ve)])[order]
        heads = heads_of(key)
        until = running_max(until, heads)
        begins = self._begins(time, until, heads)
        first = group_start(begins)
        is_last = np.append(heads[1:], True)
        start[key[is_last]] = time[first][is_last]
        active[key[is_last]] = until[is_last]
        before = len(carried)
        return Activity(order, before, key, time, until, is_last, begins, first, order >= before)

    def until(self, ve: np.ndarray) -> np.ndarray:
        """Return the time until which events with ends ``ve`` keep their keys active, int64[n]."""
        return moved(ve - 1, self._gap)

    def ends(self, start: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Return the ends of sessions that begin at ``start``, int64[n].

        ``active``: a gap after the session's last event. A session has at most the length
        ``longest``, so it may end earlier.
        """
        if self.longest is None:
            return active
        most: np.ndarray = np.minimum(active, moved(start, self.longest))
        return most

    def _begins(self, time: np.ndarray, until: np.ndarray, heads: np.ndarray) -> np.ndarray:
        """Return which rows begin a session; ``heads``: the first row of each key."""
        fresh = heads.copy()
        fresh[1:] |= time[1:] >= until[:-1]
        if self.longest is None:
            return fresh
        # For each row: if a session begins there, the later row of the same activity that would
        # exceed ``max``.
        period = np.cumsum(fresh) - 1
        distinct, rank = np.unique(time, return_inverse=True)
        late = np.searchsorted(distinct, moved(time, self.longest))
        base = period * (len(distinct) + 1)
        return orbit(fresh, np.searchsorted(base + rank, base + late))


class SessionColumns:
    """Base of states that store columns per key, next to the starts of sessions."""

    _starts: SessionStarts

    @property
    def _columns(self) -> tuple[GroupArray, ...]:
        raise NotImplementedError

    def needed(self, promise: int) -> np.ndarray:
        """Return a mask of the keys that are still active at the time ``promise``."""
        mask: np.ndarray = self._starts.active.read() > promise
        return mask

    def keep(self, codes: np.ndarray) -> None:
        """Renumber key ``codes[i]`` to i and drop all other keys."""
        for column in self._columns:
            column.adopt(column.read()[codes])

    def save(self) -> pa.Table:
        """Return the columns by key code, by reference."""
        return pa.table({f"c{i}": c.shared() for i, c in enumerate(self._columns)})

    def restore(self, table: pa.Table) -> None:
        """Restore the columns that ``save`` returned."""
        for i, column in enumerate(self._columns):
            column.adopt(numbers(as_one_array(table.column(i))))


class Sessions(SessionColumns):
    """Stores, by key, its last session's start and number, and until when the key is active."""

    def __init__(self, gap: int, longest: int | None) -> None:
        self._window = GroupArray(np.int64, -1)
        self._starts = SessionStarts(gap, longest)

    def assign(
        self, codes: np.ndarray, vs: np.ndarray, ve: np.ndarray, keys: int, log: WindowLog
    ) -> np.ndarray:
        """Implement :class:`~rvertex.operators.windows.assigned.WindowAssigner`."""
        window = self._window.writable(keys)
        starts = self._starts.follow(codes, vs, ve, keys, window >= 0)
        # Sessions are numbered in row order, hence by start.
        at = np.flatnonzero(starts.begins & starts.is_event)
        at = at[np.argsort(starts.order[at])]
        of_row = np.full(len(starts.key), -1)
        goes_on = starts.begins & ~starts.is_event
        of_row[goes_on] = window[starts.key[goes_on]]
        of_row[at] = log.add(starts.time[at])
        of_row = of_row[starts.first]
        last = np.append(starts.begins[1:], True) & starts.is_event
        ends = starts.ends(self._starts.longest)[last]
        log.set_ends(of_row[last], ends, ends)
        window[starts.key[starts.is_last]] = of_row[starts.is_last]
        result = np.empty(len(of_row), np.int64)
        result[starts.order] = of_row
        return result[starts.carried :]

    @property
    def _columns(self) -> tuple[GroupArray, ...]:
        return (self._window, self._starts.start, self._starts.active)
