"""Event-time timers of many keys: set, moved, deleted; they come due in one total order.

A timer is known by its key and its name; setting it again moves it. Timers come due by (time, key
ascending, name), null keys last, NaN before them.

A slot whose ``_timers`` is None has at most one timer: ``_name`` at ``_next_at``. Others have a
dictionary by name in it. The queue has entries, each a slot and a time at which to look at it.

Invariants: (1) ``_next_at`` is the least time of the slot's timers, INF_TIME if there is none;
(2) ``_queued`` is the time of the slot's entry, INF_TIME if it has none, and never after
``_next_at``; an entry that comes up early is put back at the time of the timer, so moving a timer
later, as a session does with every event, costs nothing and leaves nothing behind; (3) an entry at
another time than ``_queued`` counts for nothing; (4) what comes due depends on the timers that are
set alone, not on the queue: a snapshot holds names and times only.

Most processes set timers a fixed time ahead, so most times are not before any other. These are kept
in the order in which they come, and only others in a heap.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any

from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEVER = INF_TIME


class TimerQueue:
    """The queue over the timers of all slots; the loop over timers reads its parts."""

    def __init__(self) -> None:
        #: Entries whose times do not fall: times, and slots.
        self.times: deque[int] = deque()
        self.slots: deque[Any] = deque()
        #: A heap of the times of all others, each once, and their slots by time.
        self.others: list[int] = []
        self._by_time: dict[int, list[Any]] = {}

    def set(self, slot: Any, at: int, name: str) -> None:
        """Set or move the timer ``name`` of a slot."""
        if slot._timers is None and slot._next_at != _NEVER and slot._name != name:
            slot._timers = {slot._name: slot._next_at}
        timers = slot._timers
        if timers is None:
            slot._name, slot._next_at = name, at
        else:
            timers[name] = at
            slot._next_at = min(timers.values())
        self.enqueue(slot)

    def delete(self, slot: Any, name: str) -> None:
        """Forget the timer ``name`` of a slot, if it is set."""
        timers = slot._timers
        if timers is None:
            if slot._name == name:
                slot._next_at = _NEVER
        elif timers.pop(name, None) is not None:
            slot._next_at = min(timers.values(), default=_NEVER)
            if not timers:
                slot._timers = None

    def enqueue(self, slot: Any) -> None:
        """Give the slot an entry, if it has a timer and no entry in time for it."""
        at = slot._next_at
        if at < slot._queued:
            slot._queued = at
            self.push(slot, at)

    def push(self, slot: Any, at: int) -> None:
        """Add an entry."""
        if not self.times or at >= self.times[-1]:
            self.times.append(at)
            self.slots.append(slot)
            return
        found = self._by_time.get(at)
        if found is None:
            self._by_time[at] = [slot]
            heapq.heappush(self.others, at)
        else:
            found.append(slot)

    def clear(self) -> None:
        """Forget all entries, as no slot is in memory any more."""
        self.times.clear()
        self.slots.clear()
        self.others.clear()
        self._by_time.clear()

    def next_at(self) -> int:
        """The time of the first entry, INF_TIME if there is none."""
        first = self.times[0] if self.times else _NEVER
        return min(first, self.others[0]) if self.others else first

    def take(self) -> list[Any]:
        """Remove all entries at the least time; their slots by key, which have none then."""
        at = self.next_at()
        found = []
        if self.others and self.others[0] == at:
            heapq.heappop(self.others)
            found = self._by_time.pop(at)
        while self.times and self.times[0] == at:
            self.times.popleft()
            found.append(self.slots.popleft())
        slots = []
        for slot in found:
            if slot._queued == at:
                slot._queued = _NEVER
                slots.append(slot)
        return sorted(slots, key=_order) if len(slots) > 1 else slots

    def due(self, slot: Any, until: int) -> Iterator[tuple[int, str]]:
        """The timers of one slot that are due, in order, each forgotten before it is given.

        What is done with one may set and delete others, also before ``until``, but none at or
        before its own time.
        """
        while slot._next_at <= until:
            at, timers = slot._next_at, slot._timers
            if timers is None:
                name = slot._name
                slot._next_at = _NEVER
            else:
                name = min(name for name, time in timers.items() if time == at)
                self.delete(slot, name)
            yield at, name

    def least(self) -> int:
        """The least time that any timer is set for; INF_TIME if none is."""
        while (at := self.next_at()) != _NEVER:  # Ends: a turn takes an entry, or finds a timer.
            is_other = bool(self.others) and self.others[0] == at
            slot = self._by_time[at][-1] if is_other else self.slots[0]
            if slot._queued == at and slot._next_at == at:
                return at
            if is_other:
                self._by_time[at].pop()
                if not self._by_time[at]:
                    del self._by_time[heapq.heappop(self.others)]
            else:
                self.times.popleft()
                self.slots.popleft()
            if slot._queued == at:
                slot._queued = _NEVER
                self.enqueue(slot)
        return _NEVER


def timers_of(slot: Any) -> list[tuple[str, int]]:
    """Names and times of a slot's timers, by name."""
    if slot._timers is not None:
        return sorted(slot._timers.items())
    return [] if slot._next_at == _NEVER else [(slot._name, slot._next_at)]


def _order(slot: Any) -> Any:
    key = slot._key
    return tuple(map(_rank, key)) if type(key) is tuple else _rank(key)


def _rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return (2, 0)
    return (1, 0) if value != value else (0, value)
