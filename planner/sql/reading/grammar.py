"""The grammar: sqlglot's own, with statements and tables that sqlglot does not have.

Ours are ``CREATE STREAM | SOURCE | SINK``, parsed as ``CREATE TABLE``; options ``name =
expression`` in ``WITH (...)``; ``WATERMARK FOR`` and ``METADATA`` among columns; window functions
in FROM, in Flink's spelling: ``TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))``; and
``EMIT CHANGES`` as in ksqlDB. No part of a text stays unparsed.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.generator import Generator as PlainGenerator
from sqlglot.parser import Parser, binary_range_parser
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.reading.forms import calls
from planner.sql.reading.forms.queries import parsed_calls
from planner.sql.reading.forms.queries.intervals import whole_interval
from planner.sql.reading.forms.queries.own_functions import own_function
from planner.sql.reading.forms.tokens import OPERATORS
from planner.sql.reading.hints import check_clause
from planner.sql.reading.pasted import CLAUSES_OF_TABLES, client_statement, dotted_name, option_of
from planner.sql.reading.row_patterns import MatchTable, RowOf, RowPatterns, Semantics

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.sql.reading.engines import Engine

E = TypeVar("E", bound=exp.Expr)
#: Window functions that are allowed in FROM.
WINDOW_TABLES = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
#: Functions whose arguments are read by position, regardless of sqlglot's names for them.
_BY_PLACE = (
    *("TIMESTAMPDIFF", "DATEDIFF", "DATE_ADD", "DATE_SUB", "DATE_PART", "REGEXP_EXTRACT"),
    *("REGEXP_SUBSTR", "LPAD", "RPAD", "LTRIM", "RTRIM", "LISTAGG", "STRING_AGG"),
    *("GROUP_CONCAT", "PERCENTILE", "MAP", "DATE_DIFF", "DATEADD", "DATEPART", "DATESUB"),
    *("GENERATE_SERIES", "SEQUENCE", "TRANSFORM", "REGEXP_EXTRACT_ALL", "JSON_KEYS", "SPLIT"),
    *("REGEXP_SPLIT", "REGEXP_INSTR", "JSON_EXTRACT_PATH_TEXT"),
)


class Watermark(exp.Expression):
    """``WATERMARK FOR this AS expression``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class Metadata(exp.Expression):
    """``METADATA [FROM this] [VIRTUAL]`` behind the type of a column."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False}


class WindowTable(exp.Expression):
    """A window function in FROM: its name ``this``, and its arguments as written."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True, "alias": False}


