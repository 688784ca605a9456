"""Checks what users declare of Kafka topics, and builds plan nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import pyarrow as pa

from planner.api.expressions import col
from planner.api.inputs.keywords import keywords_of
from planner.api.sources import (
    AUTO,
    RowOptions,
    checked_choice,
    checked_partitions,
    label_of,
    live_of,
    nullable,
    with_rules,
)
from planner.durations import (
    Duration,
    Time,
    positive_duration_us,
    time_us,
)
from planner.errors import InvalidPlanError
from planner.expressions.types import schema_of
from planner.logical.nodes import Source
from planner.logical.nodes.source import columns_of
from rstream.items.batch import RESERVED
from rvertex.sources.logs.decode.avro_schema import (
    UnreadableAvroError,
    arrow_columns,
    parse_avro_schema,
)
from rvertex.sources.logs.decode.changes import (
    CHANGE_COLUMNS,
    CHANGE_TIME,
    COMMIT_TIME,
    DELETED,
)
from rvertex.sources.logs.decode.choose import REGISTRY_URL
from rvertex.sources.logs.decode.messages import METADATA, TIMESTAMP
from rvertex.sources.logs.kafka.options import SERVERS, owned, topic_fault
from rvertex.sources.logs.kafka.subjects import registered_columns
from rvertex.sources.spec import OnLost, SourceSpec, Topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.api.expressions import Expr
    from rvertex.sources.spec import TopicPlace

MessageFormat = Literal["json", "avro", "arrow", "bytes", "debezium-json", "debezium-avro"]
_DEBEZIUM = ("debezium-json", "debezium-avro")
#: Formats that allow ``key``: a message replaces or deletes the row of its key.
_OF_KEYS = ("json", "avro", *_DEBEZIUM)
#: Values of ``vs`` for formats whose messages have an old and a new row.
_TIMES_OF_CHANGES = {"timestamp": TIMESTAMP, "ts_ms": CHANGE_TIME, "source.ts_ms": COMMIT_TIME}
#: Where to start or stop: "earliest", "latest", a time, or an offset for each partition.
Place: TypeAlias = Time | Mapping[int, int]
_VALUE = pa.schema([("value", pa.binary())])
_METADATA_PREFIX = "kafka_"
_NAMES_OF_METADATA = tuple(name.removeprefix(_METADATA_PREFIX) for name in METADATA.names)


@dataclass(frozen=True, kw_only=True)
class KafkaOptions(RowOptions):
    """The options of a topic, for Python (:meth:`planner.Stream.from_kafka`) and SQL.

    ``vs`` may be "timestamp": the record's time, unless a column has that name. ``schema``: with
    Avro also an Avro schema, as JSON or a dict; with bytes the default is ``value`` alone.
    """

    servers: str
    format: MessageFormat = "json"
    #: Key columns of a table: a message is the new row of its key, or deletes it.
    key: str | Sequence[str] = ()
    start: Place = "earliest"
    until: Place | None = None
    on_lost: OnLost = "fail"
    #: Columns to add, such as ``kafka_key``: some of "key", "headers", "timestamp", "partition",
    #: "offset".
    metadata: Sequence[str] = ()
    skew: Duration | None = None
    #: How long the brokers may be unreachable before the job fails; None: no limit.
    away_max: Duration | None = None
    config: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    @property
    def settings(self) -> Mapping[str, str]:
        """The options for librdkafka."""
        return self.config or {}


class KafkaTopics:
    """The source of :class:`planner.Stream` that reads a Kafka topic."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, plan: Source) -> None: ...

        def upserts(self, key: Sequence[str], *, deleted: Expr) -> Self: ...

        def drop(self, *columns: str) -> Self: ...

    @classmethod
    @keywords_of(KafkaOptions)
    def from_kafka(cls, topic: str, given: KafkaOptions) -> Self:
        """Read committed records of a Kafka topic as they arrive.

        ``schema``: the columns of a message. A missing field is null (or makes the message bad if
        an Arrow schema declares it as not nullable); other fields are ignored. ``format``:
        ``"json"``; ``"avro"``, with an Avro ``schema`` or ``config["schema.registry.url"]``;
        ``"arrow"``, an IPC stream of rows, which share an offset; ``"bytes"``. ``metadata`` adds
        columns such as ``kafka_key``.

        With ``key`` the topic is a table: each message replaces the row of its key, a tombstone
        deletes it. Debezium's formats need ``key``; their ``vs`` is ``"timestamp"``, ``"ts_ms"`` or
        ``"source.ts_ms"``.

        ``vs="timestamp"`` is the record's own time, unless a column of the schema has that name.
        ``delay``, how far rows may be out of order within a partition, is required. ``start`` and
        ``until`` are ``"earliest"``, ``"latest"``, a time, or ``{partition: offset}``; planning the
        job resolves them to offsets, once. With ``until`` the job ends there.

        A partition without records for ``idle_after`` follows the time of the others
        (``idle="follow"``) or the wall clock less ``delay`` (``"clock"``), or delays the watermark
        (``"wait"``). A partition that is ahead of the slowest by more than ``skew`` is paused.
        ``on_bad_row``: a bad message fails the job (``"fail"``), is counted and dropped
        (``"skip"``), or is counted and kept (``"dead_letter"``). A row that starts later than
        ``max_ahead`` after the wall clock is bad.

        ``on_lost="skip"`` counts records that the broker removed before they were read. While
        brokers are unreachable the job waits, at most for ``away_max``. ``partitions``: the number
        of vertices that share the topic's partitions. ``config``: options of librdkafka;
        ``"env:NAME"`` and ``"file:/PATH"`` name secrets; with ``group.id``, offsets are committed
        for monitoring only.
        """
        made = cls(kafka_source(topic, given))
        return made.upserts(given.keys, deleted=col(DELETED)).drop(DELETED) if given.keys else made


