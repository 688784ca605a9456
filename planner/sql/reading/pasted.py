"""Clauses and statements of other engines that sqlglot's grammar parses in another way.

After a CREATE TABLE: ``COMMENT``, ``PARTITIONED BY``, ``USING``, ``OPTIONS``, ``LOCATION``,
``FORMAT ... ENCODE ...`` and ``LIKE``. Statements: ``SET``, ``SHOW`` and the like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Names of options that stand for clauses; the first two have no effect on a source.
COMMENT, PARTITIONED, LIKE = "comment of", "partitioned by", "like"


class ClientStatement(exp.Expression):
    """A statement for the client. ``this``: its first word; ``expressions``, ``query``: others."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False, "query": False}


def option_of(name: Token, value: exp.Expr, called: str | None = None) -> exp.Expr:
    """Make the syntax node of an option in ``WITH``. Errors show the position of ``name``."""
    option = exp.Property(this=exp.var(called or name.text), value=value)
    option.update_positions(name)
    return option


def dotted_name(tokens: Sequence[Token], at: int) -> Sequence[Token]:
    """Return the tokens of an option's name such as ``a.b.c``; none if no ``=`` follows."""
    end = at + 1
    while end < len(tokens) and tokens[end].token_type is TokenType.DOT:
        end += 2
    is_option = end < len(tokens) and tokens[end].token_type is TokenType.EQ
    return tokens[at:end] if is_option else ()


def _comment(parser: Any) -> exp.Expr:
    name = parser._curr
    parser._advance()
    parser._match(TokenType.EQ)
    return option_of(name, parser._parse_string(), COMMENT)


def _partitioned(parser: Any) -> exp.Expr:
    name = parser._curr
    parser._advance()
    parser._match_text_seq("BY")
    columns = parser._parse_wrapped_csv(parser._parse_id_var)
    return option_of(name, exp.Tuple(expressions=columns), PARTITIONED)


def _using(parser: Any) -> exp.Expr:
    name = parser._curr
    parser._advance()
    word = parser._parse_var(any_token=True)
    return option_of(name, _text(word), "format")


def _location(parser: Any) -> exp.Expr:
    name = parser._curr
    parser._advance()
    return option_of(name, parser._parse_string(), "path")


def _options(parser: Any) -> list[exp.Expr]:
    """Parse ``OPTIONS (path 'x', 'header' = 'true')``."""
    parser._advance()
    options: list[exp.Expr] = parser._parse_wrapped_csv(lambda: _one_option(parser))
    return options


def _one_option(parser: Any) -> exp.Expr:
    name = parser._curr
    parser._advance()
    words = [name.text]
    while parser._match(TokenType.DOT):  # terminates: the text is finite
        words.append(parser._curr.text)
        parser._advance()
    parser._match(TokenType.EQ)
    return option_of(name, parser._parse_disjunction(), ".".join(words))


def _format(parser: Any) -> list[exp.Expr]:
    """Parse ``FORMAT PLAIN ENCODE CSV (delimiter = ',')``; ``FORMAT = 'x'`` is a plain option."""
    name = parser._curr
    if parser._next and parser._next.token_type is TokenType.EQ:
        parser._advance(2)
        return [option_of(name, parser._parse_disjunction())]
    parser._advance()
    form = parser._parse_var(any_token=True).name.upper()
    if not parser._match_text_seq("ENCODE"):
        parser.raise_error("write FORMAT PLAIN ENCODE JSON", name)
    encoded = parser._parse_var(any_token=True)
    made = [option_of(name, _text(encoded, "debezium-" * (form == "DEBEZIUM")), "format")]
    if form == "UPSERT":
        made.append(option_of(name, exp.Literal.string("upsert"), "changelog.mode"))
    elif form not in ("PLAIN", "APPEND_ONLY", "DEBEZIUM"):
        there = "there are PLAIN, UPSERT and DEBEZIUM"
        parser.raise_error(f"FORMAT {form} is not supported; {there}", name)
    if parser._match(TokenType.L_PAREN, advance=False):
        made += parser._parse_wrapped_csv(lambda: _one_option(parser))
    return made


