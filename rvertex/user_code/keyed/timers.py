"""Event-time timers of many keys: they are set, moved and deleted, and fire in one total order.

A timer is identified by its key and name; setting it again moves it. Timers fire in the order
(time, key ascending, name), with NaN keys and then null keys last.

A slot whose ``_timers`` is None has at most one timer: ``_name`` at ``_next_at``. Otherwise
``_timers`` is a dictionary by name. The queue has entries: a slot, and a time at which to check it.

Invariants: (1) ``_next_at`` is the least time of the slot's timers, INF_TIME without timers;
(2) ``_queued`` is the time of the slot's entry, INF_TIME without entry, and never after
``_next_at``; (3) an entry at another time than ``_queued`` is ignored; (4) the firing order depends
only on the timers, not on the queue: a snapshot contains only names and times.

An entry that is reached before its timer is enqueued again at the timer's time. So moving a timer
later, as a session does with every event, needs no work and leaves no stale entry.

Most processes set timers a fixed time ahead, so most new times are at or after all earlier ones.
These are kept in a deque in that order, and only the others in a heap.
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
    """The queue of the timers of all slots. The compiled loop accesses its attributes directly."""

    def __init__(self) -> None:
        #: Entries with non-decreasing times: the times; and the slots.
        self.times: deque[int] = deque()
        self.slots: deque[Any] = deque()
        #: A heap of the distinct times of all other entries; and the slots, by time.
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
        """Delete the timer ``name`` of a slot, if it is set."""
        timers = slot._timers
        if timers is None:
            if slot._name == name:
                slot._next_at = _NEVER
        elif timers.pop(name, None) is not None:
            slot._next_at = min(timers.values(), default=_NEVER)
            if not timers:
                slot._timers = None

    def enqueue(self, slot: Any) -> None:
        """Add an entry for the slot, unless it has no timer or an entry at or before its time."""
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
        slots = self._by_time.get(at)
        if slots is None:
            self._by_time[at] = [slot]
            heapq.heappush(self.others, at)
        else:
            slots.append(slot)

    def clear(self) -> None:
        """Remove all entries, because no slot is in memory any longer."""
        self.times.clear()
        self.slots.clear()
        self.others.clear()
        self._by_time.clear()

    def next_at(self) -> int:
        """Return the time of the first entry, INF_TIME if there is none."""
        first = self.times[0] if self.times else _NEVER
        return min(first, self.others[0]) if self.others else first

    def take(self) -> list[Any]:
        """Remove the entries at the least time, and return their slots in the order of keys."""
        at = self.next_at()
        taken = []
        if self.others and self.others[0] == at:
            heapq.heappop(self.others)
            taken = self._by_time.pop(at)
        while self.times and self.times[0] == at:
            self.times.popleft()
            taken.append(self.slots.popleft())
        slots = []
        for slot in taken:
            if slot._queued == at:
                slot._queued = _NEVER
                slots.append(slot)
        return sorted(slots, key=_order) if len(slots) > 1 else slots

    def due(self, slot: Any, until: int) -> Iterator[tuple[int, str]]:
        """Yield the timers of one slot up to ``until``, in order; each is deleted first.

        Between two timers the caller may set and delete others, also before ``until``, but only
        after the time of the current timer.
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
        """Return the exact least time of all timers; INF_TIME if there is none."""
        while (at := self.next_at()) != _NEVER:  # ends: each round removes an entry or returns
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
    """Return names and times of a slot's timers, by name."""
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
