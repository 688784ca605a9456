"""Rewrites the tokens of other engines' literals, operators and statements.

``MAP {'a': 1}`` and ``MAP['a', 1]`` are ``MAP('a', 1)``, ``LIST[1]`` is ``ARRAY[1]``, ``^`` is a
power in PostgreSQL and DuckDB. ``SUBSCRIBE TO (query)`` and ``TABLE t`` are queries.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.reading.forms.queries.statements import RefusedTokenError
from planner.sql.reading.forms.warehouses import with_match_conditions

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Operators of PostgreSQL and DuckDB.
OPERATORS = {
    "**": TokenType.DSTAR,
    "//": TokenType.DIV,
    "@>": TokenType.AT_GT,
    "|/": TokenType.PIPE_SLASH,
    "||/": TokenType.DPIPE_SLASH,
    "^@": TokenType.CARET_AT,
    "<@": TokenType.LT_AT,
    "&&": TokenType.DAMP,
    "?|": TokenType.QMARK_PIPE,
    "?&": TokenType.QMARK_AMP,
    "#-": TokenType.HASH_DASH,
}
_ESCAPED = re.compile(r"\\([0-7]{3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}
_PREFIXES = {
    "X": "X'{0}' is not supported: write UNHEX('{0}')",
    "B": "B'{0}' is not supported: write the number that these bits are",
    "E": "E'...' is not supported: write the characters themselves, without E and backslashes",
}
_COMPARED = ("=", "<>", "!=", "<", "<=", ">", ">=")
_OPENED = {TokenType.L_BRACKET: TokenType.R_BRACKET, TokenType.L_BRACE: TokenType.R_BRACE}
_OPENING = (*_OPENED, TokenType.L_PAREN)
_CLOSING = (*_OPENED.values(), TokenType.R_PAREN)


def with_escapes(tokens: Sequence[Token], text: str) -> list[Token]:
    """Return the tokens with Spark's backslashes in texts replaced; ``r'...'`` keeps them.

    ``1.5BD`` is ``1.5``: its type has the digits that are written.
    """
    out: list[Token] = []
    for token in tokens:
        is_suffix = token.token_type is TokenType.DECIMAL and token.text.upper() == "BD"
        if is_suffix and out and out[-1].token_type is TokenType.DCOLON:
            out.pop()
            continue
        written = text[token.start : token.end + 1]
        if token.token_type is TokenType.STRING and written[:1] in ("'", '"'):
            quote = written[0]
            inner = written[1:-1].replace(quote * 2, quote)
            token = _like(token, TokenType.STRING, _ESCAPED.sub(_unescaped, inner))
        out.append(token)
    return out


def _unescaped(match: re.Match[str]) -> str:
    """Return the character; a wildcard of LIKE keeps its backslash."""
    written = match[1]
    if len(written) > 1:
        return chr(int(written, 8)) if written.isdigit() else chr(int(written[1:], 16))
    return match[0] if written in "%_" else _CHARACTERS.get(written, written)


def rewritten_tokens(tokens: Sequence[Token], engine: str) -> list[Token]:
    """Return the tokens in the spellings that are parsed."""
    _check_prefixes(tokens)
    made = _with_maps(with_match_conditions(tokens))
    if engine in ("postgres", "duckdb"):
        made = _with_operators(made, engine)
    if engine == "spark":
        made = _with_pipes(_with_identifiers(made))
    return _with_lambdas(_with_statements(made)) if engine == "postgres" else made


def _check_prefixes(tokens: Sequence[Token]) -> None:
    """Raise for ``X'1F'`` and other texts with a letter before them."""
    for before, token in itertools.pairwise(tokens):
        word = before.text.upper() if before.token_type is TokenType.VAR else ""
        is_text = token.token_type is TokenType.STRING and token.start == before.end + 1
        if is_text and word in _PREFIXES:
            raise RefusedTokenError(before, _PREFIXES[word].format(token.text))


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, token.comments)


def _with_maps(tokens: list[Token]) -> list[Token]:
    """Rewrite ``MAP {k: v}`` and ``MAP[k, v]`` as calls, ``LIST[x]`` as ARRAY."""
    out = list(tokens)
    for at, token in enumerate(tokens[:-1]):
        opened = tokens[at + 1].token_type
        word = token.text.upper()
        if word == "LIST" and opened is TokenType.L_BRACKET:
            out[at] = _like(token, TokenType.ARRAY, "ARRAY")
        is_map = word == "MAP" and token.token_type is not TokenType.IDENTIFIER
        if not is_map or opened not in _OPENED or tokens[at + 1].start > token.end + 2:
            continue
        end = _end(tokens, at + 1)
        if end < 0:
            continue
        out[at + 1] = _like(tokens[at + 1], TokenType.L_PAREN, "(")
        out[end] = _like(tokens[end], TokenType.R_PAREN, ")")
        depth = 0
        for inner in range(at + 1, end):
            depth += tokens[inner].token_type in _OPENING
            depth -= tokens[inner].token_type in _CLOSING
            if depth == 1 and tokens[inner].token_type is TokenType.COLON:
                out[inner] = _like(tokens[inner], TokenType.COMMA, ",")
    return out


def _end(tokens: list[Token], at: int) -> int:
    """Return the position of the bracket that closes the one at ``at``; -1: there is none."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += tokens[end].token_type in _OPENING
        depth -= tokens[end].token_type in _CLOSING
        if depth == 0:
            return end
    return -1


