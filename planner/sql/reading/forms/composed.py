"""Rewrites aggregates that combine other aggregates: REGR_SLOPE, BIT_AND, JSON_ARRAYAGG.

It runs before compilation. REGR_* use the rows where neither value is null.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of

#: Templates: ``{y}`` and ``{x}`` are the arguments, ``{w}`` is a FILTER of rows with both.
_REGRESSIONS: dict[type[exp.Expr], str] = {
    exp.RegrCount: "COUNT(*) {w}",
    exp.RegrAvgx: "AVG({x}) {w}",
    exp.RegrAvgy: "AVG({y}) {w}",
    exp.RegrSxx: "COUNT(*) {w} * VAR_POP({x}) {w}",
    exp.RegrSyy: "COUNT(*) {w} * VAR_POP({y}) {w}",
    exp.RegrSxy: "COUNT(*) {w} * COVAR_POP({y}, {x}) {w}",
    exp.RegrSlope: "COVAR_POP({y}, {x}) {w} / NULLIF(VAR_POP({x}) {w}, 0)",
    exp.RegrIntercept: (
        "AVG({y}) {w} - COVAR_POP({y}, {x}) {w} / NULLIF(VAR_POP({x}) {w}, 0) * AVG({x}) {w}"
    ),
    exp.RegrR2: (
        "CASE WHEN VAR_POP({x}) {w} = 0 THEN NULL WHEN VAR_POP({y}) {w} = 0 THEN 1.0 "
        "ELSE POWER(CORR({y}, {x}) {w}, 2) END"
    ),
}
_LISTED = "ARRAY_AGG({x}) FILTER (WHERE {x} IS NOT NULL{c})"
_EVERY = "ARRAY_AGG({x}) {f}"
_UNIQUE = "ARRAY_DISTINCT({l})".replace("{l}", _LISTED)
_COUNTS = (
    f"AS_MAP({_UNIQUE}, TRANSFORM({_UNIQUE}, k -> CARDINALITY(FILTER({_LISTED}, y -> y = k))))"
)
_NAMED = {
    "BIT_AND": f"REDUCE({_LISTED}, CAST(-1 AS BIGINT), (a, b) -> a & b)",
    "BIT_OR": f"REDUCE({_LISTED}, CAST(0 AS BIGINT), (a, b) -> a | b)",
    "BIT_XOR": f"REDUCE({_LISTED}, CAST(0 AS BIGINT), (a, b) -> a ^ b)",
    "JSON_ARRAYAGG": f"TO_JSON({_LISTED})",
    **dict.fromkeys(("HISTOGRAM", "COLLECT"), _COUNTS),
    "LIST_AGG": _EVERY,
    **dict.fromkeys(("JSON_AGG", "JSONB_AGG", "JSON_GROUP_ARRAY"), f"TO_JSON({_EVERY})"),
}
#: Functions that build JSON, and the functions that build the value itself.
_BUILDERS = {
    **dict.fromkeys(("JSON_BUILD_OBJECT", "JSONB_BUILD_OBJECT"), "NAMED_STRUCT"),
    **dict.fromkeys(("JSON_ARRAY", "JSON_BUILD_ARRAY", "JSONB_BUILD_ARRAY"), "LIST_VALUE"),
}
_MOVES: dict[str, type[exp.Binary]] = {"DATE_ADD": exp.Add, "DATE_SUB": exp.Sub}


def composed(statement: exp.Expr) -> exp.Expr:
    """Rewrite aggregates that combine other aggregates in a statement."""
    for node in nodes_of(statement, exp.Anonymous, *_REGRESSIONS):
        template = _REGRESSIONS.get(type(node)) or _NAMED.get(node.name.upper())
        if isinstance(node, exp.Anonymous) and node.name.upper() in _MOVES:
            _move(node)
        is_whole = len(node.expressions) == 1 if isinstance(node, exp.Anonymous) else _is_pair(node)
        if template is None or not is_whole:
            continue
        around, outer, condition = node.parent, node, None
        if isinstance(around, exp.Filter) and around.this is node:
            outer, condition = around, around.expression.this
        if isinstance(outer.parent, exp.Window) and outer.parent.this is outer:
            continue  # OVER needs an aggregate call, not an expression
        outer.replace(_filled(template, node, condition))
    return statement


def _unwrap(value: exp.Expr) -> None:
    """Replace a builder of JSON inside of another one by the builder of the value."""
    if isinstance(value, exp.JSONObject):
        pairs = value.expressions if isinstance(value.expressions, list) else []
        for pair in pairs:
            _unwrap(pair.expression)
        fields = [
            exp.PropertyEQ(this=exp.to_identifier(pair.this.name), expression=pair.expression)
            for pair in pairs
        ]
        value.replace(exp.Struct(expressions=fields))
    elif isinstance(value, exp.Anonymous) and value.name.upper() in _BUILDERS:
        for part in value.expressions:
            _unwrap(part)
        value.set("this", _BUILDERS[value.name.upper()])


def _is_pair(node: exp.Expr) -> bool:
    """Return whether a regression has both arguments; if not, a later step reports it."""
    return isinstance(node.this, exp.Expr) and isinstance(node.args.get("expression"), exp.Expr)


def _move(node: exp.Anonymous) -> None:
    """Rewrite ``DATE_ADD(t, INTERVAL 1 DAY)`` as ``t + INTERVAL 1 DAY``."""
    given = node.expressions
    if len(given) == 2 and isinstance(given[1], exp.Interval):
        made: exp.Expr = exp.Paren(
            this=_MOVES[node.name.upper()](this=given[0], expression=given[1])
        )
        made.meta.update(node.meta)
        made.this.meta.update(node.meta)
        node.replace(made)


def _filled(template: str, node: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    is_pair = type(node) in _REGRESSIONS
    if not is_pair and node.name.upper().startswith("JSON"):
        _unwrap(node.expressions[0])
    parts = {"y": node.this, "x": node.expression} if is_pair else {"x": node.expressions[0]}
    given = parts if condition is None else {**parts, "c": condition}
    more = ' AND ("@c")' if condition is not None else ""
    text = template.format(
        x='CAST("@x" AS DOUBLE)' if is_pair else '"@x"',
        y='CAST("@y" AS DOUBLE)',
        w=f'FILTER (WHERE "@y" IS NOT NULL AND "@x" IS NOT NULL{more})',
        c=more,
        f='FILTER (WHERE "@c")' if condition is not None else "",
    )
    made: exp.Expr = exp.Paren(this=sqlglot.parse_one(text))
    for column in nodes_of(made, exp.Column):
        if column.name.startswith("@"):
            value = given[column.name[1:]].copy()
            column.replace(value if type(value) is exp.Order else exp.Paren(this=value))
    for part in made.walk():
        if "start" in node.meta:
            part.meta.update({k: node.meta[k] for k in ("start", "end")})
    return made
