"""Rewrites ``FROM a, LATERAL (SELECT ... WHERE k = a.k ORDER BY x LIMIT n) b`` as a join on k.

The first rows of each key are those with ``ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) <= n``.
A subquery that compares an outer column by ``<`` is left as it is, and is an error later.
"""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of

_KEY, _NUMBER = "@key", "@number"


def with_laterals(whole: exp.Expr) -> None:
    """Rewrite LATERAL joins in a statement as joins on a key."""
    for select in nodes_of(whole, exp.Select):
        from_ = select.args.get("from_")
        outer = set() if from_ is None else {from_.this.alias_or_name}
        for join in select.args.get("joins") or []:
            lateral = join.this
            if isinstance(lateral, exp.Lateral) and isinstance(lateral.this, exp.Unnest):
                unnest = lateral.this.copy()
                unnest.set("alias", lateral.args.get("alias") or unnest.args.get("alias"))
                lateral.replace(unnest)
            elif isinstance(lateral, exp.Lateral) and isinstance(lateral.this, exp.Subquery):
                is_star = any(part.is_star for part in select.expressions)
                if not is_star and lateral.this.this.args.get("from_"):
                    _rewrite(join, outer)
            outer.add(join.this.alias_or_name)


def _rewrite(join: exp.Join, outer: set[str]) -> None:
    lateral = join.this
    inner, on = lateral.this.this, join.args.get("on")
    is_true = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
    parts = [p for p in ("group", "having", "distinct", "qualify", "offset") if inner.args.get(p)]
    has_aggregate = any(part.find(exp.AggFunc) for part in inner.expressions)
    if not is_true or parts or has_aggregate or join.side.upper() not in ("", "LEFT"):
        return
    keys, rest = _keys(inner, outer)
    named = [part.alias_or_name for part in inner.expressions]
    if not keys or not all(named) or _reads(outer, [*inner.expressions, *rest]):
        return
    made = inner.copy()
    made.set("order", None)
    made.set("limit", None)
    made.set("where", exp.Where(this=_all(rest)) if rest else None)
    columns = [exp.to_identifier(f"{_KEY}{n}", quoted=True) for n in range(len(keys))]
    for (own, _), name in zip(keys, columns, strict=True):
        made.append("expressions", exp.alias_(own.copy(), name.copy()))
    limit = inner.args.get("limit")
    if limit is not None:
        made = _first(made, keys, inner.args.get("order"), limit, [*named, *columns])
    unnamed = exp.TableAlias(this=exp.to_identifier("@lateral", quoted=True))
    alias = (lateral.args.get("alias") or unnamed).copy()
    pairs = zip(keys, columns, strict=True)
    equal: list[exp.Expr] = [
        exp.EQ(this=other.copy(), expression=exp.column(name.copy(), alias.this.copy()))
        for (_, other), name in pairs
    ]
    for part in made.walk():
        part.meta.setdefault("start", lateral.this.meta.get("start", 0))
        part.meta.setdefault("end", lateral.this.meta.get("end", 0))
    lateral.replace(exp.Subquery(this=made, alias=alias))
    join.set("kind", None if join.side else "INNER")
    join.set("on", _all(equal))


def _first(
    made: exp.Select,
    keys: list[tuple[exp.Expr, exp.Expr]],
    order: exp.Expr | None,
    limit: exp.Expr,
    names: list[str | exp.Identifier],
) -> exp.Select:
    number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[own.copy() for own, _ in keys],
        order=None if order is None else order.copy(),
        over="OVER",
    )
    column = exp.to_identifier(_NUMBER, quoted=True)
    made.append("expressions", exp.alias_(number, column))
    bound = exp.LTE(this=exp.column(column.copy()), expression=limit.expression.copy())
    return exp.Select(
        expressions=[exp.column(n.copy() if isinstance(n, exp.Expr) else n) for n in names],
        from_=exp.From(this=exp.Subquery(this=made)),
        where=exp.Where(this=bound),
    )


def _keys(
    inner: exp.Select, outer: set[str]
) -> tuple[list[tuple[exp.Expr, exp.Expr]], list[exp.Expr]]:
    """Return the equalities of an inner and an outer value, and the other conditions."""
    where = inner.args.get("where")
    keys, rest = [], []
    whole = [] if where is None else [where.this]
    for part in whole[0].flatten() if whole and type(whole[0]) is exp.And else whole:
        sides = [part.this, part.expression] if type(part) is exp.EQ else []
        is_outer = [_reads(outer, [side]) for side in sides]
        if sorted(is_outer) == [False, True]:
            own, other = sides if is_outer[1] else reversed(sides)
            keys.append((own, other))
        else:
            rest.append(part)
    return keys, rest


def _reads(outer: set[str], parts: list[exp.Expr]) -> bool:
    return any(column.table in outer for part in parts for column in part.find_all(exp.Column))


def _all(parts: list[exp.Expr]) -> exp.Expr:
    return reduce(lambda a, b: exp.And(this=a, expression=b), [part.copy() for part in parts])
