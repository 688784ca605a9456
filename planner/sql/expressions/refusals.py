"""Errors for unsupported SQL, in SQL's words, with an alternative."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.expressions.windowing import is_window
from planner.sql.reading.hints import HINTS

if TYPE_CHECKING:
    from planner.sql.expressions.names import Names
    from planner.sql.reading.errors import SqlError
    from planner.sql.reading.parsing import SqlText

#: Quantifier and the comparison before it -> an equivalent query, also for nulls.
_QUANTIFIED: dict[tuple[type[exp.Expr], type[exp.Expr]], str] = {
    (exp.Any, exp.EQ): "write x IN (SELECT y FROM b)",
    (exp.All, exp.NEQ): "write x NOT IN (SELECT y FROM b)",
}
_COMPARED_WITH: dict[type[exp.Expr], str] = {
    exp.Any: "write EXISTS (SELECT 1 FROM b WHERE {0}) in WHERE",
    exp.All: "write NOT EXISTS (SELECT 1 FROM b WHERE NOT COALESCE({0}, FALSE)) in WHERE",
}

EXISTS = (
    "EXISTS belongs in the WHERE of a query, not in HAVING, lists or another EXISTS: put "
    "the query with the condition in a view, or in a subquery in FROM"
)
SUBQUERY = "a subquery belongs in FROM, or in WHERE after EXISTS"
#: Part of a node -> its name and an alternative; with a colon the whole message.
_WHAT = {
    "sample": "TABLESAMPLE; write WHERE with a condition on the rows",
    "windows": "WINDOW; write OVER (PARTITION BY k ORDER BY ts)",
    "locks": "FOR UPDATE; leave it out",
    "into": "SELECT INTO; write INSERT INTO a SINK",
    "connect": "CONNECT BY; write a query for each level",
    "pivots": "PIVOT; put its query in FROM",
    "sort": "SORT BY: a stream is ordered by time; leave it out",
    "distribute": "DISTRIBUTE BY: the keys decide which vertex computes a row; leave it out",
    "cluster": "CLUSTER BY: the keys decide which vertex computes a row; leave it out",
    "kind": "SELECT AS STRUCT or VALUE; write STRUCT(a, b) AS s",
    "operation_modifiers": "a word before the columns; leave it out",
    "system_time": "FOR SYSTEM_TIME; write FOR SYSTEM_TIME AS OF a.ts behind a joined table",
    "version": "FOR VERSION; leave it out",
    "hint": "a hint; leave it out",
    "hints": "a hint; leave it out",
    "joins": "a join in parentheses; put it in a subquery in FROM",
    "by_name": "BY NAME; write the columns of both sides in one order",
    "for_": "FOR; leave it out",
}


def _quantified(node: exp.Expr, text: SqlText) -> str:
    """Return how to write ``x > ALL (SELECT y FROM b)``."""
    around = node.parent
    kind = type(around) if isinstance(around, exp.Binary) else exp.EQ
    operator = text.spelled(around) if isinstance(around, exp.Binary) else "="
    advice = _QUANTIFIED.get((type(node), kind))
    return advice or _COMPARED_WITH[type(node)].format(f"a.x {operator} b.y")


def not_supported(node: exp.Expr, text: SqlText) -> SqlError:
    """Return the error for an unsupported node, in SQL's words, with an alternative."""
    spelling = text.spelled(node)
    if is_window(node):
        where = "it belongs in GROUP BY; its bounds are window_start and window_end"
        return text.error(node, f"the function {spelling} is not supported here: {where}")
    hint = HINTS.get(spelling) or (
        HINTS.get(node.sql_name()) if isinstance(node, exp.Func) else None
    )
    if isinstance(node, exp.Any | exp.All) and node.find(exp.Query):
        hint = _quantified(node, text)
    what = "the function " if isinstance(node, exp.Func) and spelling.isidentifier() else ""
    if isinstance(node, exp.Tuple) and isinstance(node.parent, exp.Distinct):
        hint = "write COUNT(*) of a subquery in FROM: SELECT DISTINCT a, b"
    if not hint and not what:
        hint = "write it with the operators and functions of docs/SQL.md"
    if not hint:
        hint = (
            f"add it with functions={{'{spelling.lower()}': ...}}, or write it with other functions"
        )
    return text.error(node, f"{what}{spelling} is not supported" + (f"; {hint}" if hint else ""))


def reject(node: exp.Expr, supported: tuple[str, ...], names: Names) -> None:
    """Raise for each part of ``node`` that is not in ``supported``."""
    for part, value in node.args.items():
        if part in supported or not value:
            continue
        at = value[0] if isinstance(value, list) else value
        what = _WHAT.get(part, part.strip("_").upper())
        place = at if isinstance(at, exp.Expr) else node
        if ":" in what:
            raise names.text.error(place, what)
        name, _, advice = what.partition("; ")
        raise names.text.error(place, f"{name} is not supported; {advice or 'leave it out'}")
