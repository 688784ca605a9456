"""Parses calls whose arguments are not a list of values."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType


def json_value(parser: Any) -> exp.Expr:
    """Parse ``JSON_VALUE(s, path RETURNING type)`` as a cast that gives NULL where it fails."""
    given = [parser._parse_assignment()]
    while parser._match(TokenType.COMMA):  # ends: each turn reads a token
        given.append(parser._parse_assignment())
    made: exp.Expr = exp.Anonymous(this="JSON_VALUE", expressions=given)
    if parser._match_text_seq("RETURNING"):
        made = exp.TryCast(this=made, to=parser._parse_types(), safe=True)
    parser._match_text_seq("NULL", "ON", "EMPTY")
    parser._match_text_seq("NULL", "ON", "ERROR")
    found: exp.Expr = parser.expression(made)
    return found
