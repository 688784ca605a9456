"""Logical nodes that work row by row; part of :mod:`planner.logical.nodes`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.bare_text import bare
from planner.expressions.nodes import USER, Call, Column, Node
from planner.logical.nodes.node import LogicalNode, OneInput, same_partitioning

if TYPE_CHECKING:
    from collections.abc import Set

    from planner.logical.nodes.partitioning import Partitioning
    from rvertex.user_code.code import UserCode


class _RowStep(OneInput):
    """Base of a node whose output rows depend on one input row and have its lifetime."""

    __slots__ = ()

    is_stateless = True
    keeps_lifetimes = True


@dataclass(frozen=True, slots=True)
class Filter(_RowStep):
    """The events for which ``predicate`` is true."""

    predicate: Node
    label: str = ""
    #: Whether it reads the start of rows that are emitted before their end is known.
    edges: bool = False

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    def describe(self) -> str:
        return f"filter {bare(self.predicate)}"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted | set(self.predicate.columns()),)

    @property
    def partitioning(self) -> Partitioning:
        return self.input.partitioning

    @property
    def codes(self) -> tuple[UserCode, ...]:
        return codes_of(self.predicate)


@dataclass(frozen=True, slots=True)
class Project(_RowStep):
    """New payload columns, in this order."""

    columns: tuple[tuple[str, Node], ...]
    label: str = ""
    #: Whether expressions read the start of rows that are emitted before their end is known.
    edges: bool = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, node.type) for name, node in self.columns])

    def describe(self) -> str:
        return "select " + (", ".join(_column(n, c) for n, c in self.columns) or "(no columns)")

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        used = [expr for name, expr in self.columns if name in wanted]
        return ({name for expr in used for name in expr.columns()},)

    def narrowed(self, inputs: tuple[LogicalNode, ...], wanted: Set[str]) -> Project:
        (only,) = inputs
        kept = tuple((name, expr) for name, expr in self.columns if name in wanted)
        return replace(self, input=only, columns=kept)

    @property
    def partitioning(self) -> Partitioning:
        names: dict[str, frozenset[str]] = {}
        for output, node in self.columns:
            if isinstance(node, Column):
                names[node.name] = names.get(node.name, frozenset()) | {output}
        return self.input.partitioning.through(names)

    @property
    def codes(self) -> tuple[UserCode, ...]:
        return tuple(code for _, expr in self.columns for code in codes_of(expr))


@dataclass(frozen=True, slots=True)
class Explode(_RowStep):
    """One event per element of the list in ``column``."""

    column: str
    label: str = ""

    @property
    def schema(self) -> pa.Schema:
        at = self.input.schema.get_field_index(self.column)
        kind = self.input.schema.field(at).type
        return self.input.schema.set(at, pa.field(self.column, kind.value_type))

    def describe(self) -> str:
        return f"explode {self.column}"

    def columns_needed(self, wanted: Set[str]) -> tuple[Set[str], ...]:
        return (wanted | {self.column},)

    @property
    def partitioning(self) -> Partitioning:
        return same_partitioning(self, set(self.schema.names) - {self.column})


def identity_columns(schema: pa.Schema) -> tuple[tuple[str, Node], ...]:
    """Return the columns of a projection that changes nothing."""
    return tuple((f.name, Column(f.name, f.type)) for f in schema)


def only(node: LogicalNode, wanted: Set[str]) -> LogicalNode:
    """Return ``node`` with only these columns; a projection is added if it has more."""
    if set(node.schema.names) == wanted:
        return node
    kept = tuple((f.name, Column(f.name, f.type)) for f in node.schema if f.name in wanted)
    return Project(node, kept)


def _column(name: str, node: Node) -> str:
    if isinstance(node, Column) and node.name == name:
        return name
    if isinstance(node, Call) and dict(node.options).get("implicit"):
        return f"{name} = {node.args[0]}.cast({node.type})"
    return f"{name} = {bare(node)}"


def codes_of(expr: Node) -> tuple[UserCode, ...]:
    """Return all user code that an expression calls."""
    if not isinstance(expr, Call):
        return ()
    inner = tuple(code for arg in expr.args for code in codes_of(arg))
    return (expr.option("code"), *inner) if expr.function == USER else inner
