"""Move filters toward the sources, so that fewer rows are computed and exchanged.

Each conjunct moves separately. It moves through renames, widened columns, unions, explodes of other
columns and changes of lifetimes; through aggregates and stitches if it reads only keys; to the left
side of a clip; and to the side of a join that has its columns. In an outer join, columns of the
side that may be missing are null only above the join, so a conjunct that reads them stays.

A conjunct also stays if it reads a computed column or a lifetime that the node changes; if it could
fail on rows that the node would have removed (casts); if it distinguishes keys that the node treats
as equal (0.0 and -0.0 as text); and above a shared subplan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.expressions.nodes import Call, Column, Node, rename_columns
from planner.expressions.predicates import (
    conjunction,
    conjuncts,
    is_alike_of_equals,
    may_fail,
)
from planner.logical.nodes import (
    AsOf,
    Clip,
    DataWindowAgg,
    Explode,
    Filter,
    IntervalJoin,
    Join,
    Lifetime,
    LogicalNode,
    Project,
    Recover,
    Stitch,
    Union,
    WindowAgg,
)
from planner.logical.traversal import Shared, transform
from rstream.items.batch import VE, VS

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions
    from planner.logical.nodes import Side


def push_down_filter(root: LogicalNode, _options: PlanOptions) -> LogicalNode:
    """Move every filter as far down as possible."""

    def change(node: LogicalNode, shared: Shared) -> LogicalNode:
        if not isinstance(node, Filter) or node.input in shared:
            return node
        return _sink(node.input, conjuncts(node.predicate), node.label, shared)

    return transform(root, change)


def _sink(node: LogicalNode, predicates: list[Node], label: str, shared: Shared) -> LogicalNode:
    """Return ``node`` filtered by ``predicates``, each placed as low as possible.

    A predicate that may fail stays above an earlier predicate that stays.
    """
    stay: list[Node] = []
    for predicate in predicates:
        is_guarded = bool(stay) and may_fail(predicate)
        moved = None if node in shared or is_guarded else _moved(node, predicate, shared)
        if moved is None:
            stay.append(predicate)
        else:
            node = moved
    return _filtered(node, stay, label, shared) if stay else node


def _filtered(node: LogicalNode, predicates: list[Node], label: str, shared: Shared) -> LogicalNode:
    """Merge two filters into one, unless the lower one may protect the upper one from failing."""
    if isinstance(node, Filter) and node not in shared:
        together = [*conjuncts(node.predicate), *predicates]
        if not any(may_fail(predicate) for predicate in together):
            return replace(node, predicate=conjunction(together), label=label or node.label)
    return Filter(node, conjunction(predicates), label)


def _moved(node: LogicalNode, predicate: Node, shared: Shared) -> LogicalNode | None:
    """Return ``node`` with the predicate inside, or None if it cannot go there."""
    reads = predicate.columns()
    match node:
        case Filter(input=below) if not may_fail(predicate):
            inside = None if below in shared else _moved(below, predicate, shared)
            return None if inside is None else replace(node, input=inside)
        case Project(input=below, columns=columns):
            names = dict(columns)
            sources = {name: names[name] for name in reads if name in names}
            if not all(_is_column(source) for source in sources.values()):
                return None
            return replace(
                node, input=_sink(below, [rename_columns(predicate, sources)], "", shared)
            )
        case Explode(input=below, column=column) if column not in reads and not may_fail(predicate):
            return replace(node, input=_sink(below, [predicate], "", shared))
        case Union(branches=branches) if not any(branch in shared for branch in branches):
            below_all = tuple(_sink(branch, [predicate], "", shared) for branch in branches)
            return replace(node, branches=below_all)
        case WindowAgg(input=below, keys=keys) | DataWindowAgg(input=below, keys=keys) if (
            reads and set(reads) <= set(keys)
        ):
            if may_fail(predicate) or not is_alike_of_equals(predicate):
                return None
            return replace(node, input=_sink(below, [predicate], "", shared))
        case Recover(input=below):
            return replace(node, input=_sink(below, [predicate], "", shared))
        case Lifetime(input=below) if _is_of_payload(predicate):
            return replace(node, input=_sink(below, [predicate], "", shared))
        case Stitch(input=below, on=on) if _is_of_payload(predicate) and set(reads) <= set(on):
            if not is_alike_of_equals(predicate):
                return None
            return replace(node, input=_sink(below, [predicate], "", shared))
        case Clip(left=below) if _is_of_payload(predicate):
            return replace(node, left=_sink(below, [predicate], "", shared))
        case AsOf(left=below) if _is_of_payload(predicate) and _is_of_left(predicate, node):
            return replace(node, left=_sink(below, [predicate], "", shared))
        case Join() | IntervalJoin():
            return None if may_fail(predicate) else _into_join(node, predicate, shared)
        case _:
            return None


def _is_of_left(predicate: Node, node: AsOf) -> bool:
    """Return whether the predicate reads only columns of the left side, by their names there."""
    kept = {name for side, column, name in node.columns if side == "left" and column == name}
    return set(predicate.columns()) <= kept


def _is_column(source: Node) -> bool:
    """Return whether the source of a column is a column, perhaps cast to a wider type."""
    if isinstance(source, Call) and source.function == "cast" and not may_fail(source):
        (source,) = source.args
    return isinstance(source, Column)


def _is_of_payload(predicate: Node) -> bool:
    """Return whether a predicate reads only payload columns and cannot fail on other rows."""
    reads = predicate.columns()
    return bool(reads) and VS not in reads and VE not in reads and not may_fail(predicate)


def _into_join(node: Join | IntervalJoin, predicate: Node, shared: Shared) -> LogicalNode | None:
    """Push a predicate to each side that has all its columns; one over the keys goes to both."""
    reads = predicate.columns()
    if not reads or VS in reads or VE in reads:
        return None
    origins = {name: side for side, _, name in node.columns}
    if not all(node.keeps(origins[name]) for name in reads):
        # It would get the nulls of rows without a match, which exist only above the join.
        return None
    sides: dict[Side, LogicalNode] = {"left": node.left, "right": node.right}
    changed: dict[Side, LogicalNode] = {}
    for side, below in sides.items():
        names = _names_on(node, side, with_partners=is_alike_of_equals(predicate))
        if below not in shared and all(name in names for name in reads):
            inner = rename_columns(predicate, {name: names[name] for name in reads})
            changed[side] = _sink(below, [inner], "", shared)
    if not any(node.keeps(side) for side in changed):
        return None  # In an outer join only one side decides which rows are emitted.
    return node.with_inputs((changed.get("left", node.left), changed.get("right", node.right)))


def _names_on(node: Join | IntervalJoin, side: Side, *, with_partners: bool) -> dict[str, Node]:
    """Return the output names of one side's columns; ``with_partners``: of equal keys, too."""
    pairs = list(zip(node.left_on, node.right_on, strict=True))
    partner = dict(pairs) if side == "right" else {right: left for left, right in pairs}
    schema = node.left.schema if side == "left" else node.right.schema
    names: dict[str, Node] = {}
    for origin, column, output in node.columns:
        here = column if origin == side else partner.get(column) if with_partners else None
        if here is not None:
            names[output] = Column(here, schema.field(here).type)
    return names