def _with_operators(tokens: list[Token], engine: str) -> list[Token]:
    """Rewrite ``a ^ b`` as a power, and PostgreSQL's ``a # b`` as the XOR of bits."""
    tokens = _with_absolutes(_with_first_aliases(tokens) if engine == "duckdb" else tokens)
    kinds = {TokenType.CARET: (TokenType.DSTAR, "**")}
    if engine == "postgres":
        kinds[TokenType.HASH] = (TokenType.CARET, "^")
    out = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        is_some = token.token_type is TokenType.SOME and before and before.text in _COMPARED
        kind = (TokenType.ANY, "ANY") if is_some else kinds.get(token.token_type)
        out.append(token if kind is None else _like(token, *kind))
    return out


_ENDS = ("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "QUALIFY", "LIMIT", "UNION", "WINDOW")


def _with_first_aliases(tokens: list[Token]) -> list[Token]:
    """Rewrite DuckDB's ``SELECT x: a + 1`` as ``SELECT a + 1 AS x``."""
    out: list[Token] = []
    # For each open bracket: whether it is in a SELECT list, and its alias that comes after the
    # expression.
    listed: list[bool] = [False]
    waiting: list[Token | None] = [None]
    at = 0
    while at < len(tokens):  # terminates: each pass reads a token
        token, word = tokens[at], tokens[at].text.upper()
        token = _like(token, TokenType.VAR, "DATE_TRUNC") if word == "DATETRUNC" else token
        is_end = token.token_type in (*_CLOSING, TokenType.COMMA, TokenType.SEMICOLON)
        if waiting[-1] is not None and (is_end or word in _ENDS):
            out += [_like(waiting[-1], TokenType.ALIAS, "AS"), waiting[-1]]
            waiting[-1] = None
        if token.token_type in _OPENING:
            listed.append(False)
            waiting.append(None)
        elif token.token_type in _CLOSING and len(listed) > 1:
            listed.pop()
            waiting.pop()
        elif word == "SELECT" or word in _ENDS:
            listed[-1] = word == "SELECT"
        before = out[-1].text.upper() if out else ""
        colon = at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.COLON
        is_first = listed[-1] and before in ("SELECT", ",", "DISTINCT")
        if colon and is_first and token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            waiting[-1] = token
            at += 2
            continue
        out.append(token)
        at += 1
    if waiting[-1] is not None:
        out += [_like(waiting[-1], TokenType.ALIAS, "AS"), waiting[-1]]
    return out


def _with_absolutes(tokens: list[Token]) -> list[Token]:
    """Rewrite ``@ x`` as ``ABS(x)``, and ``DIV(a, b)`` as ``WHOLE_DIV(a, b)``."""
    out: list[Token] = []
    closing: list[int] = []  # positions after which a call of ABS is closed
    for at, token in enumerate(tokens):
        after = tokens[at + 1] if at + 1 < len(tokens) else token
        if token.token_type is TokenType.PARAMETER and after is not token:
            out.append(_like(token, TokenType.VAR, "ABS"))
            out.append(_like(token, TokenType.L_PAREN, "("))
            closing.append(_operand_end(tokens, at + 1))
            continue
        is_call = token.text.upper() == "DIV" and after.token_type is TokenType.L_PAREN
        behind = out[-1].token_type if out else TokenType.SELECT
        if is_call and behind in (TokenType.SELECT, TokenType.COMMA, TokenType.L_PAREN):
            token = _like(token, TokenType.VAR, "WHOLE_DIV")
        out.append(token)
        while at in closing:  # terminates: each pass removes a position
            closing.remove(at)
            out.append(_like(token, TokenType.R_PAREN, ")"))
    return out


def _operand_end(tokens: list[Token], at: int) -> int:
    """Return the last place of the operand: a sign, then a name, a number, a call or brackets."""
    while tokens[at].token_type is TokenType.DASH and at + 1 < len(tokens):  # ends with the text
        at += 1
    while at + 2 < len(tokens) and tokens[at + 1].token_type is TokenType.DOT:  # ends with the text
        at += 2
    if tokens[at].token_type in _OPENING:
        return _end(tokens, at)
    is_call = at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.L_PAREN
    return _end(tokens, at + 1) if is_call else at


def _with_identifiers(tokens: list[Token]) -> list[Token]:
    """Rewrite Spark's ``IDENTIFIER('name')`` as the name."""
    out: list[Token] = []
    for token in tokens:
        words = [one.text.upper() for one in out[-3:-1]] if len(out) > 2 else []
        is_named = words == ["IDENTIFIER", "("] and out[-1].token_type is TokenType.STRING
        if token.token_type is TokenType.R_PAREN and is_named:
            out[-3:] = [_like(out[-1], TokenType.IDENTIFIER, out[-1].text)]
        else:
            out.append(token)
    return out


_PIPED = {"SET": "REPLACE", "DROP": "EXCLUDE", "RENAME": "RENAME"}


def _with_pipes(tokens: list[Token]) -> list[Token]:
    """Rewrite ``|> SET a = x`` as ``|> SELECT * REPLACE (x AS a)``; DROP and RENAME likewise."""
    out: list[Token] = []
    at = 0
    while at < len(tokens):  # terminates: each pass reads a token
        token = tokens[at]
        word = tokens[at + 1].text.upper() if at + 1 < len(tokens) else ""
        if token.token_type is not TokenType.PIPE_GT or word not in _PIPED:
            out.append(token)
            at += 1
            continue
        end = _pipe_end(tokens, at + 2)
        parts = _parts(tokens[at + 2 : end])
        if word == "SET":
            alias = _like(tokens[at + 1], TokenType.ALIAS, "AS")
            parts = [[*part[2:], alias, part[0]] for part in parts]
        first = tokens[at + 1]
        out += [token, _like(first, TokenType.SELECT, "SELECT"), _like(first, TokenType.STAR, "*")]
        kind = TokenType.REPLACE if word == "SET" else TokenType.VAR
        out += [_like(first, kind, _PIPED[word]), _like(first, TokenType.L_PAREN, "(")]
        for place, part in enumerate(parts):
            out += [_like(first, TokenType.COMMA, ",")] if place else []
            out += part
        out.append(_like(first, TokenType.R_PAREN, ")"))
        at = end
    return out


def _pipe_end(tokens: list[Token], at: int) -> int:
    """Return the position of the next pipe, or of the end of the statement."""
    depth = 0
    for end in range(at, len(tokens)):
        kind = tokens[end].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth < 0 or (depth == 0 and kind in (TokenType.PIPE_GT, TokenType.SEMICOLON)):
            return end
    return len(tokens)


def _parts(tokens: list[Token]) -> list[list[Token]]:
    """Split tokens at the commas outside of brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0 and token.token_type is TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _with_lambdas(tokens: list[Token]) -> list[Token]:
    """Rewrite RisingWave's ``|x| x * 2`` as ``x -> x * 2``, and ``|a, b|`` as ``(a, b) ->``."""
    out: list[Token] = []
    at = 0
    while at < len(tokens):  # terminates: each pass reads a token
        begins = tokens[at].token_type is TokenType.PIPE and tokens[at - 1].text in ("(", ",")
        kinds = [token.token_type for token in tokens[at + 1 : at + 5]]
        end = kinds.index(TokenType.PIPE) + at + 1 if begins and TokenType.PIPE in kinds else 0
        if not end:
            out.append(tokens[at])
            at += 1
            continue
        names = tokens[at + 1 : end]
        if len(names) > 1:
            opened, closed = tokens[at], tokens[end]
            names = [
                _like(opened, TokenType.L_PAREN, "("),
                *names,
                _like(closed, TokenType.R_PAREN, ")"),
            ]
        out += [*names, _like(tokens[end], TokenType.ARROW, "->")]
        at = end + 1
    return out


def _with_statements(tokens: list[Token]) -> list[Token]:
    """Rewrite Materialize's statements, and drop clauses that do not change rows."""
    out: list[Token] = []
    at = 0
    while at < len(tokens):  # terminates: each pass reads a token
        token, word = tokens[at], tokens[at].text.upper()
        is_first = at == 0 or tokens[at - 1].token_type is TokenType.SEMICOLON
        words = [one.text.upper() for one in tokens[at : at + 4]]
        if is_first and word in ("SUBSCRIBE", "TABLE"):
            at += 2 if words[1:2] == ["TO"] else 1
            if at < len(tokens) and tokens[at].token_type is not TokenType.L_PAREN:
                kinds = ((TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"))
                out += [_like(token, *kind) for kind in (*kinds, (TokenType.FROM, "FROM"))]
        elif words[:2] == ["IN", "CLUSTER"]:
            at += 3
        elif word == "DEFAULT" and words[1:2] == ["INDEX"]:
            at += 1
        elif words[:2] == ["OPTIONS", "("] and words[2] in ("AGGREGATE", "DISTINCT", "LIMIT"):
            at = _end(tokens, at + 1) + 1 or len(tokens)
        else:
            out.append(token)
            at += 1
    return out
