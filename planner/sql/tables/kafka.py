"""The connector ``kafka``: topics to read and write; options of Flink SQL work, too."""

# ruff: noqa: RUF009 - option() makes a field

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.api import sinks
from planner.api.expressions import col
from planner.api.inputs.kafka import KafkaOptions, kafka_source
from planner.api.stream import Stream
from planner.expressions.types import common_type
from planner.logical.table_form import DEFAULT
from planner.sql.reading.errors import sql_type
from planner.sql.tables.lasting import changelog_option, deleted_option, lasting
from planner.sql.tables.options import (
    choice,
    count,
    delay,
    duration,
    names,
    node,
    null_or_text,
    option,
    text,
    truth,
)
from planner.sql.tables.table import Connector, Sink, Source
from rvertex.sources.logs.decode.changes import DELETED

if TYPE_CHECKING:
    from sqlglot import exp

    from planner.logical.query import Query
    from planner.sql.tables.options import Given
    from planner.sql.tables.table import Table

_FORMATS = {
    **{word: word for word in ("json", "avro", "arrow", "bytes")},
    "avro-confluent": "avro",
    "debezium-json": "debezium-json",
    "debezium-avro": "debezium-avro",
    "debezium-avro-confluent": "debezium-avro",
    "raw": "bytes",
}
_DEBEZIUM = ("debezium-json", "debezium-avro")
_WITH_TOMBSTONES = ("json", "avro")
_MODES = {"transactions": "transactions", "headers": "headers", "exactly-once": "transactions"}
_REGISTRY = "schema.registry.url"
#: Values of scan.startup.mode and scan.bounded.mode that another option specifies.
_TIMESTAMP, _OFFSETS = "timestamp", "specific-offsets"
_WORDS = {"earliest-offset": "earliest", "latest-offset": "latest"}
_MILLISECOND_US = 1000


def _choice_of(*known: str) -> Any:
    return choice({word: word for word in known})


def _offsets(given: Given, name: str) -> dict[int, int]:
    """Parse ``partition:0,offset:42;partition:1,offset:300``."""
    offsets = {}
    for part in given.text_of(name).split(";"):
        pairs = dict(pair.split(":", 1) for pair in part.split(",") if ":" in pair)
        numbers = [pairs.get(key, "").strip() for key in ("partition", "offset")]
        if not all(number.isdigit() for number in numbers):
            raise given.error(name, f"write {name} = 'partition:0,offset:42;partition:1,offset:7'")
        offsets[int(numbers[0])] = int(numbers[1])
    return offsets


