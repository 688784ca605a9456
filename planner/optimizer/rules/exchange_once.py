"""Exchange rows once, if one stage needs them by (a, b) and a later stage by a.

Suppose the results of an aggregate by (a, b) are then grouped, stitched or joined by a. If the rows
are exchanged by a alone, rows with equal (a, b) are still in one vertex, and the second exchange is
not needed. The same holds for joins by (a, b). This pays only if a has many values; otherwise few
vertices would do all the work. So the number of values of a must be known from the files or a hint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.cost.model import Estimate, estimates
from planner.expressions.nodes import Column
from planner.logical.nodes import (
    Clip,
    DataWindowAgg,
    Exchange,
    Explode,
    Extremes,
    Filter,
    Join,
    Lifetime,
    LogicalNode,
    Project,
    Recover,
    Stitch,
    WindowAgg,
)
from planner.logical.traversal import NodeMap, rebuilt, topological

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions

#: The fewest distinct values per vertex of the columns by which rows are exchanged.
VALUES_PER_VERTEX_MIN = 8

#: The output columns of a node by which its reader needs the rows partitioned.
Demand = tuple[str, ...] | None


def exchange_once(root: LogicalNode, options: PlanOptions) -> LogicalNode:
    """Exchange by fewer keys where that saves another exchange above."""
    if options.parallelism == 1:
        return root
    order = topological(root)
    demands_on: NodeMap[list[Demand]] = NodeMap()
    demands: NodeMap[Demand] = NodeMap()
    for node in order:
        demands_on[node] = []
    for node in reversed(order):
        demands[node] = _agreed(demands_on[node])
        below = _input_demands(node, demands[node])
        for child, child_demand in zip(node.inputs, below, strict=True):
            demands_on[child].append(child_demand)
    estimated = estimates(root, options.statistics)
    done: NodeMap[LogicalNode] = NodeMap()
    for node in order:
        inputs = [done[child] for child in node.inputs]
        demand = demands[node]
        if demand is not None and _is_worth_it(node, demand, estimated, options.parallelism):
            inputs = [
                before if child_demand is None else Exchange(before, child_demand)
                for before, child_demand in zip(inputs, _input_demands(node, demand), strict=True)
            ]
        done[node] = rebuilt(node, inputs)
    return done[root]


def _agreed(demands: list[Demand]) -> Demand:
    """Return the demand that all readers of a node have in common; None if they differ."""
    return demands[0] if demands and all(a == demands[0] for a in demands) else None


def _input_demands(node: LogicalNode, demand: Demand) -> tuple[Demand, ...]:
    """Return the demand of ``node`` on each of its inputs, given the ``demand`` on itself."""
    match node:
        case WindowAgg(keys=keys) | DataWindowAgg(keys=keys) | Stitch(on=keys):
            part = demand if demand is not None and set(demand) <= set(keys) else keys
            return (part or None,)
        case Join() | Clip():
            at = _positions(node, demand)
            return (
                tuple(node.left_on[i] for i in at),
                tuple(node.right_on[i] for i in at),
            )
        case Project(columns=columns) if demand is not None:
            origins = {name: e.name for name, e in columns if isinstance(e, Column)}
            kept = tuple(origins[name] for name in demand if name in origins)
            return (kept if len(kept) == len(demand) else None,)
        case Explode(column=column) if demand is not None and column in demand:
            return (None,)
        case Filter() | Lifetime() | Explode() | Extremes() | Recover():
            return (demand,)
        case _:
            return (None,) * len(node.inputs)


def _positions(node: Join | Clip, demand: Demand) -> tuple[int, ...]:
    """Return the keys that ``demand`` names, in its order; all keys if it names other columns."""
    every = tuple(range(len(node.left_on)))
    if demand is None:
        return every
    columns = node.columns if isinstance(node, Join) else [("left", n, n) for n in node.left_on]
    origins = {name: (side, column) for side, column, name in columns}
    positions: list[int] = []
    for name in demand:
        side, column = origins.get(name, ("left", ""))
        keys = node.left_on if side == "left" else node.right_on
        if column not in keys or (
            side == "right" and isinstance(node, Join) and node.how != "inner"
        ):
            return every
        positions.append(keys.index(column))
    return tuple(positions) if len(set(positions)) == len(positions) else every


def _is_worth_it(
    node: LogicalNode, demand: tuple[str, ...], estimated: NodeMap[Estimate], parallelism: int
) -> bool:
    """Return whether ``node`` has keys beyond ``demand``, and ``demand`` has many values."""
    match node:
        case WindowAgg(keys=keys) | DataWindowAgg(keys=keys) | Stitch(on=keys):
            fewer = set(demand) < set(keys)
        case Join() | Clip():
            fewer = len(_positions(node, demand)) < len(node.left_on)
        case _:
            return False
    if not fewer or any(child.partitioning.keys is not None for child in node.inputs):
        return False
    below = [estimated[child] for child in node.inputs]
    child_demands = _input_demands(node, demand)
    return all(
        not e.is_assumed
        and keys is not None
        and all(key in e.distinct for key in keys)
        and e.groups(keys) >= VALUES_PER_VERTEX_MIN * parallelism
        for e, keys in zip(below, child_demands, strict=True)
    )
