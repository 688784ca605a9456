"""Windows: ``hopping(size, every)`` and ``tumbling(size)``."""

from __future__ import annotations

from dataclasses import dataclass

from planner.durations import Duration, positive_duration_us


@dataclass(frozen=True, slots=True)
class Window:
    """Windows ``[k * every, k * every + size)`` for all integers k, in microseconds since 1970."""

    size_us: int
    every_us: int


def hopping(size: Duration, every: Duration) -> Window:
    """Windows of length ``size`` that begin every ``every``."""
    return Window(
        positive_duration_us(size, what="window size"),
        positive_duration_us(every, what="window every"),
    )


def tumbling(size: Duration) -> Window:
    """Windows of length ``size``, one after the other."""
    return hopping(size, size)
