"""Window aggregates as in plans: in one phase, or in two phases around an exchange.

``WindowAggregate`` equals ``PartialAggregate`` followed by ``FinalAggregate`` in one vertex. A
partial row has the accumulators of one key for a *unit* of time, and the unit is its lifetime. For
point events the unit is a pane of ``gcd(size, every)``, so that hopping windows share panes. For
interval events it is the window itself, since an event counts once per window.

Results are emitted when a window closes, sorted by (window start, keys ascending, nulls last).
``CTI(t)`` (a watermark) becomes the start of the earliest window still open at t. Null keys form a
group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import pyarrow as pa

from rstream.items.batch import event_schema
from rvertex.aggregates.spec import (
    AggregateSpec,
    is_order_free,
    lanes_in,
    lanes_of,
    result_fields,
    results,
)
from rvertex.errors import OperatorTypeError
from rvertex.operators.horizon import sum_us
from rvertex.operators.protocol import OperatorState, held_tables, in_pieces, whole
from rvertex.operators.windows.arithmetic import Windows
from rvertex.operators.windows.gather import ByOverlap, ByStart, WindowGather
from rvertex.operators.windows.grouping import VERIFIED_WHEN_READ, Grouping, key_types
from rvertex.operators.windows.panes.pane_aggregate import PaneAggregate
from rvertex.operators.windows.panes.row_lifetimes import PaneLifetimes
from rvertex.operators.windows.sliding import SlidingWindows, sliding_lanes
from rvertex.state.memory import give_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rvertex.aggregates.function import Lane
    from rvertex.events.run import Run
    from rvertex.operators.horizon import Durations
    from rvertex.operators.protocol import Operator
    from rvertex.state.memory import StateMemory


class _Grouped(Protocol):
    @property
    def keys(self) -> tuple[str, ...]: ...

    @property
    def aggregates(self) -> tuple[AggregateSpec, ...]: ...


class Aggregates:
    """Base of specifications that emit keys and aggregates in one step."""

    __slots__ = ()

    def output_schema(self: _Grouped, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return keys, then aggregates. Raises as :meth:`PartialAggregate.output_schema`."""
        return aggregated_schema(self.keys, self.aggregates, inputs)


@dataclass(frozen=True, slots=True)
class PartialAggregate:
    """First phase: accumulators per unit and key. ``points``: every event has ``ve = vs + 1``."""

    holds_ctis: ClassVar[bool] = False

    keys: tuple[str, ...]
    size_us: int
    every_us: int
    aggregates: tuple[AggregateSpec, ...]
    points: bool
    #: Whether events may arrive unsorted. No event is earlier than the last CTI.
    any_order: bool = False

    @property
    def _unit(self) -> int:
        windows = Windows(self.size_us, self.every_us)
        return windows.pane.size if self.points else windows.size

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return keys and lanes.

        Raises:
            UnknownColumnError: a key or an aggregated column that the input does not have.
            OperatorTypeError: a column of a type that a function or a key cannot take.
        """
        return lanes_schema(self.keys, self.aggregates, inputs)

    def horizon_us(self, durations: Durations) -> int | None:
        """Return a pane for points, else the window size plus the greatest lifetime of an event."""
        return self._unit if self.points else sum_us(self.size_us, durations[0])

    def output_duration(self, durations: Durations) -> int | None:
        """Return the length of the unit, in us."""
        return self._unit

    def is_order_free(self, payload: pa.Schema) -> bool:
        """Return whether events need not be sorted, if events of equal ``vs`` keep their order.

        No event may be below the last CTI (watermark).
        """
        return self.points and is_order_free(self.aggregates, payload)

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a first phase with no open unit."""
        (payload,) = inputs
        lanes = lanes_of(self.aggregates, payload)
        needed = _needed(self.keys, self.aggregates, payload)
        grouping = Grouping(
            self.keys,
            key_types(self.keys, payload),
            lambda: [lane.accumulator() for lane in lanes],
            tuple(needed.names),
        )
        windows = Windows(self.size_us, self.every_us)
        schema = event_schema(self.output_schema(inputs))
        if self.points:
            lifetimes = PaneLifetimes(windows, schema)
            return PaneAggregate(lifetimes, grouping, events_close_panes=not self.any_order)
        return WindowGather(ByOverlap(windows), grouping, needed, schema, lambda columns: columns)


