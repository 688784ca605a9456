"""Replaces tokens that sqlglot's grammar does not know: our own words, and other engines'.

sqlglot parses ``CREATE STREAM`` and ``CREATE SINK`` as tables, ``CREATE MATERIALIZED VIEW`` as a
view. ksqlDB's ``WINDOW TUMBLING (SIZE 1 MINUTE)`` in front of GROUP BY becomes one of its keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.reading.forms.queries.statements import (
    with_cursors,
    with_directories,
    with_lateness,
    with_own_types,
    without_streams,
)
from planner.sql.reading.forms.tokens import rewritten_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Words that are parsed as TABLE after CREATE.
TABLE_WORDS = ("STREAM", "SOURCE", "SINK")
#: Words after CREATE that have no effect: names last only as long as the text, and every query runs
#: continuously.
_SILENT = ("TEMPORARY", "TEMP", "MATERIALIZED", "STREAMING", "LIVE", "LOCAL", "REFRESH")
_WINDOWS = {"TUMBLING": "TUMBLE", "HOPPING": "HOP", "SESSION": "SESSION"}
#: How long ksqlDB keeps windows, and how late rows may be, which is the delay of topics.
_KEPT = ("RETENTION", "GRACE")


def adapted(tokens: Sequence[Token], engine: str) -> Iterator[Token]:
    """Yield the tokens; replace our words after ``CREATE``, and make windows keys of GROUP BY."""
    tokens = with_cursors(tokens) if engine == "postgres" else tokens
    tokens = with_directories(without_streams(tokens)) if engine == "spark" else tokens
    tokens = with_lateness(tokens) if engine == "flink" else tokens
    given = rewritten_tokens(tokens, engine)
    given = with_own_types(_of_ksqldb(given)) if engine == "ksqldb" else given
    words = _created(_with_bounds(_with_windows(given)))
    for at, token in enumerate(words):
        after = words[at + 1] if at + 1 < len(words) else None
        kind = token.token_type
        if kind is TokenType.WINDOW and not _defines_windows(words, at):
            # not the clause WINDOW: Spark's function ``window``, or a column of this name
            kind = TokenType.VAR
        if kind is TokenType.SESSION and after and after.token_type is TokenType.L_PAREN:
            kind = TokenType.VAR
        if kind is TokenType.ROW and after and after.token_type is TokenType.LT:
            kind = TokenType.STRUCT
        yield _like(token, kind, token.text)


def _defines_windows(tokens: list[Token], at: int) -> bool:
    """Return whether the clause ``WINDOW name AS`` begins at a position."""
    behind = tokens[at + 2] if at + 2 < len(tokens) else None
    return behind is not None and behind.token_type is TokenType.ALIAS


def _of_ksqldb(tokens: Sequence[Token]) -> list[Token]:
    """Rewrite ksqlDB's lambdas with ``=>`` and fields with ``->``; drop PARTITION BY."""
    out: list[Token] = []
    depth = 0
    is_left_out = False
    for token in tokens:
        kind = token.token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth == 0 and kind is TokenType.PARTITION_BY:
            is_left_out = True
        elif kind is TokenType.SEMICOLON or token.text.upper() == "EMIT":
            is_left_out = False
        if kind is TokenType.FARROW:
            token = _like(token, TokenType.ARROW, "->")
        elif kind is TokenType.ARROW:
            token = _like(token, TokenType.DOT, ".")
        if not is_left_out:
            out.append(token)
    return out


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, token.comments)


def _created(tokens: list[Token]) -> list[Token]:
    """Rewrite the words after CREATE; ``CREATE SINK s FROM q`` is ``AS SELECT * FROM q``."""
    out: list[Token] = []
    is_behind = False  # whether all tokens since CREATE are CREATE, OR and REPLACE
    for at, token in enumerate(tokens):
        word = token.text.upper()
        following = tokens[at + 1].text.upper() if at + 1 < len(tokens) else ""
        if is_behind and (word in _SILENT or (word, following) == ("OR", "REFRESH")):
            continue
        if is_behind and word in TABLE_WORDS:
            token = _like(token, TokenType.TABLE, token.text)
        elif token.token_type is TokenType.FROM and _is_sink(tokens, at):
            for kind, text in ((TokenType.ALIAS, "AS"), (TokenType.SELECT, "SELECT")):
                out.append(_like(token, kind, text))
            out.append(_like(token, TokenType.STAR, "*"))
        is_behind = token.token_type is TokenType.CREATE or (
            is_behind and word in ("OR", "REPLACE")
        )
        out.append(token)
    return out


