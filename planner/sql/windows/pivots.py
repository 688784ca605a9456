"""PIVOT and UNPIVOT, rewritten as an equivalent GROUP BY or UNION ALL.

``PIVOT (SUM(x) FOR k IN ('a', 'b'))`` groups by the columns that it does not name, with an
aggregate with FILTER for each value. ``UNPIVOT (v FOR k IN (a, b))`` has a row for each column that
is not null.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.expressions.scope import Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.sql.expressions.names import Names
    from planner.sql.expressions.scope import Scope

#: The name of the pivoted relation; no statement can contain it.
_SOURCE = "@pivoted"
_UNNAMED = "a column for two keys needs a name: write IN (('a', 1) AS a1)"
_ONE_KEY = f"PIVOT takes values of one column: FOR k IN ('a', 'b'); {_UNNAMED}"
_VALUES = "PIVOT takes literals: the columns of the result cannot depend on the rows"


def pivoted(
    scope: Scope, node: exp.Expr, names: Names, query: Callable[[exp.Expr, Names], Rows]
) -> Rows:
    """Return the rows of a relation after its PIVOT or UNPIVOT.

    Raises:
        SqlError: the PIVOT has an unsupported form.
    """
    (pivot, *others) = node.args["pivots"]
    if others:
        raise names.text.error(
            others[0], "PIVOT needs a single table in FROM; write the join in a subquery"
        )
    fields = pivot.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In) or pivot.args.get("group"):
        raise names.text.error(pivot, _ONE_KEY)
    names = names.adding(_SOURCE, Rows(scope.stream))
    made = _long(pivot, scope, names) if pivot.args.get("unpivot") else _wide(pivot, scope, names)
    place = names.text.place(pivot)
    for part in made.walk():
        part.meta.setdefault("start", place[0])
        part.meta.setdefault("end", place[1] - 1)
    return query(made, names)


def _from() -> exp.From:
    return exp.From(this=exp.Table(this=exp.to_identifier(_SOURCE, quoted=True)))


def _called(part: exp.Expr, names: Names) -> tuple[exp.Expr, str]:
    """Return a value of IN, and the name of its column."""
    if isinstance(part, exp.PivotAlias | exp.Alias):
        return part.this, part.args["alias"].name
    if isinstance(part, exp.Tuple):
        raise names.text.error(part, _UNNAMED)
    return part, part.name


def _wide(pivot: exp.Expr, scope: Scope, names: Names) -> exp.Expr:
    (field,) = pivot.args["fields"]
    key = field.this
    values = [_called(part, names) for part in field.expressions]
    read = {scope.column(c, names.text) for c in _columns([*pivot.expressions, key])}
    rest = [exp.column(n, quoted=True) for n in scope.stream.schema.names if n not in read]
    listed: list[exp.Expr] = list(rest)
    for value, called in values:
        is_value = _equal(key, value, names)
        for part in pivot.expressions:
            inner = part.this if isinstance(part, exp.Alias) else part
            made: exp.Expr = exp.Filter(
                this=inner.copy(), expression=exp.Where(this=is_value.copy())
            )
            if isinstance(inner, exp.Count) and names.text.engine.name == "spark":
                made = exp.Nullif(this=made, expression=exp.Literal.number(0))
            behind = part.alias if isinstance(part, exp.Alias) else inner.sql().lower()
            name = called if len(pivot.expressions) == 1 else f"{called}_{behind}"
            listed.append(exp.alias_(made, name, quoted=True))
    group = exp.Group(expressions=[part.copy() for part in rest]) if rest else None
    return exp.Select(expressions=listed, from_=_from(), group=group)


def _equal(key: exp.Expr, value: exp.Expr, names: Names) -> exp.Expr:
    """Return the condition of a value: a literal, or a row of literals for a row of keys."""
    if isinstance(key, exp.Tuple) and isinstance(value, exp.Tuple):
        pairs = zip(key.expressions, value.expressions, strict=True)
        tests: list[exp.Expr] = [_equal(one, of, names) for one, of in pairs]
        return reduce(lambda a, b: exp.And(this=a, expression=b), tests)
    if not isinstance(value, exp.Literal | exp.Boolean | exp.Neg):
        raise names.text.error(value, _VALUES)
    return exp.EQ(this=key.copy(), expression=value.copy())


def _columns(parts: list[exp.Expr]) -> list[exp.Column]:
    return [
        column
        for part in parts
        for column in part.find_all(exp.Column)
        if not isinstance(column.this, exp.Star)
    ]


def _long(pivot: exp.Expr, scope: Scope, names: Names) -> exp.Expr:
    (field,) = pivot.args["fields"]
    value_name, key_name = pivot.expressions[0].name, field.this.name
    columns = [_called(part, names) for part in field.expressions]
    moved = {scope.column(c, names.text) for c in _columns([column for column, _ in columns])}
    rest = [exp.column(n, quoted=True) for n in scope.stream.schema.names if n not in moved]
    keeps_nulls = bool(pivot.args.get("include_nulls"))
    selects: list[exp.Expr] = [
        exp.Select(
            expressions=[
                *(part.copy() for part in rest),
                exp.alias_(exp.Literal.string(called), key_name, quoted=True),
                exp.alias_(column.copy(), value_name, quoted=True),
            ],
            from_=_from(),
            where=None if keeps_nulls else _is_given(column),
        )
        for column, called in columns
    ]
    return reduce(lambda a, b: exp.Union(this=a, expression=b, distinct=False), selects)


def _is_given(column: exp.Expr) -> exp.Where:
    return exp.Where(this=exp.Not(this=exp.Is(this=column.copy(), expression=exp.null())))
