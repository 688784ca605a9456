"""FROM: its relations, joined one after the other.

Commas and CROSS JOINs take their keys from WHERE. A relation without an equality with the relations
before it is joined later, after the relation with which it has one. If none does, all rows that are
valid together are paired.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.clauses.grouping_keys import listed
from planner.sql.clauses.items import Item
from planner.sql.clauses.joins import and_parts, join_all
from planner.sql.clauses.outer_joins import is_without_condition, join, keys_of_where
from planner.sql.clauses.ranking import bounds_of
from planner.sql.clauses.unnest import unnested, viewed
from planner.sql.expressions.time_between import bounds_of_where, is_bounded
from planner.sql.reading.grammar import WindowTable
from planner.sql.windows.in_windows import (
    is_any_bound,
    is_bound_of,
    joins_previous_windows,
    windows_of_pairs,
    with_nearest,
    with_nulls,
)
from planner.sql.windows.kept_rows import kept_sides, unlike, with_time_bounds
from planner.sql.windows.window_tables import in_whole_windows, with_rows_of_windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Scope

    #: Compiles the relation of a node in FROM.
    Relation = Callable[[exp.Expr, Names], Scope]
    #: Applies a SEMI JOIN to the relations in front of it.
    Semi = Callable[[exp.Join, Scope, Names], Scope]

_APART = (
    "a window and the previous one do not overlap in time, so no rows would match: write "
    "LAG(x) OVER (PARTITION BY k ORDER BY window_start) over the results of the windows"
)
_VERSION = (
    "AS OF belongs to a join: a JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.key = b.key. A "
    "stream cannot be read as of a time: filter its times by WHERE, or read a past table "
    "with `jobmanager table --at`"
)
_COMMA = (
    "a {} JOIN keeps unmatched rows, and it is evaluated before the comma: write CROSS JOIN "
    "instead of the comma"
)
_TWICE = "there are two {0!r}; rename one with AS"


def joined(
    node: exp.Select,
    names: Names,
    conditions: list[exp.Expr],
    relation: Relation,
    semi: Semi,
) -> Scope:
    """Return the relations of FROM; keys of commas are removed from ``conditions``."""
    clauses = list(node.args.get("joins") or ())
    tables = [node.args["from_"].this, *(clause.this for clause in clauses)]
    first = relation(tables[0], _bounded(tables[0], conditions, names))
    scopes = [first, *(_right(clause, relation, conditions, names) for clause in clauses)]
    alone = _alone(node, scopes, conditions, names)
    scope, *rights = (
        found if at == alone or found is None else with_rows_of_windows(found, table, names)
        for at, (found, table) in enumerate(zip(scopes, tables, strict=True))
    )
    assert scope is not None
    order = list(scope.relations)
    waiting: list[tuple[exp.Join, Scope]] = []
    for at, (clause, right) in enumerate(zip(clauses, rights, strict=True)):
        where = _of_where(conditions, clauses[at:])
        if right is None:
            scope = unnested(clause, _with_all(scope, waiting, where, names), names)
            waiting = []
            order.append(clause.this.alias)
            continue
        _name_common(scope, right, clause, names)
        if clause.args.get("using") == []:
            raise names.text.error(clause, "USING () names no column")
        if set(right.relations) & set(order):
            raise names.text.error(clause.this, _TWICE.format(right.relations[0]))
        if is_without_condition(clause) and clause.kind.upper() != "SEMI":
            order += right.relations
            waiting.append((clause, right))
            continue
        if clause.side.upper() in ("RIGHT", "FULL") and any(map(_is_comma, clauses[:at])):
            raise names.text.error(clause, _COMMA.format(clause.side.upper()))
        scope = _with_all(scope, waiting, where, names)
        waiting = []
        if clause.kind.upper() == "SEMI":
            scope = semi(clause, scope, names)
            continue
        order += right.relations
        if clause.side or clause.kind.upper() == "ANTI":
            scope, right = in_whole_windows(scope, right, _conditions_of(clause))
        clause, scope, right = _lasting(clause, scope, right, conditions, names)
        pairs = join(clause, scope, right, names, where)
        if clause.method.upper() == "ASOF":
            scope = replace(with_nearest(pairs, scope), window=scope.window)
            continue
        met = [*_conditions_of(clause), *conditions]
        scope = _of_windows(with_nulls(pairs, clause, right), scope, right, met, names, clause)
    scope = _with_all(scope, waiting, conditions, names)
    for view in node.args.get("laterals") or ():
        scope = viewed(view, scope, names)
        order.append(scope.columns[-1].relation)
    columns = sorted(scope.columns, key=lambda c: order.index(c.relation))
    return replace(scope, columns=tuple(columns))


def _name_common(left: Scope, right: Scope, clause: exp.Join, names: Names) -> None:
    """Rewrite NATURAL JOIN as a join USING the columns that both sides have."""
    if clause.method.upper() != "NATURAL":
        return
    theirs = {column.name for column in right.columns}
    common = dict.fromkeys(column.name for column in left.columns if column.name in theirs)
    if not common:
        raise names.text.error(clause, "NATURAL JOIN: both sides have no column in common")
    made: list[exp.Expr] = [exp.to_identifier(name, quoted=True) for name in common]
    for part in made:
        part.meta.update(clause.this.meta)
    clause.set("using", made)
    clause.set("method", None)


def _of_where(conditions: list[exp.Expr], clauses: list[exp.Join]) -> list[exp.Expr]:
    """Return the conditions from which joins remove keys: a copy if a later join adds rows."""
    adds = any(clause.side.upper() in ("RIGHT", "FULL") for clause in clauses)
    return list(conditions) if adds else conditions


def _lasting(
    clause: exp.Join, scope: Scope, right: Scope, conditions: list[exp.Expr], names: Names
) -> tuple[exp.Join, Scope, Scope]:
    """Return the join and its sides; rows get no end if the dialect's tables keep their rows."""
    clause = with_time_bounds(clause, scope, right, names)
    all_conditions = [*_conditions_of(clause), *([] if clause.side else conditions)]
    return clause, *kept_sides(scope, right, all_conditions, names, clause)


