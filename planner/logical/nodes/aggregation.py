"""Logical nodes of aggregation by key and window; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from planner.durations import format_us
from planner.logical.nodes.node import InputKeys, Step, same_partitioning, with_edges
from planner.logical.windows import (
    CountWindow,
    DataWindow,
    RunningSession,
    SessionWindow,
    SnapshotWindow,
)
from rvertex.aggregates.spec import AggregateSpec
from rvertex.operators.edges.aggregate import EdgeAggregate
from rvertex.operators.edges.running_sessions import EdgeRunningSessions
from rvertex.operators.edges.windows import EdgeWindows
from rvertex.operators.windows.count import CountWindowAggregate
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from rvertex.operators.windows.running.aggregate import RunningAggregate, RunningSessionAggregate
from rvertex.operators.windows.session import SessionAggregate
from rvertex.operators.windows.session_phases import FinalSession, PartialSession
from rvertex.operators.windows.snapshots.window import SnapshotAggregate

if TYPE_CHECKING:
    from collections.abc import Set

    import pyarrow as pa

    from planner.logical.nodes.node import LogicalNode
    from planner.logical.nodes.partitioning import Partitioning
    from rvertex.aggregates.function import Argument


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One output column of an aggregation; ``column`` None counts rows."""

    #: A name in :mod:`rvertex.aggregates.registry`.
    function: str
    column: str | None
    output: str
    #: A further argument of the function: ddof, k, q, or the user's object.
    argument: Argument = None

    @property
    def spec(self) -> AggregateSpec:
        """The aggregate in the form that operators take."""
        return AggregateSpec(self.function, self.column, self.output, self.argument)

    def __str__(self) -> str:
        argument = "" if self.argument is None else f", {self.argument}"
        return f"{self.output}={self.function}({self.column or ''}{argument})"


#: The phase: "complete" does all in one step; "partial" is before an exchange, "final" after it.
Phase = Literal["complete", "partial", "final"]
_PHASES: dict[Phase, type[WindowAggregate | PartialAggregate | FinalAggregate]] = {
    "complete": WindowAggregate,
    "partial": PartialAggregate,
    "final": FinalAggregate,
}


class _Grouped(Step):
    """Base of aggregations: one output row per key and window.

    Its properties are fields of its subclasses; ``field()`` declares that they have no defaults.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """The columns that identify a group."""

    @property
    @abstractmethod
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The columns that are computed per group."""

    @property
    @abstractmethod
    def phase(self) -> Phase:
        """The step of the aggregation that the node computes."""

    def __post_init__(self) -> None:
        schema = self.operator().output_schema([self.input.schema])
        object.__setattr__(self, "schema", schema)

    stage_kind = "agg"

    @property
    def is_cheap(self) -> bool:
        return self.phase == "partial"

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        return (self.keys,)

    @property
    def partitioning(self) -> Partitioning:
        return same_partitioning(self, set(self.keys))

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        read = {a.column for a in self._kept(wanted) if a.column is not None}
        return (read | set(self.keys),)

    def _kept(self, wanted: Set[str]) -> tuple[Aggregate, ...]:
        """Return the aggregates that are read; at least one, so that windows still emit rows."""
        kept = tuple(a for a in self.aggregates if a.output in wanted)
        return kept or self.aggregates[:1]

    def _described(self, window: str) -> str:
        phase = "" if self.phase == "complete" else f"{self.phase} "
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"{phase}aggregate {window}{by}: {', '.join(map(str, self.aggregates))}"


