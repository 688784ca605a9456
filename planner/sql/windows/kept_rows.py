"""Rows with a time and no end, which other engines keep in their tables from that time on.

Here such a row is a point in time. In the dialect of an engine whose joins, EXISTS, DISTINCT and
set operations work on growing tables, its points get no end before these clauses. Points whose
distance in time is bounded by conditions stay points: such joins are interval joins in these
engines, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.logical.event_time import are_instants, is_event_time
from planner.sql.expressions.scope import InWindows
from planner.sql.expressions.time_between import are_points, bounds_of_where, is_bounded
from planner.sql.windows.in_windows import CROSSED, is_always_alive, window_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.api.stream import Stream
    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Rows, Scope

#: The name of the function that replaces ksqlDB's WITHIN in the tree.
WITHIN = "WITHIN_TIME"
_DIFFERENT = (
    "the windows of both sides differ, so a row would match for only a part of its "
    "window: give both sides the same windows"
)


def kept(stream: Stream, names: Names) -> Stream:
    """Return the stream; its points get no end if the dialect keeps rows."""
    keeps = names.text.engine.keeps_rows and are_instants(stream.plan)
    return stream.for_ever() if keeps else stream


def lasting_results(keys: list[exp.Expr], scope: Scope, names: Names) -> Scope:
    """Return results of windows that are grouped by other ``keys``, as rows of a growing table."""
    if not (names.text.engine.keeps_rows and scope.in_windows.is_whole):
        return scope
    if window_key(keys, scope, names, "GROUP BY") is not None:
        return scope
    columns = tuple(replace(column, bound=None) for column in scope.columns)
    stream = scope.stream.for_ever()
    return replace(scope, stream=stream, columns=columns, in_windows=InWindows())


def kept_sides(
    left: Scope,
    right: Scope,
    conditions: Sequence[exp.Expr],
    names: Names,
    clause: exp.Join | None = None,
) -> tuple[Scope, Scope]:
    """Return both sides of a join or a subquery; rows get no end unless time bounds the pairs."""
    if not names.text.engine.keeps_rows or _is_of_times(clause):
        return left, right
    if are_points(left, right):
        bounds = bounds_of_where(conditions, left, right, names)
        if bounds and is_bounded(bounds, left, right, names):
            return left, right
    side = "" if clause is None else clause.side.upper()
    is_plain = clause is not None and clause.kind.upper() not in ("SEMI", "ANTI")
    ours = _kept_beside(left, right, names, may_be_points=side in ("", "LEFT"))
    theirs = is_plain and side in ("", "RIGHT")
    return ours, _kept_beside(right, left, names, may_be_points=theirs)


def _kept_beside(scope: Scope, other: Scope, names: Names, *, may_be_points: bool) -> Scope:
    """Return one side; if the other side's rows never end, its points may stay points."""
    if scope.window is not None or scope.in_windows.windows:
        return scope
    if may_be_points and is_always_alive(other.stream.plan):
        return scope
    return scope.with_stream(kept(scope.stream, names))


def _is_of_times(clause: exp.Join | None) -> bool:
    """Return whether a join itself defines the time at which rows match."""
    if clause is None:
        return False
    return bool(clause.method) or clause.this.args.get("version") is not None


def with_time_bounds(clause: exp.Join, left: Scope, right: Scope, names: Names) -> exp.Join:
    """Replace ksqlDB's WITHIN by a bound on the times of both sides."""
    condition = clause.args.get("on")
    is_within = (
        []
        if condition is None
        else [c for c in condition.find_all(exp.Anonymous) if c.name == WITHIN]
    )
    if not is_within:
        return clause
    made = clause.copy()
    made.meta.update(clause.meta)
    for call in [c for c in made.args["on"].find_all(exp.Anonymous) if c.name == WITHIN]:
        before, after = (*call.expressions, *call.expressions)[:2]
        left_time, right_time = _time_of(left, call, names), _time_of(right, call, names)
        low = exp.Sub(this=left_time, expression=exp.Interval(this=before.copy()))
        high = exp.Add(this=left_time.copy(), expression=exp.Interval(this=after.copy()))
        bound = exp.Between(this=right_time, low=low, high=high)
        for part in bound.walk():
            part.meta.setdefault("start", call.meta.get("start", 0))
            part.meta.setdefault("end", call.meta.get("end", 0))
        call.replace(bound)
    return made


def _time_of(scope: Scope, at: exp.Expr, names: Names) -> exp.Expr:
    """Return the column of a relation that is the start of its rows."""
    for column in scope.columns:
        if is_event_time(scope.stream.plan, column.column):
            return exp.column(
                exp.to_identifier(column.name, quoted=True),
                exp.to_identifier(column.relation, quoted=True),
            )
    reason = f"WITHIN needs a column of {scope.relations[0]!r} that is its time: list it"
    raise names.text.error(at, reason)


def unlike(lives: InWindows, left: Scope | Rows, right: Scope | Rows, *, keeps: bool) -> str:
    """Return why rows of these windows cannot be compared; empty if they can.

    ``lives``: the windows of both sides together; ``keeps``: rows without a match are emitted.
    """
    ours, theirs = left.in_windows, right.in_windows
    if not (ours.has_rows and theirs.has_rows):
        return ""
    if lives.is_crossed and not (ours.is_crossed or theirs.is_crossed):
        return CROSSED
    is_known = keeps and ours.windows and theirs.windows
    return _DIFFERENT if is_known and ours.windows != theirs.windows else ""
