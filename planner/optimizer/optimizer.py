"""The rules of the optimizer in their order, and how they are applied."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from planner.cost.options import PlanOptions
from planner.logical.nodes import LogicalNode, Sink, Sinks
from planner.logical.text import Descriptions, logical_text
from planner.logical.traversal import Contents, share
from planner.optimizer.rules import (
    exchange_once,
    fold_constants,
    keep_extremes,
    merge_projects,
    open_rows,
    order_joins,
    partial_aggregation,
    place_exchange,
    prune_columns,
    push_down_filter,
    remove_merges,
    share_subplans,
    skip_row_groups,
)
from planner.optimizer.trace import step_of

if TYPE_CHECKING:
    from planner.optimizer.trace import RuleStep

Rule = Callable[[LogicalNode, PlanOptions], LogicalNode]

#: Each runs once, in this order: a rule relies on the rules before it.
RULES: tuple[Rule, ...] = (
    share_subplans,
    fold_constants,
    push_down_filter,
    remove_merges,
    skip_row_groups,
    prune_columns,
    merge_projects,
    order_joins,
    keep_extremes,
    exchange_once,
    place_exchange,
    partial_aggregation,
    open_rows,
)


Root = Sink | Sinks


def optimize_step_by_step(
    plan: Root, options: PlanOptions, rules: Sequence[Rule] = RULES
) -> tuple[Root, tuple[RuleStep, ...]]:
    """Optimise, and record what each rule changed."""
    root: LogicalNode = plan
    describe = Descriptions()
    text = logical_text(root, describe)
    steps: list[RuleStep] = []
    contents: Contents = {}
    for rule in rules:
        before = root
        if rule is not share_subplans:
            root = rule(root, options)
        if share_subplans in rules and (rule is share_subplans or root is not before):
            root = share(root, contents)
        assert root.schema.equals(before.schema), (rule.__name__, before.schema, root.schema)
        former, text = text, text if root is before else logical_text(root, describe)
        if text != former:
            steps.append(step_of(rule.__name__, why(rule), before, root, describe))
    assert isinstance(root, Root), root
    return root, tuple(steps)


def why(rule: Rule) -> str:
    """Return the purpose of a rule: the first paragraph of its module's docstring."""
    text = sys.modules[rule.__module__].__doc__ or ""
    return " ".join(text.split("\n\n")[0].split())
