"""The first rows of an order as rows, and rows that start together in an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from planner.api import names as naming
from planner.api.agg import Ordering, asc
from planner.api.grouped.aggregation import free_column
from planner.errors import InvalidPlanError
from planner.expressions.nodes import Call, Column, Node, checked_name
from planner.logical.nodes import Explode, LogicalNode, Project, Sorted, Stitch, identity_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.api.agg import OrderLike

#: The aggregate that holds the rows.
TOP = "top"


def rows_of_top(found: LogicalNode, place: str | None, *, is_running: bool) -> LogicalNode:
    """The rows in the lists of ``top``, the only aggregate of ``found``, with their places."""
    exploded = Explode(found, TOP)
    kind = exploded.schema.field(TOP).type
    names = [f.name for f in kind]
    top = Column(TOP, kind)
    fields = {
        name: Call("field", (top,), (("name", name),), kind.field(at).type)
        for at, name in enumerate(names)
    }
    rows = {name: fields[name] for name in names[2:]}
    number, position = names[:2]
    if place is not None:
        checked_name(place)
        if place in rows:
            raise InvalidPlanError(f"top(place={place!r}): there is a column of that name")
    wanted = rows if place is None else {**rows, place: fields[number]}
    nested = any(pa.types.is_nested(node.type) for node in wanted.values())
    if not is_running or nested:
        return Project(exploded, tuple(wanted.items()))
    # Equal rows are told apart by their position, as only neighbours in time are one.
    told = free_column("position_", [*wanted])
    whole = Project(exploded, (*wanted.items(), (told, fields[position])))
    stitched = Stitch(whole, tuple(whole.schema.names))
    kept = tuple((f.name, Column(f.name, f.type)) for f in stitched.schema if f.name != told)
    return Project(stitched, kept)


def sorted_together(below: LogicalNode, by: Sequence[OrderLike]) -> LogicalNode:
    """Events of one start in an order; see :meth:`planner.api.grouped.steps.OrderedSteps.sort`."""
    if not by:
        raise InvalidPlanError('sort() takes what events are ordered by, as sort("price")')
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
    found = Sorted(whole, tuple(names), ways)
    return Project(found, tuple(kept.items())) if made else found
