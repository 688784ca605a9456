"""Destinations of rows, for :meth:`Stream.deliver`: ``from planner import sinks``.

Each function returns a frozen spec and connects to nothing. Pass a secret as ``env:NAME`` or
``file:/PATH``: the delivering process reads it, and no plan contains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from planner.durations import duration_us, positive_duration_us
from planner.expressions.suggestions import missing, suggest_in_module
from planner.logical.query import only_output
from planner.user_code import user_code
from rstream.items.batch import item_schema
from rvertex.registry.checks import checked_registry, once_sink, registry_spec
from rvertex.sinks.errors import InvalidSinkError
from rvertex.sinks.kafka.avro_rows import avro_schema as schema_of_records
from rvertex.sinks.spec import (
    ConsoleSink,
    FunctionSink,
    KafkaSink,
    ParquetSink,
    PostgresSink,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from planner.durations import Duration
    from planner.logical.query import Query
    from rvertex.registry.registry import IdRegistry
    from rvertex.sinks.spec import (
        Deletes,
        KafkaFormat,
        KafkaMode,
        OnceSink,
        OnOld,
        OnRefused,
        PostgresMode,
        RegistrySpec,
        SinkSpec,
    )


def kafka(
    topic: str,
    *,
    servers: str,
    key: str | Sequence[str] = (),
    format: KafkaFormat = "json",
    mode: KafkaMode = "transactions",
    upsert: bool = False,
    on_bad_row: OnRefused = "fail",
    changes: bool = False,
    config: Mapping[str, Any] | None = None,
    name: str = "",
) -> KafkaSink:
    """Deliver to a Kafka topic, which must exist.

    ``mode="transactions"``: write rows and progress in one transaction; consumers that read
    committed records get each row once. ``mode="headers"``: without transactions; records have the
    headers ``stream`` and ``seq``, by which a consumer can drop the records that a failure repeats.
    ``key``: columns of the record's key; rows of one key stay in order. Without ``key``, each
    output partition goes to one partition of the topic.

    ``upsert``: for compacted topics. A row is written under its key when it begins. When it ends
    and the key has no other row at that instant, a tombstone (no value) is written. ``changes``:
    rows are written when they begin and when they end, with a column ``op``: ``+I``, ``-D``, and
    with ``key`` also ``-U`` and ``+U``. ``format="debezium-json"``: change events of Debezium.
    ``config``: settings of librdkafka, such as ``linger.ms``. ``name``: the delivery's name, which
    identifies its progress; by default ``kafka:TOPIC``.

    ``on_bad_row``: for rows that the broker rejects, such as too large ones. ``"fail"`` ends the
    delivery. ``"dead_letter"`` keeps the row with the reason and continues;
    ``ss.read_dead_letters(root, name)`` returns these rows.
    """
    settings = tuple(sorted((str(k), str(v)) for k, v in (config or {}).items()))
    return KafkaSink(
        topic, servers, _names(key), format, mode, settings, name, upsert, on_bad_row, changes
    )


def postgres(
    dsn: str,
    table: str,
    *,
    mode: PostgresMode = "append",
    key: str | Sequence[str] = (),
    deletes: Deletes = "delete",
    on_bad_row: OnRefused = "fail",
    changes: bool = False,
    name: str = "",
) -> PostgresSink:
    """Deliver to a PostgreSQL table; rows and progress are written in one transaction.

    ``mode="upsert"``: the table holds the rows of the result that are valid now, one per ``key``. A
    row is inserted or replaced when it begins. When it ends and its key has no other row,
    ``deletes`` decides: ``"delete"`` removes it, ``"mark"`` sets its end column, ``"ignore"`` keeps
    it as it is. ``changes``: as in :func:`kafka`, for ``mode="append"``. ``name`` and
    ``on_bad_row``: as in :func:`kafka`; the name is ``postgres:TABLE`` by default.
    """
    return PostgresSink(dsn, table, mode, _names(key), name, deletes, on_bad_row, changes)


def function(
    fn: Callable[[int, pa.RecordBatch], None],
    *,
    changes: bool = False,
    name: str = "",
    on_bad_row: OnRefused = "fail",
) -> FunctionSink:
    """Call ``fn(first_seq, batch)`` with rows in the order of a partition, where the job runs.

    ``first_seq`` is the number of the batch's first item in its partition. After a failure the last
    call may be repeated, with the same number and the same rows; calls never overlap in part. A
    function with a parameter ``stream`` also gets the name of the partition: store ``(stream,
    first_seq)`` to process each row once. A call that raises is retried, unless no retry can help:
    a mistake such as NameError, or an HTTP status such as 401.

    A call rejects its rows if it raises a ValueError, TypeError, LookupError, ArithmeticError,
    AttributeError or AssertionError, or HTTP's 400, 413, 414 or 422. Such a call must have no
    effect. ``on_bad_row``: as in :func:`kafka`; with ``"dead_letter"`` the rows are tried again in
    smaller calls to find the bad ones. ``changes``: as in :func:`kafka`.
    """
    if not callable(fn):
        raise InvalidSinkError("function", f"it takes a function, not {fn!r}")
    return FunctionSink(user_code(fn, "to_function", deterministic=True), name, changes, on_bad_row)


def console(*, changes: bool = False, name: str = "") -> ConsoleSink:
    """Print rows on standard output of the delivering process.

    A terminal gets aligned columns, anything else JSON lines. ``changes``: as in :func:`kafka`.
    """
    return ConsoleSink(name, changes)


def parquet(
    path: str,
    *,
    roll: Duration = "60s",
    roll_rows: int = 1_000_000,
    changes: bool = False,
    name: str = "",
) -> ParquetSink:
    """Write Parquet files to a folder, on a disk or an object store; other jobs may add to it too.

    A file is written ``roll`` after the previous one, or when ``roll_rows`` rows are buffered.
    ``changes``: as in :func:`kafka`.
    """
    return ParquetSink(path, duration_us(roll) / 1e6, roll_rows, name, changes)


def registry(
    servers: str | Sequence[str],
    name: str,
    *,
    keep: Duration = "3d",
    shards: int = 1,
    replicas: int = 3,
) -> RegistrySpec:
    """Return a registry of delivered ids on NATS servers with JetStream, shared by its name.

    ``keep``: the largest age of an id, compared with the newest one. Older ids are rejected, and
    their entries are deleted. ``shards``: their number, if the registry does not exist yet.
    ``replicas``: the number of servers that store each entry.
    """
    keep_us = positive_duration_us(keep, what="keep")
    return registry_spec(servers, name, keep_us, shards, replicas)


def open_registry(registry: RegistrySpec) -> IdRegistry:
    """Connect to a registry to read its undelivered ids, its releases, and its number of shards."""
    from rvertex.registry.once import opened_registry

    return opened_registry(checked_registry(registry, "open_registry"))


def once(
    to: SinkSpec,
    *,
    id: str,
    at: str,
    registry: RegistrySpec,
    on_old: OnOld = "fail",
    answer: str = "",
) -> OnceSink:
    """Deliver each id from only one of several sites that run the same query.

    Each site claims the ids of its rows in the registry before it writes them to ``to``, and skips
    rows whose ids another site has claimed. ``id``: a column of strings or integers. ``at``: a
    column with the event time of the id, equal at all sites.

    ``on_old``: for rows older than the registry's ``keep``, where it cannot know whether another
    site delivered them. ``"fail"`` ends the delivery; ``"skip"`` drops them, which a site needs to
    catch up after a longer outage.

    ``answer``: a name of the rows, equal at all sites. By default it is the topic or table, with
    the names of both columns. A query with another answer cannot use the same registry.
    """
    return once_sink(to, id, at, registry, on_old, answer)


def avro_schema(query: Query) -> str:
    """Return the Avro schema, as JSON, of the records of ``to_kafka(..., format="avro")``."""
    form = only_output(query, "avro_schema()").plan.form
    if form is None:
        raise InvalidSinkError("avro", "a query with technical columns cannot be delivered")
    return schema_of_records("avro", form.file_schema(item_schema(query.schema)))


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def __getattr__(name: str) -> NoReturn:
    raise missing("sinks", name, globals())


suggest_in_module(globals())
