"""Estimates the age of a stream's items from samples of its durable end over time. Pure.

Invariants: (1) an item below ``mark(cutoff)`` was durable at ``cutoff``; (2) there are at most
``POINTS_MAX`` samples, regardless of how long the stream exists.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: The age of an item is exact to this fraction (1 / 32) of the retention.
PARTS = 32
POINTS_MAX = PARTS + 3


@dataclass
class Ages:
    """Samples of one stream. At wall-clock time ``us``, all items below ``seq`` were durable."""

    #: The samples ``(us, seq)``. Both numbers increase from sample to sample.
    points: list[tuple[int, int]] = field(default_factory=list)

    def note(self, now_us: int, end: int, retention_us: int) -> bool:
        """Record that the stream is durable up to ``end`` now. Return whether the samples changed.

        If the clock was set back, samples of a later time are treated as taken now. So their items
        count as younger than they are, and are not deleted too early.
        """
        before = list(self.points)
        self.points = [(min(at, now_us), seq) for at, seq in self.points if seq <= end]
        while len(self.points) > 1 and self.points[-2][0] >= self.points[-1][0]:
            del self.points[-2]
        last_us, last = self.points[-1] if self.points else (None, None)
        if last_us is None or (now_us - last_us >= retention_us // PARTS and end != last):
            self.points.append((now_us, end))
        cutoff_us = now_us - retention_us
        while len(self.points) > 1 and self.points[1][0] <= cutoff_us:
            del self.points[0]
        del self.points[: max(len(self.points) - POINTS_MAX, 0)]
        return self.points != before

    def mark(self, cutoff_us: int) -> int:
        """Return a seq below which all items were durable at ``cutoff_us``; 0 if none is known."""
        return max((seq for at, seq in self.points if at <= cutoff_us), default=0)

    def since_us(self, seq: int) -> int | None:
        """Return the latest sample time at which no item from ``seq`` on was durable, or None."""
        return max((at for at, known in self.points if known <= seq), default=None)
