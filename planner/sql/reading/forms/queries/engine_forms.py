"""Rewrites forms of Flink and Spark that have an exact equivalent here.

Intervals of two units, ``ANY(condition)``, ``MAX(STRUCT(a, b))``, ARRAY_SORT with an order,
ARRAYS_ZIP with names, and ``NOT IN (SELECT ...)`` that reads the outer query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of, replaced
from planner.sql.reading.forms.queries.intervals import lengths

if TYPE_CHECKING:
    from collections.abc import Callable

    Error = Callable[[exp.Expr, str], Exception]

_COMPARATOR = (
    "ARRAY_SORT takes CASE WHEN l < r THEN -1 WHEN l > r THEN 1 ELSE 0 END here, or 1 before -1 "
    "for a descending order: write ARRAY_AGG(x ORDER BY key) for another order"
)


def with_engine_forms(whole: exp.Expr, engine: str, error: Error) -> None:
    """Rewrite forms of Flink and Spark in a statement of a dialect.

    Raises:
        SqlError: a form has no equivalent.
    """
    if not engine:
        return
    for node in reversed(nodes_of(whole, *_FORMS)):
        made = _FORMS[type(node)](node, engine, error)
        if made is not None and made is not node:
            replaced(node, made)


def _sum(node: exp.Expr, _engine: str, _error: Error) -> exp.Expr | None:
    """Rewrite ``t + INTERVAL '1 month 3 days'``: months first, as in Spark and PostgreSQL."""
    right = node.args["expression"]
    moved = lengths(right)
    left = node.this
    if moved is None and type(node) is exp.Add:
        moved, left = lengths(left), right
    if moved is None or lengths(left) is not None:
        return None
    months, us = moved
    if not months and right is not left and isinstance(right, exp.Interval):
        return None if _is_plain(right) else _shifted(type(node), left, 0, us)
    return _shifted(type(node), left, months, us)


def _shifted(kind: type[exp.Expr], held: exp.Expr, months: int, us: int) -> exp.Expr:
    made: exp.Expr = held.copy()
    for count, unit in ((months, "MONTH"), (us, "MICROSECOND")):
        if count:
            length = exp.Interval(this=exp.Literal.string(str(count)), unit=exp.var(unit))
            made = kind(this=made, expression=length)
    return exp.Paren(this=made)


def _length(node: exp.Expr, _engine: str, _error: Error) -> exp.Expr | None:
    """Return an interval of days to seconds, in microseconds."""
    moved = None if _is_plain(node) else lengths(node)
    if moved is None or moved[0]:
        return None
    return exp.Interval(this=exp.Literal.string(str(moved[1])), unit=exp.var("MICROSECOND"))


def _is_plain(node: exp.Expr) -> bool:
    """Return whether an interval is one number with one unit."""
    unit = node.args.get("unit")
    return isinstance(node, exp.Interval) and (unit is None or type(unit) is exp.Var)


def _any(node: exp.Expr, _engine: str, _error: Error) -> exp.Expr | None:
    """Rewrite ``ANY(condition)`` as an aggregate."""
    held = node.this.unnest()
    is_list = isinstance(held, exp.Query | exp.Tuple | exp.Array)
    is_compared = isinstance(node.parent, exp.Binary) and not isinstance(
        node.parent, exp.And | exp.Or
    )
    if is_list or is_compared or not isinstance(node.this, exp.Paren):
        return None
    return exp.LogicalOr(this=held.copy())


def _distinct_count(node: exp.Expr, _engine: str, _error: Error) -> exp.Expr | None:
    """Drop the allowed error of an approximate count, since the count here is exact."""
    if isinstance(node.args.get("accuracy"), exp.Literal):
        node.set("accuracy", None)
    return None


def _extreme(node: exp.Expr, engine: str, _error: Error) -> exp.Expr | None:
    """Rewrite ``MAX(STRUCT(a, b))`` as the first struct in the order of a, then b."""
    held = node.this
    is_call = not isinstance(node.parent, exp.Filter | exp.Window) and not node.expressions
    if engine not in ("spark", "duckdb") or not isinstance(held, exp.Struct) or not is_call:
        return None
    is_max = isinstance(node, exp.Max)
    values = [
        part.expression if isinstance(part, exp.PropertyEQ) else part.unalias()
        for part in held.expressions
    ]
    ordered = [
        exp.Ordered(this=value.copy(), desc=is_max, nulls_first=not is_max) for value in values
    ]
    listed = exp.ArrayAgg(this=exp.Order(this=held.copy(), expressions=ordered))
    return exp.Bracket(this=listed, expressions=[exp.Literal.number(1)], offset=1)


def _sorted(node: exp.Expr, engine: str, error: Error) -> exp.Expr | None:
    """Rewrite Flink's ``ARRAY_SORT(l, FALSE)``, and Spark's with a comparator."""
    order = node.args.get("expression")
    if order is None:
        return None
    held = node.this.copy()
    up = _plainly_sorted(held)
    down = exp.ArrayReverse(this=up.copy())
    if isinstance(order, exp.Lambda):
        direction = _direction(order)
        if direction is None:
            raise error(node, _COMPARATOR)
        return up if direction > 0 else down
    if engine != "flink" or not isinstance(order, exp.Boolean):
        return None
    first = node.args.get("asc") or node.args.get("nulls_first")
    if first is not None and not isinstance(first, exp.Boolean):
        return None
    is_up = bool(order.this)
    nulls_lead = is_up if first is None else bool(first.this)
    nulls, others = (
        exp.ArrayFilter(this=held.copy(), expression=_null_test(is_null=is_null))
        for is_null in (True, False)
    )
    values = _plainly_sorted(others)
    values = values if is_up else exp.ArrayReverse(this=values)
    parts = [nulls, values] if nulls_lead else [values, nulls]
    return exp.Anonymous(this="@list_concat", expressions=parts)


def _plainly_sorted(held: exp.Expr) -> exp.Expr:
    made = exp.ArraySort(this=held)
    made.meta["native"] = True  # so that no dialect's default order of nulls is applied later
    return made


def _null_test(*, is_null: bool) -> exp.Lambda:
    test: exp.Expr = exp.Is(this=exp.to_identifier("x"), expression=exp.Null())
    return exp.Lambda(
        this=test if is_null else exp.Not(this=test), expressions=[exp.to_identifier("x")]
    )


def _direction(order: exp.Lambda) -> int | None:
    """Return 1 for a comparator of ascending order, -1 for descending; None: it is another."""
    if len(order.expressions) != 2 or not isinstance(order.this.unnest(), exp.Case):
        return None
    first, second = (part.name for part in order.expressions)
    signs = set()
    for branch in order.this.unnest().args["ifs"]:
        test, value = branch.this.unnest(), branch.args["true"].unnest()
        sides = [getattr(side, "name", "") for side in (test.this, test.args.get("expression"))]
        number = -1 if isinstance(value, exp.Neg) else 1
        written = (value.this if isinstance(value, exp.Neg) else value).name
        if type(test) not in (exp.LT, exp.GT, exp.EQ) or sorted(sides) != sorted((first, second)):
            return None
        if written == "0" and type(test) is exp.EQ:
            continue
        if written != "1" or type(test) is exp.EQ:
            return None
        is_less = (type(test) is exp.LT) == (sides[0] == first)
        signs.add(-number if is_less else number)
    return signs.pop() if len(signs) == 1 else None


def _zipped(node: exp.Expr, engine: str, _error: Error) -> exp.Expr | None:
    """Rewrite Spark's ``ARRAYS_ZIP(a, b)``, whose fields have the names of its columns."""
    if engine != "spark":
        return None
    given = [part for part in (node.this, *node.expressions) if isinstance(part, exp.Expr)]
    if isinstance(node, exp.Anonymous):
        given = list(node.expressions) if node.name.upper() == "ARRAYS_ZIP" else []
    if len(given) != 2:
        return None
    names = [p.name if isinstance(p, exp.Column) else str(at) for at, p in enumerate(given)]
    pair = exp.to_identifier("z")
    fields = [
        exp.PropertyEQ(
            this=exp.to_identifier(name, quoted=True),
            expression=exp.Dot(this=pair.copy(), expression=exp.to_identifier(f"f{at}")),
        )
        for at, name in enumerate(names)
    ]
    body = exp.Lambda(this=exp.Struct(expressions=fields), expressions=[pair])
    listed = exp.Anonymous(this="@list_zip", expressions=[part.copy() for part in given])
    return exp.Anonymous(this="LIST_TRANSFORM", expressions=[listed, body])


