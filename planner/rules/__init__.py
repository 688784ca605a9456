"""The optimizer's rules, one pure function ``(plan, options) -> plan`` per file."""

from planner.rules.merge_projects import merge_projects
from planner.rules.partial_aggregation import partial_aggregation
from planner.rules.place_exchange import place_exchange
from planner.rules.prune_columns import prune_columns
from planner.rules.push_down_filter import push_down_filter

__all__ = [
    "merge_projects",
    "partial_aggregation",
    "place_exchange",
    "prune_columns",
    "push_down_filter",
]
