"""Equal subplans are one: computed once, and read by all who want them.

Equal means equal sources, equal operators in the same order and equal labels. The optimizer asks
again after every rule, because a rule may make two subplans equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical.traversal import share

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions
    from planner.logical.nodes import LogicalNode


def share_subplans(root: LogicalNode, _options: PlanOptions) -> LogicalNode:
    """Return the plan in which no two nodes are equal."""
    return share(root)