def refuse_version(node: exp.Table, names: Names) -> None:
    """Raise for ``FOR SYSTEM_TIME`` and ``FOR VERSION`` where no versions are joined."""
    clause, version = node.parent, node.args.get("version")
    if version is None:
        return
    is_joined = isinstance(clause, exp.Join) and clause.kind.upper() != "SEMI"
    if not isinstance(clause, exp.Join) or not is_joined or is_without_condition(clause):
        raise names.text.error(version, _VERSION)


def _is_comma(clause: exp.Join) -> bool:
    return is_without_condition(clause) and not clause.kind


def _bounded(table: exp.Expr, conditions: list[exp.Expr], names: Names) -> Names:
    """Return the names that a subquery in FROM may use, with bounds from the outer conditions."""
    return replace(names, bounds=bounds_of(table, conditions))


def _with_all(
    scope: Scope, waiting: list[tuple[exp.Join, Scope]], conditions: list[exp.Expr], names: Names
) -> Scope:
    """Join the relations that have no keys yet, each as soon as WHERE has a key for it."""
    left = list(waiting)
    while left:  # terminates: each pass joins a relation
        candidates = [(e, _meeting(scope, e[1], conditions, names)) for e in left]
        some = [(e, parts) for e, parts in candidates if parts] or candidates
        near = [e for e, parts in some if is_bounded(parts, scope, e[1], names)]
        chosen = near[0] if near else some[0][0]
        left.remove(chosen)
        clause, right = chosen
        met = list(conditions)
        scope, right = kept_sides(scope, right, conditions, names, clause)
        keys = _meeting(scope, right, conditions, names)
        for part in keys:
            conditions.remove(part)
        if keys:
            made = exp.Join(this=clause.this, on=_all([part.copy() for part in keys]))
            made.meta.update(clause.meta)
            found_pairs = join(made, scope, right, names)
        else:
            found_pairs = join_all(clause, scope, right, names)
        scope = _of_windows(found_pairs, scope, right, met, names, clause)
    return scope


