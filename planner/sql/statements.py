"""Compiles a text in SQL: any number of CREATE, then one SELECT or INSERT INTO.

``CREATE STREAM | SOURCE | TABLE | SINK name WITH (...)`` declares a table of a connector, ``CREATE
STREAM | VIEW name AS SELECT ...`` names a query. A SELECT at the end makes a Stream, an INSERT INTO
makes a Query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.answers import Answers, with_merged
from planner.sql.clauses.select import compile_query, rows_of_query
from planner.sql.client import (
    IDLE_TIMEOUT,
    dropped,
    is_sink_of_query,
    refuse_local_times,
    tell,
)
from planner.sql.expressions.aggregates import marked
from planner.sql.expressions.functions import as_calls
from planner.sql.expressions.names import Names
from planner.sql.reading.engines import PLAIN, engine_of
from planner.sql.reading.forms.queries.engines.duckdb import with_pivots, with_read_files
from planner.sql.reading.forms.queries.engines.postgres import with_json_columns
from planner.sql.reading.forms.queries.own_functions import with_own_functions
from planner.sql.reading.forms.queries.stored_rows import with_stored_rows
from planner.sql.reading.parameters import bound
from planner.sql.reading.parsing import parse
from planner.sql.reading.pasted import ClientStatement
from planner.sql.reading.read_parts import check_complete, check_parts
from planner.sql.reading.rewriting import rewritten
from planner.sql.tables.declarations import Declaration, declared
from planner.sql.tables.inserted import with_inserted, with_times
from planner.sql.tables.processing_time import with_processing_times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from planner.api.expressions import Expr
    from planner.api.stream import Query, Stream
    from planner.sql.expressions.scope import Rows
    from planner.sql.reading.parameters import Parameters
    from planner.sql.reading.parsing import SqlText
    from rvertex.aggregates.user_defined import UserAggregate

#: Kinds of CREATE with options, kinds that name a SELECT, and the texts for messages.
_TABLES = ("STREAM", "SOURCE", "TABLE", "SINK")
_QUERIES = ("STREAM", "VIEW", "TABLE")
#: Storage options of other engines' CREATE ... AS SELECT; they have no effect here.
_WITHOUT_EFFECT = (
    *("comment of", "partitions", "replicas", "value_format", "key_format", "format"),
    *("freshness", "refresh_mode", "partitioned by"),
    *("kafka_topic", "retention_ms", "retain history", "value_delimiter", "key_delimiter"),
    *("wrap_single_value", "value_avro_schema_full_name"),
    *(f"{side}_schema_{part}" for side in ("key", "value") for part in ("full_name", "id")),
)
_TIMES = ("timestamp", "timestamp_format")
_NO_OPTIONS = (
    "CREATE {0} ... AS SELECT names a query; it writes nothing, so it takes no options: "
    "declare a SINK with them, and INSERT INTO it SELECT * FROM {1}"
)
_NO_TIMESTAMP = (
    "TIMESTAMP of a query is not supported, because rows keep the times of its source: write "
    "WITH (TIMESTAMP = '{0}') in the declaration of the source"
)
_NO_INSERT = (
    "write INSERT INTO stream SELECT ...; put rows of VALUES into a file, or read them, as in "
    "FROM (VALUES (1, 'a')) AS t (id, name)"
)
_LISTED = "STREAM, SOURCE, TABLE, SINK and VIEW"


def compile_text(
    sql: str,
    streams: Mapping[str, Stream],
    functions: Mapping[str, Callable[..., Expr]],
    aggregates: Mapping[str, UserAggregate],
    variables: Mapping[str, str],
    dialect: str | None = None,
    params: Parameters = (),
) -> Query | Stream:
    """Return the stream or query of a text; see :func:`planner.sql.entry.sql`."""
    text, statements = parse(sql, engine_of(dialect))
    statements = bound(statements, params, text)
    return compile_statements(text, statements, streams, functions, aggregates, variables)


def compile_statements(
    text: SqlText,
    statements: list[exp.Expr],
    streams: Mapping[str, Stream],
    functions: Mapping[str, Callable[..., Expr]] | None = None,
    aggregates: Mapping[str, UserAggregate] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Query | Stream:
    """Return the stream or query of parsed statements."""
    makers = {name: _constant(stream) for name, stream in streams.items()}
    own = {name.lower(): function for name, function in (functions or {}).items()}
    folds = {name.lower(): aggregate for name, aggregate in (aggregates or {}).items()}
    compiler = _Statements(Names(text, makers, own, folds), variables or {})
    try:
        if text.engine.name == "duckdb":
            statements = with_read_files(with_pivots(statements, text.error), text.error)
        statements = with_stored_rows(statements, text.engine.name, text.error)
        if text.engine.name == "postgres":
            with_json_columns(statements)
        statements = with_own_functions(statements, text.error)
        with_processing_times(statements, text.engine.name)
        names = own.keys() | folds.keys()
        ready = [marked(as_calls(rewritten(part, text, names)), folds) for part in statements]
        return _answer(compiler, ready, own)
    except RecursionError:
        raise text.error_at((0, 1), "this is nested too deeply") from None


def _answer(
    compiler: _Statements, statements: list[exp.Expr], own: Mapping[str, object]
) -> Query | Stream:
    """Compile the statements in order; return the result of the last."""
    text = compiler.text
    answers = Answers(text)
    statements = [s for s in statements if not isinstance(s, exp.EndStatement)]
    name = text.engine.name
    statements = with_merged(with_inserted(statements, is_sink_of_query, name, text.error))
    with_times(statements)
    for statement in statements:
        check_complete(statement, text)
        if isinstance(statement, ClientStatement):
            compiler.run_for_client(statement)
            continue
        compiler.check_times(statement)
        if isinstance(statement, exp.Create) and not is_sink_of_query(statement):
            answers.check_create(statement)
            compiler.create(statement)
            continue
        answers.add(statement, compiler.answer)
    for statement in statements:
        check_parts(statement, own, text)
    return answers.result()


class _Statements:
    """Compiles statement after statement, and keeps their declarations."""

    def __init__(self, names: Names, variables: Mapping[str, str]) -> None:
        self.text, self._names, self._variables = names.text, names, variables
        self._declared: dict[str, Declaration] = {}
        self._idle_timeout = ""

    def create(self, node: exp.Create) -> None:
        """Declare a table or a named query."""
        table = node.this.this if isinstance(node.this, exp.Schema) else node.this
        kind = str(node.args.get("kind")).upper()
        if kind not in _TABLES and kind not in _QUERIES:
            reason = f"CREATE {kind} is not supported; there are CREATE {_LISTED}"
            raise self.text.error(node, reason)
        name = table.name
        if name in self._names.streams and not node.args.get("replace"):
            if node.args.get("exists"):
                return
            raise self.text.error(table, f"there is a stream {name!r} already")
        is_files = kind == "VIEW" and node.args.get("properties") is not None
        if node.args.get("expression") is None and (kind in _TABLES or is_files):
            declaration = declared(node, self.text, self._variables, self._declared)
            self._declared[name] = declaration
            made: list[Stream] = []
            self._add(name, lambda: _once(made, lambda: self._source(declaration)))
            return
        self._names = self._names.adding(name, self._named_query(node, table, kind))

    def _source(self, declaration: Declaration) -> Stream:
        if self._idle_timeout:
            declaration = declaration.with_idle_timeout(self._idle_timeout)
        return declaration.source()

    def _named_query(self, node: exp.Create, table: exp.Expr, kind: str) -> Rows:
        """Compile ``CREATE STREAM | VIEW name [(columns)] AS SELECT ...``."""
        if kind not in _QUERIES or node.args.get("expression") is None:
            raise self.text.error(table, f"write CREATE VIEW {table.name} AS SELECT ...")
        options = node.args.get("properties")
        for option in () if options is None else list(options.expressions):
            if isinstance(option, exp.PartitionedByProperty) and self.text.engine is not PLAIN:
                option.pop()  # partitioning does not change the rows
                continue
            if self.text.engine is not PLAIN and option.name.lower() in _TIMES:
                reason = _NO_TIMESTAMP.format(option.args["value"].name)
                raise self.text.error(option, reason)
            if self.text.engine is PLAIN or option.name.lower() not in _WITHOUT_EFFECT:
                raise self.text.error(option, _NO_OPTIONS.format(kind, table.name))
        rows = rows_of_query(node.args["expression"], self._names)
        return rows.called(self._listed(rows.stream, node.this))

    def _listed(self, stream: Stream, schema: exp.Expr) -> Stream:
        """Return the stream with columns renamed by position, as in ``name (a, b)``."""
        if not isinstance(schema, exp.Schema):
            return stream
        columns = [_commented(column) for column in schema.expressions]
        names = [column.name for column in columns]
        if len(names) != len(stream.schema):
            reason = f"{len(names)} names for {len(stream.schema)} columns"
            raise self.text.error(schema, reason)
        for column in columns:
            if not isinstance(column, exp.Identifier):
                raise self.text.error(column, "only names of columns are allowed here")
        with self.text.located(schema):
            return stream.rename(dict(zip(stream.schema.names, names, strict=True)))

    def answer(self, node: exp.Expr) -> Query | Stream:
        """Return the result of the SELECT or INSERT INTO."""
        if isinstance(node, exp.Insert):
            return self._insert(node)
        if isinstance(node, exp.Create):
            return self._sink_of_query(node)
        if isinstance(node, exp.Query):
            return compile_query(node, self._names)
        raise self.text.no_statement(self.text.statement(node))

    def _sink_of_query(self, node: exp.Create) -> Query:
        """Compile ``CREATE SINK s AS SELECT ... WITH (...)``, RisingWave's spelling."""
        query = node.args["expression"].pop()
        self.create(node)
        target = exp.Table(this=node.this.this.copy())
        return self._insert(exp.Insert(this=target, expression=query))

    def run_for_client(self, node: ClientStatement) -> None:
        """Run a statement for the client: print tables, or apply a setting."""
        if node.name == "SET" and node.expressions[0].name.lower() == IDLE_TIMEOUT:
            self._idle_timeout = node.expressions[1].name
        for name in dropped(node):
            self._declared.pop(name, None)
            self._names = self._names.without(name)
        zone = tell(node, self._names, self._declared, self.answer)
        if zone is not None:
            self._names = replace(self._names, zone=zone)

    def check_times(self, statement: exp.Expr) -> None:
        """Raise for times that depend on the session's zone."""
        if self._names.zone:
            tables = [declaration.table for declaration in self._declared.values()]
            instants = {name for table in tables for name in table.columns.zoned}
            refuse_local_times(statement, instants, self._names)

    def _insert(self, node: exp.Insert) -> Query:
        schema = node.this
        target = schema.this if isinstance(schema, exp.Schema) else schema
        extra = [k for k, v in node.args.items() if v and k not in ("this", "expression", "with_")]
        if extra or not isinstance(target, exp.Table) or not isinstance(node.expression, exp.Query):
            raise self.text.error(target, _NO_INSERT)
        declaration = self._declared.get(target.name)
        if declaration is None:
            raise self.text.error(
                target, f"declare it first: CREATE SINK {target.name} WITH (path = '...')"
            )
        body = node.expression
        if node.args.get("with_") is not None:
            body.set("with_", node.args["with_"])
        listed = [column.name for column in schema.expressions] if schema is not target else []
        _name_by_place(body, listed or list(declaration.table.columns.names))
        stream = compile_query(body, self._names)
        return declaration.target(self._ordered(stream, schema, declaration))

    def _ordered(self, rows: Stream, schema: exp.Expr, target: Declaration) -> Stream:
        """Return the inserted columns in the order of the target, which needs all of them."""
        if not isinstance(schema, exp.Schema):
            return rows
        rows = self._listed(rows, schema)
        wanted = target.table.columns.names or tuple(rows.schema.names)
        if sorted(wanted) != sorted(rows.schema.names):
            reason = f"every column of the target is needed: {', '.join(wanted)}"
            raise self.text.error(schema, reason)
        return rows.select(*wanted)

    def _add(self, name: str, make: Callable[[], Stream]) -> None:
        streams = {**self._names.streams, name: make}
        self._names = replace(self._names, streams=streams)


