"""``CREATE STREAM | SOURCE | SINK | TABLE name [(columns)] WITH (option = value, ...)``.

A declared table can be read by a SELECT, be the target of INSERT INTO, or both, depending on its
connector. Nothing is read before it is used. A new connector is a file with a record of options for
each direction, and a line in :data:`CONNECTORS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from planner.sql.reading.grammar import dialect_of
from planner.sql.reading.literals import interval_us
from planner.sql.reading.pasted import COMMENT, LIKE, PARTITIONED
from planner.sql.tables import console, filesystem, kafka, postgres
from planner.sql.tables.accepted import accepted
from planner.sql.tables.columns import columns_of, columns_with, with_message_key
from planner.sql.tables.inserted import ROWS, TIME
from planner.sql.tables.inserted_values import inserted_rows
from planner.sql.tables.lasting import CHANGELOG
from planner.sql.tables.liked import columns_kept, kept_of
from planner.sql.tables.options import Given, knows, read_options, spellings, unknown_option
from planner.sql.tables.table import Connector, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.api.stream import Stream
    from planner.logical.query import Query
    from planner.sql.reading.parsing import SqlText
    from planner.sql.tables.columns import Columns

_FOLLOWS = ("follow", "poll_every", "source.monitor-interval")
_IDLE = ("idle", "idle_after", "scan.watermark.idle-timeout")
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_CONNECTOR, _TIME, _TOPIC = "connector", "timestamp", "kafka_topic"
#: Connectors by the name in ``WITH (connector = '...')``; the first is the default.
CONNECTORS: dict[str, Connector] = {
    connector.name: connector
    for connector in (
        *(filesystem.CONNECTOR, kafka.CONNECTOR, postgres.CONNECTOR, console.CONNECTOR),
    )
}
#: Other names of the connectors.
_NOT_PARTITIONED = (
    "a target has no PARTITIONED BY: leave it out, or write "
    "stream.to_parquet(path, partition_by=[...]) in Python"
)
_ALSO = {"print": "console", "jdbc": "postgres", "parquet": "filesystem"}


@dataclass(frozen=True, slots=True)
class Declaration:
    """A table and its connector."""

    table: Table
    connector: Connector
    #: The format of keys of messages, for a topic of ksqlDB.
    key_format: str = ""
    #: The statements INSERT INTO ... VALUES with all rows of the table; empty: rows are elsewhere.
    rows: tuple[exp.Insert, ...] = ()

    def source(self) -> Stream:
        """Return the stream of the table's rows.

        Raises:
            SqlError: the options do not fit, or the files cannot be read.
        """
        table, source = self.table, self.connector.source
        if self.rows:
            return inserted_rows(
                table, self.rows, table.given.values.get("vs", table.given.values.get(_TIME))
            )
        if source is None or table.word == "SINK":
            name = table.given.name.name
            what = f"CREATE SINK {name}" if source else f"a {self.connector.name} table"
            raise table.given.error("", f"{what} cannot be read; it is a target of INSERT INTO")
        self._check_direction(source.options, "a target of INSERT INTO")
        table = _as_source(table, self.key_format) if self.key_format else table
        return source.open(table, read_options(source.options, table.given, table.title))

    def with_idle_timeout(self, timeout: str) -> Declaration:
        """Apply Flink's ``table.exec.source.idle-timeout`` to a live source without its own."""
        values = self.table.given.values
        is_live = self.connector.name == "kafka" or not values.keys().isdisjoint(_FOLLOWS)
        if not is_live or not values.keys().isdisjoint(_IDLE):
            return self
        is_never = timeout.split()[0].rstrip("smhd") == "0"
        name, value = ("idle", "wait") if is_never else ("idle_after", timeout)
        given = replace(self.table.given, values={**values, name: exp.Literal.string(value)})
        return replace(self, table=replace(self.table, given=given))

    def target(self, stream: Stream) -> Query:
        """Return the query that writes ``stream`` to the table."""
        given, sink = self.table.given, self.connector.sink
        if sink is None or self.table.word == "SOURCE":
            what = f"CREATE SOURCE {given.name.name}" if sink else f"a {self.connector.name} table"
            raise given.error("", f"{what} cannot be written")
        if self.table.columns.watermark is not None:
            raise self.table.text.error(
                self.table.columns.watermark, "a target of INSERT INTO has no WATERMARK"
            )
        is_ours = not self.table.text.engine.name
        if is_ours and self.table.word == "STREAM" and self.table.columns.names:
            raise given.error("format", "a target of INSERT INTO is 'parquet' or 'rstream'")
        self._check_direction(
            sink.options, "a table that is read", not_of="a target of INSERT INTO"
        )
        options = read_options(sink.options, given, self.table.title)
        return sink.write(self.table, options, self.table.matched(stream))

    def _is_source(self) -> bool:
        """Return whether ``type = 'source'`` is given."""
        value = self.table.given.values["type"]
        return value.name.lower() == "source"

    def _check_direction(self, record: type[Any], of: str, not_of: str | None = None) -> None:
        """Raise for an option that the connector has only for the other direction."""
        for name in self.table.given.values:
            if name == PARTITIONED and not_of is None:
                continue  # the partitioning of a source's files does not change its rows
            if name == PARTITIONED:
                raise self.table.given.error("", _NOT_PARTITIONED)
            if name == "type" and of == "a target of INSERT INTO" and self._is_source():
                continue  # Arroyo states the purpose of the table in this option
            if name != _CONNECTOR and not knows(record, name):
                reason = f"{name} is an option of {of}"
                if not_of is not None:
                    reason = f"{name} is not an option of {not_of}"
                raise self.table.given.error(name, reason)


