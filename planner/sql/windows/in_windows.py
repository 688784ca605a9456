"""Tracks which windows the rows of a query belong to, for the queries around it.

A row of a window ends at the latest with the window; a result has exactly the window's lifetime. A
query that lists the bounds passes them on, so GROUP BY and PARTITION BY around it know the windows
and return one result for each. A pair of rows from two kinds of windows is valid while both windows
last: it ends with the smaller window if that is within the larger one, otherwise with neither. A
row that ends before its window does, such as a pair with a point, is missing at the window's end,
so a query that groups it is an error.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sqlglot import exp

from planner.durations import format_us
from planner.logical.nodes import Join, Source, Union
from planner.logical.nodes.source import ALWAYS_US, is_table
from planner.sql.expressions.scope import Bound, InWindows, Rows, Scope, Visible, scope_of_rows
from planner.sql.reading.forms.queries.engines.places import nodes_of
from rstream.items.batch import VE, VS, int64_column, only_events
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.api.stream import Stream
    from planner.logical.nodes import LogicalNode
    from planner.logical.windows import Window
    from planner.sql.expressions.names import Names

_AnyRows = TypeVar("_AnyRows", Scope, Rows)

BOUNDS = ("window_start", "window_end", "window_time")
NEEDS_BOUNDS = "{} needs window_start and window_end"
#: Why a row of a window may have ended before the window does.
OF_LIMIT = (
    "LIMIT returns the first rows at each instant, not of each window: write ROW_NUMBER() "
    "OVER (PARTITION BY window_start, window_end ORDER BY ...) <= n instead"
)
OF_RANKS = (
    "these rows are the first at each instant, not of each window: add window_start and "
    "window_end to the PARTITION BY that numbers them"
)
OF_VALUES = (
    "the value of this subquery may change before a window ends: GROUP BY the windows in "
    "a subquery without it, or move it to a view that TUMBLE reads"
)
_OF_POINTS = (
    "rows of windows are joined here with rows that have no window and last for an "
    "instant, so the pairs end before the window: give both sides the same windows, as in "
    "TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), size))"
)
_OF_VERSIONS = (
    "rows of windows are joined here with rows that have no window and may change before "
    "a window ends: join them in a view that TUMBLE reads, which uses the version at the "
    "time of each row"
)
_CUT = (
    "results of windows of different lengths are joined here, so pairs end before these "
    "windows: {} the bounds before the join"
)
CROSSED = (
    "these windows overlap, and rows of different windows were joined: add a.window_start "
    "= b.window_start AND a.window_end = b.window_end to the join"
)
_NULLABLE = (
    "a row without a match is in no window of this side: {} the bounds of the other, or "
    "behind a FULL JOIN COALESCE(a.window_start, b.window_start) and the same of window_end"
)
_MIXED = (
    "this column mixes rows of different windows, so it is unknown when one window is "
    "complete: {} window_start, window_end in each inner SELECT, then in the outer one"
)


def is_any_bound(nodes: Iterable[exp.Expr], relation: str) -> bool:
    """Return whether one of the nodes is a bound of the windows of ``relation``, by its name."""
    return any(is_bound_of(node, relation) for node in nodes)


def is_bound_of(node: exp.Expr, relation: str) -> bool:
    """Return whether a node is a bound of the windows of ``relation``, by its name."""
    if not isinstance(node, exp.Column) or node.name not in BOUNDS:
        return False
    return node.table in ("", relation)


def window_bounds(node: exp.Expr, scope: Scope) -> tuple[Bound, ...]:
    """Return the bounds that a key equals: a column, or COALESCE over both sides of a FULL JOIN."""
    while isinstance(node, exp.Paren):  # terminates: a tree is finite
        node = node.this
    if isinstance(node, exp.Column):
        columns = scope.candidates(node)
        bounds = (c.bound for c in scope.columns if columns == (c.column,))
        return tuple(dict.fromkeys(bound for bound in bounds if bound is not None))
    if isinstance(node, exp.Coalesce):
        parts = [window_bounds(part, scope) for part in (node.this, *node.expressions)]
        firsts = [part[0] for part in parts if part]
        if not firsts:
            return ()
        first = firsts[0]
        if not all(parts) or not all(_same(first, one) for one in firsts):
            return (Bound(first.kind, None),)
        nulls = [frozenset.intersection(*(b.null_when for b in part)) for part in parts]
        null_when = nulls[0] if _may_meet(nulls) else frozenset()
        is_life = all(one.is_life for one in firsts)
        return (replace(first, is_life=is_life, null_when=null_when),)
    return ()


def bound_of_expression(node: exp.Expr, scope: Scope) -> tuple[Bound, ...]:
    """Return an unknown bound for a value made of bounds only, as CAST(window_start AS DATE)."""
    columns = nodes_of(node, exp.Column)
    bounds = [window_bounds(column, scope) for column in columns]
    has_times = any(call.name.lower() in ("vs", "ve") for call in node.find_all(exp.Anonymous))
    if not scope.in_windows.has_rows or not columns or not all(bounds) or has_times:
        return ()
    return (Bound(bounds[0][0].kind, None),)


def _may_meet(nulls: Sequence[frozenset[tuple[str, str]]]) -> bool:
    """Return whether a row may have all these nulls: a join's row has at least one side."""
    return any(
        not any(side == "LEFT" and (name, "RIGHT") in one for name, side in one)
        for one in itertools.product(*nulls)
    )


