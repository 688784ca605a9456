"""One projection instead of two, and none where it would change nothing.

A computed column is merged only if it is used at most once above, so nothing is computed twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.logical import LogicalNode, Project, identity_columns
from planner.nodes import Call, Column, Node, rename_columns
from planner.traversal import Shared, transform

if TYPE_CHECKING:
    from planner.options import PlanOptions


def merge_projects(root: LogicalNode, _options: PlanOptions) -> LogicalNode:
    """Merges neighbouring projections from the sources up."""

    def change(node: LogicalNode, shared: Shared) -> LogicalNode:
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
