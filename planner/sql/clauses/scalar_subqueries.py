"""Subqueries as values: ``x > (SELECT avg(y) FROM b WHERE b.k = a.k)``.

Each becomes a join with the subquery's rows, grouped by the columns that its WHERE equates with the
outer query; without such an equality it joins the only row. The aggregates in its list become
columns that the statement cannot name. The list's expression is computed above the join, so a count
without rows is 0. A comparison between ANDs is not true for null, so an event without a match is
dropped there; elsewhere the value is null.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.api.expressions import lit
from planner.sql.clauses.joins import all_of, and_parts
from planner.sql.expressions.aggregates import has_aggregate, is_aggregate
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, free_name, with_key_columns
from planner.sql.windows.kept_rows import kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.stream import Stream
    from planner.sql.expressions.names import Names

    #: ``From`` compiles the relations of a SELECT, the other type a whole SELECT.
    From = Callable[[exp.Select, Names], Scope]
    Query = Callable[[exp.Expr, Names], Stream]

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_PARTS = ("expressions", "from_", "joins", "where")
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Paren, exp.Neg, exp.Subquery)
_VALUES = (exp.Column, exp.Identifier, exp.Literal, exp.Cast, exp.DataType, exp.DataTypeParam)


def has_scalar(node: exp.Expr) -> bool:
    """Return whether ``node`` has a subquery as a value."""
    return _first_scalar(node) is not None


def _first_scalar(node: exp.Expr) -> exp.Subquery | None:
    if isinstance(node, exp.Subquery):
        return node
    if isinstance(node, exp.SubqueryPredicate):
        return None
    if isinstance(node, exp.In) and node.args.get("query"):
        return None
    for part in node.iter_expressions():
        first = _first_scalar(part)
        if first is not None:
            return first
    return None


def with_scalars(
    node: exp.Expr, scope: Scope, names: Names, from_: From, query: Query
) -> tuple[exp.Expr, Scope]:
    """Replace subqueries in a condition or value by columns; return it and its scope."""
    node = node.copy()
    whole = exp.Paren(this=node)  # enclosed, so that the root can be replaced too
    while True:  # terminates: each pass removes a subquery
        first = _first_scalar(whole.this)
        if first is None:
            return whole.this, scope
        inner = _is_strict(whole.this, first)
        value, scope = _value(first, scope, names, from_, query, is_inner=inner)
        first.replace(value)


def _is_strict(node: exp.Expr, part: exp.Expr) -> bool:
    """Return whether ``node`` is a comparison that is not true if its part ``part`` is null."""
    if not isinstance(node, _COMPARISONS):
        return False
    while part is not node:  # terminates: a tree is finite
        place = part.parent
        if place is not node and not isinstance(place, _ARITHMETIC):
            return False
        assert place is not None
        part = place
    return True


def _value(
    node: exp.Subquery,
    outer: Scope,
    names: Names,
    from_: From,
    query: Query,
    *,
    is_inner: bool,
) -> tuple[exp.Expr, Scope]:
    """Return the expression for the subquery, over the join with the outer query."""
    text, select = names.text, node.unnest()
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        raise text.error(node, "a subquery that is a value must SELECT one column")
    for part, value in select.args.items():
        if value and part not in _PARTS:
            word = part.strip("_").upper()
            raise text.error(
                node, f"a subquery that is a value takes no {word}; it must return one aggregate"
            )
    if select.args.get("from_") is None:
        raise text.error(node, "a subquery that is a value needs FROM")
    (item,) = select.expressions
    item = (item.this if isinstance(item, exp.Alias) else item).copy()
    if not has_aggregate(item):
        raise text.error(
            node,
            "a subquery that is a value must return one row: write an aggregate such as MAX(x)",
        )
    select = select.copy()
    own, keys = _split(select, from_(select, names), outer, names)
    select.set("where", exp.Where(this=all_of(own)) if own else None)
    taken = set(outer.stream.schema.names)
    made, columns = _parts(item, taken)
    listed = [exp.alias_(part, name, quoted=True) for name, part in columns.items()]
    theirs = [free_name("@key", taken) for _ in keys]
    by = [part for _, part in keys]
    select.set(
        "expressions",
        [*listed, *(exp.alias_(b.copy(), n, quoted=True) for b, n in zip(by, theirs, strict=True))],
    )
    select.set("group", exp.Group(expressions=[b.copy() for b in by]) if by else None)
    _placed(select, text.place(node))
    result = query(select, names)
    outer = outer.with_stream(kept(outer.stream, names))
    compile_ = Expressions(names.text, outer, names.functions).compile
    outer_keys = [compile_(part) for part, _ in keys] or [lit(1)]
    if not keys:
        theirs = [free_name("@key", taken)]
        result = result.with_columns(lit(1).alias(theirs[0]))
    how = "inner" if is_inner and all(map(_is_null_of_null, made.walk())) else "left"
    with text.located(node):
        ours, on = with_key_columns(outer.stream, outer_keys, "@outer_key", taken)
        pairs = ours.join(result, left_on=on, right_on=theirs, how=how)
        valued = pairs.select(*outer.stream.schema.names, *columns)
    scope = replace(outer.with_stream(valued), hidden=(*outer.hidden, *columns))
    made = exp.Paren(this=made)
    _placed(made, text.place(node))
    return made, scope


def _placed(tree: exp.Expr, place: tuple[int, int]) -> None:
    """Set the place in the text of a tree that replaces a subquery."""
    for node in tree.walk():
        node.meta.setdefault("start", place[0])
        node.meta.setdefault("end", place[1] - 1)


def _parts(item: exp.Expr, taken: set[str]) -> tuple[exp.Expr, dict[str, exp.Expr]]:
    """Return the item with columns in place of its aggregates, and the aggregates."""
    columns: dict[str, exp.Expr] = {}

    def put(node: exp.Expr) -> exp.Expr:
        if is_aggregate(node):
            name = free_name("@value", taken)
            columns[name] = node.copy()
            column = exp.column(exp.to_identifier(name, quoted=True))
            counted = node.this if isinstance(node, exp.Filter) else node
            if not isinstance(counted, exp.Count | exp.CountIf | exp.ApproxDistinct):
                return column
            return exp.Coalesce(this=column, expressions=[exp.Literal.number(0)])
        for key, part in list(node.args.items()):
            if isinstance(part, exp.Expr):
                node.set(key, put(part))
            elif isinstance(part, list):
                node.set(key, [put(p) if isinstance(p, exp.Expr) else p for p in part])
        return node

    return put(item), columns


def _is_null_of_null(node: exp.Expr) -> bool:
    """Return whether the value is surely null if a part is null; COALESCE, for example, is not."""
    return isinstance(node, (*_ARITHMETIC, *_VALUES))


def _split(
    select: exp.Select, inner: Scope, outer: Scope, names: Names
) -> tuple[list[exp.Expr], list[tuple[exp.Expr, exp.Expr]]]:
    """Return the subquery's own conditions, and its equations with ``outer`` as pairs of sides."""
    own: list[exp.Expr] = []
    keys: list[tuple[exp.Expr, exp.Expr]] = []
    where = select.args.get("where")
    for part in and_parts(where.this) if where is not None else ():
        if not names_outer(part, inner, outer):
            own.append(part)
            continue
        key = _key(part, inner, outer)
        if key is None:
            raise names.text.error(
                part,
                "a subquery that is a value may use columns of the outer query only in equalities",
            )
        keys.append(key)
    return own, keys


