"""The keys of a GROUP BY: the window, columns, expressions, and items of the SELECT list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.logical.windows import CumulatingWindow, SessionWindow
from planner.sql.expressions.aggregates import has_aggregate
from planner.sql.expressions.windowing import is_window
from planner.sql.windows.in_windows import NEEDS_BOUNDS, is_bound_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.sql.clauses.items import Item
    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Scope
    from planner.sql.reading.errors import SqlError


def split_group(
    clause: exp.Expr, items: list[Item], scope: Scope, names: Names
) -> tuple[exp.Expr | None, list[exp.Expr]]:
    """Return the window, if there is one, and the keys as expressions."""
    text = names.text
    if clause.args.get("totals"):
        raise text.error(clause, "GROUP BY ... WITH TOTALS is not supported; write ROLLUP (a, b)")
    if clause.args.get("all"):
        if clause.expressions:
            raise text.error(
                clause,
                "GROUP BY ALL cannot have other keys: it groups by all columns of the SELECT list",
            )
        parts = [item.node for item in items if _is_key(item.node)]
    else:
        parts = list(clause.expressions)
    windows = [part for part in parts if is_window(part)]
    if len(windows) > 1:
        raise text.error(windows[1], "GROUP BY takes one window")
    parts = [part for part in parts if part not in windows]
    keys = [listed(part, items, scope, text.error) for part in parts]
    if not windows and scope.window is not None:
        return _split_bounds(clause, keys, scope, names)
    return (windows[0] if windows else None), keys


def _split_bounds(
    clause: exp.Expr, keys: list[exp.Expr], scope: Scope, names: Names
) -> tuple[exp.Expr, list[exp.Expr]]:
    """Split GROUP BY window_start, window_end; with other keys, sessions are made per key."""
    text, window = names.text, scope.window
    assert window is not None, scope
    bounds = [key for key in keys if is_bound_of(key, window.relation)]
    if not bounds:
        raise text.error(clause, NEEDS_BOUNDS.format("GROUP BY"))
    if isinstance(window.spec, CumulatingWindow) and {b.name for b in bounds} <= {"window_start"}:
        raise text.error(bounds[0], "windows of CUMULATE have equal starts; add window_end")
    for bound in bounds:
        if isinstance(bound, exp.Column) and not bound.table and scope.candidates(bound):
            owners = {c.relation for c in scope.columns if c.name == bound.name}
            key_names = " and ".join([window.relation, *sorted(owners)])
            raise text.error(bound, f"{bound.name!r} is in {key_names}; write name.column")
    keys = [key for key in keys if key not in bounds]
    if isinstance(window.spec, SessionWindow):
        by = sorted(key.name for key in keys if isinstance(key, exp.Column))
        if by != sorted(window.keys) or len(by) != len(keys):
            key_names = ", ".join(window.keys) or "all"
            raise text.error(
                clause,
                f"sessions of {key_names} cannot be grouped by other keys; put the keys of "
                "GROUP BY into SESSION(TABLE t PARTITION BY ..., DESCRIPTOR(ts), gap)",
            )
    return bounds[0], keys


def _is_key(node: exp.Expr) -> bool:
    """Return whether GROUP BY ALL groups by a node: it reads a column, and has no aggregate."""
    return not has_aggregate(node) and node.find(exp.Column) is not None


def listed(
    node: exp.Expr,
    items: list[Item],
    scope: Scope,
    error: Callable[[exp.Expr, str], SqlError],
) -> exp.Expr:
    """Return the expression of a key that is a position or an alias in the SELECT list."""
    if isinstance(node, exp.Literal) and not node.is_string:
        at = int(node.name) if node.name.isdigit() else 0
        if not 1 <= at <= len(items):
            raise error(
                node,
                f"positions in the SELECT list are 1 to {len(items)}",
            )
        return items[at - 1].node
    window = scope.window
    is_input = bool(window and is_bound_of(node, window.relation))
    if not isinstance(node, exp.Column) or node.table or is_input or scope.candidates(node):
        return node
    for item in items:
        if item.name == node.name and not item.star and not has_aggregate(item.node):
            return item.node
    return node


def without_aliases(node: exp.Expr, items: list[Item], scope: Scope) -> exp.Expr:
    """Replace names of the SELECT list in HAVING, unless the stream has such a column."""
    made = {item.name: item.node for item in items}
    columns = node.walk(prune=lambda part: isinstance(part, exp.Query))
    for column in [part for part in columns if isinstance(part, exp.Column)]:
        if column.table or column.name not in made or scope.candidates(column):
            continue
        copy = _at(made[column.name], column.this)
        if column is node:
            return copy
        column.replace(copy)
    return node


def _at(node: exp.Expr, place: exp.Expr) -> exp.Expr:
    """Return a copy of ``node`` with another place in the text, for messages."""
    copy = node.copy()
    for part in copy.walk():
        part.meta.pop("start", None)
        part.meta.pop("end", None)
    copy.update_positions(place)
    return copy
