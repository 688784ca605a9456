"""Logical nodes that only decide where rows go; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.logical.nodes.node import LogicalNode, OneInput
from planner.logical.nodes.partitioning import Partitioning, by_keys, common
from planner.logical.nodes.row_steps import only

if TYPE_CHECKING:
    from collections.abc import Set

    from planner.logical.nodes.node import InputKeys
    from rstream.format.table import TableForm


@dataclass(frozen=True, slots=True)
class Union(LogicalNode):
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

    def describe(self) -> str:
        return "union"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted,) * len(self.branches)

    def narrowed(self, inputs: tuple[LogicalNode, ...], wanted: Set[str]) -> Union:
        return replace(self, branches=tuple(only(branch, wanted) for branch in inputs))

    @property
    def partitioning(self) -> Partitioning:
        return common([branch.partitioning for branch in self.branches])

    @property
    def is_point(self) -> bool:
        return all(branch.is_point for branch in self.branches)


class SameEvents(OneInput):
    """Base of a node whose output events equal its input events."""

    __slots__ = ()

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted,)

    @property
    def partitioning(self) -> Partitioning:
        return self.input.partitioning

    keeps_lifetimes = True


@dataclass(frozen=True, slots=True)
class Exchange(SameEvents):
    """Moves each row to the vertex of its keys' hash; without keys, all rows to one vertex."""

    keys: tuple[str, ...]
    label: str = ""

    def describe(self) -> str:
        return f"exchange by {', '.join(self.keys)}" if self.keys else "exchange to one vertex"

    @property
    def partitioning(self) -> Partitioning:
        return by_keys(self.keys)


@dataclass(frozen=True, slots=True)
class Sink(SameEvents):
    """Writes the result to a folder; None: the job's own output folder."""

    uri: str | None
    #: The form of the table; None: one row per item, with technical columns.
    form: TableForm | None = None
    label: str = ""
    #: Whether its readers accept start and end edges: rows that are emitted before their end is
    #: known.
    changes: bool = False
    #: Rows that are equal in these columns are in one partition; None: in any partition.
    keys: InputKeys = None

    @property
    def input_keys(self) -> tuple[InputKeys, ...]:
        return (self.keys,)

    def describe(self) -> str:
        changes = ", changes" if self.changes else ""
        return f"sink {self.uri or '(output folder of the job)'}{changes}"


@dataclass(frozen=True, slots=True)
class Sinks(LogicalNode):
    """The outputs of one job, in order: the root of a plan that has several."""

    branches: tuple[LogicalNode, ...]
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        """A struct per output, since outputs have different columns."""
        return pa.schema([(str(k), pa.struct(b.schema)) for k, b in enumerate(self.branches)])

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return self.branches

    def with_inputs(self, inputs: tuple[LogicalNode, ...]) -> Sinks:
        return replace(self, branches=inputs)

    def describe(self) -> str:
        return f"{len(self.branches)} outputs"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        del wanted
        return tuple(set(branch.schema.names) for branch in self.branches)