def declared(
    node: exp.Create,
    text: SqlText,
    variables: Mapping[str, str],
    known: Mapping[str, Declaration],
) -> Declaration:
    """Return the declaration of a CREATE without AS.

    Raises:
        SqlError: there is no such connector, or it has no such option.
    """
    schema = node.this
    name = schema.this if isinstance(schema, exp.Schema) else schema
    options: dict[str, exp.Expr] = {}
    properties = node.args.get("properties")
    parts = properties.expressions if properties is not None else []
    places: dict[str, exp.Expr] = {}
    for part in parts:
        key = part.this.name.lower() if isinstance(part, exp.Property) else ""
        if key == PARTITIONED:
            options[key] = part.this
        if key in (COMMENT, PARTITIONED):
            continue
        if key in options:
            raise text.error(part, f"{key} is given twice")
        options[key], places[key] = part.args["value"], part
    base = places.pop(LIKE, None)
    columns, options = _columns(schema, base, options, known, text)
    key_format = options.get("key_format") or options.get("format")
    rows = tuple(node.meta.get(ROWS, ()))
    if TIME in node.meta and not {"vs", "static", _TIME} & options.keys():
        options["vs"] = exp.column(node.meta[TIME].copy())
    _translate(options, places, text, is_filled=bool(rows))
    is_table = str(node.args["kind"]).upper() == "TABLE" and text.engine.name == "ksqldb"
    if is_table and columns.primary_key:
        options.setdefault(CHANGELOG, exp.Literal.string("upsert"))
    if isinstance(options.get(_TIME), exp.Literal):
        options[_TIME] = _time_of(options[_TIME], columns)
    given = Given(text, variables, name, options)
    connector = CONNECTORS["kafka"] if rows else _connector(given)
    shape = "kafka" if key_format is None else key_format.name.lower()
    is_topic = text.engine.name == "ksqldb" and connector.name == "kafka"
    sides = [connector.source, connector.sink]
    sides += [CONNECTORS["filesystem"].source] if rows else []
    records = [side.options for side in sides if side is not None]
    accepted(options, places, records, text)
    for key, part in places.items():
        if key != _CONNECTOR and not any(knows(record, key) for record in records):
            names = (_CONNECTOR, *(s for record in records for s in spellings(record)))
            raise text.error(part, unknown_option(key, names))
    table = Table(str(node.args["kind"]), given, columns)
    return Declaration(table, connector, shape if is_topic else "", rows)


