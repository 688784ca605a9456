"""Split an aggregate into two steps around its exchange, so that only partial results are sent.

Aggregates that need all rows of a window, and windows defined by the data, are not split: merged
partial results would differ. Sessions that end only by a gap are split, because partial rows of
panes no longer than the gap make the same sessions. The first step becomes part of the stage before
the exchange, in each branch of a union separately. The output of a shared subplan is exchanged
without a first step, because other nodes read the same rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.logical.nodes import DataWindowAgg, Exchange, LogicalNode, Union, WindowAgg
from planner.logical.traversal import Shared, transform
from planner.logical.windows import SessionWindow
from rvertex.operators.windows.session_phases import pane_us

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions


def partial_aggregation(root: LogicalNode, options: PlanOptions) -> LogicalNode:
    """Split every aggregate that directly follows its own exchange."""
    if not options.partial_aggregation:
        return root

    def change(node: LogicalNode, shared: Shared) -> LogicalNode:
        if not isinstance(node, WindowAgg | DataWindowAgg):
            return node
        if node.phase != "complete" or not node.can_be_split:
            return node
        exchange = node.input
        if not isinstance(exchange, Exchange) or exchange in shared:
            return node
        partial = _partial(_in_panes(node, options), exchange.input, shared)
        if partial is None:
            return node
        return replace(node, input=replace(exchange, input=partial), phase="final")

    return transform(root, change)


def _partial(
    node: WindowAgg | DataWindowAgg, below: LogicalNode, shared: Shared
) -> LogicalNode | None:
    if below in shared:
        return None
    if isinstance(below, Union):
        branches = [_partial(node, branch, shared) for branch in below.branches]
        if any(branch is None for branch in branches):
            return None
        return replace(below, branches=tuple(b for b in branches if b is not None))
    return replace(node, input=below, phase="partial", label="")


def _in_panes(node: WindowAgg | DataWindowAgg, options: PlanOptions) -> WindowAgg | DataWindowAgg:
    """Return the node with the settings of its partial step, except input and phase."""
    if isinstance(node, WindowAgg):
        return node
    assert isinstance(node.window, SessionWindow), node.window
    return replace(node, pane_us=pane_us(node.window.gap_us, is_paced=options.is_paced))
