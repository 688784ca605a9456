"""As-of joins in a batch: both sides are sorted by time, and a left event matches a neighbour.

Of right events that start together the first or the last matches. If their order is unknown in the
batch, they must be equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.batch.spark_sql.frame import PLACE, Frame
from planner.expressions.spark.casts import failure
from rstream.items.batch import VE, VS

if TYPE_CHECKING:
    from planner.logical import nodes as logical

_AMBIGUOUS = (
    "join_asof: several events of a key start together with different values; their order is known "
    "to the stream only"
)


def nearest(node: logical.AsOf, left: Frame, right: Frame) -> Frame:
    """Return each left event with the struct ``_found`` of its match, as columns."""
    theirs = [right.columns[name] for name in node.right_on]
    row = f"struct({', '.join(list(right.columns.values())[2:])})"
    best = "min" if node.strategy == "forward" else "max"
    alike = f"over (partition by {', '.join([VS, *theirs])})"
    made = f"{best}_by({row}, {PLACE}) {alike}"
    if not right.has_place:
        one = f"min({row}) {alike} <=> max({row}) {alike}"
        made = f"if({one}, {row}, {failure(_AMBIGUOUS)})"
    known = " and ".join(f"{key} is not null" for key in theirs)
    number = f"row_number() over (partition by {', '.join([VS, *theirs])} order by {VS})"
    marks = right.df.where(known).selectExpr(VS, *theirs, f"{made} as _row", f"{number} as _n")
    named = [f"{key} as k{i}" for i, key in enumerate(theirs)]
    mark = f"struct({VS} as at, _row as row) as _mark"
    marks = marks.where("_n = 1").selectExpr(f"{VS} as _at", *named, mark)
    left_keys = [f"{left.columns[name]} as k{i}" for i, name in enumerate(node.left_on)]
    whole = left.df.selectExpr("*", f"{VS} as _at", *left_keys).unionByName(marks, True)
    keys = ", ".join(f"k{i}" for i in range(len(left_keys)))
    rows = whole.selectExpr("*", *_around(keys)).where("_mark is null")
    joined = rows.selectExpr("*", f"{_chosen(node)} as _found")
    if node.how == "inner":
        joined = joined.where("_found is not null")
    columns = [
        left.columns[column] if side == "left" else f"_found.row.{right.columns[column]}"
        for side, column, _ in node.columns
    ]
    df = joined.selectExpr(
        f"`{VS}`", f"`{VE}`", *(f"{sql} as c{i}" for i, sql in enumerate(columns))
    )
    return Frame(df, node.schema, left.lifetime_us)


def _around(keys: str) -> tuple[str, str]:
    """Return SQL for the last match at or before each row, and for the first at or after it."""
    marks_first = f"partition by {keys} order by _at, _mark is null"
    marks_last = f"partition by {keys} order by _at, _mark is not null"
    return (
        f"last(_mark, true) over ({marks_first} rows between unbounded preceding and current row) "
        "as _before",
        f"first(_mark, true) over ({marks_last} rows between current row and unbounded following) "
        "as _after",
    )


def _chosen(node: logical.AsOf) -> str:
    before, after = "_before", "_after"
    if node.tolerance_us is not None:
        before = f"if(_at - _before.at <= {node.tolerance_us}L, _before, null)"
        after = f"if(_after.at - _at <= {node.tolerance_us}L, _after, null)"
    if node.strategy != "nearest":
        return before if node.strategy == "backward" else after
    return (
        f"case when {before} is null then {after} when {after} is null then {before} "
        "when _after.at - _at <= _at - _before.at then _after else _before end"
    )
