"""Puts an exchange where equal keys have to meet and do not lie together already.

An aggregate needs none if its keys contain the columns that its input was partitioned by, and a
stitch is like an aggregate. One side of a join or a clip needs none if it is partitioned by some of
its keys; the other side is then exchanged by the same ones. Branches of a union that are
partitioned alike stay so. Without keys all rows go to one vertex.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.logical.nodes import (
    Clip,
    DataWindowAgg,
    Exchange,
    Join,
    LogicalNode,
    Stitch,
    UserStep,
    WindowAgg,
)
from planner.logical.properties import partitioning
from planner.logical.traversal import Shared, transform

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions


def place_exchange(root: LogicalNode, options: PlanOptions) -> LogicalNode:
    """The plan with the exchanges it needs."""

    def change(node: LogicalNode, _shared: Shared) -> LogicalNode:
        if isinstance(node, WindowAgg | DataWindowAgg):
            return _grouped(node, node.keys, options)
        if isinstance(node, Stitch):
            return _grouped(node, node.on, options)
        if isinstance(node, UserStep) and node.keys is not None:
            return _grouped(node, node.keys, options)
        return _paired(node, options) if isinstance(node, Join | Clip) else node

    return transform(root, change)


def _grouped(
    node: WindowAgg | DataWindowAgg | Stitch | UserStep, keys: tuple[str, ...], options: PlanOptions
) -> LogicalNode:
    now = partitioning(node.input)
    # A single vertex would do for any keys, but would do all the work alone.
    alone_is_best = not keys or options.parallelism == 1
    if (now.is_single and alone_is_best) or (not now.is_single and now.covers(keys)):
        return node
    return replace(node, input=Exchange(node.input, keys))


def _paired(node: Join | Clip, options: PlanOptions) -> Join | Clip:
    left, right = partitioning(node.left), partitioning(node.right)
    if left.is_single and right.is_single and options.parallelism == 1:
        return node
    by_left, by_right = left.positions(node.left_on), right.positions(node.right_on)
    if by_left is not None and by_left == by_right:
        return node
    every = tuple(range(len(node.left_on)))
    by = by_left or by_right or every
    if by != by_left:
        node = replace(node, left=Exchange(node.left, _picked(node.left_on, by)))
    if by != by_right:
        node = replace(node, right=Exchange(node.right, _picked(node.right_on, by)))
    return node


def _picked(keys: tuple[str, ...], positions: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(keys[i] for i in positions)
