"""Sink specs: destinations as the user chose them, stored in plans, and a delivery's place.

A text of a spec may refer to a secret (:mod:`rstream.secret_values`), so no plan, log or status
contains a password. A new destination needs a spec here and its module (:attr:`SinkSpec.home`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow as pa

from rvertex.sinks.errors import InvalidSinkError
from rvertex.sinks.postgres_columns import columns_of, split_table
from rvertex.sinks.protocol import OP
from rvertex.sources.logs.kafka.options import topic_fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.store.protocol import BlobStore
    from rvertex.sinks.limits import DeliveryLimits
    from rvertex.sinks.protocol import Destination
    from rvertex.user_code.code import UserCode

KafkaFormat = Literal["json", "avro", "arrow", "debezium-json"]
KafkaMode = Literal["transactions", "headers"]
#: If the destination rejects a row, the delivery fails, or the row becomes a dead letter.
OnRefused = Literal["fail", "dead_letter"]
PostgresMode = Literal["append", "upsert"]
#: Whether an id that is too old for a registry ends the delivery.
OnOld = Literal["fail", "skip"]
#: What a delivery does with a row of the table when the result row ends.
Deletes = Literal["delete", "mark", "ignore"]


@dataclass(frozen=True, slots=True)
class DeliveryPlace:
    """Which part of an output a destination gets. It is stable over failures and resumes.

    ``schema``: the columns of the tables that are delivered.
    """

    #: The unique id of the job.
    job: str
    #: The name of the delivery, unique within the job.
    delivery: str
    partition: int
    partitions: int
    schema: pa.Schema
    #: The column with a row's end, if rows are delivered before their end is known; else None.
    end: str | None = field(default=None, kw_only=True)
    #: A folder of this partition below the job's root, for destinations that cannot store progress
    #: themselves.
    store: BlobStore | None = None

    @property
    def stream(self) -> str:
        """A unique name for this partition at the destination."""
        return f"{self.job}/{self.delivery}/{self.partition}"


class SinkSpec:
    """A destination in a plan: each kind is a frozen, picklable subclass of this dataclass."""

    __slots__ = ()

    #: The module that imports the client. Its function ``open_destination(spec, place)`` opens it.
    home: ClassVar[str]

    @property
    def label(self) -> str:
        """The default name of the delivery; it contains no secret."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name that the user gave the delivery. If it is empty, ``label`` is used."""
        return ""

    @property
    def changes(self) -> bool:
        """Whether rows arrive when they begin and again when they end, after a column ``op``."""
        return False

    @property
    def on_bad_row(self) -> OnRefused:
        """What to do with rows that the destination rejects."""
        return "fail"

    @property
    def keeps_keys(self) -> bool:
        """Whether the destination keeps one row per key."""
        return False

    @property
    def needs_changes(self) -> bool:
        """Whether it must get changes, because complete rows would be another result."""
        return self.changes

    @property
    def delivered_key(self) -> tuple[str, ...]:
        """The columns by which rows keep their order. Empty: partitions may be mixed."""
        return ()

    def limited(self, limits: DeliveryLimits) -> DeliveryLimits:
        """Return the limits of its delivery."""
        return limits

    def check(self, schema: pa.Schema) -> None:
        """Check everything that needs no connection.

        Raises:
            InvalidSinkError: rows cannot be delivered with these options.
        """


@dataclass(frozen=True, slots=True)
class KafkaSink(SinkSpec):
    """A topic; see :mod:`rvertex.sinks.kafka`."""

    home: ClassVar[str] = "rvertex.sinks.kafka.transactions"
    topic: str
    servers: str
    #: Columns of the record's key; empty: records have no key.
    key: tuple[str, ...] = ()
    format: KafkaFormat = "json"
    mode: KafkaMode = "transactions"
    #: Settings of librdkafka.
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    name: str = ""
    #: Whether a key has one value, from its live row; a tombstone removes the value.
    upsert: bool = False
    on_bad_row: OnRefused = "fail"
    changes: bool = False

    @property
    def keeps_keys(self) -> bool:
        """Whether a reader of the topic has one row per key."""
        return self.upsert or self.format == "debezium-json"

    @property
    def needs_changes(self) -> bool:
        return self.changes or self.format == "debezium-json"

    @property
    def delivered_key(self) -> tuple[str, ...]:
        return self.key if self.keeps_keys or self.changes else ()

    @property
    def label(self) -> str:
        return f"kafka:{self.topic}"

    def check(self, schema: pa.Schema) -> None:
        """Implement :class:`SinkSpec`."""
        check_choice(self.label, "format", self.format, ("json", "avro", "arrow", "debezium-json"))
        check_choice(self.label, "mode", self.mode, ("transactions", "headers"))
        check_choice(self.label, "on_bad_row", self.on_bad_row, ("fail", "dead_letter"))
        if (reason := topic_fault(self.topic)) is not None:
            raise InvalidSinkError(self.label, reason)
        check_columns(self.label, "key", self.key, schema)
        is_debezium = self.format == "debezium-json"
        if self.keeps_keys and not self.key:
            option = "format='debezium-json'" if is_debezium else "upsert=True"
            raise InvalidSinkError(self.label, f"{option} needs key=[columns]")
        if self.upsert + self.changes + is_debezium > 1:
            reason = "upsert=True, changes=True and format='debezium-json' exclude each other"
            raise InvalidSinkError(self.label, reason)
        if self.key and self.format == "arrow":
            reason = "format='arrow' packs many rows in a record; key= is for a row in a record"
            raise InvalidSinkError(self.label, reason)