def _name_by_place(query: exp.Expr, names: Sequence[str]) -> None:
    """Name unnamed columns of a SELECT after the columns into which they are inserted.

    If the query reads a column of that name, it stays unnamed: ORDER BY would change its meaning.
    """
    if isinstance(query, exp.SetOperation):
        for side in (query.this, query.args["expression"]):
            _name_by_place(side, names)
    if not isinstance(query, exp.Select) or any(part.is_star for part in query.expressions):
        return
    read = {column.name for column in query.find_all(exp.Column)}
    for part, name in zip(list(query.expressions), names, strict=False):
        if not isinstance(part, exp.Alias | exp.Column):
            called = name if name not in read else f"the new {name}"
            made = exp.Alias(alias=exp.to_identifier(called, quoted=True))
            part.replace(made)
            made.set("this", part)


def _commented(column: exp.Expr) -> exp.Expr:
    """Return the name of ``name COMMENT 'text'`` of a view."""
    others = column.args.get("constraints") or []
    kinds = [type(other.args["kind"]) for other in others]
    is_plain = isinstance(column, exp.ColumnDef) and column.args.get("kind") is None
    is_comment = all(kind is exp.CommentColumnConstraint for kind in kinds)
    return column.this if is_plain and is_comment else column


def _constant(stream: Stream) -> Callable[[], Stream]:
    return lambda: stream


def _once(made: list[Stream], make: Callable[[], Stream]) -> Stream:
    """Return the same stream at every use, so that its source is read once."""
    if not made:
        made.append(make())
    return made[0]
