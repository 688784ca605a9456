"""CTIs that an operator holds back on account of rows, let through once these rows have left.

An operator whose rows wait (a session, an anti join) says in CTIs how far its *rows* have come, and
rows differ from vertex to vertex. With :class:`HeldCtis` behind it every CTI that it got is in its
output as well, as soon as the output has come that far, at the end of the stream at the latest. So
the last finite CTI of its output is that of its input, whichever rows were in its vertex, and what
a keyed process knows of the end (``ctx.at_end``) is the same at any parallelism.

Invariants: (1) the output stays in normal form: a CTI stands where its time puts it, and no row is
before it that starts at or after its time, as an operator puts out a row only after all CTIs up to
the row's start; (2) what has been put out follows from the output alone, so nothing depends on how
the input was cut.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from rstream.batch import VS, int64_column
from rstream.types import MIN_TIME
from rvertex.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence


class HeldCtis:
    """The CTIs of the input that the output has not come to."""

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()
        #: The last start or CTI of the output.
        self.reached: int = MIN_TIME

    def follow(self, ctis: np.ndarray, out: Run) -> Run:
        """``out`` with the CTIs that wait and that it has come to; ``ctis`` are those of a step."""
        self._waiting.extend(ctis.tolist())
        if out.events.num_rows:
            self.reached = max(self.reached, int(int64_column(out.events, VS)[-1]))
        if len(out.ctis):
            self.reached = max(self.reached, int(out.ctis[-1]))
        passed: list[int] = []
        while self._waiting and self._waiting[0] <= self.reached:
            passed.append(self._waiting.popleft())
        return Run(out.events, np.union1d(out.ctis, passed)) if passed else out

    def save(self) -> list[int]:
        """The state as plain numbers."""
        return [self.reached, *self._waiting]

    def load(self, state: Sequence[int]) -> None:
        """Continue from :meth:`save`."""
        self.reached, *waiting = state
        self._waiting = deque(waiting)
