"""The optimizer's rules, one pure function ``(plan, options) -> plan`` per file."""

from planner.optimizer.rules.exchange_once import exchange_once
from planner.optimizer.rules.fold_constants import fold_constants
from planner.optimizer.rules.keep_extremes import keep_extremes
from planner.optimizer.rules.merge_projects import merge_projects
from planner.optimizer.rules.open_rows import open_rows
from planner.optimizer.rules.order_joins import order_joins
from planner.optimizer.rules.partial_aggregation import partial_aggregation
from planner.optimizer.rules.place_exchange import place_exchange
from planner.optimizer.rules.prune_columns import prune_columns
from planner.optimizer.rules.push_down_filter import push_down_filter
from planner.optimizer.rules.remove_merges import remove_merges
from planner.optimizer.rules.share_subplans import share_subplans
from planner.optimizer.rules.skip_row_groups import skip_row_groups

__all__ = [
    "exchange_once",
    "fold_constants",
    "keep_extremes",
    "merge_projects",
    "open_rows",
    "order_joins",
    "partial_aggregation",
    "place_exchange",
    "prune_columns",
    "push_down_filter",
    "remove_merges",
    "share_subplans",
    "skip_row_groups",
]