@dataclass(frozen=True, slots=True)
class PostgresSink(SinkSpec):
    """A table of a PostgreSQL database; see :mod:`rvertex.sinks.postgres`."""

    home: ClassVar[str] = "rvertex.sinks.postgres"
    #: A connection string or uri.
    dsn: str = field(repr=False)
    table: str
    mode: PostgresMode = "append"
    #: Columns that identify the rows of a table, for "upsert".
    key: tuple[str, ...] = ()
    name: str = ""
    #: For "upsert": delete the row, or set its end and keep it, or leave it as it is.
    deletes: Deletes = "delete"
    on_bad_row: OnRefused = "fail"
    changes: bool = False

    @property
    def keeps_keys(self) -> bool:
        """Whether the table has one row per key."""
        return self.mode == "upsert"

    @property
    def delivered_key(self) -> tuple[str, ...]:
        return self.key if self.keeps_keys else ()

    @property
    def label(self) -> str:
        return f"postgres:{self.table}"

    def check(self, schema: pa.Schema) -> None:
        """Implement :class:`SinkSpec`."""
        check_choice(self.label, "mode", self.mode, ("append", "upsert"))
        check_choice(self.label, "on_bad_row", self.on_bad_row, ("fail", "dead_letter"))
        check_choice(self.label, "deletes", self.deletes, ("delete", "mark", "ignore"))
        if self.deletes != "delete" and self.mode != "upsert":
            raise InvalidSinkError(self.label, "deletes= needs mode='upsert'")
        if self.changes and self.mode != "append":
            raise InvalidSinkError(self.label, "changes=True needs mode='append'")
        check_columns(self.label, "key", self.key, schema)
        if bool(self.key) != (self.mode == "upsert"):
            reason = "mode='upsert' takes key=[columns], mode='append' takes none"
            raise InvalidSinkError(self.label, reason)
        try:
            split_table(self.table)
        except ValueError as error:
            raise InvalidSinkError(self.label, str(error)) from None
        columns_of(self.label, schema)


@dataclass(frozen=True, slots=True)
class FunctionSink(SinkSpec):
    """A Python function of the user; see :mod:`rvertex.sinks.function`."""

    home: ClassVar[str] = "rvertex.sinks.function"
    code: UserCode
    name: str = ""
    changes: bool = False
    on_bad_row: OnRefused = "fail"

    @property
    def label(self) -> str:
        return f"function:{self.code.name}"

    def check(self, schema: pa.Schema) -> None:
        """Implement :class:`SinkSpec`."""
        check_choice(self.label, "on_bad_row", self.on_bad_row, ("fail", "dead_letter"))


@dataclass(frozen=True, slots=True)
class ConsoleSink(SinkSpec):
    """Standard output of the process that delivers; see :mod:`rvertex.sinks.console`."""

    home: ClassVar[str] = "rvertex.sinks.console"
    name: str = ""
    changes: bool = False

    @property
    def label(self) -> str:
        return "console"


@dataclass(frozen=True, slots=True)
class ParquetSink(SinkSpec):
    """A folder of Parquet tables, of one delivery or many; see :mod:`rvertex.sinks.parquet`."""

    home: ClassVar[str] = "rvertex.sinks.parquet"
    path: str
    #: A file is written after this time, or after this number of rows.
    roll_s: float = 60.0
    roll_rows: int = 1_000_000
    name: str = ""
    changes: bool = False

    @property
    def label(self) -> str:
        return f"parquet:{self.path}"

    def limited(self, limits: DeliveryLimits) -> DeliveryLimits:
        """Return the limits with the roll limits for commits: each commit is a file."""
        interval_ms = self.roll_s * 1e3
        return replace(limits, commit_interval_ms=interval_ms, commit_rows_max=self.roll_rows)

    def check(self, schema: pa.Schema) -> None:
        """Implement :class:`SinkSpec`."""
        if self.roll_s < 0 or self.roll_rows < 1:
            raise InvalidSinkError(self.label, "roll_rows= is less than 1, or roll= is negative")


