"""The base classes of logical nodes: properties that every node has.

A plan is a DAG: a subplan that two nodes share (by identity or by equality) is computed once.
Expressions inside nodes are resolved: typed, with every conversion explicit. Invariants: (1)
``node.with_inputs(node.inputs)`` equals ``node``; (2) a rule of the optimizer may change a node's
columns only where no node above reads them; (3) a default here is correct for every node and may
only cost time: it assumes that all columns are needed, and that lifetimes and partitioning are
unknown.
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

#: Columns of an input: rows that are equal in them must be in one vertex. None: in any vertex.
InputKeys = tuple[str, ...] | None


class LogicalNode(ABC):
    """A stream of a query: how it is computed, and its properties; a frozen dataclass."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    @abstractmethod
    def label(self) -> str:
        """The name that the user gave the node, or an empty string."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The payload columns."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[LogicalNode, ...]:
        """The streams that the node reads."""

    @abstractmethod
    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Self:
        """Copy the node with other inputs."""

    @abstractmethod
    def describe(self) -> str:
        """Return the node in one line, without its inputs."""

    @abstractmethod
    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        """Return the columns of each input that are read to compute the columns ``wanted``."""

    def narrowed(self, inputs: tuple[LogicalNode, ...], wanted: Set[str]) -> LogicalNode:
        """Copy the node with these inputs and without work for columns that are not ``wanted``."""
        del wanted
        return self.with_inputs(inputs)

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        """For each input the columns whose equal values must meet in one vertex."""
        return (None,) * len(self.inputs)

    @property
    def partitioning(self) -> Partitioning:
        """The columns that decide the vertex of an output row."""
        return UNKNOWN

    @property
    def is_point(self) -> bool:
        """Whether every event is known to have ``ve == vs + 1``."""
        return False

    @property
    def is_stateless(self) -> bool:
        """Whether each output row depends on one input row only."""
        return False

    @property
    def keeps_lifetimes(self) -> bool:
        """Whether every output event has the lifetime of its input event.

        The node then has one input, ``inputs[0]``.
        """
        return False

    @property
    def codes(self) -> tuple[UserCode, ...]:
        """All user code in the node, including functions in its expressions."""
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
        """Return the operator that computes it."""

    @property
    def stage_kind(self) -> str:
        """The name of a stage whose first node is this one."""
        return "map"

    @property
    def takes_dictionaries(self) -> bool:
        """Whether the operator accepts text as dictionaries; if not, text is decoded before."""
        return False

    @property
    def is_cheap(self) -> bool:
        """Whether recomputing its output is cheaper than flushing it: its state is (nearly) empty.

        A partial aggregate has little state.
        """
        return self.is_stateless


def with_edges(edges: bool) -> str:
    """Return the text in a node's line if it emits start edges and end edges."""
    return ", rows at once" if edges else ""


def same_partitioning(node: OneInput, columns: Set[str]) -> Partitioning:
    """Return the partitioning of ``node``, which copies ``columns`` of its input unchanged."""
    return node.input.partitioning.through({name: frozenset([name]) for name in columns})
