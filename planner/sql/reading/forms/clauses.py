"""Rewrites clauses of other engines: functions in FROM, ORDER BY ALL, SEMI JOIN USING, hints."""

from __future__ import annotations

import re
from functools import reduce

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of

_DATE = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d(\.\d+)?)?)?")
#: Functions whose arguments may be texts in Spark.
_OF_DATES = (
    *("ADD_MONTHS", "MONTHS_BETWEEN", "NEXT_DAY", "LAST_DAY", "DATEDIFF", "DATE_DIFF", "TRUNC"),
    *("DATE_ADD", "DATE_SUB", "TS_OR_DS_ADD", "WEEKOFYEAR", "WEEK_OF_YEAR", "DAYOFWEEK", "WEEKDAY"),
    *("DAY_OF_WEEK", "DAYOFYEAR", "DAY_OF_YEAR", "DAYOFMONTH", "DAY_OF_MONTH", "YEAR", "MONTH"),
    *("QUARTER", "HOUR", "MINUTE", "SECOND", "DATE_FORMAT", "DATE_TRUNC", "DAY"),
)
#: Column names of functions in FROM whose alias names no columns.
_COLUMNS = {"EACH": ("key", "value"), "ELEMENTS": ("value",)}


def with_clauses(whole: exp.Expr, engine: str) -> None:
    """Rewrite clauses of other engines in a statement."""
    for select in nodes_of(whole, exp.Select):
        select.set("hint", None)  # a hint changes how a query runs, not its rows
        _order_all(select)
        for join in select.args.get("joins") or []:
            _unnested(join, select)
            _using(join, select)
        if engine == "ksqldb":
            _first_rows(select)
    for call in nodes_of(whole, exp.Anonymous) if engine == "spark" else ():
        is_column = len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Column)
        if call.name.upper() == "WINDOW_TIME" and is_column:
            call.replace(_last_instant(call))
    for node in nodes_of(whole, exp.WithinGroup):
        call = node.this
        is_named = isinstance(call, exp.Anonymous) and call.name.upper() == "APPROX_PERCENTILE"
        if is_named and call.expressions:
            call.replace(exp.PercentileDisc(this=call.expressions[0]))
        elif isinstance(call, exp.ApproxQuantile):
            call.replace(exp.PercentileDisc(this=call.this))
    for option in nodes_of(whole, exp.SchemaCommentProperty):
        option.pop()
    if engine == "spark":
        _as_spark(whole)
    for definition in nodes_of(whole, exp.CTE):
        definition.set("materialized", None)
    for version in nodes_of(whole, exp.Version):
        time = version.args.get("expression")
        if isinstance(time, exp.Anonymous) and time.name.upper() == "PROCTIME":
            time.set("this", "vs")


def _as_spark(whole: exp.Expr) -> None:
    """Rewrite three habits of Spark.

    LISTAGG takes values of all types, functions of dates read texts such as ``'2016-08-31'``, and a
    subquery without LIMIT has no order.
    """
    for call in nodes_of(whole, exp.Func):
        name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
        for part in list(call.iter_expressions()):
            is_text = isinstance(part, exp.Literal) and part.is_string
            if is_text and name.upper() in _OF_DATES and _DATE.fullmatch(part.name):
                made = exp.cast(part.copy(), "DATE" if len(part.name) == 10 else "TIMESTAMP")
                made.meta.update(part.meta)
                part.replace(made)
        if name.upper() in ("LISTAGG", "STRING_AGG", "GROUP_CONCAT"):
            parts = call.expressions if isinstance(call, exp.Anonymous) else [call.this]
            first = parts[0] if parts else None
            if isinstance(first, exp.Column):
                text = exp.cast(first.copy(), "VARCHAR")
                text.meta.update(first.this.meta)
                first.replace(text)
    for held in whole.find_all(exp.Subquery, exp.CTE):
        select = held.this
        has_limit = any(select.args.get(part) for part in ("limit", "offset"))
        if isinstance(select, exp.Select) and not has_limit:
            select.set("order", None)


def _last_instant(call: exp.Anonymous) -> exp.Expr:
    """Return the expression for Spark's ``window_time(window)``: 1 us before the window's end."""
    (window,) = call.expressions
    end: exp.Expr = exp.Dot(this=window.copy(), expression=exp.to_identifier("end"))
    if not window.table:
        end = exp.column("end", table=window.name)
    made = exp.Sub(this=end, expression=exp.Interval(this=exp.Literal.string("1 microsecond")))
    for part in made.walk():
        part.meta.update({k: v for k, v in window.this.meta.items() if k in ("start", "end")})
    return exp.Paren(this=made)


