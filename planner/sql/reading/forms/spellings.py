"""Rewrites clauses and literals of other engines in the spellings that are compiled.

``GROUP BY a WITH ROLLUP``, lists in SELECT that become rows, GENERATE_SERIES of literals in FROM,
``x IS JSON``, and ``$1`` in replacements.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of, place

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Makes the error for a node of the query, given the reason.
    Error = Callable[[exp.Expr, str], Exception]

_ROWS_MAX = 10_000
_GROUP = re.compile(r"\\\$|\$([0-9])|\\(?![0-9])")
_MONTHS = {"month": 1, "mon": 1, "quarter": 3, "year": 12}
_TWO_LISTS = "one list becomes rows in a SELECT; write FROM t CROSS JOIN UNNEST(list) AS u (x)"
_SERIES = "GENERATE_SERIES in FROM takes whole numbers, at most 10,000 of them"


def with_series_of_times(whole: exp.Expr) -> None:
    """Replace GENERATE_SERIES of literal times in FROM by their VALUES."""
    for table in nodes_of(whole, exp.Table):
        call = table.this
        if type(call) is exp.GenerateSeries:
            ends = [call.args.get(part) for part in ("start", "end", "step")]
        elif isinstance(call, exp.Anonymous) and call.name.upper() in ("GENERATE_SERIES", "RANGE"):
            ends = list(call.expressions)
        else:
            continue
        moments = _moments(ends) if len(ends) > 1 else []
        if isinstance(call, exp.Anonymous) and call.name.upper() == "RANGE" and moments:
            last = ends[1].this.name if ends[1] is not None else ""
            moments = [at for at in moments if at != str(datetime.fromisoformat(last))]
        if moments:
            values: list[exp.Expr] = [
                exp.cast(exp.Literal.string(moment), "TIMESTAMP") for moment in moments
            ]
            table.replace(_as_values(table, values))


def spelled(whole: exp.Expr, engine: str, error: Error) -> None:
    """Rewrite clauses and literals of other engines in a statement.

    Raises:
        SqlError: one of them has no other spelling.
    """
    if engine == "spark":
        for field in nodes_of(whole, exp.JSONExtract):
            if field.args.get("variant_extract"):
                path = exp.Literal.string(field.expression.sql().strip("'"))
                read = exp.Anonymous(this="GET_JSON_OBJECT", expressions=[field.this.copy(), path])
                place(read, field)
                field.replace(read)
    for call in nodes_of(whole, exp.RegexpReplace):
        new = call.args.get("replacement")
        if engine in ("spark", "flink") and isinstance(new, exp.Literal):
            new.set("this", _GROUP.sub(_group, str(new.this)))
    for arrow in nodes_of(whole, exp.Lambda) if engine == "postgres" else ():
        body = arrow.this
        if isinstance(body, exp.Literal) and body.is_string and len(arrow.expressions) == 1:
            column = exp.column(arrow.expressions[0].copy())
            made: exp.Expr = exp.JSONExtract(
                this=column, expression=body.copy(), only_json_types=False
            )
            place(made, arrow)
            arrow.replace(made)  # inside of a call, sqlglot parses the JSON arrow as a lambda
    for select in nodes_of(whole, exp.Select):
        _rollup(select)
        _rows_of_list(select, engine, error)
    for table in nodes_of(whole, exp.Table):
        if type(table.this) is exp.GenerateSeries:
            table.replace(_series(table, error))
    for node in nodes_of(whole, exp.Is):
        if isinstance(node.expression, exp.JSON):
            given = [node.this.copy(), exp.Literal.string("$")]
            made = exp.Anonymous(this="JSON_EXISTS", expressions=given)
            place(made, node)
            node.replace(made)


def _group(match: re.Match[str]) -> str:
    if match[1] is not None:
        return f"\\{match[1]}"
    return "$" if match[0] == "\\$" else "\\\\"


def _rollup(select: exp.Select) -> None:
    """Rewrite ``GROUP BY a, b WITH ROLLUP`` as ``GROUP BY ROLLUP (a, b)``."""
    group = select.args.get("group")
    if group is None:
        return
    for part, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        keys = group.args.get(part) or []
        if len(keys) == 1 and not keys[0].expressions and group.expressions:
            group.set(part, None)
            group.set("expressions", [kind(expressions=group.expressions)])


def _rows_of_list(select: exp.Select, engine: str, error: Error) -> None:
    """Rewrite ``SELECT UNNEST(l) AS x FROM t`` with ``CROSS JOIN UNNEST(l) AS u (x)``."""
    rows = []
    for part in select.expressions:
        value = part.this if isinstance(part, exp.Alias) else part
        if type(value) in (exp.Unnest, exp.Explode):
            rows.append((part, value))
    if not rows or select.args.get("from_") is None:
        return
    if len(rows) == 2 and engine in ("ksqldb", "postgres", "duckdb"):
        _zip(select, rows)
        return
    if len(rows) > 1:
        raise error(rows[1][1], _TWO_LISTS)
    ((part, value),) = rows
    name = part.alias if isinstance(part, exp.Alias) else ""
    name = name or ("unnest" if isinstance(value, exp.Unnest) else "col")
    listed = value.expressions[0] if isinstance(value, exp.Unnest) else value.this
    column = exp.column(exp.to_identifier("@element", quoted=True))
    unnest = exp.Unnest(
        expressions=[listed.copy()],
        alias=exp.TableAlias(
            this=exp.to_identifier("@elements", quoted=True),
            columns=[exp.to_identifier("@element", quoted=True)],
        ),
    )
    join = exp.Join(this=unnest, kind="CROSS")
    made = exp.Alias(this=column, alias=exp.to_identifier(name))
    for node in (join, made):
        place(node, value)
    part.replace(made)
    select.set("joins", [*(select.args.get("joins") or []), join])


def _zip(select: exp.Select, pairs: list[tuple[exp.Expr, exp.Expr]]) -> None:
    """Turn two lists of a SELECT into rows together; the shorter list ends with nulls."""
    lists = [v.expressions[0] if isinstance(v, exp.Unnest) else v.this for _, v in pairs]
    columns = [exp.to_identifier(f"@element{at}", quoted=True) for at in range(len(pairs))]
    zipped = exp.Anonymous(this="LIST_ZIP", expressions=[one.copy() for one in lists])
    alias = exp.TableAlias(this=exp.to_identifier("@elements", quoted=True), columns=columns)
    join = exp.Join(this=exp.Unnest(expressions=[zipped], alias=alias), kind="CROSS")
    place(join, pairs[0][1])
    for (part, value), column in zip(pairs, columns, strict=True):
        default = "unnest" if isinstance(value, exp.Unnest) else "col"
        made = exp.alias_(exp.column(column.copy()), part.alias or default)
        place(made, value)
        part.replace(made)
    select.set("joins", [*(select.args.get("joins") or []), join])


def _series(table: exp.Table, error: Error) -> exp.Expr:
    """Rewrite ``GENERATE_SERIES(1, 3) AS t (g)`` of literals as VALUES."""
    call = table.this
    ends = [call.args.get(part) for part in ("start", "end", "step")]
    numbers = [_number(end) for end in ends if end is not None]
    if None in numbers:
        raise error(table, _SERIES)
    first, last, step = (*numbers, 1)[:3]
    assert first is not None
    assert last is not None
    if not step or abs(last - first) // abs(step) > _ROWS_MAX:
        raise error(table, _SERIES)
    values = range(first, last + (1 if step > 0 else -1), step)
    return _as_values(table, [_literal(value) for value in values])


def _moments(ends: list[exp.Expr | None]) -> list[str]:
    """Return the times between two literals, with a step; none: the arguments have another form."""
    first, last, step = (*ends, None)[:3]
    texts = [part.this for part in (first, last) if isinstance(part, exp.Cast)]
    if len(texts) != 2 or not all(isinstance(t, exp.Literal) for t in texts):
        return []
    if not isinstance(step, exp.Interval | exp.Cast) or not isinstance(step.this, exp.Literal):
        return []
    try:
        at, end = (datetime.fromisoformat(text.name) for text in texts)
        months, us = _step_of(step)
    except ValueError:
        return []
    made: list[str] = []
    day, number = at, 0
    while day <= end and (months or us) and number < _ROWS_MAX:  # ends: at most _ROWS_MAX rows
        made.append(day.isoformat(sep=" "))
        number += 1
        day = _months_later(day, months) + timedelta(microseconds=us)
    return made


def _step_of(step: exp.Expr) -> tuple[int, int]:
    """Return months and microseconds of an interval above 0."""
    unit = step.args.get("unit")
    words = f"{step.this.name} {'' if unit is None else unit.name}".lower().split()
    months, us = 0, 0
    for count, name in zip(words[::2], words[1::2], strict=True):
        name = name.removesuffix("s")
        if name in _MONTHS:
            months += int(count) * _MONTHS[name]
        else:
            us += round(float(count) * timedelta(**{f"{name}s": 1}) / timedelta(microseconds=1))
    if months < 0 or us < 0:
        raise ValueError(words)
    return months, us


def _months_later(at: datetime, months: int) -> datetime:
    year, month = divmod(at.month - 1 + months, 12)
    year, month = at.year + year, month + 1
    return at.replace(year=year, month=month, day=min(at.day, monthrange(year, month)[1]))


def _as_values(table: exp.Table, values: list[exp.Expr]) -> exp.Expr:
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier("generate_series"))
    if not alias.args.get("columns"):
        alias.set("columns", [exp.to_identifier(alias.name)])
    rows = [exp.Tuple(expressions=[value]) for value in values]
    made = exp.Values(expressions=rows, alias=alias.copy())
    place(made, table)
    return made


def _number(node: exp.Expr) -> int | None:
    value = node.this if isinstance(node, exp.Neg) else node
    is_whole = isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit()
    number = int(value.name) if is_whole else None
    return -number if number is not None and isinstance(node, exp.Neg) else number


def _literal(value: int) -> exp.Expr:
    literal = exp.Literal.number(abs(value))
    return exp.Neg(this=literal) if value < 0 else literal
