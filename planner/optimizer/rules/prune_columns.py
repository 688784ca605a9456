"""Remove unread columns: they are not computed, not exchanged and not read from the source.

A node keeps the columns that any of its readers needs, so a shared subplan stays shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical.traversal import NodeMap, topological, wanted_columns

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions
    from planner.logical.nodes import LogicalNode


def prune_columns(root: LogicalNode, _options: PlanOptions) -> LogicalNode:
    """Return the plan without unread columns; the root keeps all of its columns."""
    wanted = wanted_columns(root)
    done: NodeMap[LogicalNode] = NodeMap()
    for node in topological(root):
        inputs = tuple(done[child] for child in node.inputs)
        done[node] = node.narrowed(inputs, wanted[node])
    return done[root]
