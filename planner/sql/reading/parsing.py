"""Parses SQL into sqlglot's trees, and finds the place of each node in the text.

sqlglot keeps the place of identifiers, literals and names of functions. Other nodes get the place
of their first part, of their operator, or of the last token that was read.
"""

from __future__ import annotations

import itertools
import re
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from planner.errors import ExpressionTypeError
from planner.sql.reading.adapting import adapted
from planner.sql.reading.engines import PLAIN
from planner.sql.reading.errors import SqlError, advice_for, sql_type
from planner.sql.reading.forms.queries.statements import RefusedTokenError, with_variables
from planner.sql.reading.forms.tokens import with_escapes
from planner.sql.reading.grammar import StreamParser, as_sql, dialect_of
from planner.sql.reading.hints import SPARK_WINDOW, STATEMENTS
from rstream.errors import UsageError
from rstream.secret_values import with_stars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.sql.reading.engines import Engine

Place = tuple[int, int]
#: Key in ``meta`` of a node: its name is not case-sensitive.
ANY_CASE = "any_case"
#: Key in ``meta`` of a UNION ALL that was written as several INSERT INTO.
OF_INSERTS = "of_inserts"
_MISSING = re.compile(r"Missing (.+) from (\d+):(\d+)")
_EMIT = re.compile(r"\bEMIT\s+(CHANGES|FINAL)\b", re.IGNORECASE)
_REQUIRED = re.compile(r"Required keyword: '(\w+)' missing for <class '.*\.(\w+)'>")
_TOO_MANY = re.compile(r"The number of provided arguments .* supported arguments \((\d+)\)")
#: After GROUP BY sqlglot parses this name as the clause WINDOW, and fails.
_SPARK_WINDOW = re.compile(r"\bGROUP\s+BY\s+(window)\b\s*(?:\([^()]*)?", re.IGNORECASE)
_FIRST_WORDS = ("SELECT", "WITH", "CREATE", "INSERT")
_INFIX = (exp.Binary, exp.SetOperation, exp.In, exp.Between)
#: Nodes whose place is the keyword that they begin with.
_WORDS = {
    exp.Select: TokenType.SELECT,
    exp.Create: TokenType.CREATE,
    exp.Insert: TokenType.INSERT,
    exp.With: TokenType.WITH,
    exp.Case: TokenType.CASE,
    exp.Exists: TokenType.EXISTS,
    exp.Join: TokenType.JOIN,
    exp.Where: TokenType.WHERE,
    exp.Group: TokenType.GROUP_BY,
    exp.Having: TokenType.HAVING,
    exp.Order: TokenType.ORDER_BY,
    exp.Limit: TokenType.LIMIT,
    exp.Offset: TokenType.OFFSET,
}
_SHOWN_CHARACTERS = 40
#: Every message must match this: words that introduce a remedy.
_ADVICE = re.compile(
    r"\b(write|choose|did you mean|takes?|leave|needs?|belongs?|put|there (is|are)|a \w+ is)\b"
)
#: Flink's hint behind a table, which the grammar reads as a comment.
_OPTIONS_HINT = re.compile(r"\s*\+\s*OPTIONS\b", re.IGNORECASE)
#: Operators with more than one word, or without their own position.
_SPELLED: dict[type[exp.Expr], str] = {
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.BitwiseNot: "~",
    exp.Not: "NOT",
    exp.Neg: "-",
    exp.Case: "CASE",
    exp.Cast: "CAST",
    exp.TryCast: "TRY_CAST",
    exp.Extract: "EXTRACT",
    exp.Trim: "TRIM",
    exp.WithinGroup: "WITHIN GROUP",
    exp.IgnoreNulls: "IGNORE NULLS",
    exp.RespectNulls: "RESPECT NULLS",
}


class _SparkParser(StreamParser):
    """The grammar of Spark, with fields of JSON as in ``s:a.b``."""

    COLON_IS_VARIANT_EXTRACT = True
    #: Spark's ``TRIM(characters, text)`` has the characters first.
    TRIM_PATTERN_FIRST = True