class TableArgument(exp.Expression):
    """``TABLE name [PARTITION BY ...]`` in the arguments of a window function."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class Descriptor(exp.Expression):
    """``DESCRIPTOR(column)`` in the arguments of a window function."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Emit(exp.Expression):
    """``EMIT CHANGES | FINAL`` after a SELECT; ``this`` is the second word."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


#: Types that only DuckDB's dialect names.
_UNSIGNED = (TokenType.UTINYINT, TokenType.USMALLINT, TokenType.UBIGINT)


class StreamDialect(Dialect):
    """Names may be in double quotes or, as in Flink and Spark, in backquotes."""

    NULL_ORDERING = "nulls_are_last"

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        """Keep a path as it is written: whether a text is a key depends on the engine."""
        return path

    class Tokenizer(tokens.Tokenizer):
        RAW_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("r'", "'"), ("R'", "'")]
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **tokens.Tokenizer.KEYWORDS,
            **{kind.name: kind for kind in _UNSIGNED},
            **dict.fromkeys(("EXPLAIN", "EXECUTE"), TokenType.VAR),
            **OPERATORS,
        }

    class Generator(PlainGenerator):
        """Writes our nodes as SQL, for messages."""

        TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
            **PlainGenerator.TRANSFORMS,
            WindowTable: lambda self, node: f"{node.name}({self.expressions(node, flat=True)})",
            TableArgument: lambda self, node: f"TABLE {self.sql(node, 'this')}",
            Descriptor: lambda self, node: f"DESCRIPTOR({self.sql(node, 'this')})",
            MatchTable: lambda self, node: f"{self.sql(node, 'this')} MATCH_RECOGNIZE (...)",
            RowOf: lambda self, node: f"{node.args['kind']}({self.sql(node, 'this')})",
            Semantics: lambda self, node: f"{node.args['kind']} {self.sql(node, 'this')}",
            Emit: lambda self, node: f"EMIT {self.sql(node, 'this')}",
            Watermark: lambda self, node: f"WATERMARK FOR {self.sql(node, 'this')}",
            Metadata: lambda self, node: f"METADATA {self.sql(node, 'this')}".rstrip(),
            exp.AnonymousAggFunc: lambda self, node: self.func(node.name, *node.expressions),
        }


class _SmallNulls(StreamDialect):
    NULL_ORDERING = "nulls_are_small"


class _Spark(_SmallNulls):
    """Numbers may have a suffix: ``5L``, ``1.5D``. Texts may be in double quotes."""

    class Tokenizer(StreamDialect.Tokenizer):
        QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'", '"']
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"', "\\"]
        NUMERIC_LITERALS: ClassVar[dict[str, str]] = {
            "L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT",
            "D": "DOUBLE", "F": "FLOAT", "BD": "DECIMAL",
        }  # fmt: skip


class _LargeNulls(StreamDialect):
    NULL_ORDERING = "nulls_are_large"


def dialect_of(engine: Engine) -> Dialect:
    """Return the dialect for the grammar, which decides the place of nulls in ORDER BY."""
    if engine.name == "spark":
        return _Spark()
    for kind in (_SmallNulls, _LargeNulls):
        if engine.nulls == kind.NULL_ORDERING:
            return kind()
    return StreamDialect()


def as_sql(node: exp.Expr) -> str:
    """Return the SQL of a node, for messages."""
    return node.sql(dialect=StreamDialect)


class StreamParser(RowPatterns):
    """The grammar of sqlglot's own dialect, with the additions that the module lists."""

    CONSTRAINT_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        **Parser.CONSTRAINT_PARSERS,
        "METADATA": lambda self: self.parse_metadata(),
        "KEY": lambda self: self.expression(exp.CommentColumnConstraint(this=exp.var("KEY"))),
    }

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: build for name, build in Parser.FUNCTIONS.items() if name not in _BY_PLACE
    } | {"ELEMENT_AT": calls.bracket, "LIST_AGG": lambda given: exp.ArrayAgg(this=given[0])}
    #: INITCAP: sqlglot's own parser would add an argument that the text does not have.
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: read for name, read in Parser.FUNCTION_PARSERS.items() if name != "INITCAP"
    } | {
        "SUBSTR": Parser.FUNCTION_PARSERS["SUBSTRING"],
        "JSON_VALUE": calls.json_value,
        "JSON_QUERY": calls.json_query,
        "JSON_EXISTS": parsed_calls.json_exists,
        "JSON_ARRAY": parsed_calls.json_array,
    }

    EXPONENT: ClassVar[dict[TokenType, type[exp.Expr]]] = {TokenType.DSTAR: exp.Pow}
    RANGE_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **Parser.RANGE_PARSERS,
        TokenType.TILDE: binary_range_parser(exp.RegexpLike),
        TokenType.DAMP: binary_range_parser(exp.ArrayOverlaps),
    }

    def _warn_unsupported(self) -> None:
        """Do nothing: an unknown statement is an error with its place."""

    def expression(
        self, instance: E, token: Token | None = None, comments: list[str] | None = None
    ) -> E:
        if token is None and self._prev and all("start" not in n.meta for n in instance.walk()):
            instance.update_positions(self._prev)
        return super().expression(instance, token, comments)

    def _parse_property(self) -> exp.Expr | list[exp.Expr] | None:
        name = self._curr
        if name and name.token_type is TokenType.WITH:
            return super()._parse_property()
        if name and name.text.upper() in CLAUSES_OF_TABLES:
            made: exp.Expr | list[exp.Expr] = CLAUSES_OF_TABLES[name.text.upper()](self)
            return made
        called = dotted_name(self._tokens, self._index)
        if not called:
            return None
        self._advance(len(called) + 1)
        value = self._parse_disjunction()
        if value is None:
            self.raise_error("an option needs a value")
        assert value is not None, name
        return option_of(name, value, "".join(token.text for token in called))

    def _parse_property_before(self) -> exp.Expr | list[exp.Expr] | None:
        """Parse a clause that follows a table name without columns."""
        return self._parse_property()

    def _parse_field_def(self) -> exp.Expr | None:
        if not self._match_text_seq("WATERMARK", "FOR"):
            return super()._parse_field_def()
        column = self._parse_id_var()
        # Arroyo writes WATERMARK FOR column, without AS
        if column is not None and self._curr and self._curr.text in (",", ")"):
            return self.expression(Watermark(this=column, expression=exp.column(column.copy())))
        if column is None or not self._match(TokenType.ALIAS):
            self.raise_error("write WATERMARK FOR column AS column - INTERVAL '5' SECOND")
        return self.expression(Watermark(this=column, expression=self._parse_disjunction()))

    def parse_metadata(self) -> exp.Expr:
        """Parse the rest after the word METADATA."""
        key = self._parse_string() if self._match(TokenType.FROM) else None
        self._match_text_seq("VIRTUAL")
        return self.expression(Metadata(this=key))

    def _parse_column_def(self, *args: Any, **options: Any) -> exp.Expr | None:
        """Parse ``NOT NULL`` after a computed column, where sqlglot would read ``IS NOT NULL``."""
        begin = self._index
        column = super()._parse_column_def(*args, **options)
        calls.generated(self, column)
        if column is not None and column.find(exp.ComputedColumnConstraint):
            required = self._required(begin)
            if required is not None:
                kind = exp.NotNullColumnConstraint()
                kind.update_positions(required)
                column.append("constraints", exp.ColumnConstraint(kind=kind))
        return column

    def _required(self, begin: int) -> Token | None:
        """Return the ``NOT`` of a ``NOT NULL`` since ``begin``, outside of brackets, without IS."""
        depth, before = 0, None
        for token, after in itertools.pairwise(self._tokens[begin : self._index]):
            depth += token.token_type is TokenType.L_PAREN
            depth -= token.token_type is TokenType.R_PAREN
            is_pair = (token.token_type, after.token_type) == (TokenType.NOT, TokenType.NULL)
            if is_pair and depth == 0 and before is not TokenType.IS:
                return token
            before = token.token_type
        return None

    def _emit_word(self) -> str | None:
        """Return the word of an EMIT clause, if one begins here; ``ON WINDOW CLOSE`` is FINAL."""
        first, second = self._curr, self._next
        if not (first and second and first.text.upper() == "EMIT"):
            return None
        word = second.text.upper()
        if word == "ON":
            ends = [token.text.upper() for token in self._tokens[self._index + 2 :][:2]]
            return "FINAL" if ends == ["WINDOW", "CLOSE"] else None
        return word if word in ("CHANGES", "FINAL") else None

    def _parse_query_modifiers(self, this: Any) -> Any:
        """Parse ``EMIT CHANGES`` last, as in ksqlDB."""
        query = super()._parse_query_modifiers(this)
        word = self._emit_word()
        if isinstance(query, exp.Select) and word is not None:
            emit = Emit(this=exp.var(word))
            emit.update_positions(self._curr)
            query.set("emit", emit)
            self._advance(2 if self._next.text.upper() == word else 4)
        return query

    def _parse_table_hints(self) -> list[exp.Expr] | None:
        """Leave WITH after a table in a CREATE unparsed: it has the created table's options."""
        is_create = self._tokens[0].token_type is TokenType.CREATE
        return None if is_create else super()._parse_table_hints()

    def _parse_statement(self) -> exp.Expr | None:
        """Parse client statements such as SET and SHOW; skip ``EXECUTE STATEMENT SET BEGIN``."""
        return own_function(self) or client_statement(self) or super()._parse_statement()

    def _parse_table_alias(self, *args: Any, **options: Any) -> exp.TableAlias | None:
        if self._emit_word() or self._is_match():
            return None
        check_clause(self)
        return super()._parse_table_alias(*args, **options)

    def _parse_table(self, *args: Any, **options: Any) -> exp.Expr | None:
        table = self._parse_window_table() or super()._parse_table(*args, **options)
        while table is not None and self._is_match():  # terminates: the text is finite
            table = self._parse_match_table(table)
        return table

    def _parse_window_table(self) -> exp.Expr | None:
        """Parse a window function, alone or in ``TABLE(...)``; None: there is none."""
        before = self._index
        is_wrapped = self._match_pair(TokenType.TABLE, TokenType.L_PAREN)
        name, after = self._curr, self._next
        is_call = name and after and after.token_type is TokenType.L_PAREN
        if not is_call or name.text.upper() not in WINDOW_TABLES:
            self._retreat(before)
            return None
        self._advance(2)
        arguments = calls.by_place(
            self._parse_csv(self._parse_window_argument), TableArgument, Descriptor
        )
        self._match_r_paren()
        if is_wrapped:
            self._match_r_paren()
        called = exp.to_identifier(name.text)
        called.update_positions(name)
        node = WindowTable(this=called, expressions=arguments)
        alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
        node.set("alias", alias)
        node.update_positions(name)
        return node

    def _parse_window_argument(self) -> exp.Expr | None:
        if self._next and self._next.token_type is TokenType.FARROW:
            name = exp.var(self._curr.text)
            name.update_positions(self._curr)
            self._advance(2)
            return self.expression(exp.Kwarg(this=name, expression=self._parse_window_argument()))
        if self._match(TokenType.TABLE):
            table = self._parse_table_parts()
            return self.expression(TableArgument(this=table, expressions=self._parse_keys()))
        if self._match_text_seq("DESCRIPTOR", "("):
            column = self._parse_column()
            self._match_r_paren()
            return self.expression(Descriptor(this=column))
        return self._parse_disjunction()

    def _parse_keys(self) -> list[exp.Expr]:
        """Parse ``PARTITION BY a, b`` in front of a comma and DESCRIPTOR."""
        if not self._match(TokenType.PARTITION_BY):
            return []
        is_wrapped = self._match(TokenType.L_PAREN)
        keys = [self._parse_column()]
        while self._match(TokenType.COMMA):  # terminates: the text is finite
            if self._curr and self._curr.text.upper() == "DESCRIPTOR":
                self._retreat(self._index - 1)
                break
            keys.append(self._parse_column())
        if is_wrapped:
            self._match_r_paren()
        return [key for key in keys if key is not None]

    def _parse_unnest(self, *args: Any, **options: Any) -> exp.Unnest | None:
        """Parse UNNEST; the positions of ``WITH OFFSET`` count from 0."""
        before = self._index
        unnest: exp.Unnest | None = super()._parse_unnest(*args, **options)
        if unnest is not None and calls.counts_from_zero(self._tokens[before : self._index]):
            unnest.meta[calls.FROM_ZERO] = True
        return unnest

    def _parse_interval_span(self, this: Any, *args: Any, **options: Any) -> Any:
        return whole_interval(super()._parse_interval_span(this, *args, **options), this)

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        """Parse ``x -> x + 1``, or DuckDB's newer ``lambda x: x + 1``."""
        before = self._index
        if self._match_text_seq("LAMBDA"):
            names = self._parse_csv(self._parse_lambda_arg)
            if self._match(TokenType.COLON):
                body = self._replace_lambda(self._parse_disjunction(), names)
                return self.expression(exp.Lambda(this=body, expressions=names))
            self._retreat(before)  # ``lambda`` is a column here
        parsed: exp.Expr | None = super()._parse_lambda(alias)
        return parsed

    def _parse_case(self) -> exp.Expr | None:
        if parsed_calls.has_lists(self):
            return parsed_calls.case_of_lists(self)
        made: exp.Expr | None = super()._parse_case()
        return made

    def _parse_function(self, *args: Any, **options: Any) -> exp.Expr | None:
        """Report missing arguments as an SQL error; sqlglot would raise Python's TypeError."""
        name = self._curr
        try:
            return calls.with_unit(super()._parse_function(*args, **options))
        except (LookupError, AttributeError, TypeError, ValueError):
            self.raise_error(f"{name.text.upper()} does not take these arguments", name)
            raise

    def _parse_as_command(self, start: Token) -> exp.Command:
        self.raise_error("this cannot be read here", self._curr or start)
        return super()._parse_as_command(start)