def _meeting(left: Scope, right: Scope, conditions: list[exp.Expr], names: Names) -> list[exp.Expr]:
    """Return the conditions that join both: equalities, and bounds on the time between points."""
    keys = keys_of_where(left, right, conditions)
    others = [part for part in conditions if part not in keys]
    return [*keys, *bounds_of_where(others, left, right, names)]


def _of_windows(
    pairs: Scope, left: Scope, right: Scope, met: list[exp.Expr], names: Names, clause: exp.Join
) -> Scope:
    """Return pairs that are in the windows of both sides; ``met``: the conditions on them."""
    for part in met:
        if joins_previous_windows(part, left, right):
            raise names.text.error(part, _APART)
    lives = windows_of_pairs(pairs, left, right, met)
    if reason := unlike(lives, left, right, keeps=bool(clause.side)):
        raise names.text.error(clause, reason)
    return replace(pairs, window=left.window or right.window, in_windows=lives)


def _right(
    clause: exp.Join, relation: Relation, conditions: list[exp.Expr], names: Names
) -> Scope | None:
    """Return the relation that a clause joins; None: it unnests lists of the rows so far."""
    if isinstance(clause.this, exp.Unnest):
        return None
    # A SEMI or ANTI JOIN hides the columns of its right side, so no condition reads them.
    visible = [] if clause.kind.upper() in ("SEMI", "ANTI") else conditions
    return relation(clause.this, _bounded(clause.this, visible, names))


def _alone(
    node: exp.Select,
    scopes: list[Scope | None],
    conditions: list[exp.Expr],
    names: Names,
) -> int | None:
    """Return the index of the only relation with windows, if GROUP BY uses them, else None."""
    group, clauses = node.args.get("group"), node.args.get("joins") or ()
    windowed = [(at, s) for at, s in enumerate(scopes) if s is not None and s.window is not None]
    if group is None or len(windowed) != 1:
        return None
    ((place, scope),) = windowed
    if place and (clauses[place - 1].side or clauses[place - 1].kind.upper() in ("SEMI", "ANTI")):
        return None
    if any(clause.side.upper() in ("RIGHT", "FULL") for clause in clauses):
        return None  # the outer join's rows without a match are in none of these windows
    if any(other is not None and other.in_windows.has_rows for other in scopes):
        return None
    window = scope.window
    assert window is not None
    relation = window.relation
    items = [Item(part.alias_or_name, part.unalias()) for part in node.expressions]
    keys = [listed(key, items, scope, names.text.error) for key in group.expressions]
    nodes = [*conditions, *(key for key in keys if not is_bound_of(key, relation))]
    for clause in clauses:
        nodes += _conditions_of(clause)
    parts = [p for one in nodes for p in one.walk(prune=lambda n: isinstance(n, exp.Query))]
    queries = [part for part in parts if isinstance(part, exp.Query)]
    if any(_is_about_windows(query, relation, names) for query in queries):
        return None
    is_grouped = is_any_bound(keys, relation) and not is_any_bound(parts, relation)
    return place if is_grouped else None


def _is_about_windows(subquery: exp.Expr, relation: str, names: Names) -> bool:
    """Return whether a subquery reads rows of windows or the window bounds of ``relation``."""
    for part in subquery.walk():
        if isinstance(part, WindowTable):
            select = part.find_ancestor(exp.Select)
            if select is None or select.args.get("group") is None:
                return True
        if isinstance(part, exp.Column) and part.table and is_bound_of(part, relation):
            return True
        query = names.queries.get(part.name) if isinstance(part, exp.Table) else None
        if query is not None and query.in_windows.has_rows:
            return True
    return False


def _all(conditions: list[exp.Expr]) -> exp.Expr:
    made = conditions[0]
    for part in conditions[1:]:
        made = exp.And(this=made, expression=part)
    return made


def _conditions_of(clause: exp.Join) -> list[exp.Expr]:
    """Return the conditions of ON, or of USING."""
    condition = clause.args.get("on")
    if condition is not None:
        return and_parts(condition)
    using = [exp.column(part.copy()) for part in clause.args.get("using") or ()]
    return [exp.EQ(this=column, expression=column.copy()) for column in using]