@dataclass(frozen=True, slots=True)
class SqlText:
    """The text, its tokens, and errors that point into it."""

    text: str
    tokens: tuple[Token, ...]
    engine: Engine = PLAIN

    def error(self, node: exp.Expr, reason: str) -> SqlError:
        """Return an error with ``reason`` and the place of ``node``."""
        return self.error_at(self.place(node), reason)

    def error_at(self, place: Place, reason: str) -> SqlError:
        """Return an error at the characters ``[place[0], place[1])`` (of their first line)."""
        start, end = place
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", start)
        last = len(self.text) if last < 0 else last
        width = max(1, min(end, last) - start)
        line = self.text.count("\n", 0, start) + 1
        code = with_stars(self.text[first:last])
        return SqlError(reason, code, line, start - first + 1, width)

    def no_statement(self, place: Place) -> SqlError:
        """Return the error for an unknown first word of a statement."""
        word = self.text[slice(*place)].upper()
        near = get_close_matches(word, _FIRST_WORDS, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else ""
        hint = STATEMENTS.get(word, hint)
        reason = "a statement is CREATE, SELECT or INSERT INTO"
        return self.error_at(place, f"{reason}; {hint}" if hint else reason)

    @contextmanager
    def located(self, node: exp.Expr) -> Iterator[None]:
        """Report an error of the fluent interface at the place of ``node``."""
        try:
            yield
        except SqlError:
            raise
        except ExpressionTypeError as error:
            types = " and ".join(map(sql_type, error.types))
            advice = advice_for(error.operation, error.types)
            reason = f"{self.spelled(node)} does not take {types}; {advice}"
            raise self.error(node, reason) from None
        except UsageError as error:
            raise self.error(node, str(error)) from None

    def place(self, node: exp.Expr) -> Place:
        """Return the place of ``node``: its operator, first part, or the next node around it."""
        around: exp.Expr | None = node
        while around is not None:  # ends at the root
            place = self._own_place(around)
            if place is not None:
                return place
            around = around.parent
        return (0, 1)

    def spelled(self, node: exp.Expr) -> str:
        """Return the node's name or operator as it is written, else all of its text."""
        if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) and node.name[:1] not in "@":
            return node.name.upper()
        start, end = self.place(node)
        written = self.text[start:end].upper()
        if isinstance(node, exp.Func) and "start" in node.meta and written.isidentifier():
            is_call = self.text[end:].lstrip().startswith("(")
            if is_call or written in node.sql_names():
                return written
        if type(node) in _SPELLED:
            return _SPELLED[type(node)]
        called = self._called(node) if isinstance(node, exp.Func) else None
        if called is not None:
            return called
        if isinstance(node, _INFIX) and type(node) is not exp.Dot:
            return written
        if isinstance(node, exp.Func):
            return node.sql_name()
        shown = as_sql(node)
        return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}..."

    def _called(self, node: exp.Func) -> str | None:
        """Return the name before the parenthesis, if the function has it."""
        first = self._first(node)
        before = [t for t in self.tokens if t.start < first[0]] if first else []
        for bracket, word in itertools.pairwise(reversed(before)):
            if bracket.token_type is TokenType.L_PAREN:
                name = word.text.upper()
                return name if name in (*node.sql_names(), *Parser.FUNCTION_PARSERS) else None
        return None

    def written(self, node: exp.Expr) -> str:
        """Return the node as sqlglot writes it, in lower case."""
        return as_sql(node).lower()

    def statement(self, node: exp.Expr) -> Place:
        """Return the place of the first word of the statement ``node``."""
        end = self.place(node)[1]
        ended = True
        place = (0, 1)
        for token in self.tokens:
            if token.start >= end:
                break
            if ended:
                place = (token.start, token.end + 1)
            ended = token.token_type is TokenType.SEMICOLON
        return place

    def token_after(self, node: exp.Expr, *, skip: tuple[TokenType, ...] = ()) -> Place | None:
        """Return the place of the token after all of ``node``; None if the node is missing."""
        walked = node.walk() if isinstance(node, exp.Expr) else ()
        ends = [n.meta["end"] for n in walked if "end" in n.meta]
        past = (TokenType.R_PAREN, *skip)
        for token in self.tokens if ends else ():
            if token.start > max(ends) and token.token_type not in past:
                return (token.start, token.end + 1)
        return None

    def _own_place(self, node: exp.Expr) -> Place | None:
        if "start" in node.meta:
            return (node.meta["start"], node.meta["end"] + 1)
        for kind, word in _WORDS.items():
            if isinstance(node, kind):
                return self._word_before(node, word)
        if isinstance(node, _INFIX) and not isinstance(node, exp.Dot):
            skip: tuple[TokenType, ...] = (TokenType.L_PAREN,)  # a call without arguments
            if any(isinstance(part, exp.Interval) for part in node.this.walk()):
                skip = (*skip, TokenType.VAR)  # skip the unit, which has no position in the tree
            return self.token_after(node.this, skip=skip) or self._first(node)
        if isinstance(node, exp.Cast):
            of_cast = (TokenType.ALIAS, TokenType.DCOLON)
            return self.token_after(node.this, skip=of_cast) or self._first(node)
        return self._first(node)

    def _word_before(self, node: exp.Expr, word: TokenType) -> Place | None:
        """Return the keyword that the node begins with: the last one before its first part."""
        first = self._first(node)
        if first is None:
            return None
        for token in reversed(self.tokens):
            if token.token_type is word and token.end < first[0]:
                return (token.start, token.end + 1)
        return first

    def _first(self, node: exp.Expr) -> Place | None:
        places = [(n.meta["start"], n.meta["end"] + 1) for n in node.walk() if "start" in n.meta]
        return min(places, default=None)