def _key(part: exp.Expr, inner: Scope, outer: Scope) -> tuple[exp.Expr, exp.Expr] | None:
    if not isinstance(part, exp.EQ):
        return None
    a, b = part.this, part.args["expression"]
    if names_outer(b, inner, outer):
        a, b = b, a
    is_theirs = any(inner.candidates(c) for c in a.find_all(exp.Column))
    if is_theirs or names_outer(b, inner, outer) or b.find(exp.Column) is None:
        return None
    return a, b


def names_outer(node: exp.Expr, inner: Scope, outer: Scope) -> bool:
    """Return whether ``node`` reads a column that only the outer query has."""
    theirs = set(outer.relations) - set(inner.relations)
    columns = node.find_all(exp.Column)
    return any(
        not inner.candidates(c) and (outer.candidates(c) or c.table in theirs) for c in columns
    )


def attached(
    stream: Stream, nodes: list[exp.Expr], names: Names, from_: From, query: Query
) -> tuple[Stream, list[exp.Expr], tuple[str, ...]]:
    """Join subqueries to rows without relations, such as groups."""
    scope = Scope(stream, ())
    made: list[exp.Expr] = []
    for node in nodes:
        if has_scalar(node):
            node, scope = with_scalars(node, scope, names, from_, query)
        made.append(node)
    return scope.stream, made, scope.hidden
