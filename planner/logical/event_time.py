"""Finds whether an expression over the columns of a plan equals the start of its events.

SQL names a time column for windows, but windows here use the event's own start. So the column must
equal it: it is the column from which the source takes the time, or ``vs()`` by definition.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.nodes import Call, Column, Literal, Node, rename_columns
from planner.expressions.types import is_time
from planner.logical.nodes import (
    AsOf,
    Distinct,
    Exchange,
    Explode,
    Filter,
    IntervalJoin,
    Join,
    Lifetime,
    LogicalNode,
    Over,
    Project,
    Recover,
    Sorted,
    Source,
    Stitch,
    Union,
)
from rstream.items.batch import VS
from rstream.types import INF_TIME
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.extend_by import ExtendBy
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.logical.nodes import Side


_DAY_US = 86_400_000_000
#: Per unit of a timestamp: how much it may differ from the exact time, least and most, us.
_ROUNDED = {"s": (-999_999, 0), "ms": (-999, 0), "us": (0, 0), "ns": (0, 1)}


def is_event_time(plan: LogicalNode, name: str) -> bool:
    """Return whether column ``name`` of ``plan`` equals the start of each event."""
    return is_start(plan, Column(name, plan.schema.field(name).type))


def never_ends(plan: LogicalNode) -> bool:
    """Return whether no event of ``plan`` ever ends."""
    match plan:
        case Lifetime(change=Extend(duration_us=duration)) if duration == INF_TIME:
            return True
        case Lifetime(input=below, change=Shift()):
            return never_ends(below)
        case Union(branches=branches):
            return all(map(never_ends, branches))
        case Join(how="inner", left=left, right=right):
            return never_ends(left) and never_ends(right)
        case AsOf(left=left):
            return never_ends(left)
        case Exchange() | Recover():
            return never_ends(plan.input)
        case _:
            return plan.keeps_lifetimes and never_ends(plan.inputs[0])


def are_instants(plan: LogicalNode) -> bool:
    """Return whether every event is a point, or a few points that follow each other."""
    match plan:
        case Stitch(input=below):
            return are_instants(below)
        case Union(branches=branches):
            return all(map(are_instants, branches))
        case Join(left=left, right=right, how=how):
            return are_instants(left) or (how == "inner" and are_instants(right))
        case _:
            kept = plan.keeps_lifetimes and are_instants(plan.inputs[0])
            return plan.is_point or kept


def is_start(plan: LogicalNode, expr: Node, *, unmoved: bool = False) -> bool:
    """Return whether an expression over the columns of ``plan`` equals the start of each event.

    ``unmoved``: also the start of late rows, which ``late="adjust"`` moves.
    """
    is_start_of = partial(is_start, unmoved=unmoved)
    if _is_cast_of_start(expr):
        return True
    match plan:
        case Source(spec=spec):
            vs = Column(spec.vs) if isinstance(spec.vs, str) else spec.vs
            is_moved = unmoved and spec.late == "adjust"
            if is_moved or not isinstance(vs, Node):
                return False
            return _bare(expr, plan.schema) == _bare(vs, plan.schema)
        case Project(input=below, columns=columns):
            return is_start_of(below, rename_columns(expr, dict(columns)))
        case Lifetime(input=below, change=SetDuration() | Extend() | ExtendBy()):
            return is_start_of(below, expr)
        case Explode(column=column) if column in expr.columns():
            return False
        case Union(branches=branches):
            return all(is_start_of(branch, expr) for branch in branches)
        case Over() | Sorted() | Distinct():
            return set(expr.columns()) <= set(plan.input.schema.names) and is_start_of(
                plan.input, expr
            )
        case Stitch(on=on) if set(expr.columns()) <= set(on):  # merged events start together
            return is_start_of(plan.input, expr)
        case Filter() | Explode() | Recover() | Exchange():
            return is_start_of(plan.input, expr)
        case AsOf(left=left, columns=columns):
            kept = {name for side, name, output in columns if side == "left" and name == output}
            return set(expr.columns()) <= kept and is_start_of(left, expr)
        case IntervalJoin():
            return any(
                plan.keeps(side) and plan.lag_us(side) == (0, 0) and is_start_of(below, inner)
                for side, below, inner in of_sides(plan, expr)
            )
        case Join():  # if one side is points, its start is the start of the pair
            return any(
                plan.keeps(side) and below.is_point and is_start_of(below, inner)
                for side, below, inner in of_sides(plan, expr)
            )
        case _:
            return False


def distance_us(plan: LogicalNode, expr: Node) -> tuple[int, int] | None:
    """Return by how much a time is later than its event's start, if not null: least and most.

    None: the distance is unknown. After an interval join the distances of both sides' times are
    still known.
    """
    if is_start(plan, expr, unmoved=True):
        return 0, 0
    if isinstance(expr, Call):
        return _computed_distance_us(plan, expr)
    match plan:
        case Project(input=below, columns=columns):
            return distance_us(below, rename_columns(expr, dict(columns)))
        case Union(branches=branches):
            distances = [distance_us(branch, expr) for branch in branches]
            known = [distance for distance in distances if distance is not None]
            if len(known) < len(distances):
                return None
            return min(lo for lo, _ in known), max(hi for _, hi in known)
        case IntervalJoin():
            for side, below, inner in of_sides(plan, expr):
                distance, (least, most) = distance_us(below, inner), plan.lag_us(side)
                if distance is not None:
                    return distance[0] - most, distance[1] - least
            return None
        case Filter() | Recover() | Exchange():
            return distance_us(plan.input, expr)
        case _:
            return None


def _computed_distance_us(plan: LogicalNode, expr: Call) -> tuple[int, int] | None:
    """Return the distance of a time that adds a duration to another or truncates it."""
    below, kind = distance_us(plan, expr.args[0]), expr.type
    if below is None or kind is None or not is_time(kind):
        return None
    lo, hi = below
    match expr.function, expr.args:
        case "cast", _:
            least, most = rounding_us(kind)
            return lo + least, hi + most
        case "truncate", (_,):
            return lo - int(expr.option("every_us")), hi
        case ("add" | "subtract") as function, (base, Literal(literal=timedelta() as added)):
            if base.type is None or _digits(base.type) < _MICROSECONDS:
                return None  # the unit of the base is coarser, so the base was rounded before
            us = added // timedelta(microseconds=1) * (1 if function == "add" else -1)
            return lo + us, hi + us
        case _:
            return None


def rounding_us(kind: pa.DataType) -> tuple[int, int]:
    """Return the range of rounding errors of a time of this type, us."""
    return (-_DAY_US, 0) if pa.types.is_date(kind) else _ROUNDED[kind.unit]


def of_sides(join: Join | IntervalJoin, expr: Node) -> Iterator[tuple[Side, LogicalNode, Node]]:
    """Return the sides that have all columns of ``expr``, and the expression over that side."""
    sides: tuple[tuple[Side, LogicalNode], ...] = (("left", join.left), ("right", join.right))
    for side, plan in sides:
        theirs: dict[str, Node] = {
            output: Column(column, plan.schema.field(column).type)
            for of, column, output in join.columns
            if of == side
        }
        if set(expr.columns()) <= set(theirs):
            yield side, plan, rename_columns(expr, theirs)


def _bare(node: Node, schema: pa.Schema) -> Node:
    """Remove casts that keep the time, and the types of columns."""
    if isinstance(node, Call) and node.function == "cast":
        inner = _bare(node.args[0], schema)
        before = _type(node.args[0], schema)
        return inner if _keeps_time(before, node.type) else replace(node, args=(inner,))
    return Column(node.name) if isinstance(node, Column) else node


def _type(node: Node, schema: pa.Schema) -> pa.DataType | None:
    if isinstance(node, Column) and node.name in schema.names:
        return schema.field(node.name).type
    return node.type


def _keeps_time(before: pa.DataType | None, after: pa.DataType | None) -> bool:
    """Return whether a cast keeps a time to the microsecond, as one to a date does not."""
    if before == after:
        return True
    if before is None or after is None:
        return False
    if is_time(before) and is_time(after):
        return _digits(after) >= min(_digits(before), _MICROSECONDS)
    return is_time(after) and _digits(after) == _MICROSECONDS


_UNITS = ("s", "ms", "us", "ns")
_MICROSECONDS = _UNITS.index("us")


def _digits(kind: pa.DataType) -> int:
    """Return how fine times of a type are; dates are the coarsest."""
    return _UNITS.index(kind.unit) if pa.types.is_timestamp(kind) else -1


def _is_cast_of_start(expr: Node) -> bool:
    is_cast = isinstance(expr, Call) and expr.function == "cast" and is_time(expr.type)
    return is_cast and _bare(expr, pa.schema([(VS, pa.int64())])) == Column(VS)
