"""Parses forms of Flink that sqlglot does not know: lists after WHEN, JSON_EXISTS, JSON_ARRAY."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

_MODES = ("lax ", "strict ")
_OPENED = (TokenType.L_PAREN, TokenType.CASE, TokenType.L_BRACKET)
_CLOSED = (TokenType.R_PAREN, TokenType.END, TokenType.R_BRACKET)


def has_lists(parser: Any) -> bool:
    """Return whether the CASE that begins here has ``WHEN a, b THEN``."""
    depth, is_test = 0, False
    for token in parser._tokens[parser._index :]:
        kind = token.token_type
        depth += kind in _OPENED
        depth -= kind in _CLOSED
        if depth < 0:
            return False
        if depth == 0 and kind in (TokenType.WHEN, TokenType.THEN):
            is_test = kind is TokenType.WHEN
        if depth == 0 and is_test and kind is TokenType.COMMA:
            return True
    return False


def case_of_lists(parser: Any) -> exp.Expr:
    """Parse ``CASE x WHEN a, b THEN r ELSE s END``; each value has a branch."""
    value = parser._parse_disjunction()
    branches: list[exp.Expr] = []
    while parser._match(TokenType.WHEN):  # terminates: each pass reads a token
        tests = parser._parse_csv(parser._parse_disjunction)
        if not parser._match(TokenType.THEN):
            parser.raise_error("expected THEN")
        result = parser._parse_disjunction()
        branches += [exp.If(this=test, true=result.copy()) for test in tests]
    default = parser._parse_disjunction() if parser._match(TokenType.ELSE) else None
    if not parser._match(TokenType.END):
        parser.raise_error("expected END")
    made: exp.Expr = parser.expression(exp.Case(this=value, ifs=branches, default=default))
    return made


def without_mode(path: exp.Expr) -> bool:
    """Take ``lax`` or ``strict`` out of a path; return whether it is lax."""
    written = str(path.this) if isinstance(path, exp.Literal) else ""
    for mode in _MODES:
        if written.startswith(mode):
            path.set("this", written.removeprefix(mode))
    return written.startswith(_MODES[0])


def json_exists(parser: Any) -> exp.Expr:
    """Parse ``JSON_EXISTS(s, path TRUE ON ERROR)``; a missing path is an error in strict mode."""
    given = parser._parse_csv(parser._parse_assignment)
    made: exp.Expr = exp.Anonymous(this="JSON_EXISTS", expressions=given)
    is_lax = len(given) == 2 and without_mode(given[1])
    others = {"TRUE": exp.true(), "FALSE": exp.false(), "UNKNOWN": exp.Null()}
    word = parser._curr.text.upper() if parser._curr else ""
    if len(given) == 2 and word in others:
        parser._advance()
        if not parser._match_text_seq("ON", "ERROR"):
            parser.raise_error("write TRUE, FALSE or UNKNOWN, and ON ERROR")
        whole = exp.Anonymous(
            this="JSON_EXISTS", expressions=[given[0].copy(), exp.Literal.string("$")]
        )
        ifs = [
            exp.If(this=exp.Is(this=given[0].copy(), expression=exp.Null()), true=exp.Null()),
            exp.If(this=made, true=exp.true()),
        ]
        if is_lax:
            ifs.append(exp.If(this=whole, true=exp.false()))
        made = exp.Case(ifs=ifs, default=others[word])
    call: exp.Expr = parser.expression(made)
    return call


def json_array(parser: Any) -> exp.Expr:
    """Parse ``JSON_ARRAY(a, b NULL ON NULL)``."""
    given: list[exp.Expr] = []
    is_empty = parser._curr is not None and parser._curr.token_type is TokenType.R_PAREN
    if not is_empty and not _on_null(parser):
        given = parser._parse_csv(parser._parse_assignment)
    made = exp.Anonymous(this="JSON_ARRAY", expressions=given)
    made.meta["keeps_nulls"] = _on_null(parser) == "NULL"
    call: exp.Expr = parser.expression(made)
    return call


def _on_null(parser: Any) -> str:
    """Parse ``NULL ON NULL`` or ``ABSENT ON NULL``; return its first word, empty for none."""
    for word in ("NULL", "ABSENT"):
        if parser._match_text_seq(word, "ON", "NULL"):
            return word
    return ""
