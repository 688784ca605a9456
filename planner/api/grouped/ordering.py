"""Builds the plans of ``top``, ``limit`` and ``sort``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.api import names as naming
from planner.api.agg import Ordering, asc
from planner.api.grouped.aggregation import aggregated, free_column, running
from planner.errors import InvalidPlanError
from planner.expressions.nodes import Call, Column, Node, checked_name
from planner.logical.nodes import (
    Explode,
    Limited,
    LogicalNode,
    Project,
    Sorted,
    Stitch,
    identity_columns,
)
from rvertex.aggregates.ranked.top_rows import TopOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.api.agg import Agg, OrderLike
    from planner.api.grouped.sessions import SessionBy
    from planner.logical.windows import AnyWindow

_LIMIT_MAX = 1 << 62


def first_rows(
    below: LogicalNode,
    keys: tuple[str, ...],
    window: AnyWindow | SessionBy | None,
    top: Agg,
    place: str | None,
) -> LogicalNode:
    """Return the rows in the lists of ``top`` by key and window, with their ranks.

    Without a window the lists hold the first rows at each instant. A row is valid while it is among
    them. The ranking emits the lifetime of a row in pieces, and pieces that touch are merged. A
    number is added to distinguish equal rows.
    """
    if place is not None and place in below.schema.names:
        raise InvalidPlanError(f"top(place={place!r}): there is already a column of that name")
    # Rows with lists or structs cannot be compared, so their pieces are not merged.
    stitches = window is None and not any(pa.types.is_nested(f.type) for f in below.schema)
    if stitches:
        assert top.argument is not None, top
        top = replace(top, argument=str(replace(TopOrder.read(top.argument), copies=True)))
    name = free_column("top", keys)
    ranked = (
        running(below, keys, {name: top})
        if window is None
        else aggregated(below, keys, window, {name: top})
    )
    exploded = Explode(ranked, name)
    kind = exploded.schema.field(name).type
    fields = {
        f.name: Call("field", (Column(name, kind),), (("name", f.name),), f.type) for f in kind
    }
    number, *others = list(fields)[: 3 if stitches else 2]
    wanted: dict[str, Node] = {f: fields[f] for f in below.schema.names}
    if place is not None:
        wanted[checked_name(place)] = fields[number]
    if not stitches:
        return Project(exploded, tuple(wanted.items()))
    copy = free_column("copy_", [*wanted])
    whole = Project(exploded, (*wanted.items(), (copy, fields[others[-1]])))
    stitched = Stitch(whole, tuple(whole.schema.names))
    kept = tuple((f.name, Column(f.name, f.type)) for f in stitched.schema if f.name != copy)
    return Project(stitched, kept)


def limited(below: LogicalNode, n: int) -> LogicalNode:
    """Return the first ``n`` events; see :meth:`planner.api.grouped.steps.OrderedSteps.limit`."""
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= _LIMIT_MAX:
        raise InvalidPlanError(f"limit({n!r}): must be a whole number from 1 to {_LIMIT_MAX:,}")
    return Limited(below, n)


def sorted_together(below: LogicalNode, by: Sequence[OrderLike]) -> LogicalNode:
    """Sort events that start together; see :meth:`planner.api.grouped.steps.OrderedSteps.sort`."""
    if not by:
        raise InvalidPlanError(
            'sort() needs a column or expression to order by, such as sort("price")'
        )
    plan = ordered(below, by)
    kept = identity_columns(below.schema)
    return plan if plan.schema.names == below.schema.names else Project(plan, kept)


def ordered(below: LogicalNode, by: Sequence[OrderLike], keys: tuple[str, ...] = ()) -> Sorted:
    """Sort rows that start together; expressions in ``by`` become additional columns.

    Only the order of rows with equal ``keys`` is defined.
    """
    orders = [part if isinstance(part, Ordering) else asc(part) for part in by]
    kept = dict(identity_columns(below.schema))
    names: list[str] = []
    made: dict[str, Node] = {}
    for order in orders:
        node = naming.resolved(order.expr, below.schema)
        if pa.types.is_nested(node.type) or pa.types.is_null(node.type):
            raise InvalidPlanError(f"sort({node}): {node.type} has no order")
        if isinstance(node, Column) and node.name in kept:
            names.append(node.name)
        else:
            names.append(free_column(f"by{len(names)}", [*kept, *made]))
            made[names[-1]] = node
    whole = Project(below, tuple({**kept, **made}.items())) if made else below
    ways = tuple((order.is_descending, order.nulls_first) for order in orders)
    return Sorted(whole, tuple(names), ways, keys=keys)
