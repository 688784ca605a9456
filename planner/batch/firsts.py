"""ORDER BY and LIMIT in a batch: the first events, and the order of events that start together.

The order of the stream is a column where it is known (:data:`PLACE`). Where it is not, a result
that would depend on it is an error.
"""

from __future__ import annotations

from dataclasses import replace

from planner.batch.spark_sql.frame import PLACE, Frame
from planner.batch.temporal import data_windows
from planner.batch.temporal.frames import rows_differ, unordered
from planner.logical import nodes as logical
from rstream.items.batch import VS


def ordered(node: logical.Sorted | logical.Limited, below: Frame) -> Frame:
    """Compile a node that sorts events, or keeps the first of them."""
    if isinstance(node, logical.Limited):
        return limited(node, below)
    return sorted_together(node, below)


def sorted_together(node: logical.Sorted, below: Frame) -> Frame:
    """Return the events with a column for their order, if it is known or the sort has keys."""
    if not below.has_place and not node.keys:
        return below
    ways = [
        f"{below.columns[name]} {'desc' if down else 'asc'} nulls {'first' if first else 'last'}"
        for name, (down, first) in zip(node.by, node.ways, strict=True)
    ]
    number = "row_number" if below.has_place else "dense_rank"
    place = f"{number}() over (order by {', '.join([VS, *ways, *below.place])})"
    if not below.has_place:
        same = [below.columns[name] for name in (*node.keys, *node.by)]
        place = f"if({rows_differ(same, below)}, {unordered('sort')}, {place})"
    df = below.df.selectExpr(*below.columns.values(), f"cast({place} as bigint) as {PLACE}")
    return replace(below, df=df, has_place=True)


def limited(node: logical.Limited, below: Frame) -> Frame:
    """Return the first events; raise if only the stream knows the order of events at one start."""
    columns = list(below.columns.values())
    number = data_windows.number([], node.rows, below.order)
    rows = below.df.selectExpr("*", f"least({number}, 1L) as _number")
    if not below.has_place:
        checked = data_windows.checked_number([], columns[2:], "limit: some events")
        rows = rows.selectExpr(*columns, *below.place, f"{checked} as _number")
    return replace(below, df=rows.where("_number = 0").selectExpr(*columns, *below.place))
