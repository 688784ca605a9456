"""SELECT, UNION ALL and WITH as streams.

A relation in FROM is a stream; WHERE filters it, the list of columns projects it. What has a
GROUP BY is in :mod:`planner.sql.clauses.grouping`, what has a JOIN in
:mod:`planner.sql.clauses.joins`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api.expressions import col
from planner.sql.clauses.existence import exists
from planner.sql.clauses.grouping import group, groups_by_bounds, is_grouped
from planner.sql.clauses.items import Item, items_of
from planner.sql.clauses.joins import all_of, fails, filtered
from planner.sql.clauses.outer_joins import (
    exists_of_in,
    exists_of_semi,
    flattened,
    is_without_condition,
    join,
    with_keys_of_where,
)
from planner.sql.clauses.window_tables import (
    joined_windows,
    window_table,
    with_rows_of_windows,
)
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, scope_of
from planner.sql.reading.grammar import WindowTable

if TYPE_CHECKING:
    from planner.api.stream import Stream
    from planner.sql.expressions.names import Names

_SELECT_PARTS = ("distinct", "with_", "expressions", "from_", "joins", "where", "group", "having")
_TABLE_PARTS = ("this", "alias", "joins", "version")
_WHAT = {
    "order": "ORDER BY: a stream is ordered by time",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "qualify": "QUALIFY",
    "laterals": "LATERAL",
    "sample": "TABLESAMPLE",
    "windows": "WINDOW",
    "locks": "FOR UPDATE",
    "into": "SELECT INTO",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
    "pivots": "PIVOT",
    "sort": "SORT BY: a stream is ordered by time",
    "distribute": "DISTRIBUTE BY: who computes what follows from the keys",
    "cluster": "CLUSTER BY: who computes what follows from the keys",
    "kind": "SELECT AS STRUCT or VALUE",
    "operation_modifiers": "a word before the columns",
    "system_time": "FOR SYSTEM_TIME",
    "version": "FOR VERSION",
    "hint": "a hint",
    "hints": "a hint",
    "joins": "a join in parentheses",
    "by_name": "UNION ALL BY NAME",
    "for_": "FOR",
}


def compile_query(node: exp.Expr, names: Names, *, named: bool = True) -> Stream:
    """The stream of a SELECT, of several with UNION ALL, in parentheses or not.

    ``named``: columns need names, as those of all but the first SELECT of a UNION ALL do not.
    """
    names = _with_definitions(node, names)
    if isinstance(node, exp.Subquery):
        _reject(node, ("this", "alias", "with_"), names)
        return compile_query(node.this, names, named=named)
    if isinstance(node, exp.Select):
        return _select(node, names, named=named)
    if isinstance(node, exp.SetOperation):
        return _union(node, names, named=named)
    raise names.text.error(node, "a SELECT is needed here")


def _with_definitions(node: exp.Expr, names: Names) -> Names:
    clause = node.args.get("with_")
    if clause is None:
        return names
    if clause.args.get("recursive"):
        raise names.text.error(clause, "WITH RECURSIVE is not supported")
    for definition in clause.expressions:
        if definition.args["alias"].columns:
            raise names.text.error(definition, "name the columns in the SELECT")
        names = names.adding(definition.alias, compile_query(definition.this, names))
    return names


def _union(node: exp.SetOperation, names: Names, *, named: bool) -> Stream:
    """Columns are matched by place, as SQL does; they are called as in the first."""
    _reject(node, ("this", "expression", "with_", "distinct"), names)
    if not isinstance(node, exp.Union) or node.args.get("distinct"):
        kind = "UNION" if isinstance(node, exp.Union) else type(node).__name__.upper()
        raise names.text.error(node, f"{kind} is not supported; there is UNION ALL")
    branches = [*_branches(node.this), *_branches(node.args["expression"])]
    first = compile_query(branches[0], names, named=named)
    others = [compile_query(branch, names, named=False) for branch in branches[1:]]
    wanted = first.schema.names
    renamed = []
    for stream in others:
        found = stream.schema.names
        if len(found) != len(wanted):
            raise names.text.error(node, f"UNION ALL of {len(wanted)} and {len(found)} columns")
        pairs = list(zip(found, wanted, strict=True))
        columns = [col(mine).alias(name) for mine, name in pairs]
        renamed.append(stream if found == wanted else stream.select(*columns))
    with names.text.located(node):
        return first.union(*renamed)


def _branches(node: exp.Expr) -> list[exp.Expr]:
    """The SELECTs of a chain of UNION ALL."""
    plain = isinstance(node, exp.Union) and not node.args.get("distinct")
    if not plain or node.args.get("with_"):
        return [node]
    return [*_branches(node.this), *_branches(node.args["expression"])]


def _select(node: exp.Select, names: Names, *, named: bool) -> Stream:
    _reject(node, _SELECT_PARTS, names)
    text = names.text
    if node.args.get("from_") is None:
        raise text.error(node, "SELECT needs FROM")
    if not node.expressions:
        raise text.error(node, "SELECT needs columns")
    conditions = flattened(node.args.get("where"))
    count = len(conditions)
    scope = _from(node, names, conditions)
    whole = node.args["where"].this if conditions and len(conditions) == count else None
    scope = _where(conditions, whole, scope, names)
    items = items_of(node, scope, text, named=named)
    if is_grouped(node):
        return _distinct(node, group(node, items, scope, names), names)
    if node.args.get("having") is not None:
        raise text.error(node.args["having"], "HAVING needs GROUP BY; use WHERE")
    return _distinct(node, _project(items, scope, names), names)


def _distinct(node: exp.Select, stream: Stream, names: Names) -> Stream:
    """Each row once at a time: equal rows whose lifetimes touch or overlap become one."""
    clause = node.args.get("distinct")
    if clause is None:
        return stream
    if clause.args.get("on"):
        raise names.text.error(clause, "DISTINCT ON is not supported; there is MAX_BY(x, rank)")
    with names.text.located(node):
        return stream.stitch()


def _project(items: list[Item], scope: Scope, names: Names) -> Stream:
    untouched = [item.column for item in items] == scope.stream.schema.names
    if untouched and all(item.star and item.name == item.column for item in items):
        return scope.stream
    compiler = Expressions(names.text, scope, names.functions)
    columns = []
    for item in items:
        value = col(item.column) if item.star else compiler.column(item.node)
        columns.append(value.alias(item.name))
        with names.text.located(item.node):
            scope.stream.select(*columns)
    return scope.stream.select(*columns)


def _from(node: exp.Select, names: Names, conditions: list[exp.Expr] | None = None) -> Scope:
    """The relations of FROM; commas take their keys out of ``conditions``."""
    joins = node.args.get("joins") or ()
    tables = [node.args["from_"].this, *(clause.this for clause in joins)]
    scope = _relation(tables[0], names)
    is_alone = sum(isinstance(table, WindowTable) for table in tables) == 1
    if not (is_alone and groups_by_bounds(node)):
        scope = with_rows_of_windows(scope, tables[0], names)
    for clause in joins:
        right = with_rows_of_windows(_relation(clause.this, names), clause.this, names)
        if set(right.relations) & set(scope.relations):
            raise names.text.error(
                clause.this, f"{right.relations[0]!r} is there twice; give one another name with AS"
            )
        if clause.kind.upper() == "SEMI":
            scope = exists(exists_of_semi(clause, names), scope, names, _from)
            continue
        if is_without_condition(clause) and conditions:
            clause = with_keys_of_where(clause, scope, right, conditions, names)
        window = joined_windows(scope, right)
        scope = replace(join(clause, scope, right, names), window=window)
    return scope


def _relation(node: exp.Expr, names: Names) -> Scope:
    text = names.text
    alias = node.args.get("alias")
    if alias is not None and alias.columns:
        raise text.error(alias, "name the columns in a SELECT")
    if isinstance(node, WindowTable):
        return window_table(node, names)
    if isinstance(node, exp.Subquery):
        if not node.alias:
            raise text.error(node, "a subquery in FROM needs a name: (SELECT ...) AS name")
        return scope_of(compile_query(node, names), node.alias)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise text.error(node, "FROM takes the name of a stream or a subquery")
    if node.args.get("db") is not None:
        raise text.error(node, "the name of a stream has one part")
    _reject(node, _TABLE_PARTS, names)
    return scope_of(names.stream(node), node.alias or node.name)


def _where(conditions: list[exp.Expr], whole: exp.Expr | None, scope: Scope, names: Names) -> Scope:
    """One filter for all plain conditions (``whole`` as written); each EXISTS is a join of its own.

    What may fail on what an EXISTS before it keeps out is asked after it.
    """
    if not conditions:
        return scope
    tests: list[exp.Expr] = []
    first: list[exp.Expr] = []
    last: list[exp.Expr] = []
    for part in conditions:
        if _is_exists(part):
            tests.append(part)
        elif isinstance(part, exp.In) and part.args.get("query") is not None:
            tests.append(exists_of_in(part, scope, names))
        elif tests and fails(part, scope, names):
            last.append(part)
        else:
            first.append(part)
    if first:
        scope = filtered(all_of(first) if tests or whole is None else whole, scope, names)
    for test in tests:
        scope = exists(test, scope, names, _from)
    return filtered(all_of(last), scope, names) if last else scope


def _is_exists(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Not) else node
    inner = inner.this if isinstance(inner, exp.Paren) else inner
    return isinstance(inner, exp.Exists)


def _reject(node: exp.Expr, supported: tuple[str, ...], names: Names) -> None:
    """Refuse each part of ``node`` that is not in ``supported``."""
    for part, value in node.args.items():
        if part in supported or not value:
            continue
        at = value[0] if isinstance(value, list) else value
        what = _WHAT.get(part, part.strip("_").upper())
        place = at if isinstance(at, exp.Expr) else node
        raise names.text.error(place, f"{what} is not supported" if ":" not in what else what)
