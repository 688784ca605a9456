"""Rewrites tokens of other engines' statements: cursors, variables, watermarks of columns.

``DECLARE c CURSOR FOR q`` is the query, and ``FETCH`` has no effect. ksqlDB's ``DEFINE name = 'x'``
replaces ``${name}`` in the text behind it. ``ts TIMESTAMP LATENESS INTERVAL '1' MINUTE`` declares
a watermark, as ``WATERMARK FOR ts`` does.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GAP = r"(?:\s|--[^\n]*(?=\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)"
#: A definition, the end of a statement, blanks and comments, or another part of a statement.
_PART = re.compile(
    rf"(?P<define>DEFINE{_GAP}+(?P<name>\w+){_GAP}*={_GAP}*'(?P<value>(?:[^']|'')*)'{_GAP}*(?=;))"
    rf"|(?P<end>;)|(?P<gap>{_GAP}+)|'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\w+|.",
    re.IGNORECASE | re.DOTALL,
)
_LEFT_OUT = ("FETCH", "COMMIT", "ROLLBACK", "CLOSE")


class RefusedTokenError(ValueError):
    """The text has an option that would change the result."""

    def __init__(self, token: Token, reason: str) -> None:
        super().__init__(reason)
        self.token, self.reason = token, reason


def with_variables(text: str) -> str:
    """Replace the variables of DEFINE, each in the text behind its definition."""
    at, starts = 0, True
    while match := _PART.match(text, at):  # terminates: ``at`` grows
        at = match.end()
        if starts and match["define"]:
            value = match["value"].replace("''", "'")
            rest = text[at:].replace("${" + match["name"] + "}", value)
            text = text[: match.start()] + re.sub(r"[^\n]", " ", match[0]) + rest
        elif not match["gap"]:
            starts = bool(match["end"])
    return text


def with_cursors(tokens: Sequence[Token]) -> list[Token]:
    """Replace cursors by their queries, and drop the statements that read them."""
    out: list[Token] = []
    for statement in _statements(tokens):
        words = [token.text.upper() for token in statement[:6]]
        if words[:1] == ["DECLARE"] and "CURSOR" in words[2:4] and "SUBSCRIPTION" not in words:
            statement = statement[words.index("CURSOR") + 2 :]
        elif words and words[0] in _LEFT_OUT:
            continue
        out += _without_options(statement)
    return out


def _without_options(statement: list[Token]) -> list[Token]:
    """Drop ``WITH (SNAPSHOT)`` and ``WITHIN TIMESTAMP ORDER BY`` behind SUBSCRIBE.

    Raises:
        RefusedTokenError: an option would change the rows.
    """
    if not statement or statement[0].text.upper() != "SUBSCRIBE":
        return statement
    depth = 0
    for at, token in enumerate(statement[1:], start=1):
        depth += token.token_type is TokenType.L_PAREN
        depth -= token.token_type is TokenType.R_PAREN
        following = statement[at + 1].text.upper() if at + 1 < len(statement) else ""
        is_option = (token.text.upper(), following) in (
            *(("WITH", "("), ("AS", "OF"), ("UP", "TO"), ("WITHIN", "TIMESTAMP")),
        )
        if depth == 0 and is_option:
            _check_options(statement[at:])
            ended = [t for t in statement[-1:] if t.token_type is TokenType.SEMICOLON]
            return [*statement[:at], *ended]
    return statement


def _check_options(tokens: Sequence[Token]) -> None:
    """Raise for options of SUBSCRIBE that change the rows."""
    words = [token.text.upper() for token in tokens if token.token_type is not TokenType.SEMICOLON]
    for at, token in enumerate(tokens):
        pair = words[at : at + 2]
        if pair in (["AS", "OF"], ["UP", "TO"]):
            raise RefusedTokenError(
                token, f"SUBSCRIBE reads all rows here: leave {' '.join(pair)} out"
            )
    if words[:1] == ["WITH"]:
        listed = " ".join(words[2 : words.index(")")] if ")" in words else words[2:])
        for option in listed.split(" , "):
            if option not in ("SNAPSHOT", "SNAPSHOT = TRUE", "PROGRESS", "PROGRESS = TRUE"):
                reason = f"SUBSCRIBE takes WITH (SNAPSHOT) and WITH (PROGRESS), not {option}"
                raise RefusedTokenError(tokens[0], reason)


def _statements(tokens: Sequence[Token]) -> list[list[Token]]:
    statements: list[list[Token]] = [[]]
    for token in tokens:
        statements[-1].append(token)
        if token.token_type is TokenType.SEMICOLON:
            statements.append([])
    return statements


def with_own_types(tokens: Sequence[Token]) -> list[Token]:
    """Replace ksqlDB's types of ``CREATE TYPE name AS STRUCT<...>`` in the columns behind them."""
    types: dict[str, list[Token]] = {}
    out: list[Token] = []
    for statement in _statements(tokens):
        words = [token.text.upper() for token in statement]
        if words[:2] == ["CREATE", "TYPE"]:
            at = 5 if words[2:5] == ["IF", "NOT", "EXISTS"] else 2
            if words[at + 1 : at + 2] == ["AS"]:
                body = [t for t in statement[at + 2 :] if t.token_type is not TokenType.SEMICOLON]
                if at == 2 or words[at] not in types:
                    types[words[at]] = _with_types(body, types, has_names=False)
                continue
        opened = words.index("(") if "(" in words else 0
        is_list = words[:1] == ["CREATE"] and "AS" not in words[:opened]
        if types and opened and is_list and words[opened - 1] != "WITH":
            columns = _with_types(statement[opened + 1 :], types, has_names=True)
            statement = [*statement[: opened + 1], *columns]
        out += statement
    return out


