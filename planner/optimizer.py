"""The rules in their order, and how they are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.logical import LogicalNode, Sink
from planner.options import PlanOptions
from planner.rules import (
    fold_constants,
    merge_projects,
    partial_aggregation,
    place_exchange,
    prune_columns,
    push_down_filter,
    remove_merges,
    share_subplans,
    skip_row_groups,
)

Rule = Callable[[LogicalNode, PlanOptions], LogicalNode]

#: Each runs once: what a rule leaves behind is what the next expects.
RULES: tuple[Rule, ...] = (
    share_subplans,
    fold_constants,
    push_down_filter,
    remove_merges,
    skip_row_groups,
    prune_columns,
    merge_projects,
    place_exchange,
    partial_aggregation,
)


def optimize(plan: Sink, options: PlanOptions, rules: Sequence[Rule] = RULES) -> Sink:
    """The plan that is lowered: the same answer for less work."""
    root: LogicalNode = plan
    for rule in rules:
        before = root.schema
        root = rule(root, options)
        if share_subplans in rules:
            root = share_subplans(root, options)
        assert root.schema.equals(before), (rule.__name__, before, root.schema)
    assert isinstance(root, Sink), root
    return root
