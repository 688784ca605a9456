"""Interval joins in a batch: Spark's own join of each kind, on keys and the time between starts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.batch.spark_sql.frame import Frame
from planner.batch.temporal import pairs
from rstream.items.batch import VE, VS
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.logical import nodes as logical

    #: Joins two sides on conditions, by a join type of Spark.
    Joined = Callable[[Frame, Frame, Sequence[str], str], Frame]

_KINDS = {"anti": "left_anti", "semi": "inner"}


def by_interval(node: logical.IntervalJoin, joined: Joined, left: Frame, right: Frame) -> Frame:
    """Return pairs at the later start, and rows without a match when none is possible any more."""
    numbered = replace(left, df=left.df.selectExpr("*", "monotonically_increasing_id() as _id"))
    conditions = pairs.conditions(node, left.columns, right.columns)
    conditions.append(f"r{VS} - l{VS} between {node.lo_us}L and {node.hi_us}L")
    how = _KINDS.get(node.how, node.how)
    sides = joined(_prefixed(numbered, "l"), _prefixed(right, "r"), conditions, how).df
    if node.how == "semi":
        place = f"row_number() over (partition by l_id order by r{VS}) as _place"
        sides = sides.selectExpr("*", place).where("_place = 1")
    of_side = {"left": ("l", left.columns), "right": ("r", right.columns)}
    made = [of_side[side][0] + of_side[side][1][column] for side, column, _ in node.columns]
    named = [f"{sql} as c{i}" for i, sql in enumerate(made)]
    timed = sides.selectExpr(f"{_time(node)} as `{VS}`", *named)
    columns = [f"c{i}" for i in range(len(made))]
    return Frame(timed.selectExpr(f"`{VS}`", f"`{VS}` + 1L as `{VE}`", *columns), node.schema, 1)


def _time(node: logical.IntervalJoin) -> str:
    left, right = (
        _last_instant("l", node.lag_us("left")[1]),
        _last_instant("r", node.lag_us("right")[1]),
    )
    if node.how == "anti":
        return left
    pair = f"greatest(l{VS}, r{VS})"
    return f"case when r{VS} is null then {left} when l{VS} is null then {right} else {pair} end"


def _last_instant(prefix: str, wait_us: int) -> str:
    return f"least({prefix}{VS}, {INF_TIME - 1 - wait_us}L) + {wait_us}L"


def _prefixed(frame: Frame, prefix: str) -> Frame:
    named = (f"`{name}` as {prefix}{name}" for name in frame.df.columns)
    return replace(frame, df=frame.df.selectExpr(*named))
