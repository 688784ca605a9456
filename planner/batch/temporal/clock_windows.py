"""Hopping windows as Spark SQL: the numbers of the windows that a lifetime overlaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.expressions.spark.casts import failure, floor_divide
from planner.expressions.spark.types import integer
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME, MIN_TIME

if TYPE_CHECKING:
    from planner.logical.nodes import WindowAgg

#: The most windows of one event; more are an error, as in the stream.
WINDOWS_PER_EVENT_MAX = 1_000_000


def bounds(node: WindowAgg) -> list[str]:
    """Return SQL for ``_first`` and ``_last``: the numbers of an event's first and last window."""
    size, every = node.size_us, node.every_us
    lowest, highest = -(-MIN_TIME // every), (INF_TIME - size) // every
    first = (
        f"if({VS} < {integer(MIN_TIME + size)}, {integer(lowest)}, "
        f"greatest({integer(lowest)}, {floor_divide(f'({VS} - {integer(size)})', every)} + 1L))"
    )
    last = f"least({floor_divide(f'({VE} - 1L)', every)}, {integer(highest)})"
    return [f"{first} as _first", f"{last} as _last"]


def spread(node: WindowAgg) -> str:
    """Return SQL for ``_window``: one row per window of an event, with the window's number."""
    endless = failure(
        f"window: an event never ends, or is in more than {WINDOWS_PER_EVENT_MAX} windows; "
        "end lifetimes before a window"
    )
    count = "cast(_last as double) - cast(_first as double) + 1D"
    is_endless = f"{count} > {WINDOWS_PER_EVENT_MAX}D"
    if not node.points:
        is_endless += f" or {VE} = {integer(INF_TIME)}"
    return (
        f"explode(case when {is_endless} then {endless} "
        "when _first > _last then cast(array() as array<bigint>) "
        "else sequence(_first, _last) end) as _window"
    )


def lifetime(node: WindowAgg) -> tuple[str, str]:
    """Return SQL for the start and the end of the window with number ``_window``."""
    start = f"_window * {integer(node.every_us)}"
    return start, f"{start} + {integer(node.size_us)}"
