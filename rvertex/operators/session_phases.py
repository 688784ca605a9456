"""Sessions in two phases around an exchange, so that few rows of a key travel.

The time axis is cut into *panes* no longer than the gap: ``[k * unit, (k + 1) * unit)``. A key is
active for the gap after each of its events, so those that start within one pane are in one session,
whatever other vertices have seen. The first phase puts out one row per pane and key, which lives
from the first start to the last end of its events and holds their accumulators. It keeps the key
active exactly when they did, so the second phase makes the same sessions of such rows, and merges.

A greatest length would cut sessions within panes; those sessions are computed in one phase.

Invariants: (1) the state of the first phase is the open pane alone (in any order: those that no CTI
has closed); (2) its rows come by (pane, first start, key); (3) its ``CTI(t)`` becomes the start of
the pane that holds ``t``, so results are released at most a pane later than in one phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.batch import VE, VS, event_schema, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.accumulators import numbers, whole
from rvertex.aggregates import is_order_free, lanes_of
from rvertex.group_arrays import GroupArray
from rvertex.horizon import sum_us
from rvertex.operators.aggregate import lanes_schema, merged_schema, merging
from rvertex.operators.grouping import Grouping, closed_groups, key_types
from rvertex.operators.open_pane import OpenPane
from rvertex.operators.session import Sessions
from rvertex.operators.single_window import SingleWindow
from rvertex.operators.unordered_panes import UnorderedPanes
from rvertex.ordering import in_time_order
from rvertex.run import Run
from rvertex.sorted_runs import concatenated
from rvertex.windows import Windows, floor_divided, growing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.accumulators import Rows, Saved
    from rvertex.aggregates import AggregateSpec
    from rvertex.horizon import Durations
    from rvertex.operators.protocol import Operator, OperatorState

#: Panes of a gap. More release results earlier, fewer send less.
_PANES_PER_GAP = 10
_LAST_PANE = 2**63
_NO_PANES = np.empty(0, np.int64)


def pane_us(gap_us: int) -> int:
    """How long a pane is; the CTIs of sources lie on the bounds of panes where gaps are decimal."""
    return max(gap_us // _PANES_PER_GAP, 1)


@dataclass(frozen=True, slots=True)
class PartialSession:
    """First phase: accumulators per pane and key. Lifetimes may be any."""

    keys: tuple[str, ...]
    gap_us: int
    aggregates: tuple[AggregateSpec, ...]
    #: Events come in any order above the CTIs.
    any_order: bool = False

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Keys and lanes. Raises as ``PartialAggregate.output_schema``."""
        return lanes_schema(self.keys, self.aggregates, inputs)

    def is_order_free(self, payload: pa.Schema) -> bool:
        """As :meth:`rvertex.operators.aggregate.PartialAggregate.is_order_free`."""
        return is_order_free(self.aggregates, payload)

    def horizon_us(self, durations: Durations) -> int | None:
        """A pane."""
        return pane_us(self.gap_us)

    def output_duration(self, durations: Durations) -> int | None:
        """From a first start to a last end."""
        return sum_us(pane_us(self.gap_us), durations[0])

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """The first phase with nothing open."""
        (payload,) = inputs
        lanes = lanes_of(self.aggregates, payload)
        grouping = Grouping(
            self.keys,
            key_types(self.keys, payload),
            lambda: [*(lane.accumulator() for lane in lanes), _first_start(), _last_end()],
        )
        make = UnorderedSessionPanes if self.any_order else SessionPanes
        return make(pane_us(self.gap_us), grouping, event_schema(self.output_schema(inputs)))


@dataclass(frozen=True, slots=True)
class FinalSession:
    """Second phase: merges the rows of any number of first phases into sessions."""

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
        """No session yet."""
        (partial,) = inputs
        assigner = Sessions(self.gap_us, None)
        return SingleWindow(assigner, *merging(self.keys, self.aggregates, partial))


