"""What a query keeps of the windows of those below it.

Rows of windows live to the end of their window at most, and results of windows as long as it. A
query that has the bounds among its columns hands that on, so that GROUP BY and PARTITION BY around
it know which windows they mean, and give one result for each. Pairs of two kinds of windows live
while both last: they have one end with the windows that lie within the others, and with no others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sqlglot import exp

from planner.durations import format_us
from planner.logical.nodes import Source
from planner.logical.nodes.source import ALWAYS_US, is_table
from planner.sql.expressions.scope import Bound, InWindows, Rows, Scope, Visible
from rstream.items.batch import VE, VS, int64_column, only_events
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.api.stream import Stream
    from planner.logical.windows import Window
    from planner.sql.expressions.names import Names

_AnyRows = TypeVar("_AnyRows", Scope, Rows)

NEEDS_BOUNDS = "GROUP BY needs window_start and window_end"
BOUNDS = ("window_start", "window_end", "window_time")
_CROSSED = (
    "these windows overlap, and rows were joined whose windows are not the same: add "
    "a.window_start = b.window_start AND a.window_end = b.window_end to the join"
)
_NULLABLE = (
    "a row without a match is in no window of this side: GROUP BY the bounds of the other, or "
    "behind a FULL JOIN COALESCE(a.window_start, b.window_start) and the same of window_end"
)
_MIXED = (
    "rows of different windows stand in this column, so it is not known when all rows of one are "
    "there: GROUP BY window_start, window_end in each SELECT of the UNION, then around it"
)


def is_any_bound(nodes: Iterable[exp.Expr], relation: str) -> bool:
    """Whether a bound of the windows of ``relation`` is among the nodes, by its name."""
    return any(is_bound_of(node, relation) for node in nodes)


def is_bound_of(node: exp.Expr, relation: str) -> bool:
    """The same of one node."""
    if not isinstance(node, exp.Column) or node.name not in BOUNDS:
        return False
    return node.table in ("", relation)


def bounds_of(node: exp.Expr, scope: Scope) -> tuple[Bound, ...]:
    """What a key tells of windows: a column, or COALESCE of those of the sides of a FULL JOIN."""
    while isinstance(node, exp.Paren):  # ends: a tree is finite
        node = node.this
    if isinstance(node, exp.Column):
        columns = scope.candidates(node)
        found = (c.bound for c in scope.columns if columns == (c.column,))
        return tuple(dict.fromkeys(bound for bound in found if bound is not None))
    if isinstance(node, exp.Coalesce):
        parts = [bounds_of(part, scope) for part in (node.this, *node.expressions)]
        told = [tuple(replace(one, is_nullable=False) for one in part) for part in parts]
        return told[0] if all(part == told[0] for part in told) else ()
    return ()


def window_key(
    keys: Sequence[exp.Expr], scope: Scope, names: Names
) -> tuple[exp.Expr, Bound] | None:
    """The key that tells the windows of which there is one result each; None: no key does.

    Raises:
        SqlError: keys tell windows, but rows do not live to their ends.
    """
    asked = [(key, bound) for key in keys for bound in bounds_of(key, scope)]
    if not asked:
        return None
    within = scope.in_windows.windows
    if all(bound.window is None for _, bound in asked):
        return _of_lifetimes(asked, scope, names)
    asked = [(key, bound) for key, bound in asked if not bound.is_nullable] or asked
    if asked[0][1].is_nullable and not scope.in_windows.is_whole:
        raise names.text.error(asked[0][0], _NULLABLE)
    for key, bound in asked:
        window = bound.window
        if window is None or not all(_lies_within(window, other) for other in within):
            continue
        if scope.in_windows.is_crossed and _overlaps(window):
            raise names.text.error(key, _CROSSED)
        return key, bound
    raise names.text.error(asked[0][0], _no_end(asked[0][1], within))


def _of_lifetimes(
    asked: list[tuple[exp.Expr, Bound]], scope: Scope, names: Names
) -> tuple[exp.Expr, Bound] | None:
    """The same of windows of several lengths: their rows are known by both bounds."""
    key, bound = asked[0]
    if not all(bound.is_life for _, bound in asked):
        raise names.text.error(key, _MIXED)
    if not scope.in_windows.is_whole:
        return None
    kinds = {bound.kind for _, bound in asked}
    if "window_start" not in kinds or len(kinds) == 1:
        raise names.text.error(key, NEEDS_BOUNDS)
    return key, replace(bound, window=None)


def has_bounds(scope: Scope) -> bool:
    """Whether rows of windows stand here with the bounds of these."""
    return scope.in_windows.has_rows and any(c.bound is not None for c in scope.columns)


def of_pairs(pairs: Scope, left: Scope, right: Scope, conditions: Iterable[exp.Expr]) -> InWindows:
    """How pairs live; ``conditions``: those that they meet."""
    mine, theirs = left.in_windows, right.in_windows
    windows = tuple(dict.fromkeys((*mine.windows, *theirs.windows)))
    overlap = any(_overlaps(window) for window in mine.windows if window in theirs.windows)
    same = {kind for part in conditions for kind in _same_kinds(part, left, right)}
    is_crossed = overlap and not same
    is_one = len(windows) == 1 and mine.windows == theirs.windows
    is_one = is_one or {"window_start", "window_end"} <= same
    is_whole = mine.is_whole and theirs.is_whole and is_one and not is_crossed
    if mine.is_whole != theirs.is_whole and not any(_is_nullable(c) for c in pairs.columns):
        is_whole = _is_always(right) if mine.is_whole else _is_always(left)
    return InWindows(
        windows,
        is_whole,
        mine.has_rows or theirs.has_rows,
        mine.is_crossed or theirs.is_crossed or is_crossed,
    )


def with_nulls(pairs: Scope, clause: exp.Join, right: Scope) -> Scope:
    """The pairs of an outer join, in which the bounds of a side may be null."""
    side, theirs = clause.side.upper(), set(right.relations)
    columns = []
    for column in pairs.columns:
        ends = ("LEFT", "FULL") if column.relation in theirs else ("RIGHT", "FULL")
        if column.bound is not None and side in ends:
            column = replace(column, bound=replace(column.bound, is_nullable=True))
        columns.append(column)
    return replace(pairs, columns=tuple(columns))


def shortened(rows: _AnyRows) -> _AnyRows:
    """The same rows, some of which end earlier."""
    return replace(rows, in_windows=replace(rows.in_windows, is_whole=False))


def of_union(branches: Sequence[Rows], made: Stream) -> Rows:
    """What all rows have in common, whose columns are called as those of the first."""
    lives = [rows.in_windows for rows in branches]
    has_rows = any(live.has_rows for live in lives)
    bounds: dict[str, Bound] = {}
    for name, *others in zip(*(rows.stream.schema.names for rows in branches), strict=True):
        columns = [name, *others]
        told = [rows.bounds.get(at) for rows, at in zip(branches, columns, strict=True)]
        first = told[0]
        if first is not None and all(bound is not None and _same(bound, first) for bound in told):
            is_nullable = any(bound is not None and bound.is_nullable for bound in told)
            bounds[name] = replace(first, is_nullable=is_nullable)
        elif all(told) and first is not None:
            is_life = all(bound is not None and bound.is_life for bound in told)
            bounds[name] = Bound(first.kind, None, is_life)
    windows = tuple(dict.fromkeys(window for live in lives for window in live.windows))
    is_whole = all(live.is_whole for live in lives)
    is_crossed = any(live.is_crossed for live in lives)
    return Rows(made, bounds, InWindows(windows, is_whole, has_rows, is_crossed))


def _same_kinds(part: exp.Expr, left: Scope, right: Scope) -> set[str]:
    """Which bounds a condition says to be the same on both sides."""
    if not isinstance(part, exp.EQ):
        return set()
    a, b = part.this, part.expression
    return {
        mine.kind
        for here, there in ((a, b), (b, a))
        for mine in bounds_of(here, left)
        for other in bounds_of(there, right)
        if _same(mine, other)
    }


def _same(a: Bound, b: Bound) -> bool:
    return (a.kind, a.window) == (b.kind, b.window)


def _is_nullable(column: Visible) -> bool:
    return column.bound is not None and column.bound.is_nullable


def _is_always(scope: Scope) -> bool:
    """Whether its rows are alive at all times, as those of a table without times."""
    plan = scope.stream.plan
    while not isinstance(plan, Source):  # ends: a plan is finite
        if not plan.keeps_lifetimes or len(plan.inputs) != 1:
            return False
        plan = plan.inputs[0]
    if plan.spec.items is None:
        return is_table(plan.spec)
    events = only_events(plan.spec.items)
    starts, ends = int64_column(events, VS), int64_column(events, VE)
    return bool((starts == ALWAYS_US).all() and (ends == INF_TIME).all())


def _overlaps(window: Window) -> bool:
    return window.size_us > window.every_us


def _lies_within(window: Window, other: Window) -> bool:
    """Whether each window lies within those of ``other`` that it overlaps."""
    if window == other:
        return True
    size = window.size_us
    if size != window.every_us:
        return False
    apart = window.offset_us - other.offset_us
    return not (other.size_us % size or other.every_us % size or apart % size)


def _no_end(bound: Bound, others: Sequence[Window]) -> str:
    window = bound.window
    assert window is not None, bound
    sizes = " and ".join(
        dict.fromkeys(format_us(one.size_us) for one in sorted(others, key=lambda w: w.size_us))
    )
    reason = (
        f"rows of windows of {sizes} are joined here, and pairs end before these windows do: give "
        "both sides the same windows"
    )
    inner = next((w for w in others if w != window and _lies_within(w, window)), None)
    if inner is None or window.size_us != window.every_us:
        return reason
    return (
        f"{reason}, or GROUP BY those of {format_us(inner.size_us)} in a subquery and "
        f"TUMBLE('{format_us(window.size_us)}') around it"
    )
