"""Joins of two streams of points: conditions that bound the time between their rows.

A point is valid for an instant, so the lifetimes of two points overlap only at the same
microsecond. SQL joins rows, and bounds their distance: ``b.ts BETWEEN a.ts AND a.ts + INTERVAL '1'
HOUR``. A join of points without such a bound is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.expressions.nodes import resolve
from planner.logical.event_time import are_instants
from planner.logical.nodes import IntervalJoin
from planner.logical.time_bounds import Span, span_of, span_of_keys
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, free_name
from planner.sql.reading.forms.queries.engines.places import nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.api.expressions import Expr
    from planner.sql.expressions.names import Names

Within = tuple[int, int]
#: The name of the subquery of an IN.
IN = "subquery_of_in"
_WAYS = (
    "bound the time between them, as in {} b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' MINUTE; "
    "or give the rows of one side a lifetime (ve = ts + INTERVAL '10' MINUTE in the declaration, "
    "ve = NULL: for ever); or join the rows of windows (TUMBLE) on window_start and window_end"
)
_UNBOUNDED = "the rows of both sides are points in time, so almost none would match: "
_ONE_SIDED = (
    "the time between the rows of both sides has one bound only, so rows would be kept for ever: "
)
_PLAIN = (
    exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.Not, exp.Paren, exp.Or, exp.And,
    exp.In,
)  # fmt: skip


def are_points(left: Scope, right: Scope) -> bool:
    """Return whether the rows of both are points."""
    return are_instants(left.stream.plan) and are_instants(right.stream.plan)


@dataclass(frozen=True, slots=True)
class Bounded:
    """Conditions on two scopes, split by whether they bound the time between the rows."""

    span: Span
    #: Conditions that do more than bound the time.
    rest: list[exp.Expr]
    #: Conditions that bound the time.
    bounds: list[exp.Expr]


def bounded(parts: Iterable[exp.Expr], left: Scope, right: Scope, names: Names) -> Bounded:
    """Split the conditions; names refer to columns of either side."""
    whole = _pairs(left, right)
    compiler = Expressions(names.text, whole, names.functions)
    plan = whole.stream.plan
    assert isinstance(plan, IntervalJoin), plan
    result = Bounded(Span(), [], [])
    span = Span()
    for part in parts:
        part_span = span_of(plan, resolve(compiler.compile(part).node, plan.schema))
        if part_span.lo is not None or part_span.hi is not None:
            span = span.meet(part_span)
            result.bounds.append(part)
        if not part_span.is_exact:
            result.rest.append(part)
    return replace(result, span=span)


def is_bounded(parts: Sequence[exp.Expr], left: Scope, right: Scope, names: Names) -> bool:
    """Return whether the conditions bound the time between points; other rows need no bound."""
    if not are_points(left, right):
        return True
    span = bounded(parts, left, right, names).span
    return span.lo is not None and span.hi is not None


def bounds_of_where(
    conditions: Sequence[exp.Expr], left: Scope, right: Scope, names: Names
) -> list[exp.Expr]:
    """Return the conditions that bound the time between rows of both; none without points."""
    if not are_points(left, right):
        return []
    on_both = [part for part in conditions if _is_of_both(part, left, right)]
    return bounded(on_both, left, right, names).bounds if on_both else []


def within(
    span: Span,
    keys: Sequence[tuple[Expr, Expr]],
    left: Scope,
    right: Scope,
    at: exp.Expr,
    names: Names,
) -> Within:
    """Return the bounds between two streams that follow from conditions and equal times.

    Raises:
        SqlError: there is no bound, or only one.
    """
    for left_key, right_key in keys:
        sides = ((left.stream.plan, left_key), (right.stream.plan, right_key))
        nodes = [(plan, resolve(key.node, plan.schema)) for plan, key in sides]
        span = span.meet(span_of_keys(nodes))
    if span.lo is None or span.hi is None:
        reason = _UNBOUNDED if span.lo is None and span.hi is None else _ONE_SIDED
        if reason == _UNBOUNDED:
            reason = _other_times(at, left, right, names) or reason
        word = "EXISTS with" if IN in right.relations else "AND"
        raise names.text.error(at, reason + _WAYS.format(word))
    if span.lo > span.hi:
        raise names.text.error(
            at, "no pair of rows can satisfy these bounds: the lower one is above the upper one"
        )
    return span.lo, span.hi


def refuse_points(left: Scope, right: Scope, at: exp.Expr, names: Names, instead: str) -> None:
    """Raise for points in a clause that has no bound on time; ``instead`` names another clause.

    Raises:
        SqlError: the rows of both are points.
    """
    if are_points(left, right):
        raise names.text.error(at, _UNBOUNDED + _WAYS.format(instead))


def _other_times(at: exp.Expr, left: Scope, right: Scope, names: Names) -> str:
    """Return why a comparison of times of both sides is no bound: not both are event times."""
    for part in at.find_all(*_PLAIN[:6]):
        columns = nodes_of(part, exp.Column)
        sides = [[c for c in columns if _is_time_of(c, scope)] for scope in (left, right)]
        if all(sides):
            shown = " and ".join(names.text.written(side[0]) for side in sides)
            return f"{shown} are not both the event times of their rows (WATERMARK FOR, or vs=): "
    return ""


def _is_time_of(column: exp.Column, scope: Scope) -> bool:
    schema = scope.stream.schema
    names = [name for name in scope.candidates(column) if name in schema.names]
    return any(pa.types.is_timestamp(schema.field(name).type) for name in names)


def _is_of_both(part: exp.Expr, left: Scope, right: Scope) -> bool:
    """Return whether a condition compares columns of both sides and reads nothing else."""
    if not isinstance(part, _PLAIN) or part.find(exp.Query, exp.Subquery, exp.Exists):
        return False
    columns = nodes_of(part, exp.Column)
    in_left = [bool(left.candidates(c)) for c in columns]
    in_right = [bool(right.candidates(c)) for c in columns]
    is_clear = all(one != other for one, other in zip(in_left, in_right, strict=True))
    return is_clear and any(in_left) and any(in_right)


def _pairs(left: Scope, right: Scope) -> Scope:
    """Return a join of both sides; conditions are resolved against its columns."""
    taken = {*left.stream.schema.names, *right.stream.schema.names}
    renamed = {
        name: free_name(f"{name}_right", taken)
        for name in right.stream.schema.names
        if name in left.stream.schema.names
    }
    theirs = right.stream.rename(renamed) if renamed else right.stream
    moved = (replace(c, column=renamed.get(c.column, c.column)) for c in right.columns)
    stream = left.stream.join(theirs, within=(0, 0))
    return Scope(stream, (*left.columns, *moved))
