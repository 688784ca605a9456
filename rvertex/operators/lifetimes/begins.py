"""BEGINS: a point for each row, at the instant at which it begins.

For operators that read only when rows begin, over rows whose ends come later. Stateless, as an end
edge adds nothing. CTIs pass.

    begins    in                 out
              start 1 a          [1, 2) a
              [3, 9) b           [3, 4) b
              end 7 (of 1) a
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from rstream.items.batch import VE, VS, int64_column
from rstream.items.edges import is_end
from rvertex.events.lifetime import after, with_times
from rvertex.events.run import Run
from rvertex.operators.protocol import Stateless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.operators.horizon import Durations


@dataclass(frozen=True, slots=True)
class Begins:
    """Turns every row into a point at its begin."""

    holds_ctis: ClassVar[bool] = False

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's schema."""
        (payload,) = inputs
        return payload

    def horizon_us(self, durations: Durations) -> int | None:
        """Nothing is kept."""
        return 0

    def output_duration(self, durations: Durations) -> int | None:
        """Points."""
        return 1

    def open(self, inputs: Sequence[pa.Schema]) -> BeginsOperator:
        """The operator; it has no state."""
        return BeginsOperator()


class BeginsOperator(Stateless):
    """See :class:`Begins`."""

    def process(self, ports: Sequence[Run]) -> Run:
        """Drop end edges and shorten all other rows."""
        (run,) = ports
        events = run.events
        ends = is_end(int64_column(events, VS), int64_column(events, VE))
        if ends.any():
            events = events.filter(pa.array(~ends))
        return Run(with_times(events, ve=after(int64_column(events, VS))), run.ctis)
