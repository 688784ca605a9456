"""Compute equal subplans once and share their output.

Equal means equal sources, equal operators in the same order and equal labels. The optimizer applies
this rule after every other rule, because a rule may make two subplans equal.
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