def _millis(given: Given, name: str) -> int:
    value = str(given.values[name].name)
    if not value.isdigit():
        raise given.error(name, f"{name} must be a number of milliseconds since 1970")
    return int(value) * _MILLISECOND_US


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """The options of a topic that is read."""

    topic: str = option("topic")
    servers: str = option("servers", "properties.bootstrap.servers", "properties.bootstrap.server")
    format: str = option("format", "value.format", read=choice(_FORMATS), default="json")
    avro_schema: str | None = option("avro.schema", default=None)
    registry: str | None = option(
        "registry",
        "avro-confluent.url",
        "value.avro-confluent.url",
        "debezium-avro-confluent.url",
        default=None,
    )
    vs: exp.Expr | None = option("vs", "timestamp", read=node, default=None)
    ve: exp.Expr | None = option("ve", read=node, default=None)
    upserts: bool = changelog_option()
    deleted: exp.Expr | None = deleted_option()
    delay: int | str | None = option("delay", read=delay, default=None)
    late: str = option("late", read=_choice_of("drop", "adjust", "error"), default="drop")
    partitions: int | None = option("partitions", "scan.parallelism", read=count, default=None)
    idle: str = option("idle", read=_choice_of("follow", "clock", "wait"), default="follow")
    idle_after: int | str = option(
        "idle_after", "scan.watermark.idle-timeout", read=duration, default="2s"
    )
    start: str = option("start", "scan.startup.mode", default="earliest")
    start_us: int | None = option("scan.startup.timestamp-millis", read=_millis, default=None)
    start_offsets: dict[int, int] | None = option(
        "scan.startup.specific-offsets", read=_offsets, default=None
    )
    until: str | None = option("until", "scan.bounded.mode", default=None)
    until_us: int | None = option("scan.bounded.timestamp-millis", read=_millis, default=None)
    until_offsets: dict[int, int] | None = option(
        "scan.bounded.specific-offsets", read=_offsets, default=None
    )
    on_bad_row: str = option(
        "on_bad_row", read=_choice_of("fail", "skip", "dead_letter"), default="fail"
    )
    ignores_errors: bool = option(
        "json.ignore-parse-errors", "value.json.ignore-parse-errors", read=truth, default=False
    )
    on_lost: str = option("on_lost", read=_choice_of("fail", "skip"), default="fail")
    skew: int | None = option("skew", read=duration, default=None)
    max_ahead: int | None = option("max_ahead", read=duration, default=None)
    away_max: int | None = option("away_max", read=duration, default=None)
    properties: dict[str, str] = option("properties.*", read=text, default=None, is_shown=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink:
    """The options of a topic that is written."""

    topic: str = option("topic")
    servers: str = option("servers", "properties.bootstrap.servers", "properties.bootstrap.server")
    key: tuple[str, ...] = option("key", "key.fields", "primary_key", read=names, default=())
    format: str = option("format", "value.format", read=choice(_FORMATS), default="json")
    upsert: bool = changelog_option("type")
    changes: bool = option("changes", read=truth, default=False)
    mode: str = option(
        "mode", "sink.delivery-guarantee", read=choice(_MODES), default="transactions"
    )
    on_bad_row: str = option("on_bad_row", read=_choice_of("fail", "dead_letter"), default="fail")
    start: str | None = option("start", read=null_or_text, default=DEFAULT)
    end: str | None = option("end", read=null_or_text, default=DEFAULT)
    properties: dict[str, str] = option("properties.*", read=text, default=None, is_shown=False)


def read_topic(table: Table, options: TopicSource) -> Stream:
    """Return the stream of the topic."""
    is_debezium = options.format in _DEBEZIUM
    if options.vs is None and table.columns.watermark is None and not is_debezium:
        raise table.no_time()
    key = _key(table, options, is_debezium)
    config = dict(options.properties)
    if options.registry is not None:
        config[_REGISTRY] = options.registry
    schema = _message_schema(table)
    times = _times(table, options, schema, is_debezium)
    if options.delay is not None:
        times["delay"] = options.delay
    shape: Any = options.avro_schema or schema or None
    with table.text.located(table.given.name):
        given = KafkaOptions(
            servers=options.servers,
            key=key,
            schema=shape,
            format=options.format,  # type: ignore[arg-type]
            late=times.pop("late", options.late),
            idle=options.idle,  # type: ignore[arg-type]
            idle_after=options.idle_after,
            start=_place(table, options.start, "start", options.start_us, options.start_offsets),
            until=_until(table, options),
            on_bad_row="skip" if options.ignores_errors else options.on_bad_row,  # type: ignore[arg-type]
            on_lost=options.on_lost,  # type: ignore[arg-type]
            metadata=tuple(dict.fromkeys(table.columns.metadata.values())),
            skew=options.skew,
            max_ahead=options.max_ahead,
            away_max=options.away_max,
            partitions=options.partitions,
            config=config,
            **times,
        )
        stream = Stream(kafka_source(options.topic, given))
        if options.avro_schema is not None:
            stream = _as_declared(table, stream, schema)
        stream = _with_metadata(table, stream)
        if not key:
            made = table.declared(stream)
            return lasting(
                table, made, options.ve, upserts=options.upserts, deleted=options.deleted
            )
        made = table.declared(stream, besides=DELETED)
        return made.upserts(key, deleted=col(DELETED)).drop(DELETED)


def write_topic(table: Table, options: TopicSink, stream: Stream) -> Query:
    """Return the query that delivers to the topic."""
    key = options.key or table.columns.primary_key
    with table.text.located(table.given.name):
        spec = sinks.kafka(
            options.topic,
            servers=options.servers,
            key=key,
            format=options.format,  # type: ignore[arg-type]
            mode=options.mode,  # type: ignore[arg-type]
            upsert=options.upsert and options.format != "debezium-json",
            on_bad_row=options.on_bad_row,  # type: ignore[arg-type]
            changes=options.changes,
            config=options.properties,
        )
        return stream.deliver(spec, start=options.start, end=options.end)


def _key(table: Table, options: TopicSource, is_debezium: bool) -> tuple[str, ...]:
    """Return the key columns of a table topic; empty: each message is a separate row."""
    key = table.columns.primary_key
    if is_debezium:
        if not key:
            reason = "Debezium events need PRIMARY KEY (id) NOT ENFORCED, the row that they change"
            raise table.given.error("format", reason)
        if options.deleted is not None:
            raise table.given.error(
                "deleted",
                "leave out the option deleted: Debezium marks deletions itself (op = 'd')",
            )
        return key
    own = set(_message_schema(table))
    is_table = options.upserts and options.deleted is None and options.ve is None
    return key if is_table and options.format in _WITH_TOMBSTONES and set(key) <= own else ()


def _message_schema(table: Table) -> dict[str, pa.DataType]:
    """Return the columns that messages have."""
    columns = table.columns
    return {name: kind for name, kind in columns.types.items() if name not in columns.metadata}


def _as_declared(table: Table, stream: Stream, declared: dict[str, pa.DataType]) -> Stream:
    """Cast the columns of the Avro schema to their declared types, where values fit."""
    for name, wanted in declared.items():
        at = table.columns.nodes[name]
        if name not in stream.schema.names:
            raise table.text.error(at, f"avro.schema has no field {name!r}")
        kind = stream.schema.field(name).type
        if kind == wanted:
            continue
        are_times = pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted)
        if not are_times and common_type(kind, wanted) != wanted:
            raise table.text.error(
                at, f"column {name!r} is {sql_type(str(kind))} by avro.schema: declare it so"
            )
        stream = stream.with_columns(col(name).cast(wanted).alias(name))
    return stream