@dataclass(frozen=True, slots=True)
class FinalAggregate:
    """Second phase: merges the partial rows of all first phases into windows."""

    holds_ctis: ClassVar[bool] = False

    keys: tuple[str, ...]
    size_us: int
    every_us: int
    aggregates: tuple[AggregateSpec, ...]
    points: bool

    def output_schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """Return keys, then aggregates, given the schema of partial rows."""
        return merged_schema(self.keys, self.aggregates, inputs)

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the window size: all units of a window are within it."""
        return self.size_us

    def output_duration(self, durations: Durations) -> int | None:
        """Return the window size, in us."""
        return self.size_us

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return a second phase with no open window."""
        (partial,) = inputs
        windows = Windows(self.size_us, self.every_us)
        merged = merging(self.keys, self.aggregates, partial)
        if not self.points:
            return WindowGather(ByStart(windows), *merged)
        lanes = sliding_lanes(lanes_in(self.aggregates, partial), windows)
        sliding = None if lanes is None else SlidingWindows(windows, merged[0], lanes)
        return WindowGather(ByOverlap(windows), *merged, sliding)


@dataclass(frozen=True, slots=True)
class WindowAggregate(Aggregates):
    """Both phases in one vertex."""

    holds_ctis: ClassVar[bool] = False

    keys: tuple[str, ...]
    size_us: int
    every_us: int
    aggregates: tuple[AggregateSpec, ...]
    points: bool
    #: Whether events may arrive unsorted. No event is earlier than the last CTI.
    any_order: bool = False

    @property
    def phases(self) -> tuple[PartialAggregate, FinalAggregate]:
        """The equivalent two phases."""
        fields = (self.keys, self.size_us, self.every_us, self.aggregates, self.points)
        return PartialAggregate(*fields, self.any_order), FinalAggregate(*fields)

    def is_order_free(self, payload: pa.Schema) -> bool:
        """Return the same as :meth:`PartialAggregate.is_order_free`."""
        return self.points and is_order_free(self.aggregates, payload)

    def horizon_us(self, durations: Durations) -> int | None:
        """Return the window size; for intervals plus the greatest lifetime of an event."""
        return self.size_us if self.points else sum_us(self.size_us, durations[0])

    def output_duration(self, durations: Durations) -> int | None:
        """Return the window size, in us."""
        return self.size_us

    def open(self, inputs: Sequence[pa.Schema]) -> Operator:
        """Return an operator of two phases.

        If a function needs all rows of a window, return one that buffers rows instead.
        """
        partial, final = self.phases
        if any(aggregate.is_holistic for aggregate in self.aggregates):
            (payload,) = inputs
            return WindowGather(
                ByOverlap(Windows(self.size_us, self.every_us)),
                *gathering(self.keys, self.aggregates, payload),
            )
        return TwoPhases(partial.open(inputs), final.open([partial.output_schema(inputs)]))


def lanes_schema(
    keys: tuple[str, ...], aggregates: tuple[AggregateSpec, ...], inputs: Sequence[pa.Schema]
) -> pa.Schema:
    """Return keys and lanes of partial rows, given the schema of events."""
    (payload,) = inputs
    lanes = lanes_of(aggregates, payload)
    types = key_types(keys, payload)
    return _schema(keys, types, [field for lane in lanes for field in lane.fields])


def merged_schema(
    keys: tuple[str, ...], aggregates: tuple[AggregateSpec, ...], inputs: Sequence[pa.Schema]
) -> pa.Schema:
    """Return keys, then aggregates, given the schema of partial rows."""
    (partial,) = inputs
    lanes = lanes_in(aggregates, partial)
    return _schema(keys, key_types(keys, partial), result_fields(aggregates, lanes))


def aggregated_schema(
    keys: tuple[str, ...], aggregates: tuple[AggregateSpec, ...], inputs: Sequence[pa.Schema]
) -> pa.Schema:
    """Return keys, then aggregates, given the schema of events.

    Raises as :meth:`PartialAggregate.output_schema`.
    """
    (payload,) = inputs
    lanes = lanes_of(aggregates, payload)
    return _schema(keys, key_types(keys, payload), result_fields(aggregates, lanes))