def window_key(
    keys: Sequence[exp.Expr], scope: Scope, names: Names, clause: str
) -> tuple[exp.Expr, Bound] | None:
    """Return the key that identifies the windows, which get one result each; None: there is none.

    ``clause``: the clause of the keys, as messages name it.

    Raises:
        SqlError: a key identifies windows, but some rows end before their window does.
    """
    candidates = [(key, bound) for key in keys for bound in window_bounds(key, scope)]
    if not candidates:
        return None
    lives = scope.in_windows
    if lives.refused:
        raise names.text.error(candidates[0][0], lives.refused)
    if all(bound.window is None for _, bound in candidates):
        return _of_lifetimes(candidates, scope, names, clause)
    candidates = [(key, bound) for key, bound in candidates if not bound.is_nullable] or candidates
    if candidates[0][1].is_nullable:
        raise names.text.error(candidates[0][0], _NULLABLE.format(clause))
    for key, bound in candidates:
        window = bound.window
        if window is None or not all(map(partial(fits_within, window), lives.windows)):
            continue
        if lives.is_crossed and _overlaps(window):
            raise names.text.error(key, CROSSED)
        return key, bound
    key, bound = candidates[0]
    if bound.window is None:
        raise names.text.error(key, _MIXED.format(clause))
    if None in lives.windows:
        raise names.text.error(key, _CUT.format(clause))
    raise names.text.error(key, _no_end(bound.window, lives))


def _of_lifetimes(
    candidates: list[tuple[exp.Expr, Bound]], scope: Scope, names: Names, clause: str
) -> tuple[exp.Expr, Bound]:
    """Return the key among bounds of windows of different lengths, which need both bounds."""
    key, bound = candidates[0]
    if not all(bound.is_life for _, bound in candidates):
        raise names.text.error(key, _MIXED.format(clause))
    if not scope.in_windows.is_whole or any(bound.is_nullable for _, bound in candidates):
        raise names.text.error(key, _CUT.format(clause))
    kinds = {bound.kind for _, bound in candidates}
    if "window_start" not in kinds or len(kinds) == 1:
        raise names.text.error(key, NEEDS_BOUNDS.format(clause))
    return key, bound


def joins_previous_windows(part: exp.Expr, left: Scope, right: Scope) -> bool:
    """Return whether a condition joins the windows of one side with the preceding windows."""
    if not isinstance(part, exp.EQ):
        return False
    kinds = [
        {bound.kind for scope in (left, right) for bound in window_bounds(side, scope)}
        for side in (part.this, part.expression)
    ]
    return sorted(map(sorted, kinds)) == [["window_end"], ["window_start"]]


def has_bounds(scope: Scope) -> bool:
    """Return whether some rows are input rows of windows (not only results) with bound columns."""
    return scope.in_windows.has_rows and any(c.bound is not None for c in scope.columns)


