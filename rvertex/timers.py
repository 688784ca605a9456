"""Event-time timers of many keys: set, moved, deleted; they come due in one total order.

A timer is known by its key and its name; setting it again moves it. Timers come due by (time, key
ascending, name), null keys last, NaN before them.

Invariants: (1) for every timer that is set there is an entry in the queue at or before its time; an
entry that comes up early is put back at the timer's time, so moving a timer later, as a session
does with every event, costs nothing and leaves nothing behind; (2) what comes due depends on the
timers that are set alone, not on the queue: a snapshot holds names and times only; (3) an entry
whose timer is gone, as it was deleted or its key was asked for its own, counts for nothing.

Most processes set timers a fixed time ahead, so most times are greater than all before. These are
kept in the order in which they come, and only others in a heap.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any

from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A slot's ``_timers`` is flat: name, time or None when deleted, time of its entry in the queue,
#: and so on. Most keys have one timer, and a list of three is all it takes.
_AT, _QUEUED, _WIDTH = 1, 2, 3
_NEVER = INF_TIME


class TimerQueue:
    """The queue over the timers of all slots, which hold them in ``_timers`` (None: none).

    No timer of a slot is due before its ``_next_at``, INF_TIME if it has none.
    """

    def __init__(self) -> None:
        #: The times of entries, each once: a rising part, and the others.
        self._rising: deque[int] = deque()
        self._others: list[int] = []
        #: By time: one entry, or a list of several.
        self._due: dict[int, Any] = {}
        #: No timer is due before this; INF_TIME if there is none.
        self.next_at: int = _NEVER

    def set(self, slot: Any, at: int, name: str) -> None:
        """Set or move the timer ``name`` of a slot."""
        if at < slot._next_at:
            slot._next_at = at
        timers = slot._timers
        if timers is None:
            slot._timers = [name, at, at]
        else:
            found = _find(timers, name)
            if found < 0:
                timers += (name, at, at)
            else:
                timers[found + _AT] = at
                if timers[found + _QUEUED] <= at:
                    return
                timers[found + _QUEUED] = at
        self._push(slot, at, name)

    def delete(self, slot: Any, name: str) -> None:
        """Forget the timer ``name`` of a slot, if it is set."""
        found = -1 if slot._timers is None else _find(slot._timers, name)
        if found >= 0:
            slot._timers[found + _AT] = None

    def pop(self, until: int) -> Iterator[tuple[int, Any, str]]:
        """The timers due at or before ``until``, in order, each forgotten before it is given.

        What is done with one timer may set and delete others, also before ``until``, but none at
        or before its own time.
        """
        while self._due and self.next_at <= until:
            at = self._take_time()
            due = self._due.pop(at)
            for slot, name in sorted(due, key=_order) if type(due) is list else (due,):
                timers = slot._timers
                if timers is None:
                    continue
                found = 0 if timers[0] == name else _find(timers, name)
                if found < 0 or timers[found + _QUEUED] != at:
                    continue
                if timers[found + _AT] == at:
                    _forget(slot, found)
                    yield at, slot, name
                else:
                    self._requeue(slot, found, name)

    def pop_own(self, slot: Any, until: int) -> Iterator[tuple[int, Any, str]]:
        """The timers of one slot alone that are due, as :meth:`pop` gives them."""
        while True:  # Ends: every turn takes a timer away, and new ones are later.
            at, name = min(((at, name) for name, at in timers_of(slot)), default=(_NEVER, ""))
            slot._next_at = at
            if at > until:
                return
            _forget(slot, _find(slot._timers, name))
            yield at, slot, name

    def least(self) -> int:
        """The least time that any timer is set for; INF_TIME if none is."""
        while self._due:  # Ends: every turn takes an entry from the front, or finds a timer.
            at = self.next_at
            due = self._due[at]
            slot, name = due[-1] if type(due) is list else due
            timers = slot._timers
            found = -1 if timers is None else _find(timers, name)
            is_current = found >= 0 and timers[found + _QUEUED] == at
            if is_current and timers[found + _AT] == at:
                return at
            if type(due) is not list or len(due) == 1:
                self._take_time()
                del self._due[at]
            else:
                due.pop()
            if is_current:
                self._requeue(slot, found, name)
        return _NEVER

    def _requeue(self, slot: Any, found: int, name: str) -> None:
        """Put an entry that came up early back at its timer's time, if the timer is still set."""
        moved = slot._timers[found + _AT]
        if moved is None:
            _forget(slot, found)
        else:
            slot._timers[found + _QUEUED] = moved
            self._push(slot, moved, name)

    def _push(self, slot: Any, at: int, name: str) -> None:
        due = self._due.setdefault(at, entry := (slot, name))
        if due is entry:
            rising = self._rising
            if not rising or at > rising[-1]:
                rising.append(at)
            else:
                heapq.heappush(self._others, at)
            if at < self.next_at:
                self.next_at = at
        elif type(due) is list:
            due.append(entry)
        else:
            self._due[at] = [due, entry]

    def _take_time(self) -> int:
        """Remove the least time; ``next_at`` is the one after."""
        rising, others = self._rising, self._others
        if rising and (not others or rising[0] < others[0]):
            at = rising.popleft()
        else:
            at = heapq.heappop(others)
        first = rising[0] if rising else _NEVER
        self.next_at = others[0] if others and others[0] < first else first
        return at


def timers_of(slot: Any) -> list[tuple[str, int]]:
    """Names and times of a slot's timers, by name."""
    timers = slot._timers
    if timers is None:
        return []
    if len(timers) == _WIDTH:
        return [] if timers[_AT] is None else [(timers[0], timers[_AT])]
    pairs = zip(timers[::_WIDTH], timers[_AT::_WIDTH], strict=True)
    return sorted((name, at) for name, at in pairs if at is not None)


def _find(timers: list[Any], name: str) -> int:
    """Where the timer begins in the list; -1 if it is not there."""
    if timers[0] == name:
        return 0
    for at in range(_WIDTH, len(timers), _WIDTH):
        if timers[at] == name:
            return at
    return -1


def _forget(slot: Any, found: int) -> None:
    if len(slot._timers) == _WIDTH:
        slot._timers, slot._next_at = None, _NEVER
    else:
        del slot._timers[found : found + _WIDTH]


def _order(entry: tuple[Any, str]) -> tuple[Any, str]:
    key = entry[0]._key
    return (tuple(map(_rank, key)) if type(key) is tuple else _rank(key)), entry[1]


def _rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return (2, 0)
    return (1, 0) if value != value else (0, value)
