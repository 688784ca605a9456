"""GROUPING SETS, ROLLUP and CUBE: one GROUP BY per set, and the union of their results.

In the results of a set the keys outside of it are null, and ``GROUPING(k)`` is 1 for these and 0
for the others. With several keys it is a number with a bit per key, the last key's the lowest.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.clauses.grouping import group
from planner.sql.clauses.grouping_keys import listed
from planner.sql.clauses.set_operations import united
from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.windows.in_windows import rows_of_union

if TYPE_CHECKING:
    from planner.sql.clauses.grouping import Attach
    from planner.sql.clauses.items import Item
    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Rows, Scope

_SETS_MAX = 64
_Sets = list[tuple[exp.Expr, ...]]


def group_all(
    node: exp.Select, items: list[Item], scope: Scope, names: Names, attach: Attach
) -> Rows:
    """Return the rows of a SELECT with GROUP BY, for each of its grouping sets."""
    clause = node.args.get("group")
    sets = None if clause is None else _sets(clause, names)
    if clause is None or sets is None:
        return group(node, items, scope, names, attach)
    plain = [part for part in clause.expressions if not _is_sets(part)]
    sets = [tuple(listed(key, items, scope, names.text.error) for key in one) for one in sets]
    keys = list(dict.fromkeys(key for one in sets for key in one))
    branches = []
    for one in sets:
        left_out = [key for key in keys if key not in one]
        made = node.copy()
        kept = [part.copy() for part in (*plain, *one)]
        made.set("group", exp.Group(expressions=kept) if kept else None)
        having = made.args.get("having")
        if having is not None:
            made.set("having", exp.Having(this=_for_set(having.this, keys, left_out, names)))
        items_of_set = [replace(i, node=_for_set(i.node, keys, left_out, names)) for i in items]
        branches.append(group(made, items_of_set, scope, names, attach))
    return rows_of_union(branches, united([rows.stream for rows in branches], node, names))


def _sets(clause: exp.Expr, names: Names) -> _Sets | None:
    """Return the grouping sets of GROUP BY, combined if there are several; None: it has none."""
    sets: _Sets | None = None
    for part in filter(_is_sets, clause.expressions):
        more = _listed_sets(part)
        sets = more if sets is None else [a + b for a, b in itertools.product(sets, more)]
        if len(sets) > _SETS_MAX:
            raise names.text.error(
                part, f"these are {len(sets)} grouping sets; at most {_SETS_MAX} are allowed"
            )
    return None if sets is None else [tuple(dict.fromkeys(one)) for one in sets]


def _is_sets(node: exp.Expr) -> bool:
    return isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets)


def _listed_sets(node: exp.Expr) -> _Sets:
    parts = [_together(part) for part in node.expressions]
    match node:
        case exp.Rollup():
            return [sum(parts[:n], ()) for n in range(len(parts), -1, -1)]
        case exp.Cube():
            sizes = range(len(parts), -1, -1)
            return [sum(one, ()) for n in sizes for one in itertools.combinations(parts, n)]
    sets: _Sets = []
    for part, keys in zip(node.expressions, parts, strict=True):
        sets += _listed_sets(part) if _is_sets(part) else [keys]
    return sets


def _together(node: exp.Expr) -> tuple[exp.Expr, ...]:
    if isinstance(node, exp.Tuple):
        return tuple(node.expressions)
    return (node.this if isinstance(node, exp.Paren) else node,)


def _for_set(
    node: exp.Expr, keys: list[exp.Expr], left_out: list[exp.Expr], names: Names
) -> exp.Expr:
    """Return the value of a SELECT expression in the results of one set."""
    whole = exp.Paren(this=node.copy())
    for part in nodes_of(whole, exp.Grouping, exp.GroupingId):
        arguments = part.expressions or ([part.this] if part.this else keys)
        for key in arguments:
            if key not in keys:
                raise names.text.error(part, "GROUPING takes keys of the grouping sets")
        bits = sum((key in left_out) << at for at, key in enumerate(reversed(arguments)))
        part.replace(exp.Literal.number(bits))
    for inner in list(whole.walk(prune=lambda n: n in left_out or isinstance(n, exp.AggFunc))):
        if inner in left_out and inner.parent is not None:
            never = exp.If(this=exp.Boolean(this=False), true=inner.copy())
            inner.replace(exp.Min(this=exp.Case(ifs=[never])))
    made: exp.Expr = whole.this
    return made