def _is_sink(tokens: list[Token], at: int) -> bool:
    """Return whether FROM follows ``CREATE SINK [IF NOT EXISTS] name``."""
    words = [token.text.upper() for token in tokens[max(0, at - 6) : at]]
    if words[-5:-1] == ["SINK", "IF", "NOT", "EXISTS"]:
        return True
    return len(words) > 1 and words[-2] == "SINK"


def _with_windows(tokens: list[Token]) -> list[Token]:
    """Rewrite ``WINDOW TUMBLING (...) ... GROUP BY k`` as ``... GROUP BY TUMBLE(...), k``."""
    out: list[Token] = []
    waiting: list[Token] = []
    at = 0
    while at < len(tokens):  # terminates: each pass reads a token
        token = tokens[at]
        end = _window_end(tokens, at)
        if end:
            waiting = _window_call(tokens[at + 1 : end])
            at = end
            continue
        out.append(token)
        if waiting and token.token_type is TokenType.GROUP_BY:
            out += [*waiting, _like(waiting[-1], TokenType.COMMA, ",")]
            waiting = []
        at += 1
    return out


def _with_bounds(tokens: list[Token]) -> list[Token]:
    """Rewrite ``JOIN b WITHIN 1 HOUR ON c`` as ``JOIN b ON WITHIN_TIME('1 HOUR') AND c``."""
    out: list[Token] = []
    at = 0
    while at < len(tokens):  # terminates: each pass reads a token
        end = _within_end(tokens, at)
        if not end:
            out.append(tokens[at])
            at += 1
            continue
        on, opened = tokens[end], _like(tokens[at], TokenType.L_PAREN, "(")
        out += [on, _like(tokens[at], TokenType.VAR, "WITHIN_TIME"), opened]
        out += _lengths(tokens[at + 1 : end])
        out += [_like(on, TokenType.R_PAREN, ")"), _like(on, TokenType.AND, "AND")]
        at = end + 1
    return out


def _within_end(tokens: list[Token], at: int) -> int:
    """Return the position of ON after ``WITHIN ...``; 0: there is none."""
    if tokens[at].text.upper() != "WITHIN" or at + 1 == len(tokens):
        return 0
    if tokens[at + 1].token_type not in (TokenType.NUMBER, TokenType.L_PAREN):
        return 0
    for end in range(at + 1, min(at + 14, len(tokens))):
        if tokens[end].token_type is TokenType.ON:
            return end
    return 0


def _lengths(tokens: list[Token]) -> list[Token]:
    """Return ``10 MINUTES`` or ``(1 HOUR, 2 HOURS)`` as texts, without GRACE PERIOD."""
    out: list[Token] = []
    for token in tokens:
        if token.text.upper() == "GRACE":
            break
        if token.token_type is TokenType.NUMBER:
            out.append(_like(token, TokenType.STRING, token.text))
        elif token.token_type is TokenType.COMMA:
            out.append(token)
        elif out and token.token_type not in (TokenType.L_PAREN, TokenType.R_PAREN):
            last = out[-1]
            out[-1] = _like(last, TokenType.STRING, f"{last.text} {token.text}")
    return out


def _window_end(tokens: list[Token], at: int) -> int:
    """Return the position after ``WINDOW TUMBLING (...)`` that begins here; 0: there is none."""
    words = [token.text.upper() for token in tokens[at : at + 3]]
    if len(words) < 3 or words[0] != "WINDOW" or words[1] not in _WINDOWS or words[2] != "(":
        return 0
    end = at + 2
    depth = 0
    while end < len(tokens):  # terminates: the text is finite
        depth += tokens[end].token_type is TokenType.L_PAREN
        depth -= tokens[end].token_type is TokenType.R_PAREN
        end += 1
        if depth == 0:
            return end
    return 0


def _window_call(tokens: list[Token]) -> list[Token]:
    """Rewrite ``TUMBLING (SIZE 1 MINUTE, RETENTION 1 DAY)`` as ``TUMBLE('1 MINUTE')``."""
    name, opened, *inner, closed = tokens
    parts: list[list[Token]] = [[]]
    for token in inner:
        if token.token_type is TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    lengths: list[Token] = []
    for part in parts:
        words = [token.text.upper() for token in part]
        if not words or words[0] in _KEPT:
            continue
        skipped = 1 if words[0] == "SIZE" else 2 if words[:2] == ["ADVANCE", "BY"] else 0
        text = " ".join(token.text for token in part[skipped:])
        lengths.append(_like(part[-1], TokenType.STRING, text))
    made = [_like(name, TokenType.VAR, _WINDOWS[name.text.upper()]), opened]
    for length in lengths:
        made += [length, _like(length, TokenType.COMMA, ",")]
    return [*(made[:-1] if lengths else made), closed]
