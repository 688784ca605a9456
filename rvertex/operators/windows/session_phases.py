"""Sessions in two phases around an exchange, so that fewer rows per key are sent.

The time axis is divided into *panes* ``[k * unit, (k + 1) * unit)`` that are no longer than the
gap. A key is active for the gap after each of its events. So events that start within one pane are
in one session, for any events of other vertices. The first phase emits one row per pane and key,
which lives from the first start to the last end of its events and has their accumulators. The row
keeps the key active exactly as its events do. So the second phase computes the same sessions from
such rows, and merges their accumulators. The first phase's ``CTI(t)`` (a watermark) becomes the
start of the pane that contains ``t``. So results are the same as in one phase, and are released at
most one pane later.

A greatest length would end sessions within panes, so such sessions are computed in one phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rstream.items.batch import event_schema
from rvertex.aggregates.spec import is_order_free, lanes_of
from rvertex.operators.horizon import sum_us
from rvertex.operators.windows.assigned import SingleWindow
from rvertex.operators.windows.grouping import Grouping, key_types
from rvertex.operators.windows.hopping import lanes_schema, merged_schema, merging
from rvertex.operators.windows.panes.pane_aggregate import PaneAggregate
from rvertex.operators.windows.panes.row_lifetimes import EventLifetimes, with_lifetime
from rvertex.operators.windows.session import Sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rvertex.aggregates.spec import AggregateSpec
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator

#: Number of panes per gap if rows arrive in real time. More panes release results earlier.
_PANES_PER_GAP = 10


def pane_us(gap_us: int, *, is_paced: bool) -> int:
    """Return the length of a pane, in us: the gap, or a part of it if rows arrive in real time.

    If all rows are available at once, long panes delay no result, and the fewest rows are sent.
    """
    return max(gap_us // _PANES_PER_GAP, 1) if is_paced else gap_us


@dataclass(frozen=True, slots=True)
class PartialSession:
    """First phase: accumulators per pane and key, for events of any lifetime."""

    holds_ctis: ClassVar[bool] = True

    keys: tuple[str, ...]
    #: Length of a pane, us; at most the gap of the sessions.
    pane_us: int
    aggregates: tuple[AggregateSpec, ...]
    #: Whether events may arrive unsorted. No event is earlier than the last CTI.
    any_order: bool = False

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return keys and lanes. Raises as ``PartialAggregate.output_schema``."""
        return lanes_schema(self.keys, self.aggregates, inputs)

    def is_order_free(self, payload: pa.Schema) -> bool:
        """Implement :meth:`rvertex.operators.windows.hopping.PartialAggregate.is_order_free`."""
        return is_order_free(self.aggregates, payload)

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the length of a pane, in us."""
        return self.pane_us

    def output_duration(self, durations: Durations) -> int | None:
        """Return a pane plus the greatest lifetime: from a first start to a last end."""
        return sum_us(self.pane_us, durations[0])

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a first phase with no open pane."""
        (payload,) = inputs
        lanes = lanes_of(self.aggregates, payload)
        grouping = Grouping(
            self.keys,
            key_types(self.keys, payload),
            lambda: with_lifetime(lane.accumulator() for lane in lanes),
        )
        lifetimes = EventLifetimes(self.pane_us, event_schema(self.output_schema(inputs)))
        return PaneAggregate(lifetimes, grouping, events_close_panes=not self.any_order)


@dataclass(frozen=True, slots=True)
class FinalSession:
    """Second phase: merges the rows of all first phases into sessions."""

    holds_ctis: ClassVar[bool] = True

    keys: tuple[str, ...]
    gap_us: int
    aggregates: tuple[AggregateSpec, ...]

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return keys, then aggregates, given the schema of partial rows."""
        return merged_schema(self.keys, self.aggregates, inputs)

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a new operator with empty state."""
        (partial,) = inputs
        assigner = Sessions(self.gap_us, None)
        return SingleWindow(assigner, *merging(self.keys, self.aggregates, partial))