def _order_all(select: exp.Select) -> None:
    """Replace ``ORDER BY ALL`` by all columns of the list, from left to right."""
    order = select.args.get("order")
    parts = order.expressions if order is not None else []
    if order is None or len(parts) != 1 or not isinstance(parts[0].this, exp.Column):
        return
    column = parts[0].this
    is_all = column.name.upper() == "ALL" and not column.this.args.get("quoted")
    if not is_all or any(part.is_star for part in select.expressions):
        return
    made = []
    for place in range(1, len(select.expressions) + 1):
        part = parts[0].copy()
        part.set("this", exp.Literal.number(place))
        part.this.meta.update(column.this.meta)
        made.append(part)
    order.set("expressions", made)


def _unnested(join: exp.Join, select: exp.Select) -> None:
    """Rewrite ``FROM t, JSONB_EACH(x) AS e (k, v)`` as ``CROSS JOIN UNNEST(...) AS e (k, v)``."""
    held = join.this
    call = held.this if isinstance(held, exp.Table | exp.Lateral) else None
    if not isinstance(call, exp.Func) or (isinstance(held, exp.Lateral) and held.args.get("view")):
        return
    if type(call) is exp.GenerateSeries and not call.find(exp.Column):
        return
    if type(call) in (exp.Unnest, exp.Explode, exp.Posexplode):
        return
    alias = held.args.get("alias")
    name = call.name if isinstance(call, exp.Anonymous) else type(call).sql_name()
    alias = exp.TableAlias(this=exp.to_identifier(name.lower())) if alias is None else alias.copy()
    if not alias.columns:
        words = name.upper().removesuffix("_TEXT").split("_")
        names = _COLUMNS.get(words[-1], (alias.name,))
        if held.args.get("alias") is not None and names == _COLUMNS["ELEMENTS"]:
            _name_element(select, alias.name)
        alias.set("columns", [exp.to_identifier(one) for one in names])
    made = exp.Unnest(expressions=[call.copy()], alias=alias)
    for part in made.walk():
        part.meta.setdefault("start", call.meta.get("start", 0))
        part.meta.setdefault("end", call.meta.get("end", 0))
    held.replace(made)


def _name_element(select: exp.Select, name: str) -> None:
    """Replace ``e`` of ``JSONB_ARRAY_ELEMENTS(x) AS e`` by its column ``value``."""
    for column in nodes_of(select, exp.Column):
        if column.name == name and not column.table and column.find_ancestor(exp.Select) is select:
            made = exp.column("value", table=name)
            for part in made.walk():
                part.meta.update(column.this.meta)
            column.replace(exp.alias_(made, name) if column.parent is select else made)


def _using(join: exp.Join, select: exp.Select) -> None:
    """Rewrite ``a SEMI JOIN b USING (k)`` as ``a SEMI JOIN b ON a.k = b.k``."""
    names = join.args.get("using")
    if not names or join.kind.upper() not in ("SEMI", "ANTI") or len(select.args["joins"]) > 1:
        return
    sides = [select.args["from_"].this.alias_or_name, join.this.alias_or_name]
    if not all(sides):
        return
    equal: list[exp.Expr] = []
    for name in names:
        left, right = (exp.column(name.copy(), exp.to_identifier(side)) for side in sides)
        equal.append(exp.EQ(this=left, expression=right))
    condition = reduce(lambda a, b: exp.And(this=a, expression=b), equal)
    for part in condition.walk():
        part.meta.update({key: names[0].meta.get(key, 0) for key in ("start", "end")})
    join.set("using", None)
    join.set("on", condition)


def _first_rows(select: exp.Select) -> None:
    """Let ksqlDB's ``LIMIT n`` keep the first rows of a stream: order it by time."""
    if select.args.get("limit") is None or select.args.get("order") or select.args.get("group"):
        return
    ordered = exp.Ordered(this=exp.Anonymous(this="vs"), nulls_first=False)
    for part in ordered.walk():
        part.meta.update({key: select.args["limit"].meta.get(key, 0) for key in ("start", "end")})
    select.set("order", exp.Order(expressions=[ordered]))