def gathering(
    keys: tuple[str, ...], aggregates: tuple[AggregateSpec, ...], payload: pa.Schema
) -> tuple[Grouping, pa.Schema, pa.Schema, Callable[[list[pa.Array]], list[pa.Array]]]:
    """Prepare the aggregation of all rows of a window in one pass.

    Returns the grouping, the schemas of buffered rows and of results, and the function that
    computes the aggregates' columns from the lanes' columns.
    """
    lanes = lanes_of(aggregates, payload)
    grouping = Grouping(
        keys, key_types(keys, payload), lambda: [lane.accumulator() for lane in lanes]
    )
    return (
        grouping,
        _needed(keys, aggregates, payload),
        event_schema(aggregated_schema(keys, aggregates, [payload])),
        lambda columns: results(aggregates, _by_name(lanes, columns)),
    )


def merging(
    keys: tuple[str, ...], aggregates: tuple[AggregateSpec, ...], partial: pa.Schema
) -> tuple[Grouping, pa.Schema, pa.Schema, Callable[[list[pa.Array]], list[pa.Array]]]:
    """Prepare a second phase that merges rows of ``partial``; returns as :func:`gathering`."""
    lanes = lanes_in(aggregates, partial)
    grouping = Grouping(keys, key_types(keys, partial), lambda: [lane.merger() for lane in lanes])
    return (
        grouping,
        event_schema(partial),
        event_schema(merged_schema(keys, aggregates, [partial])),
        lambda columns: results(aggregates, _by_name(lanes, columns)),
    )


class TwoPhases:
    """Runs two operators, one after the other."""

    #: See :mod:`rvertex.state.unverified`.
    verified_when_read: ClassVar = VERIFIED_WHEN_READ

    def __init__(self, partial: Operator, final: Operator) -> None:
        self._partial = partial
        self._final = final

    def use_memory(self, memory: StateMemory) -> None:
        """Implement :class:`rvertex.state.memory.SpillsState`."""
        give_memory(self._partial, memory)
        give_memory(self._final, memory)

    def held_tables(self) -> dict[str, pa.Table]:
        """Implement :class:`rvertex.operators.protocol.ShowsState`."""
        (merged,) = held_tables(self._final).values()
        return {**held_tables(self._partial), "partial_rows": merged}

    def process(self, ports: Sequence[Run]) -> Run:
        """Pass the output of the first phase to the second."""
        return whole(self.process_in_pieces(ports))

    def process_in_pieces(self, ports: Sequence[Run]) -> Iterator[Run | None]:
        """Implement :class:`rvertex.operators.protocol.EmitsInPieces`."""
        return in_pieces([self._partial, self._final], ports)

    def snapshot(self) -> OperatorState:
        """Return both states."""
        partial, final = self._partial.snapshot(), self._final.snapshot()
        tables = {f"partial.{name}": table for name, table in partial.tables.items()}
        tables |= {f"final.{name}": table for name, table in final.tables.items()}
        return OperatorState({"partial": partial.header, "final": final.header}, tables)

    def load(self, state: OperatorState) -> None:
        """Restore both states."""
        for phase, operator in (("partial", self._partial), ("final", self._final)):
            prefix = f"{phase}."
            tables = {
                name.removeprefix(prefix): table
                for name, table in state.tables.items()
                if name.startswith(prefix)
            }
            operator.load(OperatorState(state.header[phase], tables))


def _needed(
    keys: tuple[str, ...], aggregates: tuple[AggregateSpec, ...], payload: pa.Schema
) -> pa.Schema:
    """Return the columns of rows that are buffered until their windows close."""
    needed = {*keys, *(a.column for a in aggregates)}
    return event_schema(pa.schema([field for field in payload if field.name in needed]))


def _schema(
    keys: Sequence[str], types: Sequence[pa.DataType], fields: Sequence[pa.Field]
) -> pa.Schema:
    columns = [pa.field(name, kind) for name, kind in zip(keys, types, strict=True)]
    columns += fields
    names: set[str] = set()
    for column in columns:
        if column.name in names:
            raise OperatorTypeError("aggregate", f"two output columns are named {column.name!r}")
        names.add(column.name)
    return pa.schema(columns)


def _by_name(lanes: Sequence[Lane], columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
    names = [field.name for lane in lanes for field in lane.fields]
    return dict(zip(names, columns, strict=True))
