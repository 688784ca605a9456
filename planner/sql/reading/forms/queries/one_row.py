"""Rewrites queries of other engines: without FROM, of functions alone, LATERAL of values.

``SELECT 1`` and ``FROM EXPLODE(list)`` read a relation of one row without columns. The values of
``LATERAL (SELECT x + 1 AS y)`` and ``LATERAL (SELECT SUM(x) AS y FROM b WHERE b.k = a.k)`` replace
the names of their columns, the latter as subqueries for a value.
"""

from __future__ import annotations

from sqlglot import exp

#: A mark of the relation of one row without columns.
ONE_ROW = "one row"
_ALONE = (exp.Func, exp.Unnest)
_SIMPLE = ("expressions", "from_", "joins", "where", "kind", "operation_modifiers")


def with_queries(whole: exp.Expr, engine: str) -> None:
    """Replace these queries in a statement."""
    for select in list(whole.find_all(exp.Select)):
        _values_of_laterals(select)
    for select in list(whole.find_all(exp.Select)):
        from_ = select.args.get("from_")
        if from_ is None:
            select.set("from_", _one_row(select))
        elif engine and _is_function(from_.this):
            _call_alone(select, from_.this)


def _one_row(at: exp.Expr) -> exp.From:
    row = exp.Values(expressions=[exp.Tuple(expressions=[exp.Literal.number(0)])])
    row.meta[ONE_ROW] = True
    made = exp.From(this=row)
    for part in made.walk():
        part.meta.update({k: v for k, v in at.meta.items() if k in ("start", "end")})
    return made


def _is_function(held: exp.Expr) -> bool:
    if isinstance(held, exp.Unnest):
        return True
    is_held = isinstance(held, exp.Table | exp.Lateral) and not held.args.get("db")
    call = held.this if is_held else None
    if type(call) is exp.GenerateSeries:
        numbers = [part for part in call.args.values() if isinstance(part, exp.Expr)]
        return not all(part.is_number for part in numbers)
    return isinstance(call, _ALONE) and not isinstance(call, exp.Subquery)


def _call_alone(select: exp.Select, held: exp.Expr) -> None:
    """``FROM f(x) AS t (a)`` is ``FROM one_row CROSS JOIN UNNEST(f(x)) AS t (a)``."""
    joins = select.args.get("joins") or []
    select.set("from_", _one_row(held))
    held.parent = None
    alias = held.args.get("alias")
    if isinstance(held, exp.Unnest) and (alias is None or not alias.columns):
        named = "unnest" if alias is None else alias.name
        columns = [exp.to_identifier("unnest" if alias is None else named)]
        held.set("alias", exp.TableAlias(this=exp.to_identifier(named), columns=columns))
    call = held.this if not isinstance(held, exp.Unnest) else None
    if type(call) is exp.Explode:
        named = "explode" if alias is None or not alias.name else alias.name
        listed = alias.columns if alias is not None and alias.columns else None
        columns = listed or [exp.to_identifier("col")]
        alias = exp.TableAlias(this=exp.to_identifier(named), columns=columns)
        held = exp.Unnest(expressions=[call.this], alias=alias)
    elif isinstance(call, exp.Anonymous) and call.name.upper() == "RANGE" and alias is None:
        columns = [exp.to_identifier("id")]  # Spark's name
        held.set("alias", exp.TableAlias(this=exp.to_identifier("range"), columns=columns))
    select.set("joins", [exp.Join(this=held), *joins])


def _values_of_laterals(select: exp.Select) -> None:
    for join in list(select.args.get("joins") or []):
        lateral = join.this
        if not isinstance(lateral, exp.Lateral) or not isinstance(lateral.this, exp.Subquery):
            continue
        inner, on = lateral.this.this, join.args.get("on")
        is_true = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
        if not isinstance(inner, exp.Select) or not is_true:
            continue
        if any(inner.args.get(part) for part in inner.args if part not in _SIMPLE):
            continue
        is_plain = inner.args.get("from_") is None and not inner.args.get("where")
        is_value = inner.args.get("from_") is not None and all(
            part.find(exp.AggFunc) and not part.find(exp.Window) for part in inner.expressions
        )
        if is_plain or is_value:
            _put(select, join, inner, is_value=is_value)


def _put(select: exp.Select, join: exp.Join, inner: exp.Select, *, is_value: bool) -> None:
    """Replace the columns of a LATERAL by its values, and take it out of FROM."""
    alias = join.this.args.get("alias")
    listed = [column.name for column in alias.columns] if alias is not None else []
    called = alias.name.lower() if alias is not None else ""
    names = listed or [part.alias_or_name for part in inner.expressions]
    if not all(names) or len(names) != len(inner.expressions):
        return
    values: dict[str, exp.Expr] = {}
    for name, part in zip(names, inner.expressions, strict=True):
        value: exp.Expr = exp.Paren(this=part.unalias().copy())
        if is_value:
            one = inner.copy()
            one.set("expressions", [part.unalias().copy()])
            value = exp.Subquery(this=one)
        values[name.lower()] = value
    joins = [other for other in select.args["joins"] if other is not join]
    select.set("joins", joins or None)
    for column in list(select.find_all(exp.Column)):
        is_own = column.table.lower() == called if column.table else _is_in(column, select)
        if not is_own or column.name.lower() not in values:
            continue
        made = values[column.name.lower()].copy()
        if column.parent is select:
            made = exp.alias_(made, column.name)
        column.replace(made)
    stars: list[exp.Expr] = []
    for part in select.expressions:
        is_own = isinstance(part, exp.Column) and part.is_star and part.table.lower() == called
        if not is_own:
            stars.append(part)
        if is_own or isinstance(part, exp.Star):
            pairs = zip(names, values.values(), strict=True)
            stars += [exp.alias_(value.copy(), name) for name, value in pairs]
    select.set("expressions", stars)


def _is_in(column: exp.Column, select: exp.Select) -> bool:
    return column.find_ancestor(exp.Select) is select
