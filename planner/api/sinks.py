"""Destinations of rows: ``from planner import sinks``; for :meth:`Stream.deliver`.

Each function returns a frozen spec; nothing is connected here. Name a secret as ``env:NAME`` or
``file:/PATH``: the process that delivers reads it, and no plan holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from planner.durations import duration_us, positive_duration_us
from planner.expressions.suggestions import missing, suggest_in_module
from planner.logical.query import only_output
from planner.user_code import user_code
from rstream.items.batch import item_schema
from rvertex.sinks.errors import InvalidSinkError
from rvertex.sinks.kafka.avro_rows import avro_schema as schema_of_records
from rvertex.sinks.spec import (
    ConsoleSink,
    FunctionSink,
    KafkaSink,
    OnceSink,
    ParquetSink,
    PostgresSink,
    RegistrySpec,
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
        OnOld,
        OnRefused,
        PostgresMode,
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
    """A topic of Kafka, which must exist.

    ``mode="transactions"``: rows and progress in one transaction; readers of committed records get
    each row once. ``mode="headers"``: without transactions; records have the headers ``stream``
    and ``seq``, so a reader can drop repeated records after a failure. ``key``: columns of the
    record's key; rows of one key stay in order. Without it, an output partition goes to one
    partition of the topic. ``upsert``: for compacted topics; the value of a key is its row that is
    alive, written when it begins, and a tombstone (no value) when it ends and the key has no other
    row at that instant. ``changes``: rows come when they begin and when they end, with a column
    ``op``: ``+I``, ``-D``, and with ``key`` ``-U`` and ``+U``. ``format="debezium-json"``: change
    events of Debezium. ``config``: settings of librdkafka, such as ``linger.ms``. ``name``: the
    delivery's name, which identifies its progress; by default ``kafka:TOPIC``.

    ``on_bad_row``: for rows that the broker rejects, such as too large ones. ``"fail"`` ends the
    delivery; ``"dead_letter"`` keeps the row with the reason and continues:
    ``ss.read_dead_letters(root, name)`` reads these rows.
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
    """A table of PostgreSQL; rows and progress are written in one transaction.

    ``mode="upsert"``: the table holds the rows of the answer that are alive, one per ``key``. A row
    is inserted or replaced when it begins. When it ends and its key has no other row, ``deletes``
    decides: ``"delete"`` removes it, ``"mark"`` sets its end column, ``"ignore"`` keeps it as it
    is. ``changes``: as in :func:`kafka`, for ``mode="append"``. ``name`` and ``on_bad_row``: as in
    :func:`kafka`; the name is ``postgres:TABLE`` by default.
    """
    return PostgresSink(dsn, table, mode, _names(key), name, deletes, on_bad_row, changes)


def function(
    fn: Callable[[int, pa.RecordBatch], None],
    *,
    changes: bool = False,
    name: str = "",
    on_bad_row: OnRefused = "fail",
) -> FunctionSink:
    """Calls ``fn(first_seq, batch)`` with rows in the order of a partition, where the job runs.

    ``first_seq`` counts the items of the partition. After a failure the last call may be repeated,
    with the same number and the same rows; ranges of calls do not overlap. A function with a
    parameter ``stream`` also gets the partition, since several call it: store ``(stream,
    first_seq)`` to process each row once. A call that raises is retried, unless no retry can help:
    a mistake such as NameError, or an HTTP status such as 401.

    A call refuses its rows if it raises a ValueError, TypeError, LookupError, ArithmeticError,
    AttributeError or AssertionError, or HTTP's 400, 413, 414 or 422. Such a call must have no
    effect. ``on_bad_row``: as in :func:`kafka`; with ``"dead_letter"`` smaller calls find the row.
    ``changes``: as in :func:`kafka`.
    """
    if not callable(fn):
        raise InvalidSinkError("function", f"it takes a function, not {fn!r}")
    return FunctionSink(user_code(fn, "to_function", deterministic=True), name, changes, on_bad_row)


def console(*, changes: bool = False, name: str = "") -> ConsoleSink:
    """Standard output of the process that delivers: columns in a terminal, else JSON lines.

    ``changes``: as in :func:`kafka`.
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
    """A folder of clean tables, on a disk or an object store; other jobs may add to it as well.

    A file is written when ``roll`` has gone by since the last one, or ``roll_rows`` rows have come.
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
    """A registry of ids on NATS servers with JetStream, which all sites name alike.

    ``keep``: ids older than that, compared with the newest one, are refused and collected.
    ``shards``: of a registry that does not exist yet. ``replicas``: servers that have each entry.
    """
    urls = _names(servers)
    if not urls or not name.replace("-", "").replace("_", "").isalnum():
        reason = "servers= are urls, and a name has letters, digits, - and _"
        raise InvalidSinkError(f"registry {name!r}", reason)
    kept_us = positive_duration_us(keep, what="keep")
    return RegistrySpec(urls, name, kept_us, shards, replicas)


def open_registry(registry: RegistrySpec) -> IdRegistry:
    """Connect to a registry: its undelivered ids, releases, and the number of its shards."""
    from rvertex.registry.once import opened_registry

    return opened_registry(registry)


def once(
    to: SinkSpec, *, id: str, at: str, registry: RegistrySpec, on_old: OnOld = "fail"
) -> OnceSink:
    """Rows for ``to`` whose ids no other site delivers: each id leaves one of the sites.

    Run the same query at several sites. Each claims the ids of its rows in the registry before it
    writes them, and skips rows whose ids another site has. ``id``: a column of texts or integers.
    ``at``: a column with the event time of the id, equal at all sites.

    ``on_old``: for rows that are older than the registry keeps, so that it cannot know whether
    another site has delivered them. ``"fail"`` ends the delivery, ``"skip"`` leaves them out: a
    site that was away for longer needs it to catch up.
    """
    return OnceSink(to, id, at, registry, on_old)


def avro_schema(query: Query) -> str:
    """The Avro schema, as JSON, of the records that ``to_kafka(..., format="avro")`` writes."""
    form = only_output(query, "avro_schema()").plan.form
    if form is None:
        raise InvalidSinkError("avro", "the query has technical columns, so nothing delivers it")
    return schema_of_records("avro", form.file_schema(item_schema(query.schema)))


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def __getattr__(name: str) -> NoReturn:
    raise missing("sinks", name, globals())


suggest_in_module(globals())
