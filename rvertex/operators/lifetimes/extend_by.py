"""EXTEND BY: every event ends later, by the microseconds in one of its columns.

``[vs, ve)`` becomes ``[vs, ve - 1 + x)`` with the column's ``x >= 1``: the event lives for x from
its last instant on. So x = 1 changes nothing. An end past the time axis becomes INF_TIME. CTIs
(watermarks) pass unchanged, since no start changes.

    extend by x     in                out
                    [1, 2) x=4        [1, 5) x=4
                    [3, 9) x=1        [3, 9) x=1
                    CTI(4)            CTI(4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rstream.items.batch import VE, int64_column
from rstream.types import INF_TIME
from rvertex.events.lifetime import with_times
from rvertex.events.run import Run
from rvertex.operators.lifetimes.template import ChangesLifetimes

if TYPE_CHECKING:
    from rvertex.operators.horizon import Durations


@dataclass(frozen=True, slots=True)
class ExtendBy(ChangesLifetimes):
    """Moves every end by an int64 column, which is at least 1 and never null."""

    column: str

    def output_duration(self, durations: Durations) -> int | None:
        """Return None: the column has no upper bound."""
        return None

    def change(self, run: Run) -> Run:
        """Move every end."""
        by = int64_column(run.events, self.column)
        last = int64_column(run.events, VE) - 1
        ve = np.where(last > INF_TIME - by, INF_TIME, last + by)
        return Run(with_times(run.events, ve=ve), run.ctis)