@dataclass(frozen=True, slots=True)
class WindowAgg(_Grouped):
    """Aggregates per key and window ``[k * every, k * every + size)``."""

    keys: tuple[str, ...] = field()
    size_us: int
    every_us: int
    aggregates: tuple[Aggregate, ...] = field()
    #: Whether the input's events are points: then windows may share partial results (panes).
    points: bool
    phase: Phase = "complete"
    #: Whether the input has start edges and end edges (:mod:`rstream.items.edges`).
    edges: bool = False
    label: str = ""
    schema: pa.Schema = field(init=False)

    def operator(self) -> WindowAggregate | PartialAggregate | FinalAggregate | EdgeWindows:
        """Return the operator of this node; it also has the output's types."""
        specs = tuple(a.spec for a in self.aggregates)
        if self.edges:
            return EdgeWindows(self.keys, self.size_us, self.every_us, specs)
        make = _PHASES[self.phase]
        return make(self.keys, self.size_us, self.every_us, specs, self.points)

    def describe(self) -> str:
        window = f"tumbling {format_us(self.size_us)}"
        if self.size_us != self.every_us:
            window = f"hopping {format_us(self.size_us)} every {format_us(self.every_us)}"
        whole = ", ".join(self.needs_all_values)
        why = f" (in one step, as {whole} needs all values of a window)" if whole else ""
        living = " of rows valid now" if self.edges else ""
        return f"{self._described(window)}{why}{living}"

    def narrowed(self, inputs: tuple[LogicalNode, ...], wanted: Set[str]) -> WindowAgg:
        (only,) = inputs
        return replace(self, input=only, aggregates=self._kept(wanted))

    @property
    def is_point(self) -> bool:
        return self.size_us == 1

    @property
    def can_be_split(self) -> bool:
        """Whether partial results may be merged: no function needs all rows at once."""
        return not self.needs_all_values

    @property
    def needs_all_values(self) -> tuple[str, ...]:
        """Return the functions whose partial results cannot be merged."""
        return tuple(dict.fromkeys(a.function for a in self.aggregates if a.spec.is_holistic))


DataWindowOperator = (
    RunningAggregate
    | RunningSessionAggregate
    | EdgeAggregate
    | EdgeRunningSessions
    | SnapshotAggregate
    | SessionAggregate
    | PartialSession
    | FinalSession
    | CountWindowAggregate
)


@dataclass(frozen=True, slots=True)
class DataWindowAgg(_Grouped):
    """Aggregates per key and window, if the key's events decide the windows."""

    keys: tuple[str, ...] = field()
    window: DataWindow
    aggregates: tuple[Aggregate, ...] = field()
    #: Whether the input's events are points; only snapshots use this.
    points: bool
    #: Only sessions have phases; the partial one has panes of ``pane_us``, us.
    phase: Phase = "complete"
    pane_us: int = 0
    #: Whether the input's events never end; only snapshots use this.
    endless: bool = False
    #: Whether it emits start edges and end edges (:mod:`rstream.items.edges`); only for snapshots
    #: and running sessions.
    edges: bool = False
    #: Whether, with edges, each change of a key ends its result and begins a new one, even if the
    #: values are equal.
    renews: bool = False
    label: str = ""
    schema: pa.Schema = field(init=False)

    @property
    def can_be_split(self) -> bool:
        """Whether partial results may be merged: only for sessions without a longest duration."""
        window = self.window
        specs = [a.spec for a in self.aggregates]
        return (
            isinstance(window, SessionWindow)
            and window.max_us is None
            and window.gap_us > 1  # with a gap of 1 us a pane would be a single instant
            and not any(s.is_holistic or s.definition.needs_sequence for s in specs)
        )

    @property
    def runs(self) -> bool:
        """Whether each result follows from the previous one, without all valid events."""
        return self.endless and all(a.spec.can_run for a in self.aggregates)

    def operator(self) -> DataWindowOperator:
        """Return the operator of this node; it also has the output's types."""
        specs = tuple(a.spec for a in self.aggregates)
        match self.window:
            case SessionWindow() if self.phase == "partial":
                return PartialSession(self.keys, self.pane_us, specs)
            case SessionWindow(gap_us) if self.phase == "final":
                return FinalSession(self.keys, gap_us, specs)
            case SessionWindow(gap_us, max_us):
                return SessionAggregate(self.keys, gap_us, max_us, specs)
            case RunningSession(gap_us, max_us) if self.edges:
                return EdgeRunningSessions(self.keys, gap_us, max_us, specs, self.renews)
            case RunningSession(gap_us, max_us):
                return RunningSessionAggregate(self.keys, gap_us, max_us, specs)
            case CountWindow(count):
                return CountWindowAggregate(self.keys, count, specs)
            case _ if self.edges:
                return EdgeAggregate(self.keys, specs, self.endless, self.renews)
            case _ if self.runs:
                return RunningAggregate(self.keys, specs)
            case _:
                return SnapshotAggregate(self.keys, specs, self.points)

    def describe(self) -> str:
        is_running = isinstance(self.window, SnapshotWindow) and (self.runs or self.edges)
        kind = "running" if is_running else str(self.window)
        every = ", each change" if self.renews else ""
        return f"{self._described(kind)}{with_edges(self.edges)}{every}"

    def narrowed(self, inputs: tuple[LogicalNode, ...], wanted: Set[str]) -> DataWindowAgg:
        (only,) = inputs
        return replace(self, input=only, aggregates=self._kept(wanted))

    @property
    def is_point(self) -> bool:
        return self.points