def kafka_source(topic: str, given: KafkaOptions) -> Source:
    """Return a source node over a topic; contacts no broker before the job is planned."""
    _check(topic, given)
    values, avro_schema = _values(topic, given)
    values = nullable(values)
    _check_key(topic, given, values)
    names = [_METADATA_PREFIX + name for name in given.metadata]
    deleted = [CHANGE_COLUMNS.field(DELETED)] if given.keys else []
    payload = pa.schema([*values, *deleted, *(METADATA.field(name) for name in names)])
    vs = given.vs
    if given.format in _DEBEZIUM:
        vs = _TIMES_OF_CHANGES[str(given.vs)]
    elif isinstance(vs, str) and vs == "timestamp" and "timestamp" not in values.names:
        vs = TIMESTAMP
    # All columns that times may be computed from; unused ones are not read.
    times = [f for f in CHANGE_COLUMNS if f.name != DELETED and given.format in _DEBEZIUM]
    columns = pa.schema([*values, *deleted, *times, *METADATA])
    skew = None if given.skew is None else positive_duration_us(given.skew, what="skew")
    spec = SourceSpec(
        kind=_kind(given, avro_schema),
        path=f"kafka://{given.servers}/{topic}",
        shown=f"topic {topic}",
        schema=payload,
        columns=columns,
        vs=None,
        live=replace(live_of(given), on_lost=given.on_lost, skew_us=skew),
    )
    spec = with_rules(spec, given, vs)
    if not spec.is_endless:
        spec = replace(spec, checks=replace(spec.checks, max_ahead_us=None))
    needed = {name for time in (spec.vs, spec.ve) for name in columns_of(time)}
    read = pa.schema([f for f in columns if f.name in {*payload.names, *needed}])
    return Source(
        replace(spec, columns=read), checked_partitions(given.partitions), label_of(topic)
    )


def _check(topic: str, given: KafkaOptions) -> None:
    if (fault := topic_fault(topic)) is not None:
        raise InvalidPlanError(f"from_kafka: {fault}")
    if not given.servers:
        raise InvalidPlanError('from_kafka: servers= is empty; write it like "localhost:9092"')
    if given.delay is None or given.delay == AUTO:
        raise InvalidPlanError(
            f"from_kafka with delay={given.delay!r}: live sources need an explicit delay; "
            'set how far rows of a partition may be out of order, such as delay="10s"'
        )
    checked_choice("format", given.format, get_args(MessageFormat))
    checked_choice("on_lost", given.on_lost, get_args(OnLost))
    for name in given.metadata:
        checked_choice("metadata", name, _NAMES_OF_METADATA)
    for name, value in given.settings.items():
        reason = owned(name)
        if reason is not None:
            raise InvalidPlanError(f"config={{{name!r}: ...}}: {reason}")
        if not isinstance(value, str | int | float):
            raise InvalidPlanError(f"config={{{name!r}: ...}}: its value must be text or a number")