def windows_of_pairs(
    pairs: Scope, left: Scope, right: Scope, conditions: Iterable[exp.Expr]
) -> InWindows:
    """Return the windows of joined pairs that meet ``conditions``."""
    same = {kind for part in conditions for kind in same_kinds(part, left, right)}
    return _windows_of_both(pairs, left, right, same)


def _windows_of_both(pairs: Scope, left: Scope, right: Scope, same: set[str]) -> InWindows:
    """Return the windows of pairs whose bounds of the kinds ``same`` are equal."""
    of_left, of_right = left.in_windows, right.in_windows
    windows = tuple(dict.fromkeys((*of_left.windows, *of_right.windows)))
    overlap = any(_overlaps(window) for window in of_left.windows if window in of_right.windows)
    is_crossed = overlap and not same
    is_one = len(windows) == 1 and of_left.windows == of_right.windows and None not in windows
    is_one = is_one or {"window_start", "window_end"} <= same
    is_whole = of_left.is_whole and of_right.is_whole and is_one and not is_crossed
    refused = of_left.refused or of_right.refused
    if _is_from_windows(left) != _is_from_windows(right):
        one, other = (left, right) if _is_from_windows(left) else (right, left)
        plan = other.stream.plan
        if not is_always_alive(plan):
            refused = refused or (_OF_POINTS if plan.is_point else _OF_VERSIONS)
        is_whole = one.in_windows.is_whole and not any(_is_nullable(c) for c in pairs.columns)
    return InWindows(
        windows,
        is_whole,
        of_left.has_rows or of_right.has_rows,
        of_left.is_crossed or of_right.is_crossed or is_crossed,
        refused,
    )


def with_nulls(pairs: Scope, clause: exp.Join, right: Scope) -> Scope:
    """Return the pairs of an outer join, in which the bounds of a side may be null."""
    side, right_relations = clause.side.upper(), set(right.relations)
    columns = []
    for column in pairs.columns:
        own_side = "RIGHT" if column.relation in right_relations else "LEFT"
        if column.bound is not None and side and side != own_side:
            missing = (right.relations[0], own_side)
            null_when = column.bound.null_when | {missing}
            column = replace(column, bound=replace(column.bound, null_when=null_when))
        columns.append(column)
    return replace(pairs, columns=tuple(columns))


def with_nearest(pairs: Scope, left: Scope) -> Scope:
    """Return the pairs of an ASOF JOIN, which have the lifetimes of the left side."""
    columns = []
    for column in pairs.columns:
        if column.bound is not None and column.relation not in left.relations:
            column = replace(column, bound=Bound(column.bound.kind, None))
        columns.append(column)
    return replace(pairs, columns=tuple(columns), in_windows=left.in_windows)


def refuse_windows(rows: _AnyRows, reason: str) -> _AnyRows:
    """Mark the rows, so that GROUP BY their windows is an error with this ``reason``."""
    if not _is_from_windows(rows):
        return rows
    return replace(rows, in_windows=replace(rows.in_windows, refused=reason))


def rows_of_union(branches: Sequence[Rows], made: Stream) -> Rows:
    """Return the rows of a UNION: the properties of all branches, under the names of the first."""
    lives = [rows.in_windows for rows in branches]
    return Rows(
        made,
        common_bounds(branches),
        InWindows(
            tuple(dict.fromkeys(window for live in lives for window in live.windows)),
            all(live.is_whole for live in lives),
            any(live.has_rows for live in lives),
            any(live.is_crossed for live in lives),
            next((live.refused for live in lives if live.refused), ""),
        ),
    )


def rows_of_comparison(left: Rows, right: Rows, made: Stream) -> Rows:
    """Return the rows of EXCEPT or INTERSECT, which compare all columns."""
    bounds = common_bounds([left, right])
    same = {bound.kind for bound in bounds.values() if bound.window is not None or bound.is_life}
    left_scope, right_scope = scope_of_rows(left, ""), scope_of_rows(right, "")
    return Rows(made, bounds, _windows_of_both(left_scope, left_scope, right_scope, same))


