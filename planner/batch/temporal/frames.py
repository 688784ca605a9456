"""Aggregates per row over a frame of its key, as Spark's window functions.

The aggregates are those of windows, each ``OVER`` the frame. Frames of rows need the order of rows
that start together: their places in the stream, or the order in the query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.batch.spark_sql.aggregates import register, take_of
from planner.batch.spark_sql.frame import PLACE
from planner.batch.temporal.data_windows import over
from planner.expressions.spark.casts import failure
from planner.expressions.spark.errors import UnsupportedInBatchError
from rstream.items.batch import VE, VS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.batch.spark_sql.frame import Frame
    from planner.logical import nodes as logical


def over_frames(node: logical.Over, below: Frame) -> Frame:
    """Return each row with the aggregates of its frame."""
    keys = [below.columns[key] for key in node.keys]
    takes = [take_of(a, i, below) for i, a in enumerate(node.aggregates)]
    for i, aggregate in enumerate(node.aggregates):
        if aggregate.function == "user":
            register(below.df.sparkSession, i, aggregate, below.schema)
        if aggregate.function in ("sum_distinct", "mean_distinct"):
            raise UnsupportedInBatchError(aggregate.function, "Spark's frames take no DISTINCT")
    order = ", ".join(below.order) if node.rows else VS
    df = below.df
    if node.peers and below.has_place:
        equal = over([*keys, VS, *(below.columns[name] for name in node.peers)])
        df = df.selectExpr("*", f"min({PLACE}) {equal} as _peer")
        order = f"{VS}, _peer"
    last = f"{node.last} preceding" if node.last else "current row"
    first = "unbounded" if node.first is None else str(node.first)
    kind = "rows" if node.rows else "range"
    window = over(keys, f"order by {order} {kind} between {first} preceding and {last}")
    partial: dict[str, str] = {}
    for aggregate, take in zip(node.aggregates, takes, strict=True):
        for name, sql in take.partial.items():
            is_distinct = aggregate.function == "count_distinct"
            partial[name] = (
                _distinct(aggregate, below, window) if is_distinct else f"{sql} {window}"
            )
    if (node.rows or node.peers) and not below.has_place:
        df = df.selectExpr("*", f"{rows_differ(keys, below)} as _tied")
        df = df.where(f"if(_tied, {unordered('over')}, true)")
    df = df.selectExpr("*", *(f"{sql} as {name}" for name, sql in partial.items()))
    width = len(below.schema)
    made = [f"{take.result} as c{width + i}" for i, take in enumerate(takes)]
    framed = df.selectExpr(*below.columns.values(), *made, *below.place)
    return replace(below, df=framed, schema=node.schema)


def _distinct(aggregate: logical.Aggregate, below: Frame, window: str) -> str:
    """Return SQL for the set of values, with one zero: window functions do not support DISTINCT."""
    assert aggregate.column is not None, aggregate
    value = below.columns[aggregate.column]
    if pa.types.is_floating(below.schema.field(aggregate.column).type):
        value = f"if({value} = 0, cast(0 as double), cast({value} as double))"
    return f"cast(size(collect_set({value}) {window}) as bigint)"


def rows_differ(keys: Sequence[str], below: Frame) -> str:
    """Return SQL for whether rows of a key that start together differ."""
    ties = over([*keys, VS])
    row = f"struct({', '.join([VE, *list(below.columns.values())[2:]])})"
    return f"min({row}) {ties} <> max({row}) {ties}"


def unordered(what: str) -> str:
    """Return SQL for the error of a result that depends on an unknown order."""
    return failure(
        f"{what}: events of a key that start together come in an order that is known to the "
        "stream only"
    )
