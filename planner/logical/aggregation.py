"""Logical nodes of aggregation by key and window; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from planner.logical.one_input import OneInput
from planner.logical.windows import (
    AnyWindow,
    CountWindow,
    DataWindow,
    SessionWindow,
    SnapshotWindow,
    Window,
)
from rvertex.aggregates.spec import AggregateSpec, Argument
from rvertex.operators.lifetimes.shift import Shift
from rvertex.operators.windows.count import CountWindowAggregate
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.operators.windows.session import SessionAggregate
from rvertex.operators.windows.session_phases import FinalSession, PartialSession
from rvertex.operators.windows.snapshots.window import SnapshotAggregate

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.logical.nodes import Lifetime, LogicalNode

AggregateFunction = Literal[
    "count",
    "sum",
    "product",
    "mean",
    "min",
    "max",
    "first",
    "last",
    "max_by",
    "min_by",
    "variance",
    "stddev",
    "count_distinct",
    "top_k",
    "quantile",
    "user",
]
#: Of these, which of rows that tie is taken follows from their sequence, which partial rows of
#: sessions do not keep.
_SEQUENTIAL = ("first", "last", "max_by", "min_by")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One output column of an aggregation. ``column`` None: rows are counted."""

    function: AggregateFunction
    column: str | None
    output: str
    #: What the function is told besides: ddof, k, q, or the user's object.
    argument: Argument = None

    @property
    def spec(self) -> AggregateSpec:
        """The same for an operator."""
        return AggregateSpec(self.function, self.column, self.output, self.argument)


#: "complete": in one step. "partial" before an exchange, "final" after it.
Phase = Literal["complete", "partial", "final"]
_PHASES: dict[Phase, type[WindowAggregate | PartialAggregate | FinalAggregate]] = {
    "complete": WindowAggregate,
    "partial": PartialAggregate,
    "final": FinalAggregate,
}


@dataclass(frozen=True, slots=True)
class WindowAgg(OneInput):
    """Aggregates per key and window ``[k * every, k * every + size)``."""

    keys: tuple[str, ...]
    size_us: int
    every_us: int
    aggregates: tuple[Aggregate, ...]
    #: The input's lifetimes are points, so windows may share panes.
    points: bool
    phase: Phase = "complete"
    label: str = ""
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        schema = self.operator().output_schema([self.input.schema])
        object.__setattr__(self, "schema", schema)

    def operator(self) -> WindowAggregate | PartialAggregate | FinalAggregate:
        """What computes it; it also knows the output's types."""
        specs = tuple(a.spec for a in self.aggregates)
        make = _PHASES[self.phase]
        return make(self.keys, self.size_us, self.every_us, specs, self.points)

    @property
    def can_be_split(self) -> bool:
        """Whether partial results may be merged: no function needs all rows at once."""
        return not self.needs_all_values

    @property
    def needs_all_values(self) -> tuple[str, ...]:
        """The functions of which no partial results can be merged."""
        return tuple(dict.fromkeys(a.function for a in self.aggregates if a.spec.is_gathered))


DataWindowOperator = (
    SnapshotAggregate | SessionAggregate | PartialSession | FinalSession | CountWindowAggregate
)


@dataclass(frozen=True, slots=True)
class DataWindowAgg(OneInput):
    """Aggregates per key and window that the key's events make."""

    keys: tuple[str, ...]
    window: DataWindow
    aggregates: tuple[Aggregate, ...]
    #: The input's lifetimes are points; only snapshots ask.
    points: bool = False
    #: Only sessions have phases; the partial one has panes of so long, us.
    phase: Phase = "complete"
    pane_us: int = 0
    label: str = ""
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        schema = self.operator().output_schema([self.input.schema])
        object.__setattr__(self, "schema", schema)

    @property
    def can_be_split(self) -> bool:
        """Whether partial results may be merged: sessions that end by a gap alone."""
        window = self.window
        functions = [a.function for a in self.aggregates]
        return (
            isinstance(window, SessionWindow)
            and window.max_us is None
            and not any(a.spec.is_gathered for a in self.aggregates)
            and not any(function in _SEQUENTIAL for function in functions)
        )

    def operator(self) -> DataWindowOperator:
        """What computes it; it also knows the output's types."""
        specs = tuple(a.spec for a in self.aggregates)
        match self.window:
            case SessionWindow() if self.phase == "partial":
                return PartialSession(self.keys, self.pane_us, specs)
            case SessionWindow(gap_us) if self.phase == "final":
                return FinalSession(self.keys, gap_us, specs)
            case SessionWindow(gap_us, max_us):
                return SessionAggregate(self.keys, gap_us, max_us, specs)
            case CountWindow(count):
                return CountWindowAggregate(self.keys, count, specs)
            case _:
                return SnapshotAggregate(self.keys, specs, self.points)


def window_node(
    plan: LogicalNode,
    keys: tuple[str, ...],
    window: AnyWindow,
    aggregates: tuple[Aggregate, ...],
    *,
    points: bool,
) -> WindowAgg | DataWindowAgg | Lifetime:
    """The aggregation of ``plan`` by key and window; ``points``: all its lifetimes are points.

    Windows with an offset are those without, between a shift and a shift back.
    """
    from planner.logical.nodes import Lifetime

    if not isinstance(window, Window):
        known = points and isinstance(window, SnapshotWindow)
        return DataWindowAgg(plan, keys, window, aggregates, known)
    if window.offset_us == 0:
        return WindowAgg(plan, keys, window.size_us, window.every_us, aggregates, points)
    earlier = Lifetime(plan, Shift(-window.offset_us))
    found = WindowAgg(earlier, keys, window.size_us, window.every_us, aggregates, points)
    return Lifetime(found, Shift(window.offset_us))
