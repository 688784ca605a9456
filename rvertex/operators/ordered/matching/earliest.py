"""Times by key, with fast access to the earliest.

Invariants: (1) each key with a time has an entry with that time. Entries with other times are
stale, and skipped; (2) a call costs amortised time in the keys that it gets and returns; (3) there
are at most three times as many entries as keys. An early entry may hide later stale entries for
long, so stale entries are removed before they exceed that.
"""

from __future__ import annotations

import heapq

import numpy as np

from rstream.types import INF_TIME
from rvertex.events.group_arrays import GroupArray

#: Number of entries of a block that are compared at once.
_COMPARED = 64
#: Stale entries are removed only if there are at least this many entries.
_ENTRIES_MIN = 4096
_NO_CODES = np.zeros(0, np.int64)


class Earliest:
    """A time per key; INF_TIME: the key has no time."""

    def __init__(self) -> None:
        self._of = GroupArray(np.int64, INF_TIME)
        #: ``(time, code, -1)`` for a single key; ``(time, block, place)`` for a block of keys.
        self._heap: list[tuple[int, int, int]] = []
        #: By number: sorted times, and their keys.
        self._blocks: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._next = 0
        #: Entries added since stale entries were last removed.
        self._added = 0

    def set(self, code: int, time: int) -> None:
        """Set the time of a key."""
        of = self._of.writable(max(code + 1, len(self._of)))
        if of[code] != time:
            of[code] = time
            if time != INF_TIME:
                heapq.heappush(self._heap, (time, code, -1))
                self._count(1)

    def set_all(self, codes: np.ndarray, times: np.ndarray) -> None:
        """Set the times of many keys; each key occurs once."""
        if not len(codes):
            return
        of = self._of.writable(max(int(codes.max()) + 1, len(self._of)))
        is_new = (of[codes] != times) & (times != INF_TIME)
        of[codes] = times
        self._add_block(codes[is_new], times[is_new])
        self._count(int(is_new.sum()))

    def picked(self, codes: np.ndarray) -> Earliest:
        """Return a copy with the times of ``codes`` only, which get the codes 0, 1, ..."""
        picked, known = Earliest(), self._of.read()
        inside = codes[codes < len(known)]
        assert np.array_equal(inside, codes[: len(inside)]), codes
        picked.set_all(np.arange(len(inside)), known[inside])
        return picked

    def first(self) -> int:
        """Return the earliest time; INF_TIME if there is none."""
        of = self._of.read()
        while self._heap:  # ends: the heap shrinks, or a block's position grows
            time, number, place = self._heap[0]
            if place < 0:
                if of[number] == time:
                    return time
                heapq.heappop(self._heap)
                continue
            times, codes = (part[place : place + _COMPARED] for part in self._blocks[number])
            (valid,) = np.nonzero(of[codes] == times)
            if len(valid) and valid[0] == 0:
                return time
            self._move(number, place + (int(valid[0]) if len(valid) else len(times)))
        return INF_TIME

    def take_before(self, time: int) -> np.ndarray:
        """Remove the keys with times before ``time``; return them."""
        taken: list[np.ndarray] = []
        while self.first() < time:  # ends: each round removes a key
            of = self._of.writable(len(self._of))
            _, number, place = self._heap[0]
            if place < 0:
                heapq.heappop(self._heap)
                taken.append(np.array([number], np.int64))
            else:
                times, codes = self._blocks[number]
                to = int(times.searchsorted(time))
                valid = of[codes[place:to]] == times[place:to]
                taken.append(codes[place:to][valid])
                self._move(number, to)
            of[taken[-1]] = INF_TIME
        return np.concatenate(taken) if taken else _NO_CODES

    def _add_block(self, codes: np.ndarray, times: np.ndarray) -> None:
        if len(times):
            order = np.argsort(times, kind="stable")
            self._blocks[self._next] = times[order], codes[order]
            heapq.heappush(self._heap, (int(times[order[0]]), self._next, 0))
            self._next += 1

    def _count(self, added: int) -> None:
        """Count new entries; remove stale entries if there are many."""
        self._added += added
        if self._added > 2 * len(self._of) + _ENTRIES_MIN:
            of = self._of.read()
            self._heap, self._blocks, self._added = [], {}, 0
            codes = np.flatnonzero(of != INF_TIME)
            self._add_block(codes, of[codes])

    def _move(self, number: int, place: int) -> None:
        """Move the first heap entry, a block, to position ``place``; drop a block at its end."""
        times, _ = self._blocks[number]
        if place < len(times):
            heapq.heapreplace(self._heap, (int(times[place]), number, place))
        else:
            heapq.heappop(self._heap)
            del self._blocks[number]