def parse(text: str, engine: Engine = PLAIN) -> tuple[SqlText, list[exp.Expr]]:
    """Parse the statements of a text.

    Raises:
        SqlError: the text is not SQL.
    """
    dialect = dialect_of(engine)
    text = with_variables(text) if engine.name == "ksqldb" else text
    try:
        given = dialect.tokenize(text)
        given = with_escapes(given, text) if engine.name == "spark" else given
        tokens = tuple(adapted(given, engine.name))
    except TokenError as error:
        _raise_token_error(SqlText(text, ()), error)
    except RefusedTokenError as error:
        place = (error.token.start, error.token.end + 1)
        raise SqlText(text, ()).error_at(place, error.reason) from None
    source = SqlText(text, tokens, engine)
    for token in tokens:
        if any(_OPTIONS_HINT.match(comment) for comment in token.comments):
            where = (token.start, token.end + 1)
            raise source.error_at(where, "write these OPTIONS in the WITH of the declaration")
    for before, token in itertools.pairwise(tokens):
        place = (token.start, token.end + 1)
        if before.token_type is token.token_type is TokenType.COMMA:
            raise source.error_at(place, "a value is missing between two commas")
        adjacent = token.start == before.end + 1 and token.token_type is TokenType.VAR
        if before.token_type is TokenType.NUMBER and adjacent:
            raise source.error_at(place, "this cannot follow a number; quote it as '5s'")
    try:
        parser = (_SparkParser if engine.name == "spark" else StreamParser)(dialect=dialect)
        parsed = parser.parse(list(tokens), text)
    except ParseError as error:
        _raise_parse_error(source, error)
    except RecursionError:
        raise source.error_at((0, 1), "this is nested too deeply") from None
    statements = [
        part for part in parsed if part is not None and not isinstance(part, exp.Semicolon)
    ]
    if engine.ignores_case:
        for statement in statements:
            _mark_names(statement)
    return source, statements


def _mark_names(statement: exp.Expr) -> None:
    """Mark names without quotes: they are not case-sensitive."""
    for node in statement.find_all(exp.Column, exp.Table):
        if isinstance(node.this, exp.Identifier) and not node.this.quoted:
            node.meta[ANY_CASE] = True


