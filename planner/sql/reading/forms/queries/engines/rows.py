"""Rows of values ``(a, b)``: compared, in lists and queries, and as intervals in OVERLAPS."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Error = Callable[[exp.Expr, str], Exception]

#: Operators between rows of values.
COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_PAIRS = "(a, b) IN (SELECT ...) belongs in WHERE, without NOT: write EXISTS or NOT EXISTS"
#: The start and end of the interval ``(@s, @e)``, which may be swapped; a NULL is the end.
_LOW = 'CASE WHEN "@e" < "@s" OR "@s" IS NULL THEN "@e" ELSE "@s" END'
_HIGH = 'CASE WHEN "@e" < "@s" OR "@s" IS NULL THEN "@s" ELSE "@e" END'
#: OVERLAPS as the SQL standard defines it, without the ends, and as Flink does, with the ends.
_OVERLAPS = (
    '("@a" > "@c" AND NOT ("@a" >= "@d" AND "@b" >= "@d")) OR '
    '("@c" > "@a" AND NOT ("@c" >= "@b" AND "@d" >= "@b")) OR '
    '("@a" = "@c" AND ("@b" <> "@d" OR "@b" = "@d"))'
)
_TOUCHES = '"@b" >= "@c" AND "@d" >= "@a"'

#: Compare the values ``a`` and ``b`` at a position of two rows, as DuckDB does.
_LESS = '("@a{0}" < "@b{0}" OR ("@a{0}" IS NOT NULL AND "@b{0}" IS NULL))'
_SAME = '"@a{0}" IS NOT DISTINCT FROM "@b{0}"'


def compared(node: exp.Expr, engine: str) -> exp.Expr | None:
    """Rewrite ``(a, b) < (c, d)``: the first values that differ decide.

    In DuckDB two nulls are equal.
    """
    left, right = _row(node.this), _row(node.args.get("expression"))
    if not left or len(left) != len(right):
        return None
    pairs = list(zip(left, right, strict=True))
    if type(node) in (exp.EQ, exp.NEQ):
        equal = exp.Paren(this=_equal(pairs, engine))
        return equal if type(node) is exp.EQ else exp.Not(this=equal)
    if engine == "duckdb":
        return _compared_by_duckdb(node, pairs)
    strict = exp.LT if type(node) in (exp.LT, exp.LTE) else exp.GT
    (a, b), *others = reversed(pairs)
    made: exp.Expr = type(node)(this=a.copy(), expression=b.copy())
    for a, b in others:
        first = strict(this=a.copy(), expression=b.copy())
        rest = exp.Paren(
            this=exp.And(this=_equal([(a, b)], engine), expression=exp.Paren(this=made))
        )
        made = exp.Or(this=first, expression=rest)
    return exp.Paren(this=made)


def _compared_by_duckdb(node: exp.Expr, pairs: list[tuple[exp.Expr, exp.Expr]]) -> exp.Expr:
    """Return a test of rows that is never null, since null is the greatest value of DuckDB."""
    is_less = type(node) in (exp.LT, exp.LTE)
    text = "TRUE" if type(node) in (exp.LTE, exp.GTE) else "FALSE"
    values: dict[str, exp.Expr] = {}
    for at, (a, b) in reversed(list(enumerate(pairs))):
        less, same = _LESS.format(at), _SAME.format(at)
        text = f"CASE WHEN {less} THEN TRUE WHEN {same} THEN {text} ELSE FALSE END"
        values |= {f"a{at}": a if is_less else b, f"b{at}": b if is_less else a}
    return exp.Paren(this=_filled(text, values))


def among(node: exp.In, engine: str, error: Error) -> exp.Expr | None:
    """Rewrite ``(a, b) IN ((1, 2), (3, 4))`` and ``(a, b) IN (SELECT x, y ...)``.

    Raises:
        SqlError: made by ``error``; a query is outside WHERE, or in NOT, where nulls matter.
    """
    values, rows = _row(node.this), [_row(part) for part in node.expressions]
    if values and node.args.get("query") is not None:
        return _exists(node, values, error)
    if not values or not rows or any(len(other) != len(values) for other in rows):
        return None
    tests: list[exp.Expr] = [
        exp.Paren(this=_equal(zip(values, other, strict=True), engine)) for other in rows
    ]
    made = exp.Paren(this=reduce(lambda a, b: exp.Or(this=a, expression=b), tests))
    return exp.Not(this=made) if node.args.get("negate") else made


def _exists(node: exp.In, values: list[exp.Expr], error: Error) -> exp.Expr:
    """Return EXISTS of a row of the query that is equal."""
    query = node.args["query"]
    around = node.parent
    while isinstance(around, exp.Paren | exp.And | exp.Or):  # terminates: a tree is finite
        around = around.parent
    if not isinstance(around, exp.Where) or node.args.get("negate"):
        raise error(node, _PAIRS)
    held = exp.to_identifier("@in", quoted=True)
    names = [exp.to_identifier(f"@in{at}", quoted=True) for at in range(len(values))]
    inner = query.this if isinstance(query, exp.Subquery) else query
    columns = [exp.column(name.copy(), held.copy()) for name in names]
    made = exp.Select(
        expressions=[exp.Literal.number(1)],
        from_=exp.From(
            this=exp.Subquery(
                this=inner.copy(), alias=exp.TableAlias(this=held.copy(), columns=names)
            )
        ),
        where=exp.Where(this=_equal(zip(columns, values, strict=True))),
    )
    return exp.Exists(this=made)


def overlaps(node: exp.Overlaps, engine: str) -> exp.Expr | None:
    """Rewrite ``(a, b) OVERLAPS (c, d)`` of times; b and d may be lengths.

    In Flink the ends belong to the intervals.
    """
    sides = (node.this, node.expression)
    if not all(isinstance(side, exp.Tuple) and len(side.expressions) == 2 for side in sides):
        return None
    bounds: dict[str, exp.Expr] = {}
    for side, names in zip(sides, ("ab", "cd"), strict=True):
        start, end = side.expressions
        if isinstance(end, exp.Interval):
            end = exp.Paren(this=exp.Add(this=start.copy(), expression=end.copy()))
        for name, text in zip(names, (_LOW, _HIGH), strict=True):
            bounds[name] = _filled(text, {"s": start, "e": end})
    return exp.Paren(this=_filled(_TOUCHES if engine == "flink" else _OVERLAPS, bounds))


def _filled(text: str, values: dict[str, exp.Expr]) -> exp.Expr:
    """Return an expression with values for its columns ``"@name"``."""
    made = sqlglot.parse_one(text)
    for column in nodes_of(made, exp.Column):
        column.replace(values[column.name[1:]].copy())
    return made


def _equal(pairs: Iterable[tuple[exp.Expr, exp.Expr]], engine: str = "") -> exp.Expr:
    """Return a test of equal rows; DuckDB compares rows so that two nulls are equal."""
    test = exp.NullSafeEQ if engine == "duckdb" else exp.EQ
    tests: list[exp.Expr] = [test(this=a.copy(), expression=b.copy()) for a, b in pairs]
    return reduce(lambda a, b: exp.And(this=a, expression=b), tests)


def _row(node: exp.Expr | None) -> list[exp.Expr]:
    """Return the values of ``(a, b)`` or ``ROW(a, b)``; none: it is something else."""
    is_row = isinstance(node, exp.Anonymous) and node.name.upper() == "ROW"
    return list(node.expressions) if node and (is_row or isinstance(node, exp.Tuple)) else []
