"""Read only the times of Parquet row groups in which no row passes the first filter.

The filter stays. Its conditions on single columns (comparisons with literals, ``between``,
``is_in``) become bounds of the source. When the plan is lowered, the statistics in the files show
which row groups the bounds exclude. The rows of these groups are still numbered, advance the
watermark and may be late; :mod:`rvertex.sources.formats.row_groups` explains why.

The rule needs time columns that are plain columns of the file, a source with no other reader, and a
filter that cannot fail on rows whose payload is null.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from planner.expressions.nodes import Call, Column, Literal, Node
from planner.expressions.predicates import conjuncts, may_fail
from planner.logical.nodes import Filter, LogicalNode, Source
from planner.logical.traversal import Shared, transform
from rvertex.sources.formats.row_groups import can_be_bounded
from rvertex.sources.spec import Bound, BoundOperator, SourceSpec

if TYPE_CHECKING:
    from planner.cost.options import PlanOptions

_OPERATORS: dict[str, BoundOperator] = {
    "equal": "==",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MIRRORED: dict[BoundOperator, BoundOperator] = {
    "==": "==",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


def skip_row_groups(root: LogicalNode, _options: PlanOptions) -> LogicalNode:
    """Give each Parquet source the bounds of the filter right above it."""

    def change(node: LogicalNode, shared: Shared) -> LogicalNode:
        if not isinstance(node, Filter) or may_fail(node.predicate):
            return node
        below = node.input
        if not isinstance(below, Source) or below in shared or not _has_plain_times(below.spec):
            return node
        all_bounds = [b for part in conjuncts(node.predicate) for b in bounds(part, below.spec)]
        if not all_bounds:
            return node
        spec = below.spec.with_options(wanted=tuple(all_bounds))
        return replace(node, input=replace(below, spec=spec))

    return transform(root, change)


def bounds(predicate: Node, spec: SourceSpec) -> list[Bound]:
    """Return the comparisons of a column with a literal that follow from the predicate."""
    if not isinstance(predicate, Call):
        return []
    match predicate.function, predicate.args:
        case "between", (value, low, high):
            return [*_bound(value, ">=", low, spec), *_bound(value, "<=", high, spec)]
        case "is_in", (value,):
            return _within(value, predicate.option("values"), spec)
        case function, (left, right) if function in _OPERATORS:
            operator = _OPERATORS[function]
            swapped = _bound(right, _MIRRORED[operator], left, spec)
            return _bound(left, operator, right, spec) or swapped
        case _:
            return []


def _within(value: Node, members: tuple[int | str, ...], spec: SourceSpec) -> list[Bound]:
    """Return the bounds of ``is_in``: at or above the least, at or below the greatest member."""
    ordered = (int, str)
    if not members or not any(all(type(m) is kind for m in members) for kind in ordered):
        return []
    low, high = Literal(min(members), value.type), Literal(max(members), value.type)
    return [*_bound(value, ">=", low, spec), *_bound(value, "<=", high, spec)]


def _bound(value: Node, operator: BoundOperator, other: Node, spec: SourceSpec) -> list[Bound]:
    while isinstance(value, Call) and value.function == "cast":  # terminates: trees are finite
        if not dict(value.options).get("implicit"):
            return []
        (value,) = value.args
    if not isinstance(value, Column) or not isinstance(other, Literal):
        return []
    at = spec.schema.get_field_index(value.name)
    if at < 0 or not can_be_bounded(spec.schema.field(at).type):
        return []
    literal = other.literal
    if not isinstance(literal, bool | int | float | str | date):
        return []
    return [Bound(value.name, operator, literal)]


def _has_plain_times(spec: SourceSpec) -> bool:
    plain_end = spec.ve is None or isinstance(spec.ve, int | str)
    return spec.kind.has_row_groups and isinstance(spec.vs, str) and plain_end
