"""BEGINS: one point per row, at the row's start.

Used in front of operators that read only the starts of rows, over rows whose ends arrive later. It
is stateless, since it drops end edges. CTIs (watermarks) pass unchanged.

    begins    in                 out
              start 1 a          [1, 2) a
              [3, 9) b           [3, 4) b
              end 7 (of 1) a
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.items.edges import is_end
from rvertex.events.lifetime import after, with_times
from rvertex.events.run import Run
from rvertex.operators.lifetimes.template import ChangesLifetimes

if TYPE_CHECKING:
    from rvertex.operators.horizon import Durations


@dataclass(frozen=True, slots=True)
class Begins(ChangesLifetimes):
    """Replaces every row by a point at its start."""

    def output_duration(self, durations: Durations) -> int | None:
        """Return 1 us: every output row is a point."""
        return 1

    def change(self, run: Run) -> Run:
        """Drop end edges, and set the end of all other rows to ``vs + 1``."""
        events = run.events
        ends = is_end(int64_column(events, VS), int64_column(events, VE))
        if ends.any():
            events = events.filter(pa.array(~ends))
        return Run(with_times(events, ve=after(int64_column(events, VS))), run.ctis)