def common_bounds(branches: Sequence[Rows]) -> dict[str, Bound]:
    """Return the bound that each column is in all branches, by its name in the first."""
    bounds: dict[str, Bound] = {}
    names = [rows.stream.schema.names for rows in branches]
    for columns in zip(*names, strict=False):  # unequal numbers of columns raise an error later
        of_branches = [rows.bounds.get(name) for rows, name in zip(branches, columns, strict=True)]
        known = [bound for bound in of_branches if bound is not None]
        if not known:
            continue
        first, is_alike = known[0], len(known) == len(of_branches)
        is_alike = is_alike and all(bound.kind == known[0].kind for bound in known)
        if is_alike and all(_same(bound, first) for bound in known):
            is_life = all(bound.is_life for bound in known)
            null_when = frozenset().union(*(bound.null_when for bound in known))
            bounds[columns[0]] = replace(first, is_life=is_life, null_when=null_when)
        else:
            is_life = is_alike and all(map(_is_life, known, branches))
            bounds[columns[0]] = Bound(first.kind, None, is_life)
    return bounds


def _is_life(bound: Bound, rows: Rows) -> bool:
    """Return whether the rows' lifetimes are the window of this bound, and no other."""
    lives = rows.in_windows
    is_alone = lives.is_whole and set(lives.windows) <= {bound.window}
    return is_alone and bound.is_life and bound.steps is None


def same_kinds(part: exp.Expr, left: Scope, right: Scope) -> set[str]:
    """Return the kinds of bounds that a condition requires to be equal on both sides."""
    if not isinstance(part, exp.EQ):
        return set()
    a, b = part.this, part.expression
    return {
        bound.kind
        for here, there in ((a, b), (b, a))
        for bound in window_bounds(here, left)
        for other in window_bounds(there, right)
        if _same(bound, other)
    }


def _same(a: Bound, b: Bound) -> bool:
    """Return whether equal values of both bounds identify the same window."""
    if a.window is None and not (a.is_life and b.is_life):
        return False
    return (a.kind, a.window, a.steps) == (b.kind, b.window, b.steps)


def _is_from_windows(rows: Scope | Rows) -> bool:
    if isinstance(rows, Rows):
        return bool(rows.in_windows.windows or rows.bounds)
    return bool(rows.in_windows.windows) or any(c.bound is not None for c in rows.columns)


def _is_nullable(column: Visible) -> bool:
    return column.bound is not None and column.bound.is_nullable


def is_always_alive(plan: LogicalNode) -> bool:
    """Return whether the rows of a plan are always valid, as rows of a table without times."""
    if not isinstance(plan, Source):
        is_kept = plan.keeps_lifetimes or isinstance(plan, Join | Union)
        return is_kept and all(map(is_always_alive, plan.inputs))
    if plan.spec.items is None:
        return is_table(plan.spec)
    events = only_events(plan.spec.items)
    starts, ends = int64_column(events, VS), int64_column(events, VE)
    return bool((starts == ALWAYS_US).all() and (ends == INF_TIME).all())


def _overlaps(window: Window | None) -> bool:
    return window is not None and window.size_us > window.every_us


def fits_within(window: Window, other: Window | None) -> bool:
    """Return whether each window is within the windows of ``other`` that it overlaps."""
    if window == other:
        return True
    if other is None:
        return False
    size = window.size_us
    if size != window.every_us:
        return False
    apart = window.offset_us - other.offset_us
    return not (other.size_us % size or other.every_us % size or apart % size)


def _no_end(window: Window, lives: InWindows) -> str:
    others = [one for one in lives.windows if one is not None]
    sizes = " and ".join(
        dict.fromkeys(format_us(one.size_us) for one in sorted(others, key=lambda w: w.size_us))
    )
    reason = (
        f"rows of windows of {sizes} are joined here, so pairs end before these windows: "
        "give both sides the same windows"
    )
    inner = next((w for w in others if w != window and fits_within(w, window)), None)
    if inner is None or window.size_us != window.every_us:
        return reason
    return (
        f"{reason}, or GROUP BY the windows of {format_us(inner.size_us)} in a subquery "
        f"and TUMBLE('{format_us(window.size_us)}') around it"
    )
