"""Sessions in two phases around an exchange, so that few rows of a key travel.

The time axis is cut into *panes* no longer than the gap: ``[k * unit, (k + 1) * unit)``. A key is
active for the gap after each of its events, so those that start within one pane are in one session,
whatever other vertices have seen. The first phase puts out one row per pane and key, which lives
from the first start to the last end of its events and holds their accumulators. It keeps the key
active exactly when they did, so the second phase makes the same sessions of such rows, and merges.
Its ``CTI(t)`` becomes the start of the pane that holds ``t``, so results are released at most a
pane later than in one phase; what they are does not depend on the panes.

A greatest length would cut sessions within panes; those sessions are computed in one phase.
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

#: Panes of a gap where rows come at the pace of their times. More release results earlier.
_PANES_PER_GAP = 10


def pane_us(gap_us: int, *, is_paced: bool) -> int:
    """How long panes are: as long as they may be, where events that are due can all be had at once.

    Then none of them waits, and the fewest rows are exchanged.
    """
    return max(gap_us // _PANES_PER_GAP, 1) if is_paced else gap_us


@dataclass(frozen=True, slots=True)
class PartialSession:
    """First phase: accumulators per pane and key. Lifetimes may be any."""

    holds_ctis: ClassVar[bool] = True

    keys: tuple[str, ...]
    #: At most the gap of the sessions.
    pane_us: int
    aggregates: tuple[AggregateSpec, ...]
    #: Events come in any order above the CTIs.
    any_order: bool = False

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Keys and lanes. Raises as ``PartialAggregate.output_schema``."""
        return lanes_schema(self.keys, self.aggregates, inputs)

    def is_order_free(self, payload: pa.Schema) -> bool:
        """As :meth:`rvertex.operators.windows.hopping.PartialAggregate.is_order_free`."""
        return is_order_free(self.aggregates, payload)

    def horizon_us(self, durations: Durations) -> int | None:
        """A pane."""
        return self.pane_us

    def output_duration(self, durations: Durations) -> int | None:
        """From a first start to a last end."""
        return sum_us(self.pane_us, durations[0])

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """The first phase with nothing open."""
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
    """Second phase: merges the rows of any number of first phases into sessions."""

    holds_ctis: ClassVar[bool] = True

    keys: tuple[str, ...]
    gap_us: int
    aggregates: tuple[AggregateSpec, ...]

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Keys, then aggregates, given the schema of partial rows."""
        return merged_schema(self.keys, self.aggregates, inputs)

    def horizon_us(self, durations: Durations) -> int | None:
        """None: a session is as long as its key is active."""
        return None

    def output_duration(self, durations: Durations) -> int | None:
        """None, as above."""
        return None

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """A new operator with empty state."""
        (partial,) = inputs
        assigner = Sessions(self.gap_us, None)
        return SingleWindow(assigner, *merging(self.keys, self.aggregates, partial))
