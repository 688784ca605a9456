"""Clocks. No other module reads the wall time.

:class:`SystemClock` reads the machine's clock. :class:`ManualClock` moves only when a test or the
simulation moves it.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now_us(self) -> int:
        """Return microseconds since 1970, UTC."""

    def monotonic_s(self) -> float:
        """Return seconds that never go backwards, from an arbitrary start."""


class SystemClock:
    """The clock of the machine."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def monotonic_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that is moved by hand."""

    def __init__(self, now_us: int = 0) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def monotonic_s(self) -> float:
        return self._now_us / 1e6

    def advance(self, microseconds: int) -> None:
        """Move the clock forward."""
        assert microseconds >= 0, microseconds
        self._now_us += microseconds