def _like(parser: Any) -> exp.Expr:
    name = parser._curr
    parser._advance()
    table = exp.Table(this=parser._parse_id_var())
    choices: list[tuple[str, str]] = []
    if parser._match(TokenType.L_PAREN):
        while not parser._match(TokenType.R_PAREN):  # terminates: each pass reads two words
            pair = [parser._curr, parser._next]
            words = [token.text.upper() if token else "" for token in pair]
            if words[0] not in _CHOICES or words[1] not in _CHOSEN:
                parser.raise_error(_NO_CHOICE, pair[0] or name)
            choices.append((words[0], words[1]))
            parser._advance(2)
    table.meta["choices"] = choices
    return option_of(name, table, LIKE)


def _text(word: exp.Expr, prefix: str = "") -> exp.Expr:
    made = exp.Literal.string(prefix + word.name.lower())
    made.meta.update(word.meta)
    return made


def _append_only(parser: Any) -> exp.Expr:
    """Parse RisingWave's ``APPEND ONLY``, which every table is here."""
    name = parser._curr
    parser._advance()
    if not parser._match_text_seq("ONLY"):
        parser.raise_error("write APPEND ONLY", name)
    return option_of(name, exp.Literal.string(""), COMMENT)


def _stored(parser: Any) -> exp.Expr:
    """Parse a clause about storage, such as ``CLUSTERED BY (k) INTO 4 BUCKETS``; no effect."""
    name = parser._curr
    parser._advance()
    while parser._curr and parser._curr.text.upper() in _OF_STORAGE:  # ends: the text is finite
        parser._advance()
    if parser._match(TokenType.L_PAREN, advance=False):
        parser._parse_wrapped_csv(lambda: parser._parse_ordered() and _skip_value(parser))
    if parser._match_text_seq("INTO"):
        parser._advance()
        parser._match_text_seq("BUCKETS")
    return option_of(name, exp.Literal.string(""), COMMENT)


def _skip_value(parser: Any) -> exp.Expr:
    """Parse the value of a property, with or without ``=``."""
    if parser._match(TokenType.EQ) or parser._curr.text not in (",", ")"):
        parser._parse_disjunction()
    return exp.var("stored")


def _refused(words: str) -> Callable[[Any], Any]:
    def refuse(parser: Any) -> None:
        parser.raise_error(words, parser._curr)

    return refuse


_CHOICES = ("INCLUDING", "EXCLUDING", "OVERWRITING")
_CHOSEN = (
    *("ALL", "CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS"),
    "WATERMARKS",
)
_NO_CHOICE = (
    "LIKE takes INCLUDING, EXCLUDING or OVERWRITING, each with ALL, CONSTRAINTS, DISTRIBUTION, "
    "GENERATED, METADATA, OPTIONS, PARTITIONS or WATERMARKS"
)
_OF_STORAGE = ("BY", "HASH", "RANGE")
#: Parsers of clauses by their first word.
CLAUSES_OF_TABLES: dict[str, Callable[[Any], Any]] = {
    "COMMENT": _comment,
    "PARTITIONED": _partitioned,
    "PARTITIONED BY": _partitioned,
    "USING": _using,
    "LOCATION": _location,
    "OPTIONS": _options,
    "FORMAT": _format,
    "LIKE": _like,
    "APPEND": _append_only,
    **dict.fromkeys(("TBLPROPERTIES", "CLUSTERED", "CLUSTER", "SORTED", "DISTRIBUTED"), _stored),
    "INCLUDE": _refused("INCLUDE is not supported; write at TIMESTAMP METADATA FROM 'timestamp'"),
    "ON": _refused(
        "ON CONFLICT is not supported; write 'changelog.mode' = 'upsert' in WITH, and a PRIMARY KEY"
    ),
}
#: First words of statements about names and stores, which have no effect on a text's results.
_CATALOGS = ("CATALOG", "DATABASE", "SCHEMA", "CLUSTER", "SECRET", "CONNECTION")
_NO_ALTER = (
    "ALTER {0} is not supported; write the changes into the CREATE {0}, such as WATERMARK FOR, "
    "columns and options"
)
_SHOWN = (
    "CATALOGS",
    "DATABASES",
    "SCHEMAS",
    "QUERIES",
    "TOPICS",
    "JOBS",
    "TABLES",
    "VIEWS",
    "STREAMS",
    "SOURCES",
    "SINKS",
    "MATERIALIZED",
    "FUNCTIONS",
    "COLUMNS",
)


