"""Compiles SELECT, UNION ALL and WITH to streams.

A relation in FROM is a stream; WHERE filters it, the SELECT list projects it. GROUP BY is compiled
in :mod:`planner.sql.clauses.grouping`, JOIN in :mod:`planner.sql.clauses.joins`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api.expressions import col
from planner.sql.clauses.existence import exists, not_in, with_marks
from planner.sql.clauses.grouping import is_grouped
from planner.sql.clauses.grouping_sets import group_all
from planner.sql.clauses.items import Item, items_of, listed_rows
from planner.sql.clauses.joins import all_of, fails, filtered
from planner.sql.clauses.outer_joins import (
    case_of_in,
    exists_of_in,
    exists_of_semi,
    flattened,
)
from planner.sql.clauses.over import by_time, over_frames, timed
from planner.sql.clauses.ranking import (
    bounds_of_uses,
    limited,
    listed_orders,
    ranked,
    with_order_columns,
)
from planner.sql.clauses.relations import joined, refuse_version
from planner.sql.clauses.scalar_subqueries import attached, has_scalar, with_scalars
from planner.sql.clauses.set_operations import branches_of, by_name, set_operation
from planner.sql.expressions.refusals import reject
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Rows, Scope, scope_of_rows
from planner.sql.expressions.values import values_relation
from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.reading.grammar import WindowTable
from planner.sql.reading.row_patterns import MatchTable
from planner.sql.windows.in_windows import (
    CROSSED,
    OF_LIMIT,
    OF_VALUES,
    refuse_windows,
    rows_of_comparison,
    rows_of_union,
)
from planner.sql.windows.kept_rows import kept, unlike
from planner.sql.windows.pivots import pivoted
from planner.sql.windows.row_patterns import match_table
from planner.sql.windows.struct_keys import with_fields_as_keys
from planner.sql.windows.temporal_filters import with_lifetimes
from planner.sql.windows.whole_partitions import whole_windows, with_whole_windows
from planner.sql.windows.window_tables import compared_in_windows, window_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.api.stream import Stream
    from planner.sql.expressions.names import Names

#: The relation of a subquery without a name.
_UNNAMED = "(subquery)"
_SELECT_PARTS = (
    *("distinct", "with_", "expressions", "from_", "joins", "where", "group", "having"),
    *("laterals", "qualify", "order", "limit", "offset", "emit"),
)
_QUALIFY = "QUALIFY cannot be combined with GROUP BY; put the GROUP BY in a subquery in FROM"
_CROSSED = (
    "these windows overlap, and {} compares rows of different windows: add window_start "
    "and window_end to both SELECTs"
)
_LATERAL = (
    "LATERAL of a subquery is not supported; for the first rows of each key write ROW_NUMBER() "
    "OVER (PARTITION BY k ORDER BY x) with a bound in the WHERE around it, else a JOIN"
)
_TABLE_PARTS = ("this", "alias", "joins", "version")


def compile_query(node: exp.Expr, names: Names) -> Stream:
    """Return the stream of a SELECT or of a UNION ALL, in parentheses or not."""
    return rows_of_query(node, names).stream


def rows_of_query(node: exp.Expr, names: Names, *, named: bool = True) -> Rows:
    """Return the rows of a query, with the windows that they belong to.

    ``named``: columns need names; in a UNION ALL only the columns of the first SELECT do.
    """
    bounds = names.bounds
    names = _with_definitions(node, replace(names, bounds={}))
    if isinstance(node, exp.Subquery):
        reject(node, ("this", "alias", "with_"), names)
        return rows_of_query(node.this, replace(names, bounds=bounds), named=named)
    if isinstance(node, exp.Select):
        return _select(node, names, bounds, named=named)
    if isinstance(node, exp.SetOperation):
        return _union(node, names, named=named)
    if isinstance(node, exp.Values):
        return Rows(values_relation(node, names).stream)
    raise names.text.error(node, "a SELECT is needed here")


def _renamed(rows: Rows, columns: Sequence[exp.Expr], at: exp.Expr | None, names: Names) -> Rows:
    """Rename columns by position, as an alias lists them."""
    if not columns or at is None:
        return rows
    stream = rows.stream
    if len(columns) != len(stream.schema):
        raise names.text.error(at, f"{len(columns)} names for {len(stream.schema)} columns")
    wanted = [column.name for column in columns]
    pairs = list(zip(stream.schema.names, wanted, strict=True))
    with names.text.located(at):
        return rows.called(stream.select(*(col(old).alias(name) for old, name in pairs)))


def _with_definitions(node: exp.Expr, names: Names) -> Names:
    clause = node.args.get("with_")
    if clause is None:
        return names
    if clause.args.get("recursive"):
        reason = "WITH RECURSIVE is not supported; write a query for each level"
        raise names.text.error(clause, reason)
    for definition in clause.expressions:
        alias = definition.args["alias"]
        bounds = {} if alias.columns else bounds_of_uses(definition.alias, node)
        extended = replace(names, bounds=bounds)
        rows = rows_of_query(definition.this, extended, named=not alias.columns)
        names = names.adding(definition.alias, _renamed(rows, alias.columns, definition, names))
    return names


def _union(node: exp.SetOperation, names: Names, *, named: bool) -> Rows:
    """Compile a union; columns are matched by position, and the first SELECT names them."""
    known = ("this", "expression", "with_", "distinct", "order", "limit", "offset")
    is_by_name = isinstance(node, exp.Union) and bool(node.args.get("by_name"))
    reject(node, (*known, "by_name") if is_by_name else known, names)
    branches = [node.this, node.args["expression"]]
    if isinstance(node, exp.Union) and not is_by_name:
        branches = [part for branch in branches for part in branches_of(branch)]
    first = rows_of_query(branches[0], names, named=named)
    others = [rows_of_query(branch, names, named=is_by_name) for branch in branches[1:]]
    if is_by_name:
        first, *others = map(Rows, by_name([first.stream, *(rows.stream for rows in others)]))
    if not isinstance(node, exp.Union):
        first, others[0] = compared_in_windows(first, others[0])
    made = set_operation(node, first.stream, [rows.stream for rows in others], names)
    if isinstance(node, exp.Union):
        rows = rows_of_union([first, *others], made)
    else:
        rows = rows_of_comparison(first, others[0], made)
        if reason := unlike(rows.in_windows, first, others[0], keeps=True):
            crossed = _CROSSED.format(type(node).__name__.upper())
            raise names.text.error(node, crossed if reason == CROSSED else reason)
    items = [Item(name, exp.column(name), star=True, column=name) for name in made.schema.names]
    return _ordered(node, rows, items, Scope(made, ()), names)


def _select(node: exp.Select, names: Names, bounds: Mapping[str, int], *, named: bool) -> Rows:
    reject(node, _SELECT_PARTS, names)
    text = names.text
    if node.args.get("from_") is None or not node.expressions:
        missing = "FROM" if node.args.get("from_") is None else "columns"
        raise text.error(node, f"SELECT needs {missing}")
    if windows := whole_windows(node, bounds, timed(node, names, _from)):
        node, names = with_whole_windows(node, windows, names, rows_of_query)
    conditions = flattened(node.args.get("where"))
    count = len(conditions)
    scope = _from(node, names, conditions)
    whole = node.args["where"].this if conditions and len(conditions) == count else None
    scope = _where(conditions, whole, scope, names)
    node = with_fields_as_keys(node, scope, names)
    items = items_of(node, scope, text, named=named)
    if is_grouped(node):
        if node.args.get("qualify") is not None:
            raise text.error(node.args["qualify"], _QUALIFY)
        rows = group_all(node, items, scope, names, lambda s, parts: _attached(s, parts, names))
        rows = replace(rows, stream=_distinct(node, rows.stream, names))
        return _ordered(node, rows, items, scope, names)
    if node.args.get("emit") is not None and text.engine.name != "postgres":
        raise text.error(node.args["emit"], "EMIT needs GROUP BY; leave it out")
    ends, listed = with_order_columns(node, items, scope, names)
    hidden = [item.name for item in listed[len(items) :]]
    items, scope = ranked(node, listed, scope, names, bounds, lambda w: by_time(w, scope, names))
    items, scope = over_frames(items, scope, names)
    items, scope = _without_scalars(items, scope, names)
    if node.args.get("having") is not None:
        raise text.error(node.args["having"], "HAVING needs GROUP BY; use WHERE")
    result = _distinct(node, _project(items, scope, names), names)
    rows = _ordered(ends, listed_rows(result, items, scope), items, scope, names)
    kept_bounds = {name: bound for name, bound in rows.bounds.items() if name not in hidden}
    stream = rows.stream.drop(*hidden) if hidden else rows.stream
    return replace(rows, stream=stream, bounds=kept_bounds)


def _ordered(node: exp.Query, rows: Rows, items: list[Item], source: Scope, names: Names) -> Rows:
    """Apply ORDER BY and LIMIT; ``source`` is the input of the SELECT list."""
    stream, order = rows.stream, node.args.get("order")
    if node.args.get("limit") is not None or node.args.get("offset") is not None:
        rows = refuse_windows(rows, OF_LIMIT)
        stream = limited(node, stream, items, source, names)
    if order is not None:
        with names.text.located(order):
            stream = stream.sort(*listed_orders(order, stream, items, source, names))
    return replace(rows, stream=stream)


def _attached(
    stream: Stream, nodes: list[exp.Expr], names: Names
) -> tuple[Stream, list[exp.Expr], tuple[str, ...]]:
    return attached(stream, nodes, names, _from, compile_query)


def _without_scalars(items: list[Item], scope: Scope, names: Names) -> tuple[list[Item], Scope]:
    """Replace the subqueries in the list by columns."""
    made: list[Item] = []
    for item in items:
        if not item.star and has_scalar(item.node):
            value, scope = with_scalars(item.node, scope, names, _from, compile_query)
            item, scope = replace(item, node=value), refuse_windows(scope, OF_VALUES)
        made.append(item)
    return made, scope


def _distinct(node: exp.Select, stream: Stream, names: Names) -> Stream:
    """Emit each row once at a time: equal rows that touch or overlap are merged."""
    clause = node.args.get("distinct")
    if clause is None:
        return stream
    if clause.args.get("on"):
        raise names.text.error(clause, "DISTINCT ON is not supported; write MAX_BY(x, rank)")
    with names.text.located(node):
        return kept(stream, names).stitch()


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
    """Return the relations of FROM; commas remove their keys from ``conditions``."""
    return joined(node, names, conditions or [], _relation, _semi)


def _semi(clause: exp.Join, scope: Scope, names: Names) -> Scope:
    if clause.side.upper() not in ("", "LEFT"):
        reason = f"{clause.side.upper()} SEMI JOIN is not supported: write b SEMI JOIN a ON ..."
        raise names.text.error(clause, reason)
    return exists(exists_of_semi(clause, names), scope, names, _inner_from)


def _relation(node: exp.Expr, names: Names) -> Scope:
    """Return a relation of FROM, with its PIVOT applied."""
    if not node.args.get("pivots"):
        return _plain_relation(node, names)
    base = node.copy()
    base.set("pivots", None)
    rows = pivoted(_plain_relation(base, names), node, names, rows_of_query)
    alias = node.args["pivots"][0].args.get("alias")
    return scope_of_rows(rows, _UNNAMED if alias is None else alias.name)


def _plain_relation(node: exp.Expr, names: Names) -> Scope:
    text = names.text
    alias = node.args.get("alias")
    columns = [] if alias is None else alias.columns
    if isinstance(node, exp.Subquery):
        rows = rows_of_query(node, names, named=not columns)
        name = node.alias or _UNNAMED
        return scope_of_rows(_renamed(rows, columns, alias, names), name)
    if isinstance(node, exp.Unnest):
        reason = "UNNEST takes the list of a row: FROM t CROSS JOIN UNNEST(list) AS u (x)"
        raise text.error(node, reason)
    if columns and alias is not None and not isinstance(node, exp.Values):
        raise text.error(alias, "name the columns in a SELECT")
    if isinstance(node, WindowTable):
        return window_table(node, names)
    if isinstance(node, MatchTable):
        return match_table(node, _relation(node.this, names), names)
    if isinstance(node, exp.Values):
        return values_relation(node, names)
    if isinstance(node, exp.Lateral):
        raise text.error(node, _LATERAL)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise text.error(node, "FROM takes the name of a stream or a subquery")
    if node.args.get("db") is not None and names.called(node) not in names.streams:
        raise text.error(node, "the name of a stream must have one part, without a dot")
    refuse_version(node, names)
    reject(node, _TABLE_PARTS, names)
    return scope_of_rows(names.rows(node), node.alias or node.name)


def _where(conditions: list[exp.Expr], whole: exp.Expr | None, scope: Scope, names: Names) -> Scope:
    """Apply one filter for all plain conditions (``whole`` as written); subqueries are joins.

    A condition that may fail on rows which an earlier EXISTS drops is applied after it.
    """
    scope, conditions, moved = with_lifetimes(conditions, scope, names)
    whole = None if moved else whole
    if not conditions:
        return scope
    tests: list[exp.Expr] = []
    first: list[exp.Expr] = []
    last: list[exp.Expr] = []
    for part in conditions:
        if _is_exists(part) or _in_query(part) is not None or has_subquery(part):
            tests.append(part)
        elif tests and fails(part, scope, names):
            last.append(part)
        else:
            first.append(part)
    if first:
        scope = filtered(all_of(first) if tests or whole is None else whole, scope, names)
    for test in tests:
        scope = _tested(test, scope, names)
    return filtered(all_of(last), scope, names) if last else scope


def _tested(test: exp.Expr, scope: Scope, names: Names) -> Scope:
    """Return the events for which a condition with a subquery is true."""
    in_query = _in_query(test)
    if in_query is not None:
        if isinstance(test, exp.Not) or in_query.args.get("negate"):
            return not_in(in_query, scope, names, rows_of_query)
        return exists(exists_of_in(in_query, scope, names), scope, names, _inner_from)
    if _is_exists(test):
        return exists(test, scope, names, _inner_from)
    condition = _with_exists_of_in(test, scope, names)
    if has_scalar(condition):
        scope = refuse_windows(scope, OF_VALUES)
    condition, with_values = with_scalars(condition, scope, names, _from, compile_query)
    condition, with_values = with_marks(condition, with_values, names, _inner_from)
    return filtered(condition, with_values, names)


def _with_exists_of_in(test: exp.Expr, scope: Scope, names: Names) -> exp.Expr:
    """Replace each ``IN (SELECT ...)`` in the condition by one EXISTS or several."""
    whole = exp.Paren(this=test.copy())
    for node in nodes_of(whole, exp.In):
        if node.args.get("query") is None or node.find_ancestor(exp.Select):
            continue
        if _is_as_good_as_false(node, whole) and not node.args.get("negate"):
            node.replace(exists_of_in(node, scope, names))
            continue
        made = case_of_in(node, scope, names)
        node.replace(exp.Not(this=made) if node.args.get("negate") else made)
    rewritten: exp.Expr = whole.this
    return rewritten


def _is_as_good_as_false(node: exp.Expr, whole: exp.Expr) -> bool:
    """Return whether the condition drops an event for null at this place, as for false."""
    while node is not whole:  # terminates: a tree is finite
        assert node.parent is not None
        node = node.parent
        if not isinstance(node, exp.And | exp.Or | exp.Paren):
            return False
    return True


def has_subquery(node: exp.Expr) -> bool:
    """Return whether a condition has a subquery."""
    return node.find(exp.Subquery, exp.Exists) is not None or any(
        part.args.get("query") is not None for part in node.find_all(exp.In)
    )


def _in_query(node: exp.Expr) -> exp.In | None:
    """Return the ``x [NOT] IN (SELECT ...)`` that a condition is."""
    inner = node.this if isinstance(node, exp.Not) else node
    inner = inner.this if isinstance(inner, exp.Paren) else inner
    return inner if isinstance(inner, exp.In) and inner.args.get("query") is not None else None


def _inner_from(node: exp.Select, names: Names) -> Scope:
    """Return the relations of a subquery; keys of its commas stay in WHERE and are used again."""
    return _from(node, names, flattened(node.args.get("where")))


def _is_exists(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Not) else node
    inner = inner.this if isinstance(inner, exp.Paren) else inner
    return isinstance(inner, exp.Exists)
