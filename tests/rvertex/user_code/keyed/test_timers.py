"""Timers fire in order of time, after any timers were set, moved and deleted.

Not covered: their use in processes (``test_timers_at_any_width.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from rstream.types import INF_TIME
from rvertex.user_code.keyed.timers import TimerQueue, timers_of


@dataclass
class Slot:
    _key: int
    _name: str = ""
    _next_at: int = INF_TIME
    _queued: int = INF_TIME
    _timers: dict[str, int] | None = None


def taken(queue: TimerQueue) -> list[tuple[int, int, str]]:
    """The timers of the next due time: time, key, name."""
    at = queue.least()
    found = []
    for slot in queue.take():
        found += [(at, slot._key, name) for _, name in queue.due(slot, at)]
        queue.enqueue(slot)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_earliest_timers_are_first(seed: int) -> None:
    rng = Random(seed)
    queue, slots = TimerQueue(), [Slot(key) for key in range(6)]
    expected: dict[tuple[int, str], int] = {}
    now = 0
    for _ in range(300):
        slot, name = rng.choice(slots), rng.choice("abc")
        kind = rng.random()
        if kind < 0.6:
            at = now + 1 + rng.randrange(rng.choice([3, 40]))
            queue.set(slot, at, name)
            expected[slot._key, name] = at
        elif kind < 0.75:
            queue.delete(slot, name)
            expected.pop((slot._key, name), None)
        else:
            least = min(expected.values(), default=INF_TIME)
            assert queue.least() == least
            if expected:
                due = sorted((at, *who) for who, at in expected.items() if at == least)
                assert taken(queue) == due
                expected = {who: at for who, at in expected.items() if at > least}
                now = least
    for slot in slots:
        mine = {name: at for (key, name), at in expected.items() if key == slot._key}
        assert timers_of(slot) == sorted(mine.items())


def test_decreasing_times_are_checked_first() -> None:
    queue, slots = TimerQueue(), [Slot(key) for key in range(5)]
    for slot, at in zip(slots, (50, 40, 10, 30, 20), strict=True):
        queue.set(slot, at, "")
    order = []
    while (at := queue.next_at()) != INF_TIME:
        order.append((at, [slot._key for slot in queue.take()]))
    assert order == [(10, [2]), (20, [4]), (30, [3]), (40, [1]), (50, [0])]