#: First words of statements about sessions, statistics and caches, which do not change rows.
_SILENT = ("RESET", "ANALYZE", "HELP", "REFRESH", "CACHE", "UNCACHE", "MSCK")
_SILENT_PAIRS = (
    *(("ADD", "JAR"), ("ADD", "JARS"), ("REMOVE", "JAR"), ("ADD", "FILE"), ("LIST", "JAR")),
    *(("LOAD", "MODULE"), ("UNLOAD", "MODULE"), ("SHOW", "JARS"), ("SHOW", "MODULES")),
    *(("SHOW", "CREATE"), ("SHOW", "PARTITIONS"), ("SHOW", "CURRENT"), ("SHOW", "FULL")),
    *(("SHOW", "TBLPROPERTIES"), ("SHOW", "PROCEDURES"), ("SHOW", "NAMESPACES")),
)


def client_statement(parser: Any) -> exp.Expr | None:
    """Parse a statement that is no query and creates nothing; None: it is another."""
    first, second = parser._curr, parser._next
    if first is None:
        return None
    word = first.text.upper()
    follows = "" if second is None else second.text.upper()
    if word == "EXECUTE" and follows == "STATEMENT":
        parser._advance(3)
        if parser._match_text_seq("BEGIN") and not parser._curr:
            return _statement(first, "BEGIN")
        return None
    if word == "BEGIN":
        parser._advance(3 if follows == "STATEMENT" else 1)
        return None if parser._curr else _statement(first, "BEGIN")
    if word == "END" and not follows:
        parser._advance()
        return _statement(first, "END")
    if word == "SET":
        return _set(parser, first)
    if word in ("SHOW", "LIST") and follows in _SHOWN:
        return _rest(parser, first, "SHOW")
    if word in ("DESCRIBE", "DESC") and second is not None:
        parser._advance()
        parser._match_text_seq("EXTENDED")
        made = _statement(first, "DESCRIBE", [parser._parse_table_parts()])
        parser._match_text_seq("EXTENDED")
        return made
    if word == "EXPLAIN":
        parser._advance()
        parser._match_text_seq("PLAN", "FOR")
        made = _statement(first, "EXPLAIN")
        made.set("query", parser._parse_statement())
        return made
    if word == "ALTER" and second is not None:
        parser.raise_error(_NO_ALTER.format(follows), first)
    if word in _SILENT or (word, follows) in _SILENT_PAIRS:
        return _rest(parser, first, word)
    is_silent = word in ("DROP", "USE") or (word == "CREATE" and follows in ("INDEX", *_CATALOGS))
    return _rest(parser, first, f"{word} {follows}") if is_silent else None


def _statement(first: Token, word: str, parts: list[exp.Expr] | None = None) -> ClientStatement:
    made = ClientStatement(this=exp.var(word), expressions=parts or [])
    made.update_positions(first)
    return made


def _rest(parser: Any, first: Token, word: str) -> ClientStatement:
    """Parse all words up to the end of the statement."""
    words: list[exp.Expr] = []
    parser._advance()
    while parser._curr:  # terminates: the statement is finite
        words.append(exp.var(parser._curr.text))
        parser._advance()
    return _statement(first, word, words)


def _set(parser: Any, first: Token) -> ClientStatement:
    """Parse ``SET 'key' = 'value'``, ``SET key = value``, ``SET key TO value``."""
    parser._advance()
    words = []
    while parser._curr and parser._curr.text not in ("=", "TO", "to"):  # ends: the text is finite
        words.append(parser._curr.text)
        parser._advance()
    parser._advance()
    value = [token.text for token in parser._tokens[parser._index :]]
    while parser._curr:  # terminates: the statement is finite
        parser._advance()
    return _statement(
        first, "SET", [exp.Literal.string("".join(words)), exp.Literal.string("".join(value))]
    )