def _columns(
    schema: exp.Expr,
    base: exp.Expr | None,
    options: dict[str, exp.Expr],
    known: Mapping[str, Declaration],
    text: SqlText,
) -> tuple[Columns, dict[str, exp.Expr]]:
    """Return the columns and options, and the inherited ones of LIKE."""
    if base is None:
        return columns_of(schema, text), options
    wanted = options.pop(LIKE)
    like = known.get(wanted.name)
    if like is None:
        raise text.error(base, "LIKE takes a table that was declared before")
    kept = kept_of(wanted)
    of = columns_kept(like.table.columns, kept)
    inherited = like.table.given.values if "OPTIONS" in kept else {}
    return columns_with(of, columns_of(schema, text, of.names)), {**inherited, **options}


def _as_source(table: Table, key_format: str) -> Table:
    """Return the declaration of a ksqlDB topic that is read; its KEY is the key of the message.

    The longest GRACE PERIOD of the text is the delay of a topic that declares none.
    """
    text, values = table.text, dict(table.given.values)
    graces = _graces(text)
    if graces and "delay" not in values and table.columns.watermark is None:
        values["delay"] = max(graces, key=lambda length: interval_us(length, text))
    columns = with_message_key(table.columns, key_format, text)
    return replace(table, columns=columns, given=replace(table.given, values=values))


def _graces(text: SqlText) -> list[exp.Expr]:
    """Return the lengths after GRACE PERIOD."""
    tokens = dialect_of(text.engine).tokenize(text.text)
    words = ["" if t.token_type in _QUOTED else t.text for t in tokens]
    return [
        exp.Literal.string(" ".join(words[at + 2 : at + 4]))
        for at in range(len(words) - 3)
        if [word.upper() for word in words[at : at + 2]] == ["GRACE", "PERIOD"]
    ]


def _translate(
    options: dict[str, exp.Expr],
    places: dict[str, exp.Expr],
    text: SqlText,
    *,
    is_filled: bool,
) -> None:
    """Translate options of ksqlDB: the topic, and options without effect on rows."""
    if text.engine.name == "ksqldb":
        accepted(options, places, (), text)
    if text.engine.name == "ksqldb" and _TOPIC in options:
        topic, place = options.pop(_TOPIC), places.pop(_TOPIC)
        if "path" not in options and _CONNECTOR not in options and not is_filled:
            options["topic"], places["topic"] = topic, place
            options[_CONNECTOR] = exp.Literal.string("kafka")
            for other in ("value_format", "format"):
                if other in options:
                    options["format"], places["format"] = options.pop(other), places.pop(other)


def _time_of(written: exp.Expr, columns: Columns) -> exp.Expr:
    """Translate ksqlDB's ``TIMESTAMP = 'column'``: a number is in milliseconds."""
    column = exp.column(written.name)
    kind = columns.types.get(written.name)
    time: exp.Expr = column
    if kind is not None and pa.types.is_integer(kind):
        call = [column, exp.Literal.number(3)]
        time = exp.Anonymous(this="TO_TIMESTAMP_LTZ", expressions=call)
    for part in time.walk():
        part.meta.update(written.meta)
    return time


def _connector(given: Given) -> Connector:
    if _CONNECTOR not in given.values:
        return next(iter(CONNECTORS.values()))
    name = given.text_of(_CONNECTOR).lower()
    connector = CONNECTORS.get(_ALSO.get(name, name))
    if name == "upsert-kafka":
        reason = "write connector = 'kafka' with a PRIMARY KEY and 'changelog.mode' = 'upsert'"
        read = "for a topic that is read, and for one that is written"
        raise given.error(_CONNECTOR, f"no connector {name!r}: {reason}, {read}")
    if connector is None:
        raise given.error(_CONNECTOR, f"no connector {name!r}; there are: {', '.join(CONNECTORS)}")
    return connector
