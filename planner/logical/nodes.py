"""The logical plan: frozen nodes, each with the payload schema of the stream it stands for.

A plan is a DAG: a subplan that two nodes share (by identity or by equality) is computed once.
Expressions inside nodes are resolved: typed, with every conversion explicit.

Invariants: (1) ``node.with_inputs(node.inputs)`` equals ``node``; (2) a rule of the optimizer may
change a node's columns only where nothing above reads them. :class:`Exchange`, :class:`Extremes`
and the phases of an aggregate are put in by rules, never by users.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from planner.expressions.nodes import Column, Node
from planner.logical.aggregation import Aggregate as Aggregate
from planner.logical.aggregation import AggregateFunction as AggregateFunction
from planner.logical.aggregation import DataWindowAgg as DataWindowAgg
from planner.logical.aggregation import Phase as Phase
from planner.logical.aggregation import WindowAgg as WindowAgg
from planner.logical.hint_types import NO_HINTS, Hints
from planner.logical.one_input import OneInput
from planner.logical.recover import Recover as Recover
from planner.logical.user_step import UserStep as UserStep
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift

if TYPE_CHECKING:
    from rstream.format.table import TableForm
    from rvertex.sources.spec import SourceSpec

Side = Literal["left", "right"]
JoinKind = Literal["inner", "left", "anti"]
#: What changes lifetimes one event at a time.
LifetimeChange = Shift | SetDuration | Extend | PointAtEnd | Chop


@dataclass(frozen=True, slots=True)
class Source:
    """Events from files or from items given in the query."""

    spec: SourceSpec
    #: None: the plan's parallelism, at most the number of units.
    partitions: int | None
    label: str = ""
    hints: Hints = NO_HINTS

    @property
    def schema(self) -> pa.Schema:
        return self.spec.schema

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return ()

    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Source:
        assert not inputs
        return self


@dataclass(frozen=True, slots=True)
class Filter(OneInput):
    """The events for which ``predicate`` is true."""

    predicate: Node
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class Project(OneInput):
    """New payload columns, in this order."""

    columns: tuple[tuple[str, Node], ...]
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, node.type) for name, node in self.columns])


@dataclass(frozen=True, slots=True)
class Explode(OneInput):
    """One event per element of the list in ``column``."""

    column: str
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        at = self.input.schema.get_field_index(self.column)
        kind = self.input.schema.field(at).type
        return self.input.schema.set(at, pa.field(self.column, kind.value_type))


@dataclass(frozen=True, slots=True)
class Union:
    """All events of inputs that have the same columns."""

    branches: tuple[LogicalNode, ...]
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        return self.branches[0].schema

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return self.branches

    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Union:
        return replace(self, branches=inputs)


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs with equal keys and overlapping lifetimes; they live where both do.

    "left" adds the left events for the time they have no match, with null in the right columns;
    "anti" is that addition alone, and has left columns only. With ``where`` a pair is a match only
    if that is true of it; inner joins have a filter above them instead.
    """

    left: LogicalNode
    right: LogicalNode
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    #: Output columns: side, column there, name in the output.
    columns: tuple[tuple[Side, str, str], ...]
    how: JoinKind = "inner"
    label: str = ""
    where: Node | None = None
    #: The columns that ``where`` reads, as in ``columns``.
    reads: tuple[tuple[Side, str, str], ...] = ()
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        sides = {"left": self.left.schema, "right": self.right.schema}
        fields = [(name, sides[side].field(column).type) for side, column, name in self.columns]
        object.__setattr__(self, "schema", pa.schema(fields))

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Join:
        left, right = inputs
        return replace(self, left=left, right=right)


@dataclass(frozen=True, slots=True)
class Lifetime(OneInput):
    """The same payload with other lifetimes."""

    change: LifetimeChange
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class Stitch(OneInput):
    """One event per key (columns ``on``) and stretch of time in which the key has any."""

    on: tuple[str, ...]
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class Extremes(OneInput):
    """Of events with equal lifetimes, those with the greatest or least integer in ``column``."""

    column: str
    is_max: bool
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class Clip:
    """Left events, cut at the start of the first later right event with equal keys."""

    left: LogicalNode
    right: LogicalNode
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        return self.left.schema

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Clip:
        left, right = inputs
        return replace(self, left=left, right=right)


@dataclass(frozen=True, slots=True)
class Exchange(OneInput):
    """Rows move to the vertex of their keys' hash; no keys: all to one vertex."""

    keys: tuple[str, ...]
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class Sink(OneInput):
    """Where the answer goes; None: the job's own output folder."""

    uri: str | None
    #: How it is written as a table; None: with a row for every item and technical columns.
    form: TableForm | None = None
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


LogicalNode = (
    Source
    | Filter
    | Project
    | Explode
    | Union
    | Join
    | Lifetime
    | Stitch
    | Extremes
    | Clip
    | WindowAgg
    | DataWindowAgg
    | UserStep
    | Recover
    | Exchange
    | Sink
)


def identity_columns(schema: pa.Schema) -> tuple[tuple[str, Node], ...]:
    """A projection's columns that change nothing."""
    return tuple((f.name, Column(f.name, f.type)) for f in schema)
