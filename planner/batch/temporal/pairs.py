"""Temporal pairs as Spark SQL: the overlap of two events, and how to find pairs.

Columns of the left event have the prefix ``l``, those of the right ``r``. To save Spark from
comparing all pairs of a key, time is cut into slices of about a mean lifetime. Each side is
exploded into the slices of its lifetime, and a pair is found in the slice in which it begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.batch.spark_sql.expressions import to_sql
from planner.expressions.spark.casts import floor_divide
from planner.logical.nodes import IntervalJoin, Join
from rstream.items.batch import VE, VS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planner.logical.nodes import Clip

#: SQL for the time in which both events of a pair are valid.
START, END = f"greatest(l{VS}, r{VS})", f"least(l{VE}, r{VE})"
#: SQL for the condition of a pair: lifetimes overlap, and the slice is the first common one.
MEET = (
    "l_slice = r_slice",
    "l_slice = greatest(l_first, r_first)",
    f"l{VS} < r{VE}",
    f"r{VS} < l{VE}",
)


def conditions(
    node: Join | IntervalJoin | Clip, left: Mapping[str, str], right: Mapping[str, str]
) -> list[str]:
    """Return the SQL conditions of a match; ``left``, ``right``: SQL by column."""
    conditions = [
        f"l{left[left_key]} = r{right[right_key]}"
        for left_key, right_key in zip(node.left_on, node.right_on, strict=True)
    ]
    if isinstance(node, Join | IntervalJoin) and node.where is not None:
        of = {"left": ("l", left), "right": ("r", right)}
        names = {name: of[side][0] + of[side][1][column] for side, column, name in node.reads}
        conditions.append(f"({to_sql(node.where, names)})")
    return conditions


def slices(columns: Iterable[str], prefix: str, slice_us: int) -> tuple[list[str], str]:
    """Return the prefixed columns of a side and its slices, and the SQL for a row per slice."""
    first, last = floor_divide(VS, slice_us), floor_divide(f"({VE} - 1L)", slice_us)
    renamed = [f"`{name}` as {prefix}{name}" for name in columns]
    renamed += [f"{first} as {prefix}_first", f"{last} as {prefix}_last"]
    return renamed, f"explode(sequence({prefix}_first, {prefix}_last)) as {prefix}_slice"
