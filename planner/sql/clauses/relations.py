"""FROM: its relations, joined one after the other.

Commas and CROSS JOINs take their keys out of WHERE. A relation that no equality joins to those
before it waits for one that does; where none ever does, all rows that are alive together pair.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.clauses.grouping import groups_by_bounds
from planner.sql.clauses.joins import join_all
from planner.sql.clauses.outer_joins import is_without_condition, join, keys_of_where
from planner.sql.clauses.ranking import bounds_of
from planner.sql.clauses.unnest import unnested, viewed
from planner.sql.clauses.window_tables import joined_windows, with_rows_of_windows
from planner.sql.reading.grammar import WindowTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Scope

    #: The relation of a node in FROM.
    Relation = Callable[[exp.Expr, Names], Scope]
    #: What a SEMI JOIN makes of the relations before it.
    Semi = Callable[[exp.Join, Scope, Names], Scope]

_COMMA = "a {} JOIN keeps rows of what it joins, and binds closer than a comma: write CROSS JOIN"


def joined(
    node: exp.Select,
    names: Names,
    conditions: list[exp.Expr],
    relation: Relation,
    semi: Semi,
) -> Scope:
    """The relations of FROM; the keys of commas are taken out of ``conditions``."""
    clauses = list(node.args.get("joins") or ())
    tables = [node.args["from_"].this, *(clause.this for clause in clauses)]
    scope = relation(tables[0], _bounded(tables[0], conditions, names))
    is_alone = sum(isinstance(table, WindowTable) for table in tables) == 1
    if not (is_alone and groups_by_bounds(node)):
        scope = with_rows_of_windows(scope, tables[0], names)
    order = list(scope.relations)
    waiting: list[tuple[exp.Join, Scope]] = []
    for at, clause in enumerate(clauses):
        if isinstance(clause.this, exp.Unnest):
            scope = unnested(clause, _with_all(scope, waiting, conditions, names), names)
            waiting = []
            order.append(clause.this.alias)
            continue
        # A SEMI or ANTI JOIN hides the columns of its right side: no condition is about them.
        visible = [] if clause.kind.upper() in ("SEMI", "ANTI") else conditions
        inner = _bounded(clause.this, visible, names)
        right = with_rows_of_windows(relation(clause.this, inner), clause.this, names)
        if set(right.relations) & set(order):
            raise names.text.error(
                clause.this, f"{right.relations[0]!r} is there twice; give one another name with AS"
            )
        if is_without_condition(clause) and clause.kind.upper() != "SEMI":
            order += right.relations
            waiting.append((clause, right))
            continue
        if clause.side.upper() in ("RIGHT", "FULL") and any(map(_is_comma, clauses[:at])):
            raise names.text.error(clause, _COMMA.format(clause.side.upper()))
        scope = _with_all(scope, waiting, conditions, names)
        waiting = []
        if clause.kind.upper() == "SEMI":
            scope = semi(clause, scope, names)
            continue
        order += right.relations
        scope = _of_windows(join(clause, scope, right, names), scope, right)
    scope = _with_all(scope, waiting, conditions, names)
    for view in node.args.get("laterals") or ():
        scope = viewed(view, scope, names)
        order.append(scope.columns[-1].relation)
    columns = sorted(scope.columns, key=lambda c: order.index(c.relation))
    return replace(scope, columns=tuple(columns))


def _is_comma(clause: exp.Join) -> bool:
    return is_without_condition(clause) and not clause.kind


def _bounded(table: exp.Expr, conditions: list[exp.Expr], names: Names) -> Names:
    """The names for a subquery in FROM, with what the conditions let its columns be at most."""
    return replace(names, bounds=bounds_of(table, conditions))


def _with_all(
    scope: Scope, waiting: list[tuple[exp.Join, Scope]], conditions: list[exp.Expr], names: Names
) -> Scope:
    """The pairs with what waits for keys, each as soon as WHERE has some."""
    left = list(waiting)
    while left:  # ends: each pass joins one of them
        found = next((e for e in left if keys_of_where(scope, e[1], conditions)), left[0])
        left.remove(found)
        clause, right = found
        keys = keys_of_where(scope, right, conditions)
        for part in keys:
            conditions.remove(part)
        if keys:
            made = exp.Join(this=clause.this, on=_all([part.copy() for part in keys]))
            made.meta.update(clause.meta)
            found_pairs = join(made, scope, right, names)
        else:
            found_pairs = join_all(clause, scope, right, names)
        scope = _of_windows(found_pairs, scope, right)
    return scope


def _of_windows(pairs: Scope, left: Scope, right: Scope) -> Scope:
    """The pairs, which lie in windows if the rows of a side do, or those of both in the same."""
    lengths = {left.window_us, right.window_us} - {None}
    length = lengths.pop() if len(lengths) == 1 else None
    return replace(pairs, window=joined_windows(left, right), window_us=length)


def _all(conditions: list[exp.Expr]) -> exp.Expr:
    made = conditions[0]
    for part in conditions[1:]:
        made = exp.And(this=made, expression=part)
    return made