class SessionPanes:
    """Aggregates events by pane and key; ``schema`` is that of partial events."""

    def __init__(self, unit_us: int, grouping: Grouping, schema: pa.Schema) -> None:
        self._unit = unit_us
        self._grouping = grouping
        self._schema = schema
        self._pane = OpenPane(grouping)
        self._last_cti: int | None = None

    def process(self, ports: Sequence[Run]) -> Run:
        """Fold the events in and emit the panes that they, or the CTIs, close."""
        (run,) = ports
        out: list[pa.RecordBatch] = []
        if run.events.num_rows:
            self._consume(run.events, out)
        if len(run.ctis):
            last = int(run.ctis[-1])
            self._close_before(_LAST_PANE if last == INF_TIME else last // self._unit, out)
        ctis = growing(_starts_of_panes(run.ctis, self._unit), self._last_cti)
        if len(ctis):
            self._last_cti = int(ctis[-1])
        return Run(concatenated(out, self._schema), ctis)

    def snapshot(self) -> OperatorState:
        """The open pane, by reference."""
        return self._pane.snapshot(self._last_cti)

    def load(self, state: OperatorState) -> None:
        """Continue with the open pane of ``state``."""
        self._last_cti = self._pane.load(state)

    def _consume(self, events: pa.RecordBatch, out: list[pa.RecordBatch]) -> None:
        """A slice for the open pane, one pass over all that end here, a slice for the last one."""
        panes = floor_divided(int64_column(events, VS), self._unit)
        first, last = int(panes[0]), int(panes[-1])
        self._close_before(first, out)
        lo, hi = 0, int(panes.searchsorted(last))
        if hi and self._pane.number == first:
            lo = int(panes.searchsorted(first, side="right"))
            self._pane.update(first, events.slice(0, lo))
        self._close_before(last, out)
        if lo < hi:
            whole_panes = events.slice(lo, hi - lo)
            _, keys, lanes = closed_groups(self._grouping, whole_panes, panes[lo:hi], at=None)
            out.append(self._rows(keys, lanes))
        self._pane.update(last, events.slice(hi))

    def _close_before(self, pane: int, out: list[pa.RecordBatch]) -> None:
        """Emit the open pane if it lies before ``pane``."""
        if self._pane.is_before(pane):
            out.append(self._rows(*self._pane.close()))

    def _rows(self, keys: list[pa.Array], lanes: list[pa.Array]) -> pa.RecordBatch:
        return _by_start(_living(keys, lanes, self._schema))


class UnorderedSessionPanes(UnorderedPanes):
    """The same of events in any order above the CTIs; a CTI closes panes, an event does not."""

    def __init__(self, unit_us: int, grouping: Grouping, schema: pa.Schema) -> None:
        super().__init__(Windows(unit_us, unit_us), grouping, schema)

    def process(self, ports: Sequence[Run]) -> Run:
        """Fold the events in and emit the panes that the CTIs close."""
        (run,) = ports
        unit = self._panes.size
        out: list[pa.RecordBatch] = []
        last = int(run.ctis[-1]) if len(run.ctis) else int(MIN_TIME)
        closing = _LAST_PANE if last == INF_TIME else last // unit
        if run.events.num_rows:
            self._consume(run.events, closing, out)
        closed = [self._open.pop(p).result() for p in sorted(self._open) if p < closing]
        out += [self._rows(_NO_PANES, *result) for result in closed]
        ctis = growing(_starts_of_panes(run.ctis, unit), self._last_cti)
        if len(ctis):
            self._last_cti = int(ctis[-1])
        return Run(_by_start(concatenated(out, self._schema)), ctis)

    def _rows(
        self, panes: np.ndarray, keys: list[pa.Array], lanes: list[pa.Array]
    ) -> pa.RecordBatch:
        return _living(keys, lanes, self._schema)


def _living(keys: list[pa.Array], lanes: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Partial rows, of which the last two lanes are the lifetimes."""
    *lanes, start, end = lanes
    return pa.RecordBatch.from_arrays([start, end, *keys, *lanes], schema=schema)


def _by_start(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows by start; of equal start, which are of one pane, by key, as they come."""
    return in_time_order(rows)[0]


def _starts_of_panes(times: np.ndarray, unit: int) -> np.ndarray:
    """The start of the pane that holds each time, on the time axis; INF_TIME for INF_TIME."""
    lowest = -(2**63 // unit)
    panes = times // unit
    starts = np.where(panes < lowest, MIN_TIME, np.maximum(panes, lowest) * unit)
    return np.where(times == INF_TIME, INF_TIME, starts)


class _Bound:
    """The least or greatest time of a group's events: a lane of lifetimes, not of values."""

    def __init__(self, column: str, fold: np.ufunc, fill: int) -> None:
        self._column = column
        self._fold = fold
        self._times = GroupArray(np.int64, fill)

    def update(self, rows: Rows) -> None:
        assert rows.at is None, "an event is in one pane"
        times = int64_column(rows.events, self._column)
        self._fold.at(self._times.writable(rows.groups), rows.codes, times)

    def columns(self) -> list[pa.Array]:
        return [pa.array(self._times.shared())]

    def save(self) -> list[Saved]:
        return [*self.columns()]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        self._times.adopt(numbers(whole(state[0])))


def _first_start() -> _Bound:
    return _Bound(VS, np.minimum, INF_TIME)


def _last_end() -> _Bound:
    return _Bound(VE, np.maximum, MIN_TIME)