def _truncated(node: exp.Expr, engine: str, _error: Error) -> exp.Expr | None:
    """Rewrite Spark's ``DATE_TRUNC('YEAR', '2015-03-05')``, which reads a text as a time."""
    held = node.this
    if engine == "spark" and isinstance(held, exp.Literal) and held.is_string:
        held.replace(exp.cast(held.copy(), "TIMESTAMP"))
    return None


def _not_in(node: exp.Expr, _engine: str, _error: Error) -> exp.Expr | None:
    """Rewrite ``x NOT IN (SELECT y ... WHERE b.k = a.k)`` as NOT EXISTS, with its nulls."""
    query = node.args.get("query")
    if query is None or isinstance(node.this, exp.Tuple):
        return None
    inner = query.this if isinstance(query, exp.Subquery) else query
    around = node.parent
    is_not = isinstance(around, exp.Not) or bool(node.args.get("negate"))
    others = [k for k, v in inner.args.items() if v and k not in ("expressions", "from_", "where")]
    is_one = isinstance(inner, exp.Select) and len(inner.expressions) == 1
    if not is_not or not is_one or others or not _is_correlated(inner):
        return None
    value, listed = node.this, inner.expressions[0].unalias()
    null = exp.Null()
    test: exp.Expr = exp.EQ(this=listed.copy(), expression=value.copy())
    for side in (listed, value):
        test = exp.Or(this=test, expression=exp.Is(this=side.copy(), expression=null.copy()))
    made = exp.Select(expressions=[exp.Literal.number(1)], from_=inner.args["from_"].copy())
    condition = exp.And(this=inner.args["where"].this.copy(), expression=exp.Paren(this=test))
    made.set("where", exp.Where(this=condition))
    exists = exp.Exists(this=made)
    return exp.Not(this=exists) if node.args.get("negate") else exists


def _is_correlated(inner: exp.Expr) -> bool:
    """Return whether a condition names a relation that is not in FROM."""
    where = inner.args.get("where")
    known = {part.alias_or_name for part in inner.find_all(exp.Table, exp.Subquery)}
    columns = where.find_all(exp.Column) if where else ()
    return any(column.table and column.table not in known for column in columns)


_FORMS: dict[type[exp.Expr], Callable[[exp.Expr, str, Error], exp.Expr | None]] = {
    **dict.fromkeys((exp.Add, exp.Sub), _sum),
    exp.Interval: _length,
    exp.Any: _any,
    exp.ApproxDistinct: _distinct_count,
    **dict.fromkeys((exp.Max, exp.Min), _extreme),
    exp.ArraySort: _sorted,
    **dict.fromkeys((exp.Anonymous, exp.ArraysZip), _zipped),
    exp.In: _not_in,
    **dict.fromkeys((exp.DateTrunc, exp.TimestampTrunc), _truncated),
}
