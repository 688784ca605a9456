"""Remove a MERGE: nodes that work row by row above a union move into its branches.

The branches then end at the next exchange, join or sink, where their rows are merged in any case.
Without the rule, a separate stage would merge them before. A union of unions becomes one union. The
union stays if another node reads one of its branches, because the branch would then begin another
stage. It also stays if a node has a name, because the user wants to see that stage.
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
