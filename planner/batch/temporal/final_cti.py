"""The last finite CTI of each stream of a plan: what ``ctx.at_end`` follows from, said again.

A source has come as far as its rows say, on the grid of the plan. From there on times follow from
times: what holds CTIs back lets them pass in the end, where timers follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical import nodes as logical
from rstream.types import INF_TIME, MIN_TIME
from rvertex.operators.lifetimes.shift import Shift

if TYPE_CHECKING:
    from collections.abc import Sequence


def reached(node: logical.LogicalNode, inputs: Sequence[int]) -> int:
    """The last finite CTI behind a node, given those of its inputs; MIN_TIME if there is none."""
    time = max(inputs)
    if time == MIN_TIME:
        return time
    match node:
        case logical.Lifetime(change=Shift(duration_us=duration)):
            moved = time + duration
            return moved if MIN_TIME < moved < INF_TIME else MIN_TIME
        case logical.AsOf(strategy="forward" | "nearest", tolerance_us=int() as tolerance):
            return max(MIN_TIME, time - tolerance)
        case logical.WindowAgg(size_us=size, every_us=every):
            return ((time - size) // every + 1) * every
        case _:
            return time
