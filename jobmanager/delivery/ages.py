"""How old the items of a stream are, from a few moments at which its end was seen. Pure.

Invariants: (1) an item below ``mark(cutoff)`` was durable at ``cutoff``; (2) there are at most
``POINTS_MAX`` points, however long the stream lives.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: A retention is as exact as this part of it.
PARTS = 32
POINTS_MAX = PARTS + 3


@dataclass
class Ages:
    """Points ``(us, seq)``: at that time the stream was durable up to there. Both increase."""

    points: list[tuple[int, int]] = field(default_factory=list)

    def note(self, now_us: int, end: int, retention_us: int) -> bool:
        """The stream is durable up to ``end`` now; whether that was worth a point.

        A clock that was set back makes the points after it wrong: they are taken for new.
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
        """Below this seq all items were durable at ``cutoff_us``; 0 if that is not known."""
        return max((seq for at, seq in self.points if at <= cutoff_us), default=0)

    def since_us(self, seq: int) -> int | None:
        """No item at or above ``seq`` was durable before this time, as far as that is known."""
        return max((at for at, known in self.points if known <= seq), default=None)
