"""SET DURATION: every event gets the same length.

``[vs, ve)`` becomes ``[vs, vs + d)``, ``d >= 1``; past the time axis that is ``[vs, INF_TIME)``.
CTIs (watermarks) pass unchanged, since no start changes.

    set_duration(4)   in             out
                      [1, 2) a       [1, 5) a
                      [3, INF) b     [3, 7) b
                      CTI(4)         CTI(4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rstream.items.batch import VS, int64_column
from rvertex.events.lifetime import lasting, with_times
from rvertex.events.run import Run
from rvertex.operators.lifetimes.template import ChangesLifetimes

if TYPE_CHECKING:
    from rvertex.operators.horizon import Durations


@dataclass(frozen=True, slots=True)
class SetDuration(ChangesLifetimes):
    """Gives every event the length ``duration_us``, at least 1."""

    duration_us: int

    def __post_init__(self) -> None:
        assert self.duration_us >= 1, self.duration_us

    def output_duration(self, durations: Durations) -> int | None:
        """Return ``duration_us``, the lifetime of every event."""
        return self.duration_us

    def change(self, run: Run) -> Run:
        """Replace every end."""
        vs = int64_column(run.events, VS)
        return Run(with_times(run.events, ve=lasting(vs, self.duration_us)), run.ctis)
