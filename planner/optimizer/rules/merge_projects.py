"""Merge neighbouring projections, and remove projections that change nothing.

A computed column is merged only if the projection above uses it at most once, so that nothing is
computed twice. A join picks its columns by name. So a projection below it that only selects columns
of a shared subplan is removed; it would be a separate stage.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.expressions.nodes import Call, Column, Node, rename_columns
from planner.logical.nodes import Clip, LogicalNode, Project, TwoSided, identity_columns
from planner.logical.traversal import Shared, rebuilt, transform

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions


def merge_projects(root: LogicalNode, _options: PlanOptions) -> LogicalNode:
    """Merge neighbouring projections, from the sources up."""

    def change(node: LogicalNode, shared: Shared) -> LogicalNode:
        if isinstance(node, Clip):
            return rebuilt(node, [node.left, _unselected(node.right, shared)])
        if isinstance(node, TwoSided):
            return rebuilt(node, [_unselected(child, shared) for child in node.inputs])
        if not isinstance(node, Project):
            return node
        below = node.input
        if isinstance(below, Project) and below not in shared and _may_merge(node, below):
            names = dict(below.columns)
            merged = tuple((name, rename_columns(expr, names)) for name, expr in node.columns)
            node = replace(node, input=below.input, columns=merged, label=node.label or below.label)
        if not node.label and node.columns == identity_columns(node.input.schema):
            return node.input
        return node

    return transform(root, change)


def _unselected(node: LogicalNode, shared: Shared) -> LogicalNode:
    """Return ``node``, or its input if ``node`` only selects columns and the input is shared."""
    if not isinstance(node, Project) or node in shared or node.input not in shared:
        return node
    is_selection = all(isinstance(c, Column) and c.name == name for name, c in node.columns)
    return node.input if is_selection else node


def _may_merge(above: Project, below: Project) -> bool:
    uses: Counter[str] = Counter()
    for _, expr in above.columns:
        _count(expr, uses)
    computed = [name for name, expr in below.columns if isinstance(expr, Call)]
    return all(uses[name] <= 1 for name in computed)


def _count(node: Node, uses: Counter[str]) -> None:
    if isinstance(node, Column):
        uses[node.name] += 1
    elif isinstance(node, Call):
        for arg in node.args:
            _count(arg, uses)
