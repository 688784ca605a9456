"""Rewrites ksqlDB's ROWTIME and window bounds, which are milliseconds, and its ``*``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of, place
from planner.sql.reading.forms.queries.window_calls import is_window_call

if TYPE_CHECKING:
    from collections.abc import Callable

_MILLISECONDS = {"ROWTIME": "vs", "WINDOWSTART": "window_start", "WINDOWEND": "window_end"}
_ROWTIME_OF_JOIN = (
    "ROWTIME of one side of a join is not there; name its time column, or write ROWTIME for the "
    "later time of both sides"
)


def as_ksqldb(select: exp.Select, error: Callable[[exp.Expr, str], Exception]) -> None:
    """Rewrite ROWTIME and window bounds to milliseconds; drop EMIT CHANGES of plain rows."""
    group = select.args.get("group")
    is_windowed = group is not None and any(is_window_call(k) for k in group.expressions)
    if "emit" in select.args and not is_windowed:
        select.set("emit", None)
    for call in select.find_all(exp.Anonymous):
        if call.name.upper() == "TOPK":
            call.set("this", "TOP_K")
    if is_windowed and isinstance(select.parent, exp.Create):
        _list_bounds(select)
    _name_row_keys(select)
    gap = _session_gap(group)
    for node in nodes_of(select, exp.Column):
        named = _MILLISECONDS.get(node.name.upper())
        if named is None or node.find_ancestor(exp.Select) is not select:
            continue
        # a column of a windowed table in FROM, which already is in milliseconds
        if named != "vs" and not is_windowed:
            node.this.set("this", node.name.upper())
            _with_text(node, as_number=True)
            continue
        if named == "vs" and node.table and select.args.get("joins"):
            raise error(node, _ROWTIME_OF_JOIN)
        time: exp.Expr = exp.Anonymous(this="vs") if named == "vs" else exp.column(named)
        # in ksqlDB a session ends at its last row, here a gap later
        if named == "window_end" and gap is not None:
            time = exp.Paren(this=exp.Sub(this=time, expression=gap.copy()))
        if _with_text(node):
            place(time, node.this)
            node.replace(exp.cast(time, "TIMESTAMP"))
            continue
        made: exp.Expr = exp.IntDiv(
            this=exp.Anonymous(this="EPOCH_US", expressions=[time]),
            expression=exp.Literal.number(1000),
        )
        place(made, node.this)
        if isinstance(node.parent, exp.Select):
            made = exp.alias_(made, node.name)
        node.replace(made)


def _name_row_keys(select: exp.Select) -> None:
    """Replace ROWKEY of a join, which is the value that both sides have."""
    joins = select.args.get("joins") or []
    equal = [e for join in joins[:1] for e in join.find_all(exp.EQ)]
    for node in nodes_of(select, exp.Column) if len(joins) == 1 and equal else ():
        if node.name.upper() == "ROWKEY" and not node.table:
            sides = [equal[0].this.copy(), equal[0].expression.copy()]
            made: exp.Expr = exp.Coalesce(this=sides[0], expressions=sides[1:])
            place(made, node.this)
            if isinstance(node.parent, exp.Select):
                made = exp.alias_(made, node.name)
            node.replace(made)


def _session_gap(group: exp.Expr | None) -> exp.Expr | None:
    """Return the gap of SESSION among the keys."""
    for key in group.expressions if group is not None else ():
        if is_window_call(key) and key.name.upper() == "SESSION" and key.expressions:
            gap: exp.Expr = exp.Interval(this=exp.Literal.string(key.expressions[0].name))
            return gap
    return None


def _list_bounds(select: exp.Select) -> None:
    """Add the bounds behind the keys: ``*`` of a windowed table has them."""
    keys = [key for key in select.args["group"].expressions if not is_window_call(key)]
    listed = list(select.expressions)
    places = [at for at, part in enumerate(listed) if part.unalias() in keys]
    bounds = [exp.alias_(exp.column(name), name) for name in ("WINDOWSTART", "WINDOWEND")]
    for bound in bounds:
        place(bound, listed[0])
    at = places[-1] + 1 if places else 0
    select.set("expressions", [*listed[:at], *bounds, *listed[at:]])


def _with_text(node: exp.Expr, *, as_number: bool = False) -> bool:
    """Return whether ROWTIME is compared with a text, which is then parsed as a time."""
    around = node.parent
    sides = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
    if type(around) not in sides:
        return False
    assert around is not None, node
    texts = [p for p in around.iter_expressions() if isinstance(p, exp.Literal) and p.is_string]
    for part in texts:
        made: exp.Expr = exp.cast(part.copy(), "TIMESTAMP")
        if as_number:
            made = exp.IntDiv(
                this=exp.Anonymous(this="EPOCH_US", expressions=[made]),
                expression=exp.Literal.number(1000),
            )
        place(made, part)
        part.replace(made)
    return bool(texts)
