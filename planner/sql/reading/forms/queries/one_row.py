"""Rewrites queries without FROM, functions alone in FROM, and LATERAL subqueries of values.

``SELECT 1`` and ``FROM EXPLODE(list)`` read a relation of one row without columns. The values of
``LATERAL (SELECT x + 1 AS y)`` and ``LATERAL (SELECT SUM(x) AS y FROM b WHERE b.k = a.k)`` replace
the names of their columns, the latter as subqueries for a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container

#: The key in ``meta`` of the relation of one row without columns.
ONE_ROW = "one row"
#: The key in ``meta`` of a SELECT for names that no relation in its FROM may have, with the reason.
NO_INPUT = "no input"
_ALONE = (exp.Func, exp.Unnest)
_UNREAD = {"ordinality": "WITH ORDINALITY", "sample": "TABLESAMPLE", "pivots": "PIVOT"}
_NUMBERED = "write SELECT ..., ROW_NUMBER() OVER (ORDER BY x), or leave it out"
_AMBIGUOUS = "{0!r} is in LATERAL {1!r} and in another relation; write which"
_IN_SUBQUERY = (
    "names in {0}.{1} may mean columns of this subquery: write t.x for each x in the LATERAL, and "
    "give the relations of the subquery other names than t"
)
_Error: TypeAlias = "Callable[[exp.Expr, str], Exception]"
_SIMPLE = ("expressions", "from_", "joins", "where", "kind", "operation_modifiers")


def with_queries(whole: exp.Expr, engine: str, error: _Error) -> None:
    """Rewrite queries without FROM, functions in FROM and LATERAL in a statement.

    Raises:
        SqlError: a name may mean two columns, or a clause behind a function is not supported.
    """
    for select in nodes_of(whole, exp.Select):
        _values_of_laterals(select, error)
    for held in nodes_of(whole, exp.Table, exp.Lateral):
        _check_clauses(held, error)
    for select in nodes_of(whole, exp.Select):
        from_ = select.args.get("from_")
        if from_ is None:
            select.set("from_", _one_row(select))
        elif engine and _is_function(from_.this):
            _call_alone(select, from_.this)


def _check_clauses(held: exp.Expr, error: _Error) -> None:
    if isinstance(held.this, exp.Identifier | exp.Subquery):
        return
    for name, word in _UNREAD.items():
        if held.args.get(name):
            raise error(held, f"{word} of a function in FROM is not supported; {_NUMBERED}")


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
    """Rewrite ``FROM f(x) AS t (a)`` as ``FROM one_row CROSS JOIN UNNEST(f(x)) AS t (a)``."""
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
        columns = [exp.to_identifier("id")]  # Spark calls the column of RANGE ``id``
        held.set("alias", exp.TableAlias(this=exp.to_identifier("range"), columns=columns))
    select.set("joins", [exp.Join(this=held), *joins])


def _values_of_laterals(select: exp.Select, error: _Error) -> None:
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
            _put(select, join, inner, error, is_value=is_value)


def _put(
    select: exp.Select, join: exp.Join, inner: exp.Select, error: _Error, *, is_value: bool
) -> None:
    """Replace the columns of a LATERAL by its values, and take it out of FROM."""
    alias = join.this.args.get("alias")
    listed = [column.name for column in alias.columns] if alias is not None else []
    called = alias.name.lower() if alias is not None else ""
    names = listed or [part.alias_or_name for part in inner.expressions]
    if not all(names) or len(names) != len(inner.expressions):
        return
    replaced = {name.lower(): reason for name, reason in select.meta.get(NO_INPUT, {}).items()}
    for name in names:
        if name.lower() in replaced:
            raise error(join.this, replaced[name.lower()])
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
    for column in _columns(select, called, values):
        made = values[column.name.lower()].copy()
        _check_names(column, made, select, error)
        if not column.table:
            reason = _AMBIGUOUS.format(column.name, called)
            select.meta[NO_INPUT] = {**select.meta.get(NO_INPUT, {}), column.name: reason}
        if column.parent is select:
            made = exp.Alias(this=made, alias=exp.to_identifier(column.name))
        column.replace(made)
    stars: list[exp.Expr] = []
    for part in select.expressions:
        is_own = isinstance(part, exp.Column) and part.is_star and part.table.lower() == called
        if not is_own:
            stars.append(part)
        if is_own or isinstance(part, exp.Star):
            pairs = zip(names, values.values(), strict=True)
            stars += [
                exp.Alias(this=value.copy(), alias=exp.to_identifier(name)) for name, value in pairs
            ]
    select.set("expressions", stars)


def _columns(select: exp.Select, called: str, names: Container[str]) -> list[exp.Column]:
    """Return the columns of a SELECT that refer to the LATERAL named ``called``."""
    listed = {part.alias_or_name.lower() for part in select.expressions}
    columns = []
    for column in select.find_all(exp.Column):
        if column.name.lower() not in names:
            continue
        if column.table:
            is_own = column.table.lower() == called and called not in _between(column, select)
        else:
            by_alias = column.name.lower() in listed and isinstance(column.parent, exp.Ordered)
            is_own = column.find_ancestor(exp.Select) is select
            is_own = is_own and not (by_alias and column.find_ancestor(exp.Window) is None)
        if is_own:
            columns.append(column)
    return columns


def _between(column: exp.Column, select: exp.Select) -> list[str]:
    """Return the relations of the SELECTs that are around ``column`` and within ``select``."""
    names: list[str] = []
    inner = column.find_ancestor(exp.Select)
    while inner is not None and inner is not select:  # ends at the root
        parts = [inner.args.get("from_"), *(inner.args.get("joins") or [])]
        names += [part.this.alias_or_name.lower() for part in parts if part is not None]
        inner = inner.find_ancestor(exp.Select)
    return names


def _check_names(column: exp.Column, value: exp.Expr, select: exp.Select, error: _Error) -> None:
    """Raise if names of the value may mean relations of a subquery around the column."""
    between = _between(column, select)
    tables = [part.table.lower() for part in value.find_all(exp.Column)]
    if between and any(not table or table in between for table in tables):
        raise error(column, _IN_SUBQUERY.format(column.table, column.name))
