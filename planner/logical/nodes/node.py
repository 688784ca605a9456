"""What every logical node says of itself.

A plan is a DAG: a subplan that two nodes share (by identity or by equality) is computed once.
Expressions inside nodes are resolved: typed, with every conversion explicit.

Invariants: (1) ``node.with_inputs(node.inputs)`` equals ``node``; (2) a rule of the optimizer may
change a node's columns only where nothing above reads them; (3) a default here is right for every
node and may only cost time: all columns are needed, nothing is known of lifetimes and of places.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import Field, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from planner.logical.nodes.partitioning import UNKNOWN, Partitioning

if TYPE_CHECKING:
    from collections.abc import Set

    import pyarrow as pa

    from rvertex.operators.protocol import OperatorSpec
    from rvertex.user_code.code import UserCode

#: Columns of an input: rows that agree on them meet in one vertex. None: rows may be anywhere.
InputKeys = tuple[str, ...] | None


class LogicalNode(ABC):
    """A stream of a query: what it is made of, and what follows from that. A frozen dataclass."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    @abstractmethod
    def label(self) -> str:
        """The name that the user gave it, or nothing."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The payload columns."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[LogicalNode, ...]:
        """The streams it is made of."""

    @abstractmethod
    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Self:
        """Copy the node with other inputs."""

    @abstractmethod
    def describe(self) -> str:
        """The node in one line, without its inputs."""

    @abstractmethod
    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        """The columns of each input that the node reads in order to give the columns ``wanted``."""

    def narrowed(self, inputs: tuple[LogicalNode, ...], wanted: Set[str]) -> LogicalNode:
        """The node above ``inputs``, without what it does for columns that are not ``wanted``."""
        del wanted
        return self.with_inputs(inputs)

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        """The columns of each input on which equal rows have to meet."""
        return (None,) * len(self.inputs)

    @property
    def partitioning(self) -> Partitioning:
        """Where its rows lie."""
        return UNKNOWN

    @property
    def is_point(self) -> bool:
        """Whether every event is known to have ``ve == vs + 1``."""
        return False

    @property
    def is_stateless(self) -> bool:
        """Whether each output row follows from one input row."""
        return False

    @property
    def keeps_lifetimes(self) -> bool:
        """Whether every event has the lifetime of the event of its only input that it is made of.

        The node has that input as ``inputs[0]``.
        """
        return False

    @property
    def codes(self) -> tuple[UserCode, ...]:
        """All code of the user's in it, functions in its expressions included."""
        return ()


@dataclass(frozen=True, slots=True)
class OneInput(LogicalNode):
    """Base of a node whose first field is its only input."""

    input: LogicalNode

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Self:
        (only,) = inputs
        return replace(self, input=only)

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        del wanted
        return (set(self.input.schema.names),)

    @property
    def is_point(self) -> bool:
        return self.keeps_lifetimes and self.input.is_point


class Step(OneInput):
    """Base of a node that one operator computes."""

    __slots__ = ()

    @abstractmethod
    def operator(self) -> OperatorSpec:
        """The operator that computes it."""

    @property
    def stage_kind(self) -> str:
        """The name of a stage that begins with it."""
        return "map"

    @property
    def takes_dictionaries(self) -> bool:
        """Whether text may reach its operator as dictionaries; otherwise it is decoded before."""
        return False

    @property
    def is_cheap(self) -> bool:
        """Whether its output may be computed again rather than flushed: it keeps (nearly) nothing.

        A partial aggregate keeps little.
        """
        return self.is_stateless


def with_edges(edges: bool) -> str:
    """What a node's line says if its rows come when they begin."""
    return ", rows at once" if edges else ""


def same_partitioning(node: OneInput, columns: Set[str]) -> Partitioning:
    """Where rows of ``node`` lie, which leaves its input's ``columns`` alone, under their names."""
    return node.input.partitioning.through({name: frozenset([name]) for name in columns})