def _raise_token_error(source: SqlText, error: TokenError) -> NoReturn:
    missing = _MISSING.search(str(error.__cause__ or error))
    if missing is None:
        at = max(0, len(source.text.rstrip()) - 1)
        raise source.error_at(
            (at, at + 1), "the text ends too early: something is not closed"
        ) from None
    quote, line = missing[1], int(missing[2])
    lines = source.text.split("\n")
    at = sum(len(before) + 1 for before in lines[: line - 1]) + int(missing[3])
    at = source.text.find(quote, max(0, at - 1))
    place = (at, at + 1) if at >= 0 else (0, 1)
    raise source.error_at(place, f"{quote} is opened and never closed") from None


def _check_first_words(source: SqlText) -> None:
    """Raise for an unknown first word of a statement, before errors that follow from it."""
    begins = True
    for token in source.tokens:
        if begins and token.token_type is TokenType.VAR:
            raise source.no_statement((token.start, token.end + 1))
        begins = token.token_type is TokenType.SEMICOLON


#: Operators of other engines, and their hints.
_OPERATORS = {
    "**": "write POWER(a, b)",
    "//": "write a DIV b",
    ":": "write JSON_VALUE(s, '$.a.b') for s:a.b",
    "!~": "write NOT s RLIKE 'a.*'",
    "~": "write s RLIKE 'a.*'",
}
#: Clauses of other engines, and their hints.
_CLAUSES = {
    re.compile(r"\bSELECT\s+TOP\s+\d", re.IGNORECASE): "write ORDER BY x LIMIT n",
    re.compile(r"\bMUTUALLY\s+RECURSIVE\b", re.IGNORECASE): "write a query for each level",
    re.compile(
        r"\bSESSION\s+WITH\s+GAP\b", re.IGNORECASE
    ): "write GROUP BY k, SESSION('5 minutes')",
    re.compile(r"@>|<@"): "write JSON_EXISTS(s, '$.a') or JSON_VALUE(s, '$.a') = 'x'",
}


def _raise_parse_error(source: SqlText, error: ParseError) -> NoReturn:
    _check_first_words(source)
    details = error.errors[0]
    words = str(details["description"])
    required = _REQUIRED.search(words)
    if required is not None:
        words = f"a part of {required[2].upper()} is missing here"
    words = words.partition(" but got <Token")[0]
    most = _TOO_MANY.match(words)
    if most is not None:
        words = f"this function takes at most {most[1]} arguments; leave the others out"
    words = words.replace("Invalid expression / Unexpected token", "this is not expected here")
    words = words.replace("Expecting ", "expected ").replace("Expected ", "expected ")
    line, width = int(details["line"]), max(1, len(str(details["highlight"])))
    first = sum(len(before) + 1 for before in source.text.split("\n")[: line - 1])
    start = max(first, first + int(details["col"]) - width)
    if any(match.start() <= start < match.end() for match in _EMIT.finditer(source.text)):
        words = "EMIT CHANGES belongs after a SELECT, within its parentheses"
    for match in _SPARK_WINDOW.finditer(source.text):
        if match.start() <= start <= match.end():
            what = f"the function WINDOW is not supported; {SPARK_WINDOW}"
            raise source.error_at(match.span(1), what) from None
    words += _other_spelling(source, start)
    if not _ADVICE.search(words):
        words += "; leave it out, or write one of the forms in docs/SQL.md"
    raise source.error_at((start, start + width), words) from None


def _other_spelling(source: SqlText, start: int) -> str:
    """Return the hint for another engine's operator, or TOP, at or around the place of an error."""
    for clause, hint in _CLAUSES.items():
        if any(match.start() <= start < match.end() for match in clause.finditer(source.text)):
            return f"; {hint}"
    at = next((t for t in source.tokens if t.start <= start <= t.end), None)
    if at is None:
        return ""
    ends = (at.start + 2, at.end + 1, len(source.text[: at.start].rstrip()))
    for operator, here in _OPERATORS.items():
        if any(source.text.endswith(operator, 0, end) for end in ends):
            return f"; {here}"
    return ""


def expression_of(text: str) -> exp.Expr:
    """Parse an expression, without places in a user's text."""
    _, (statement,) = parse(f"SELECT {text}")
    made: exp.Expr = statement.expressions[0]
    made.parent = None
    for part in made.walk():
        part.meta.pop("start", None)
        part.meta.pop("end", None)
    return made