def _check_key(topic: str, given: KafkaOptions, values: pa.Schema) -> None:
    """Check the options of a topic whose messages change the rows of a table.

    Raises:
        InvalidPlanError: the key, its format or its times are missing or wrong.
    """
    is_debezium = given.format in _DEBEZIUM
    if not given.keys:
        if is_debezium:
            raise InvalidPlanError(
                f"from_kafka({topic!r}, format={given.format!r}): set key= to the columns of "
                "the primary key, as each event changes the row of its key"
            )
        return
    for name in given.keys:
        if name not in values.names:
            known = ", ".join(values.names)
            raise InvalidPlanError(f"key=: there is no column {name!r}; there are {known}")
    if given.format not in _OF_KEYS:
        formats = ", ".join(_OF_KEYS)
        raise InvalidPlanError(f"key= with format={given.format!r}: it is for {formats}")
    if given.ve is not None:
        raise InvalidPlanError(
            "leave out ve= if key= is set: each row lasts until the next one of its key"
        )
    if is_debezium and given.vs not in _TIMES_OF_CHANGES:
        allowed = ", ".join(f'"{name}"' for name in _TIMES_OF_CHANGES)
        raise InvalidPlanError(
            f"vs={given.vs!r}: a deletion has only the old row, so a column cannot be the "
            f"time of a change; choose one of {allowed}"
        )


def _values(topic: str, given: KafkaOptions) -> tuple[pa.Schema, str]:
    """Return the columns of message values, and their Avro schema if one was given."""
    avro_schema = ""
    is_avro = given.format in ("avro", "debezium-avro")
    if is_avro and (
        isinstance(given.schema, str)
        or (isinstance(given.schema, dict) and isinstance(given.schema.get("fields"), list))
    ):
        avro_schema = given.schema if isinstance(given.schema, str) else json.dumps(given.schema)
        values = _avro_columns(avro_schema)
    elif given.schema is not None:
        values = schema_of(given.schema)
    elif given.format == "bytes":
        values = _VALUE
    elif is_avro and REGISTRY_URL in given.settings:
        values = registered_columns(topic, given.settings)
    else:
        raise InvalidPlanError(
            f"from_kafka({topic!r}, format={given.format!r}): set schema= to the columns "
            "to read from its messages"
        )
    if is_avro and not avro_schema and REGISTRY_URL not in given.settings:
        raise InvalidPlanError(
            f'format="{given.format}": give the Avro schema of all messages as schema=, or the '
            f"registry that their headers refer to as config={{{REGISTRY_URL!r}: ...}}"
        )
    if given.format == "debezium-avro" and "after" in values.names:
        after = values.field("after").type
        if pa.types.is_struct(after):  # the schema describes change events, not rows
            values = pa.schema(list(after))
    _check_values(values, given.format)
    return values, avro_schema


def _check_values(values: pa.Schema, format: MessageFormat) -> None:
    for name in values.names:
        if name in (*METADATA.names, *CHANGE_COLUMNS.names, *RESERVED):
            raise InvalidPlanError(f"schema=: the column name {name!r} is reserved")
    if format == "bytes" and [f.type in (pa.binary(), pa.string()) for f in values] != [True]:
        raise InvalidPlanError(
            'schema= with format="bytes" must have one column, of type binary or string'
        )
    if not values.names:
        raise InvalidPlanError("schema= needs a column")


def _avro_columns(text: str) -> pa.Schema:
    try:
        return arrow_columns(parse_avro_schema(text))
    except UnreadableAvroError as error:
        raise InvalidPlanError(f"schema=: no column can hold this Avro type: {error}") from None
    except ValueError as error:
        raise InvalidPlanError(f"schema= is not an Avro schema: {error}") from None


def _kind(given: KafkaOptions, avro_schema: str) -> Topic:
    config = {SERVERS: given.servers, **{k: str(v) for k, v in given.settings.items()}}
    away = given.away_max
    return Topic(
        encoding=given.format,
        config=tuple(sorted(config.items())),
        start=_place(given.start, "start"),
        until=None if given.until is None else _place(given.until, "until"),
        key=given.keys,
        avro_schema=avro_schema,
        away_max_us=None if away is None else positive_duration_us(away, what="away_max"),
    )


def _place(place: Place, role: str) -> TopicPlace:
    """Return a start or stop for :mod:`rvertex.sources.logs.kafka.positions`."""
    if isinstance(place, Mapping):
        wrong = [k for k, v in place.items() if not _is_number(k) or not _is_number(v)]
        if wrong or not place:
            raise InvalidPlanError(f"{role}={place!r}: give an offset, from 0, for each partition")
        return tuple(sorted(place.items()))
    if place == "latest" or (place == "earliest" and role == "start"):
        return "latest" if place == "latest" else "earliest"
    return time_us(place, what=role)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
