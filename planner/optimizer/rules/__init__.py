"""The optimizer's rules, one pure function ``(plan, options) -> plan`` per file."""

from planner.optimizer.rules.exchange_once import exchange_once as exchange_once
from planner.optimizer.rules.fold_constants import fold_constants as fold_constants
from planner.optimizer.rules.keep_extremes import keep_extremes as keep_extremes
from planner.optimizer.rules.merge_projects import merge_projects as merge_projects
from planner.optimizer.rules.open_rows import open_rows as open_rows
from planner.optimizer.rules.order_joins import order_joins as order_joins
from planner.optimizer.rules.partial_aggregation import partial_aggregation as partial_aggregation
from planner.optimizer.rules.place_exchange import place_exchange as place_exchange
from planner.optimizer.rules.prune_columns import prune_columns as prune_columns
from planner.optimizer.rules.push_down_filter import push_down_filter as push_down_filter
from planner.optimizer.rules.remove_merges import remove_merges as remove_merges
from planner.optimizer.rules.share_subplans import share_subplans as share_subplans
from planner.optimizer.rules.skip_row_groups import skip_row_groups as skip_row_groups
