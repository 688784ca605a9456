"""Faults of single frames on working connections: duplication, reordering, loss.

A transport that keeps the order has no such faults, but the code at both ends must not rely on
that. Frames that are lost because their connection breaks are simulated in ``network``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamscope.testing.simulation.scheduler import Scheduler

#: Greatest delay of a frame or a copy.
LATE_S = 2.0
#: Probability that a frame suffers a fault while one is due.
SHARE = 0.5


class Fates:
    """The number of frames still to be copied, delayed or lost on each kind of connection.

    Kinds: "up" (control messages to the job manager), "down" (from it), "data".
    """

    def __init__(self, world: Scheduler) -> None:
        self._world = world
        self._due: Counter[str] = Counter()

    def expect(self, fate: str, frames: int) -> None:
        """Let a fault (``up copy``, ``data late``, ...) happen to ``frames`` more frames."""
        self._due[fate] += frames

    def late_s(self, line: str) -> list[float]:
        """Return the extra delay of each copy of one frame, s; empty if the frame is lost."""
        if self._befalls(f"{line} loss"):
            return []
        first_s = self._some_s() if self._befalls(f"{line} late") else 0.0
        return [first_s, self._some_s()] if self._befalls(f"{line} copy") else [first_s]

    def _befalls(self, fate: str) -> bool:
        """Decide whether a fault happens to the frame.

        Draws no random number while none is due, so runs without these faults keep their trace.
        """
        if not self._due[fate] or not self._world.chance(SHARE):
            return False
        self._due[fate] -= 1
        self._world.met[f"frame: {fate}"] += 1
        return True

    def _some_s(self) -> float:
        return self._world.between(0.0, self._world.random.choice([0.001, 0.1, LATE_S]))
