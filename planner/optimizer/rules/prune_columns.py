"""Columns that nothing reads are not computed, not exchanged and not read from the source.

What a node has to keep is what all its readers together want, so a shared subplan stays shared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.nodes import Column, Node
from planner.logical.nodes import (
    Aggregate,
    Clip,
    DataWindowAgg,
    Explode,
    Extremes,
    Filter,
    Join,
    LogicalNode,
    Project,
    Source,
    Stitch,
    Union,
    UserStep,
    WindowAgg,
)
from planner.logical.traversal import NodeMap, topological

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planner.cost.options import PlanOptions


def prune_columns(root: LogicalNode, _options: PlanOptions) -> LogicalNode:
    """The plan without columns that nobody reads; the root keeps all of its own."""
    order = topological(root)
    wanted: NodeMap[set[str]] = NodeMap()
    for node in order:
        wanted[node] = set()
    wanted[root] = set(root.schema.names)
    for node in reversed(order):
        for child, names in _demands(node, wanted[node]):
            wanted[child] |= set(names) & set(child.schema.names)
    done: NodeMap[LogicalNode] = NodeMap()
    for node in order:
        inputs = tuple(done[child] for child in node.inputs)
        done[node] = _pruned(node, inputs, wanted[node])
    return done[root]


def _demands(node: LogicalNode, wanted: set[str]) -> list[tuple[LogicalNode, Iterable[str]]]:
    """What the node reads of each input to give ``wanted``."""
    match node:
        case Filter(input=below, predicate=predicate):
            return [(below, wanted | set(predicate.columns()))]
        case Project(input=below, columns=columns):
            used = [expr for name, expr in columns if name in wanted]
            return [(below, {name for expr in used for name in expr.columns()})]
        case Explode(input=below, column=column):
            return [(below, wanted | {column})]
        case Join():
            pairs = [*(c for c in node.columns if c[2] in wanted), *node.reads]
            left = {column for side, column, _ in pairs if side == "left"}
            right = {column for side, column, _ in pairs if side == "right"}
            return [(node.left, left | set(node.left_on)), (node.right, right | set(node.right_on))]
        case Clip():
            return [(node.left, wanted | set(node.left_on)), (node.right, node.right_on)]
        case Stitch(input=below, on=on):
            return [(below, wanted | set(on))]
        case WindowAgg(input=below, keys=keys) | DataWindowAgg(input=below, keys=keys):
            used_columns = {a.column for a in _kept(node, wanted) if a.column is not None}
            return [(below, used_columns | set(keys))]
        case Extremes(input=below, column=column):
            return [(below, wanted | {column})]
        case UserStep(input=below):
            return [(below, below.schema.names)]
        case _:
            return [(child, wanted) for child in node.inputs]


def _pruned(node: LogicalNode, inputs: tuple[LogicalNode, ...], wanted: set[str]) -> LogicalNode:
    match node:
        case Source():
            return _source(node, wanted)
        case Project(columns=columns):
            kept = tuple((name, expr) for name, expr in columns if name in wanted)
            return replace(node, input=inputs[0], columns=kept)
        case Union():
            return replace(node, branches=tuple(_only(branch, wanted) for branch in inputs))
        case Join():
            entries = tuple(entry for entry in node.columns if entry[2] in wanted)
            left, right = (
                _only(child, set(names))
                for child, (_, names) in zip(inputs, _demands(node, wanted), strict=True)
            )
            return replace(node, left=left, right=right, columns=entries)
        case Clip():
            return replace(node, left=inputs[0], right=_only(inputs[1], set(node.right_on)))
        case WindowAgg() | DataWindowAgg():
            return replace(node, input=inputs[0], aggregates=_kept(node, wanted))
        case _:
            return node.with_inputs(inputs)


def _kept(node: WindowAgg | DataWindowAgg, wanted: set[str]) -> tuple[Aggregate, ...]:
    """The aggregates that are read; one at least, so that windows are seen at all."""
    kept = tuple(a for a in node.aggregates if a.output in wanted)
    return kept or node.aggregates[:1]


def _source(node: Source, wanted: set[str]) -> Source:
    """Files are read by column. Items stay as they were given."""
    spec = node.spec
    if spec.format == "items":
        return node
    times = {name for source in (spec.vs, spec.ve) for name in _columns_of(source)}
    schema = pa.schema([f for f in spec.schema if f.name in wanted])
    columns = pa.schema([f for f in spec.columns if f.name in wanted | times])
    return replace(node, spec=replace(spec, schema=schema, columns=columns))


def _columns_of(source: object) -> tuple[str, ...]:
    if isinstance(source, str):
        return (source,)
    return source.columns() if isinstance(source, Node) else ()


def _only(node: LogicalNode, wanted: set[str]) -> LogicalNode:
    """``node`` with just these columns, where it has more."""
    if set(node.schema.names) == wanted:
        return node
    kept = tuple((f.name, Column(f.name, f.type)) for f in node.schema if f.name in wanted)
    return Project(node, kept)
