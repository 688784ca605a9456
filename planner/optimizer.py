"""The rules in their order, and how they are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.logical import LogicalNode, Sink
from planner.options import PlanOptions
from planner.rules import (
    merge_projects,
    partial_aggregation,
    place_exchange,
    prune_columns,
    push_down_filter,
)
from planner.traversal import share

Rule = Callable[[LogicalNode, PlanOptions], LogicalNode]

#: Each runs once: what a rule leaves behind is what the next expects.
RULES: tuple[Rule, ...] = (
    push_down_filter,
    prune_columns,
    merge_projects,
    place_exchange,
    partial_aggregation,
)


def optimize(plan: Sink, options: PlanOptions, rules: Sequence[Rule] = RULES) -> Sink:
    """The plan that is lowered: the same answer for less work."""
    root = share(plan)
    for rule in rules:
        before = root.schema
        root = share(rule(root, options))
        assert root.schema.equals(before), (rule.__name__, before, root.schema)
    assert isinstance(root, Sink), root
    return root
