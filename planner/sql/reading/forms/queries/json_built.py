"""Rewrites Flink's JSON_OBJECT and JSON_ARRAY as texts that are joined.

A null is ``null`` in an object and absent from a list, without ``ON NULL``. Values
from other constructors, and of ``JSON(text)``, are inserted as they are.
"""

from __future__ import annotations

import json

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of, replaced

_AGGREGATES = ("JSON_ARRAYAGG", "JSON_OBJECTAGG")


def with_json(whole: exp.Expr, engine: str) -> None:
    """Rewrite JSON_OBJECT and JSON_ARRAY in a statement of Flink."""
    if engine != "flink":
        return
    for node in nodes_of(whole, exp.JSONObject, exp.Anonymous):
        if _is_built(node) and not _is_inside(node):
            replaced(node, exp.Paren(this=_text(node)))


def _is_built(node: exp.Expr) -> bool:
    if isinstance(node, exp.JSONObject):
        pairs = node.expressions if isinstance(node.expressions, list) else []
        return all(isinstance(p, exp.JSONKeyValue) and p.this.is_string for p in pairs)
    return isinstance(node, exp.Anonymous) and node.name.upper() in ("JSON_ARRAY", "JSON")


def _is_inside(node: exp.Expr) -> bool:
    """Return whether an enclosing aggregate or constructor reads it."""
    around = node.parent
    while around is not None:  # terminates: a tree is finite
        is_named = isinstance(around, exp.Anonymous) and around.name.upper() in _AGGREGATES
        if is_named or isinstance(around, exp.JSONObjectAgg) or _is_built(around):
            return True
        around = around.parent
    return False


def _text(node: exp.Expr) -> exp.Expr:
    """Return the expression of a constructor's text."""
    if isinstance(node, exp.Anonymous) and node.name.upper() == "JSON":
        held: exp.Expr = node.expressions[0].copy()
        return held
    parts: list[exp.Expr] = []
    if isinstance(node, exp.JSONObject):
        keeps = "ABSENT" not in str(node.args.get("null_handling") or "").upper()
        for pair in node.expressions if isinstance(node.expressions, list) else []:
            key = exp.Literal.string(json.dumps(pair.this.name, ensure_ascii=False) + ":")
            value = _value(pair.expression, keeps=keeps)
            parts += [] if value is None else [exp.Concat(expressions=[key, value])]
        return _joined("{", parts, "}")
    for part in node.expressions:
        value = _value(part, keeps=bool(node.meta.get("keeps_nulls")))
        parts += [] if value is None else [value]
    return _joined("[", parts, "]")


def _value(node: exp.Expr, *, keeps: bool) -> exp.Expr | None:
    """Return the text of a value, null if it is absent at run time; None: it is always absent."""
    null = exp.Literal.string("null")
    if isinstance(node, exp.Null):
        return null if keeps else None
    is_built = _is_built(node)
    text = _text(node) if is_built else exp.Anonymous(this="TO_JSON", expressions=[node.copy()])
    return exp.Coalesce(this=text, expressions=[null]) if keeps else text


def _joined(first: str, parts: list[exp.Expr], last: str) -> exp.Expr:
    if not parts:
        return exp.Literal.string(first + last)
    listed = exp.Array(expressions=parts)
    inner = exp.ArrayToString(this=listed, expression=exp.Literal.string(","))
    pieces = [exp.Literal.string(first), inner, exp.Literal.string(last)]
    return exp.Concat(expressions=pieces)
