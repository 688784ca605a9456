"""The input positions from which a vertex that is recovered by replay can rebuild its state.

A point is a position of the input, the input side's scalar state there, and the greatest time of
the items before it. A state whose last CTI (watermark) was T does not depend on items that start
before ``T - horizon`` (:mod:`rvertex.operators.horizon`). So it can be rebuilt from any point with
a time below that. The newest such point needs the fewest reads.

Invariants: (1) positions and times of the points do not decrease; (2) only the first point can be
used for the last CTI, the others are too new; (3) there are at most ``POINTS_MAX`` points, for any
horizon and step size. A call takes constant time, amortised.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rvertex.vertex.spec import ReplayFrom

if TYPE_CHECKING:
    from rvertex.operators.protocol import OperatorState

POINTS_MAX = 1024
#: Points are at least horizon / 128 apart. A restart reads at most that much more than necessary.
_SPACING = 128
#: Time of the point at the beginning of the input, which is below all times.
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
        """Restart with a single point at ``inputs``. No state depends on items before it."""
        self._points = deque([(_BEFORE_ALL, ReplayFrom(inputs, input_state))])

    def is_due(self, time: int) -> bool:
        """Return whether to add a point.

        All items before the position have times up to ``time``.
        """
        if not self._points:
            return True
        apart = time - self._points[-1][0]
        return apart > 0 and apart >= self.horizon_us // _SPACING

    def add(self, time: int, inputs: tuple[int, ...], input_state: OperatorState) -> None:
        """Add a point that is due.

        If there are more than ``POINTS_MAX``, drop every second point.
        """
        self._points.append((time, ReplayFrom(inputs, input_state)))
        if len(self._points) > POINTS_MAX:
            first, *rest = self._points
            self._points = deque([first, *rest[1::2]])

    def find(self, cti: int) -> ReplayFrom | None:
        """Return the newest point from which the state after ``CTI(cti)`` can be rebuilt, or None.

        ``cti`` must not decrease between calls, because points that are no longer needed are
        dropped.
        """
        bound = cti - self.horizon_us
        while len(self._points) > 1 and self._points[1][0] < bound:
            self._points.popleft()
        if not self._points or self._points[0][0] >= bound:
            return None
        return self._points[0][1]
