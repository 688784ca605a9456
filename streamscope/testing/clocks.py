"""The outside of a query under test: a clock that the test moves, and seeded randomness."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from planner.durations import time_us

if TYPE_CHECKING:
    from planner.durations import Time


class VirtualClock:
    """What ``ctx.now()`` and ``ctx.random()`` draw from."""

    def __init__(self, now: Time, seed: int) -> None:
        self.us = time_us(now, what="now")
        self._random = Random(seed)

    def now_us(self) -> int:
        return self.us

    def random(self) -> float:
        return self._random.random()
