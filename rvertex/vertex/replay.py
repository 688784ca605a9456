"""Where a state can be rebuilt from: the positions that a vertex recovered by replay remembers.

A point is a position of the input, the input side's scalars there, and the greatest time of any
item before it. A state at a position where the last CTI was T needs nothing that starts before
``T - horizon`` (:mod:`rvertex.operators.horizon`), so it can be rebuilt from any point whose time
is less; the newest such point costs least.

Invariants: (1) positions and times of the points do not decrease; (2) all points but the first are
too new for the last CTI that was noted; (3) there are at most ``POINTS_MAX``, however long the
horizon and however short the steps. A call costs constant time, amortised.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rvertex.vertex.spec import ReplayFrom

if TYPE_CHECKING:
    from rvertex.operators.protocol import OperatorState

POINTS_MAX = 1024
#: Points are this part of the horizon apart: what a restart reads needlessly is no more than that.
_SPACING = 128
#: Before all times: nothing precedes the beginning.
_BEFORE_ALL = -(1 << 64)


class ReplayPoints:
    """The points of one vertex."""

    def __init__(self, horizon_us: int) -> None:
        assert horizon_us >= 0, horizon_us
        self.horizon_us = horizon_us
        self._points: deque[tuple[int, ReplayFrom]] = deque()

    def __len__(self) -> int:
        return len(self._points)

    def begin(self, inputs: tuple[int, ...], input_state: OperatorState) -> None:
        """Forget all; nothing that is needed lies before ``inputs``."""
        self._points = deque([(_BEFORE_ALL, ReplayFrom(inputs, input_state))])

    def is_due(self, time: int) -> bool:
        """Whether a position with items up to ``time`` before it is worth a point."""
        if not self._points:
            return True
        apart = time - self._points[-1][0]
        return apart > 0 and apart >= self.horizon_us // _SPACING

    def add(self, time: int, inputs: tuple[int, ...], input_state: OperatorState) -> None:
        """A point that is due."""
        self._points.append((time, ReplayFrom(inputs, input_state)))
        if len(self._points) > POINTS_MAX:
            first, *rest = self._points
            self._points = deque([first, *rest[1::2]])

    def find(self, cti: int) -> ReplayFrom | None:
        """The newest point from which the state after ``CTI(cti)`` can be rebuilt, if any.

        ``cti`` never decreases.
        """
        bound = cti - self.horizon_us
        while len(self._points) > 1 and self._points[1][0] < bound:
            self._points.popleft()
        if not self._points or self._points[0][0] >= bound:
            return None
        return self._points[0][1]