def _with_types(
    tokens: list[Token], types: Mapping[str, list[Token]], *, has_names: bool
) -> list[Token]:
    """Replace own types in a type, or up to the end of a list of ``name type`` if ``has_names``."""
    out: list[Token] = []
    lists = [has_names]  # for each open list, whether a name is before each type
    before, depth, expected = "", 0, "name" if has_names else "type"
    for at, token in enumerate(tokens):
        word = token.text.upper()
        if word in (")", ">") and depth == 0 and len(lists) == 1:
            return [*out, *tokens[at:]]
        depth += (word == "(") - (word == ")")
        is_own = expected == "type" and word in types
        out += types[word] if is_own else [token]
        if word == ">":
            lists.pop()
        if word == "<" and expected != "name":
            lists.append(before == "STRUCT")
        if word == "<" or (word == "," and depth == 0):
            expected = "name" if lists[-1] else "type"
        else:
            expected = "type" if expected == "name" else ""
        before = word
    return out


def with_lateness(tokens: Sequence[Token]) -> list[Token]:
    """Rewrite ``ts TIMESTAMP LATENESS x`` as ``ts TIMESTAMP, WATERMARK FOR ts AS ts - x``."""
    out: list[Token] = []
    for statement in _statements(tokens):
        is_create = bool(statement) and statement[0].token_type is TokenType.CREATE
        out += _with_watermarks(statement) if is_create else statement
    return out


def _with_watermarks(create: list[Token]) -> list[Token]:
    out: list[Token] = []
    name, depth = create[0], 0
    starts = False  # whether a column of the declaration begins here
    for token, after in itertools.zip_longest(create, create[1:]):
        name = token if starts else name
        depth += token.token_type is TokenType.L_PAREN
        depth -= token.token_type is TokenType.R_PAREN
        is_word = token.token_type is TokenType.VAR and token.text.upper() == "LATENESS"
        is_before = after is not None and after.token_type is TokenType.INTERVAL
        if is_word and is_before and depth == 1 and not starts:
            words = ((TokenType.COMMA, ","), (TokenType.VAR, "WATERMARK"), (TokenType.FOR, "FOR"))
            out += [_like(token, *word) for word in words]
            out += [name, _like(token, TokenType.ALIAS, "AS"), name]
            out.append(_like(token, TokenType.DASH, "-"))
        else:
            out.append(token)
        starts = depth == 1 and token.token_type in (TokenType.COMMA, TokenType.L_PAREN)
    return out


def without_streams(tokens: Sequence[Token]) -> list[Token]:
    """Rewrite ``FROM STREAM(t)`` and ``FROM STREAM t`` as ``FROM t``, ``MINUS`` as EXCEPT.

    ``FROM stream`` alone, and ``FROM stream AS t``, read a table named stream.
    """
    out: list[Token] = []
    closing = 0
    for at, token in enumerate(tokens):
        before = tokens[at - 1].token_type if at else None
        after = tokens[at + 1].token_type if at + 1 < len(tokens) else None
        word = token.text.upper()
        is_word = after in (*Parser.TABLE_ALIAS_TOKENS, TokenType.IDENTIFIER, TokenType.L_PAREN)
        if word == "STREAM" and before in (TokenType.FROM, TokenType.JOIN) and is_word:
            closing = at + 3 if after is TokenType.L_PAREN else 0
            continue
        if closing and at in (closing - 2, closing):
            continue
        queries = (TokenType.SELECT, TokenType.L_PAREN, TokenType.ALL, TokenType.DISTINCT)
        if word == "MINUS" and token.token_type is TokenType.VAR and after in queries:
            token = _like(token, TokenType.EXCEPT, "EXCEPT")
        out.append(token)
    return out


def with_directories(tokens: Sequence[Token]) -> list[Token]:
    """Rewrite ``INSERT OVERWRITE DIRECTORY 'd' USING f SELECT`` as a sink of the SELECT."""
    out: list[Token] = []
    for statement in _statements(tokens):
        words = [token.text.upper() for token in statement]
        at = 3 if words[2:3] == ["LOCAL"] else 2
        is_files = words[:2] == ["INSERT", "OVERWRITE"] and words[at : at + 1] == ["DIRECTORY"]
        paths = [t for t in statement[at + 1 : at + 2] if t.token_type is TokenType.STRING]
        begins = [n for n, word in enumerate(words) if word in ("SELECT", "WITH", "FROM")]
        if not is_files or not paths or not begins:
            out += statement
            continue
        (path,) = paths
        form = [t for t in statement[at + 2 : begins[0]] if t.text.upper() not in _FORM]
        made = [_like(path, TokenType.CREATE, "CREATE"), _like(path, TokenType.VAR, "SINK")]
        made.append(_like(path, TokenType.IDENTIFIER, "@directory"))
        made.append(_like(path, TokenType.VAR, "USING"))
        made.append(_like(path, TokenType.VAR, form[0].text if form else "parquet"))
        made += [_like(path, TokenType.VAR, "LOCATION"), path, _like(path, TokenType.ALIAS, "AS")]
        out += [*made, *statement[begins[0] :]]
    return out


_FORM = ("USING", "STORED", "AS")


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, token.comments)
