"""Rewrites forms of BigQuery and Snowflake in all dialects.

``ARRAY_AGG(x ORDER BY y LIMIT n)``, ``list[OFFSET(0)]``, ``x IN UNNEST(list)``, ``TIME_SLICE``,
``TIMESTAMP_DIFF``, ``r'raw text'``, and ``ASOF JOIN ... MATCH_CONDITION (...)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.reading.forms.queries.engines.places import nodes_of, replaced
from planner.sql.reading.forms.queries.quantified import in_list
from planner.sql.reading.forms.queries.statements import RefusedTokenError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Functions around a position, such as ``l[OFFSET(0)]``, and the number to add to the position.
_PLACES = {"OFFSET": 1, "SAFE_OFFSET": 1, "ORDINAL": 0, "SAFE_ORDINAL": 0}
_MOVES: dict[type[exp.Expr], type[exp.Binary]] = {
    **dict.fromkeys((exp.TimestampAdd, exp.DatetimeAdd), exp.Add),
    **dict.fromkeys((exp.TimestampSub, exp.DatetimeSub), exp.Sub),
}
#: Units whose slices count from 1970 in every dialect.
_SLICES = ("SECOND", "MINUTE", "HOUR", "DAY")


def with_warehouses(whole: exp.Expr) -> None:
    """Rewrite forms of BigQuery and Snowflake in a statement."""
    for raw in nodes_of(whole, exp.RawString):
        replaced(raw, exp.Literal.string(raw.name))
    for held in nodes_of(whole, exp.Bracket):
        _place_in_list(held)
    for node in nodes_of(whole, exp.In):
        unnest = node.args.get("unnest")
        if isinstance(unnest, exp.Unnest) and len(unnest.expressions) == 1:
            replaced(node, in_list(node.this, unnest.expressions[0]))
    for agg in nodes_of(whole, exp.ArrayAgg):
        limit = agg.this
        if isinstance(limit, exp.Limit) and limit.this is not None:
            first = [exp.Literal.number(1), limit.expression.copy()]
            agg.set("this", limit.this.copy())
            made = exp.Anonymous(this="LIST_SLICE", expressions=[agg.copy(), *first])
            replaced(agg, made)
    for sliced in nodes_of(whole, exp.TimeSlice):
        _slice(sliced)
    for move in nodes_of(whole, *_MOVES):
        if isinstance(move.expression, exp.Interval):  # TIMESTAMP_ADD(t, INTERVAL 1 DAY)
            kind = _MOVES[type(move)]
            moved = kind(this=move.this.copy(), expression=move.expression.copy())
            replaced(move, exp.Paren(this=moved))
    for diff in nodes_of(whole, exp.TimestampDiff):
        unit = diff.args.get("unit")
        if unit is not None:  # with a unit it is TIMESTAMP_DIFF(later, earlier, MINUTE)
            given = [exp.Literal.string(unit.name), diff.expression.copy(), diff.this.copy()]
            replaced(diff, exp.Anonymous(this="TIMESTAMPDIFF", expressions=given))


def _place_in_list(held: exp.Bracket) -> None:
    place = held.expressions[0] if len(held.expressions) == 1 else None
    word = place.name.upper() if isinstance(place, exp.Anonymous) else ""
    if isinstance(place, exp.Anonymous) and word in _PLACES and len(place.expressions) == 1:
        at: exp.Expr = place.expressions[0].copy()
        given, first = at, exp.Literal.number(1 - _PLACES[word])
        if _PLACES[word]:
            at = exp.Add(this=at, expression=exp.Literal.number(1))
            if isinstance(at.this, exp.Literal) and at.this.is_int:
                at = exp.Literal.number(int(at.this.name) + 1)
        # a negative position gives NULL: it does not count from the end
        if not isinstance(given, exp.Literal):
            is_inside = exp.GTE(this=given.copy(), expression=first)
            at = exp.Case(ifs=[exp.If(this=is_inside, true=at)])
        held.set("expressions", [at])
        held.set("offset", 1)


def _slice(node: exp.TimeSlice) -> None:
    """Rewrite ``TIME_SLICE(t, 15, 'MINUTE')`` as a bucket of 15 minutes since 1970."""
    unit, count = node.args["unit"].name.upper(), node.expression
    if unit in _SLICES and isinstance(count, exp.Literal) and not node.args.get("kind"):
        length = exp.Interval(this=exp.Literal.string(count.name), unit=exp.var(unit))
        origin = exp.cast(exp.Literal.string("1970-01-01 00:00:00"), "TIMESTAMP")
        given = [length, node.this.copy(), origin]
        replaced(node, exp.Anonymous(this="TIME_BUCKET", expressions=given))


def with_match_conditions(tokens: Sequence[Token]) -> list[Token]:
    """Rewrite ``ASOF JOIN b MATCH_CONDITION (c) ON d`` as ``ASOF LEFT JOIN b ON (c) AND d``."""
    out = list(tokens)
    for at in range(len(out) - 1, -1, -1):
        opened = out[at + 1].token_type if at + 1 < len(out) else None
        if out[at].text.upper() != "MATCH_CONDITION" or opened is not TokenType.L_PAREN:
            continue
        end = _end(out, at + 1)
        joins = [n for n in range(at) if out[n].token_type is TokenType.ASOF]
        if not end or not joins:
            continue
        like = out[at]
        if end < len(out) and out[end].token_type is TokenType.ON:
            out[end] = _like(out[end], TokenType.AND, "AND")
        elif end < len(out) and out[end].token_type is TokenType.USING:
            reason = "USING behind MATCH_CONDITION is not supported; write ON a.k = b.k"
            raise RefusedTokenError(out[end], reason)
        out[at] = _like(like, TokenType.ON, "ON")
        asof = joins[-1]
        sides = [n for n in (asof - 1, asof + 1) if out[n].token_type is TokenType.LEFT]
        for side in reversed(sides):
            del out[side]
            asof -= side < asof
        out.insert(asof + 1, _like(out[asof], TokenType.LEFT, "LEFT"))
    return out


def _end(tokens: list[Token], at: int) -> int:
    """Return the position after the parenthesis that opens at ``at``; 0: it is not closed."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += tokens[end].token_type is TokenType.L_PAREN
        depth -= tokens[end].token_type is TokenType.R_PAREN
        if depth == 0:
            return end + 1
    return 0


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, token.comments)
