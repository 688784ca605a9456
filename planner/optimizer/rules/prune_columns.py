"""Remove unread columns: they are not computed, not exchanged and not read from the source.

A node keeps the columns that any of its readers needs, so a shared subplan stays shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical.traversal import NodeMap, topological

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions
    from planner.logical.nodes import LogicalNode


def prune_columns(root: LogicalNode, _options: PlanOptions) -> LogicalNode:
    """Return the plan without unread columns; the root keeps all of its columns."""
    order = topological(root)
    wanted: NodeMap[set[str]] = NodeMap()
    for node in order:
        wanted[node] = set()
    wanted[root] = set(root.schema.names)
    for node in reversed(order):
        needed = node.columns_needed(wanted[node])
        for child, names in zip(node.inputs, needed, strict=True):
            wanted[child] |= names & set(child.schema.names)
    done: NodeMap[LogicalNode] = NodeMap()
    for node in order:
        inputs = tuple(done[child] for child in node.inputs)
        done[node] = node.narrowed(inputs, wanted[node])
    return done[root]
