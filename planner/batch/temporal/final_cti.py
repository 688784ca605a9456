"""Computes the last finite CTI (watermark) of each stream of a plan, which ``ctx.at_end`` needs.

The rows of a source decide its last CTI, on the grid of the plan. After that, each node's CTI
follows from those of its inputs: operators in front of timers forward every CTI that they hold
back, in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.logical import nodes as logical
from rstream.types import INF_TIME, MIN_TIME
from rvertex.operators.lifetimes.shift import Shift

if TYPE_CHECKING:
    from collections.abc import Sequence


def reached(node: logical.LogicalNode, inputs: Sequence[int]) -> int:
    """Return the last finite CTI after a node, from the inputs' last CTIs; MIN_TIME for none."""
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
