"""Insert an exchange where equal keys must be in one vertex and may not be yet.

An aggregate or stitch needs no exchange if its keys contain the columns that partition its input.
One side of a join or clip needs none if it is partitioned by some of its keys; then the other side
is exchanged by the same keys. A union of branches with equal partitioning is partitioned like them.
Without keys, all rows go to one vertex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical.nodes import Exchange, LogicalNode, Sink
from planner.logical.traversal import Shared, transform

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions


def place_exchange(root: LogicalNode, options: PlanOptions) -> LogicalNode:
    """Return the plan with all exchanges that it needs."""

    def change(node: LogicalNode, _shared: Shared) -> LogicalNode:
        match node.input_keys:
            case (tuple() as keys,):
                return _grouped(node, keys, options)
            case (tuple() as left, tuple() as right):
                return _paired(node, left, right, options)
            case _:
                return node

    return transform(root, change)


def _grouped(node: LogicalNode, keys: tuple[str, ...], options: PlanOptions) -> LogicalNode:
    (below,) = node.inputs
    now = below.partitioning
    # A single vertex is correct for any keys, but would do all the work alone.
    alone_is_best = not keys or options.parallelism == 1
    alone_is_best |= isinstance(node, Sink)  # a sink has no work that several vertices could share
    if (now.is_single and alone_is_best) or (not now.is_single and now.covers(keys)):
        return node
    return node.with_inputs((Exchange(below, keys),))


def _paired(
    node: LogicalNode, left_on: tuple[str, ...], right_on: tuple[str, ...], options: PlanOptions
) -> LogicalNode:
    left, right = node.inputs
    partitionings = left.partitioning, right.partitioning
    if partitionings[0].is_single and partitionings[1].is_single and options.parallelism == 1:
        return node
    by_left, by_right = partitionings[0].positions(left_on), partitionings[1].positions(right_on)
    if by_left is not None and by_left == by_right:
        return node
    by = by_left or by_right or tuple(range(len(left_on)))
    if by != by_left:
        left = Exchange(left, _picked(left_on, by))
    if by != by_right:
        right = Exchange(right, _picked(right_on, by))
    return node.with_inputs((left, right))


def _picked(keys: tuple[str, ...], positions: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(keys[i] for i in positions)
