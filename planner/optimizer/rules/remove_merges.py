"""One MERGE instead of two: what works row by row above a union goes into its branches.

The branches then end where the rows are merged anyway, before the next exchange, join or sink,
instead of in a stage of their own between them. A union of unions is one union. Where a branch is
read by others too, it would only begin another stage, so the union stays as it is; so does what has
a name, for it is a stage that somebody wants to see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical.nodes import LogicalNode, Union
from planner.logical.traversal import Shared, transform

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions


def remove_merges(root: LogicalNode, _options: PlanOptions) -> LogicalNode:
    """Move unions as close to their readers as possible, and merge unions of unions."""

    def change(node: LogicalNode, shared: Shared) -> LogicalNode:
        if isinstance(node, Union):
            return _flat(node, shared)
        below = node.inputs[0] if node.is_stateless and not node.label else None
        if not isinstance(below, Union) or below in shared:
            return node
        if any(branch in shared for branch in below.branches):
            return node
        return Union(tuple(node.with_inputs((branch,)) for branch in below.branches), below.label)

    return transform(root, change)


def _flat(node: Union, shared: Shared) -> Union:
    branches: list[LogicalNode] = []
    for branch in node.branches:
        if isinstance(branch, Union) and branch not in shared:
            branches += branch.branches
        else:
            branches.append(branch)
    return node if len(branches) == len(node.branches) else Union(tuple(branches), node.label)