@dataclass(frozen=True, slots=True)
class RegistrySpec:
    """A registry of ids on NATS servers; see :mod:`rvertex.registry`."""

    #: URLs; each may be a reference to a secret.
    servers: tuple[str, ...] = field(repr=False)
    name: str
    keep_us: int
    #: Number of shards. Used only if this job creates the registry.
    shards: int = 1
    replicas: int = 3


@dataclass(frozen=True, slots=True)
class OnceSink(SinkSpec):
    """A destination that gets only rows of ``answer`` whose ids no other site has claimed."""

    home: ClassVar[str] = "rvertex.registry.once"
    to: SinkSpec
    id: str
    at: str
    registry: RegistrySpec
    #: The policy for rows that are older than the ids in the registry.
    on_old: OnOld = "fail"
    answer: str = ""

    @property
    def name(self) -> str:
        return self.to.name

    @property
    def label(self) -> str:
        return self.to.label

    def limited(self, limits: DeliveryLimits) -> DeliveryLimits:
        return self.to.limited(limits)

    def check(self, schema: pa.Schema) -> None:
        """Implement :class:`SinkSpec`."""
        self.to.check(schema)
        check_choice(self.label, "on_old", self.on_old, ("fail", "skip"))
        check_columns(self.label, "id", (self.id,), schema)
        check_columns(self.label, "at", (self.at,), schema)
        kind = schema.field(self.id).type
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind)):
            raise InvalidSinkError(
                self.label, f"id={self.id!r} is a text or an integer, not {kind}"
            )
        if not pa.types.is_timestamp(schema.field(self.at).type):
            reason = f"at={self.at!r} is the event time of the id, a timestamp"
            raise InvalidSinkError(self.label, reason)
        if takes_changes(self.to) or keeps_refused(self.to):
            reason = "once() needs rows that are appended: no upsert, changes or dead letters"
            raise InvalidSinkError(self.label, reason)


def destination(spec: SinkSpec, place: DeliveryPlace) -> Destination:
    """Import the client library, and return the destination of one partition, not opened."""
    opened: Destination = import_module(spec.home).open_destination(spec, place)
    return opened


def name_of(spec: SinkSpec) -> str:
    """Return the name of the delivery to ``spec``."""
    return spec.name or spec.label


def keeps_refused(spec: SinkSpec) -> bool:
    """Return whether rows that the destination refuses go to dead letters."""
    return spec.on_bad_row == "dead_letter"


def takes_changes(spec: SinkSpec) -> bool:
    """Return whether the destination accepts rows when they begin, and their ends later."""
    return spec.keeps_keys or spec.needs_changes


def check_names(specs: Sequence[SinkSpec]) -> None:
    """Reject deliveries with the same name: each would overwrite the position of the other.

    Raises:
        InvalidSinkError: two have one name.
    """
    names = [name_of(spec) for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSinkError(name, "two deliveries have this name; give one name='...'")


def rows_of(spec: SinkSpec, schema: pa.Schema) -> pa.Schema:
    """Return the delivered columns of an output with the columns ``schema``.

    Raises:
        InvalidSinkError: a column has the name of the column for the kind of change.
    """
    if not spec.changes:
        return schema
    if OP in schema.names:
        reason = f"changes=True adds the column {OP!r}, and the query has one: rename it"
        raise InvalidSinkError(name_of(spec), reason)
    return schema.insert(0, pa.field(OP, pa.string()))


def check_choice(label: str, what: str, given: str, choices: Sequence[str]) -> None:
    """Raise InvalidSinkError for a value that is not among ``choices``."""
    if given not in choices:
        raise InvalidSinkError(label, f"{what}={given!r}: choose one of {', '.join(choices)}")


def check_columns(label: str, what: str, names: Sequence[str], schema: pa.Schema) -> None:
    """Raise InvalidSinkError for a name that is not a column of the rows."""
    for name in names:
        if name not in schema.names:
            has = ", ".join(schema.names)
            raise InvalidSinkError(label, f"{what}: there is no column {name!r}; there are {has}")