def _times(
    table: Table, options: TopicSource, schema: dict[str, pa.DataType], is_debezium: bool
) -> dict[str, Any]:
    """Return ``vs``, ``ve`` and the delay; the record's own time may be a METADATA column."""
    mark = table.columns.watermark
    if is_debezium:
        of_record = mark is None or table.columns.metadata.get(mark.name) == _TIMESTAMP
        if options.vs is None and of_record:
            # Changes of a partition are in the order of offsets even if clocks disagree, so a late
            # change is kept.
            late = {} if mark or options.delay is not None else {"late": "adjust"}
            delay_us = 0 if mark is None else table.columns.delay_us
            return {"vs": _TIMESTAMP, "delay": delay_us, **late}
        if options.vs is not None:
            return {"vs": options.vs.name}
    if mark is not None and table.columns.metadata.get(mark.name) == _TIMESTAMP:
        bare = {"vs": _TIMESTAMP, "delay": table.columns.delay_us}
        ends = table.time_options(None, options.ve, pa.schema(schema), marked=False)
        return {**bare, **ends}
    is_own = options.vs is not None and options.vs.name == _TIMESTAMP and _TIMESTAMP not in schema
    if is_own and mark is None:
        ends = table.time_options(None, options.ve, pa.schema(schema), marked=False)
        return {"vs": _TIMESTAMP, **ends}
    return table.time_options(options.vs, options.ve, pa.schema(schema))


def _with_metadata(table: Table, stream: Stream) -> Stream:
    """Return the METADATA columns under their names, cast to their declared types."""
    for name, key in table.columns.metadata.items():
        value = col(f"kafka_{key}")
        wanted = table.columns.types[name]
        if stream.schema.field(f"kafka_{key}").type != wanted:
            value = value.cast(wanted)
        stream = stream.with_columns(value.alias(name))
    read = {f"kafka_{key}" for key in table.columns.metadata.values()}
    extra = sorted(read - set(table.columns.metadata))
    stream = stream.drop(*extra) if extra else stream
    names = [name for name in table.columns.names if name in stream.schema.names]
    others = [name for name in stream.schema.names if name not in names]
    is_ordered = stream.schema.names == [*names, *others]
    return stream if is_ordered else stream.select(*names, *others)


def _until(table: Table, options: TopicSource) -> Any:
    if options.until in (None, "unbounded"):
        return None
    return _place(table, str(options.until), "until", options.until_us, options.until_offsets)


def _place(
    table: Table, mode: str, role: str, time_us: int | None, offsets: dict[int, int] | None
) -> Any:
    """Return the start or end of reading: a word, a time, or the offsets of another option."""
    flinks = "scan.startup" if role == "start" else "scan.bounded"
    if mode == _TIMESTAMP:
        if time_us is None:
            raise table.given.error("", f"{flinks}.timestamp-millis is missing")
        return time_us
    if mode == _OFFSETS:
        if offsets is None:
            raise table.given.error("", f"{flinks}.specific-offsets is missing")
        return offsets
    if mode == "group-offsets":
        option = f"{flinks}.mode"
        raise table.given.error(
            option, "a job keeps its own positions; start at 'earliest-offset', or resume the job"
        )
    return _WORDS.get(mode, mode)


CONNECTOR = Connector("kafka", Source(TopicSource, read_topic), Sink(TopicSink, write_topic))
