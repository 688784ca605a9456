"""Description of a source: frozen and picklable, stored in a plan and opened by a host.

A :class:`SourceSpec` describes what to read and how rows become events.
:mod:`rvertex.sources.discover` splits it into units (the smallest pieces that can be assigned) and
partitions. :mod:`rvertex.sources.readers` opens a partition at any row.

Invariants: (1) the rows of a partition are numbered densely from 0 over its units, in order; (2) a
partition that is read again returns the same rows, for any ``rows_max`` and first row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Collection

    from rvertex.events.frontier import KnownFrontier
    from rvertex.operators.protocol import Evaluator
    from rvertex.sources.versions import FileVersion

Format = Literal["parquet", "csv", "json", "text", "items", "rstream", "kafka", "log"]
#: The formats of tables that are files.
FileFormat = Literal["parquet", "csv", "json"]
LatePolicy = Literal["drop", "adjust", "error"]
#: How the delay is known. "auto": planning will compute it. "found": planning has computed it, such
#: that no row is late.
DelayOrigin = Literal["given", "auto", "found"]
Idle = Literal["follow", "clock", "wait"]
OnLost = Literal["fail", "skip"]
OnBadRow = Literal["fail", "skip", "dead_letter"]
#: Rule for files of a growing folder after they were read. "unchanged": they may be deleted, but
#: not changed. "kept": neither. "any": not checked.
TakenFiles = Literal["unchanged", "kept", "any"]
Given = Literal["no", "here", "copy"]
#: A place in the partitions of a topic; a number is a time, us, and pairs are offsets.
TopicPlace = Literal["earliest", "latest"] | int | tuple[tuple[int, int], ...]
BoundOperator = Literal["==", "<", "<=", ">", ">="]
BoundValue = bool | int | float | str | date


@dataclass(frozen=True, slots=True)
class Bound:
    """A filter ``column operator value``; rows where it is false or null are dropped."""

    column: str
    operator: BoundOperator
    value: BoundValue

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.value}"


@dataclass(frozen=True, slots=True)
class Live:
    """How a growing source is read. Source: ADR 32."""

    #: The watermark of an idle partition (:mod:`rvertex.vertex.idle`).
    idle: Idle = "follow"
    #: Time without a row after which a partition may be idle, us.
    idle_after_us: int = 2_000_000
    #: What to do when the log has deleted rows before they were read.
    on_lost: OnLost = "fail"
    #: Most us of event time that a partition is read ahead of the slowest partition; None: no
    #: limit.
    skew_us: int | None = None


@dataclass(frozen=True, slots=True)
class LiveFolder(Live):
    """How a folder is read to which files are added."""

    #: Rule for files after they were read.
    taken_files: TakenFiles = field(default="unchanged", metadata={"fingerprint": False})
    partitions: int = 1
    #: How often the folder is listed, us.
    poll_every_us: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Checks:
    """Conditions on rows, and the rule for bad rows."""

    on_bad_row: OnBadRow = "fail"
    #: The columns that are read and must not be null.
    not_null: tuple[str, ...] = ()
    #: The greatest number of characters by column.
    lengths: tuple[tuple[str, int], ...] = ()
    #: A row of a live source that starts more than this time after the wall clock is bad, us; None:
    #: no limit.
    max_ahead_us: int | None = None
    #: A row that starts later than this is bad, us: the wall clock during planning plus
    #: ``max_ahead``.
    latest_us: int | None = field(default=None, metadata={"fingerprint": False})

    @property
    def keeps_origins(self) -> bool:
        """Whether rows keep their origin, because a decoded row may become a dead letter."""
        return self.max_ahead_us is not None and self.on_bad_row == "dead_letter"

    @property
    def of_values(self) -> bool:
        """Whether a value of the declared type may still make its row bad."""
        return bool(self.not_null or self.lengths)


@dataclass(frozen=True, slots=True)
class SourceKind:
    """The options of one kind of source; each kind is a subclass.

    :mod:`rvertex.sources.formats.registry` has the readers of bounded sources,
    :mod:`rvertex.sources.logs.opening` has the readers of live logs.
    """

    format: ClassVar[Format]
    #: Suffixes of its files; empty: the kind has no files, or files with any suffix.
    suffixes: ClassVar[tuple[str, ...]] = ()
    #: Whether files have row groups with statistics and can be read by column.
    has_row_groups: ClassVar[bool] = False
    #: Whether a reader returns items: rows with lifetimes, and CTIs (watermarks) between them.
    gives_items: ClassVar[bool] = False
    #: Whether rows are in time order, so that none is late.
    is_in_order: ClassVar[bool] = False
    #: Whether rows have sequence numbers that stay the same when files are rewritten.
    is_numbered: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Files(SourceKind):
    """Options of files of one format. Sources without files use the defaults."""

    #: Further files, folders or URLs beside the source's path.
    more_paths: tuple[str, ...] = field(default=(), metadata={"fingerprint": False}, kw_only=True)
    #: Columns whose types the user declared; values in files are cast to them.
    casts: tuple[str, ...] = field(default=(), metadata={"fingerprint": False}, kw_only=True)
    #: Whether the caller passed the rows in memory. "copy": the job stores them below its root.
    given: Given = field(default="no", metadata={"fingerprint": False}, kw_only=True)
    #: The columns that come from folder names (:mod:`rvertex.sources.formats.rows.folders`).
    folder_columns: tuple[str, ...] = field(default=(), kw_only=True)
    #: Filters on folder names: files in other folders are not read.
    folders: tuple[Bound, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class Parquet(Files):
    """Parquet files."""

    format: ClassVar[Format] = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".parq", ".pq")
    has_row_groups: ClassVar[bool] = True
    #: Filters, with plain time columns only. A row that does not satisfy all of them is dropped
    #: right after the source.
    wanted: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class Json(Files):
    """Files with a JSON object per line."""

    format: ClassVar[Format] = "json"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")
    #: The name that Python has for it.
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class Csv(Files):
    """CSV files with a header."""

    format: ClassVar[Format] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    delimiter: str = ","
    #: Texts that are null.
    null_values: tuple[str, ...] = ("", "NA", "N/A", "NULL", "null", "NaN", "nan", "None")
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class Text(Files):
    """Lines of text, whose times are their numbers over all files, us."""

    format: ClassVar[Format] = "text"
    is_in_order: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class PlanItems(SourceKind):
    """Rows that the plan contains: ``_kind, _vs, _ve, payload`` in arrival order."""

    format: ClassVar[Format] = "items"
    gives_items: ClassVar[bool] = True
    is_in_order: ClassVar[bool] = True
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Streams(SourceKind):
    """The streams of another job."""

    format: ClassVar[Format] = "rstream"
    gives_items: ClassVar[bool] = True
    is_in_order: ClassVar[bool] = True
    is_numbered: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class PushedRows(SourceKind):
    """A log of pushed rows."""

    format: ClassVar[Format] = "log"
    is_numbered: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Topic(SourceKind):
    """A topic of Kafka."""

    format: ClassVar[Format] = "kafka"
    #: Encoding of message values: "json", "avro", "arrow", "bytes" or Debezium's.
    encoding: str
    #: Address of the brokers, and options of the client. A value may name a secret
    #: (:mod:`rstream.secret_values`), so that a plan contains no passwords.
    config: tuple[tuple[str, str], ...] = field(repr=False, metadata={"fingerprint": False})
    #: Where every partition begins, and where it ends; None: it does not end.
    start: TopicPlace = "earliest"
    until: TopicPlace | None = None
    #: The columns of the key, if a message replaces the row of its key.
    key: tuple[str, ...] = ()
    #: The writer's schema of all messages, as Avro writes it; empty: another encoding, or a
    #: registry has it.
    avro_schema: str = ""
    #: Longest time that the brokers may be unreachable, us; None: no limit.
    away_max_us: int | None = None


_NO_FILES = Files()


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source, its columns, and how its rows get their times.

    A time is an integer column of microseconds UTC, a timestamp, a date or an ISO-8601 string
    (without a zone: UTC). ``vs`` may be an expression over the columns that are read.
    """

    kind: SourceKind
    #: A file, a folder or an fsspec URL; "" for items. It is not part of a plan's fingerprint.
    path: str = field(metadata={"fingerprint": False})
    #: Payload columns of the events (after pruning); a subset of ``columns`` by name and type.
    schema: pa.Schema
    #: Columns to read from the files, time columns included. Empty for items.
    columns: pa.Schema
    #: The event time: a column or an expression. None only for items, streams and text, where
    #: ``_vs`` is the row number over all files, in us.
    vs: str | Evaluator | None
    #: The end. None: a point event (vs + 1). An int: the length in us, > 0. Otherwise a time column
    #: or an expression; a null means an endless lifetime.
    ve: str | int | Evaluator | None = None
    #: Allowed disorder of rows, us; 0 if it is estimated, or not computed yet.
    delay_us: int = 0
    delay_origin: DelayOrigin = "given"
    #: With an estimated delay: the share of rows that are not late
    #: (:mod:`rvertex.events.delay_estimate`).
    delay_quantile: float | None = None
    late: LatePolicy = "drop"
    #: The path as the user wrote it.
    shown: str = ""
    #: Distance of CTI times, us; all sources of a plan use the same grid.
    cti_every_us: int = 1_000_000
    checks: Checks = Checks()
    #: How it is read while it grows. None: the source is bounded and read once.
    live: Live | None = None
    #: Longest lifetime of an event, us. A longer lifetime is an error. None: no limit.
    max_duration_us: int | None = None
    #: Whether rows are released in time order. If not, they are released in arrival order, however
    #: late.
    sorts: bool = True
    #: A filter: other rows are numbered and advance the frontier, but are dropped. None: no filter.
    #: The fingerprint treats it as a filter operator after the source, which has the same results.
    keep: Evaluator | None = field(default=None, metadata={"fingerprint": False})
    #: The payload that readers return if late rows keep columns that events lack: a superset of
    #: ``schema``. None: readers return ``schema``.
    late_schema: pa.Schema | None = field(default=None, metadata={"fingerprint": False})

    @property
    def format(self) -> Format:
        """Return the name of its kind."""
        return self.kind.format

    @property
    def files(self) -> Files:
        """Return the options of its files; of a source without files, the defaults."""
        return self.kind if isinstance(self.kind, Files) else _NO_FILES

    @property
    def paths(self) -> tuple[str, ...]:
        """Return all its paths."""
        return (self.path, *self.files.more_paths)

    @property
    def items(self) -> pa.RecordBatch | None:
        """Return the rows that the plan contains; None: it reads them."""
        return self.kind.rows if isinstance(self.kind, PlanItems) else None

    @property
    def wanted(self) -> tuple[Bound, ...]:
        """Return the filters on its row groups."""
        return self.kind.wanted if isinstance(self.kind, Parquet) else ()

    @property
    def is_endless(self) -> bool:
        """Whether it is live and has no end that the plan contains."""
        has_end = isinstance(self.kind, Topic) and self.kind.until is not None
        return self.live is not None and not has_end

    def with_options(self, **changes: object) -> SourceSpec:
        """Return the source with other options of its kind."""
        return replace(self, kind=replace(self.kind, **changes))

    def reading(self, names: Collection[str]) -> pa.Schema:
        """Return the schema to read; if folders have all ``names``, one more, to count rows."""
        of_folders = self.files.folder_columns
        wanted = [f for f in self.columns if f.name in names]
        others = [f for f in self.columns if f.name not in of_folders]
        if others and all(f.name in of_folders for f in wanted):
            wanted.append(others[0])
        return pa.schema(wanted)

    @property
    def row_schema(self) -> pa.Schema:
        """Return the payload that readers return."""
        return self.schema if self.late_schema is None else self.late_schema

    @property
    def without_late_columns(self) -> SourceSpec:
        """Return the source for a reader that keeps no late rows."""
        return self if self.late_schema is None else replace(self, late_schema=None)

    @property
    def drops_late_rows(self) -> bool:
        """Whether rows may be late, and late rows are dropped."""
        return self.late == "drop" and self.delay_origin == "given"

    @property
    def keeps_late_rows(self) -> bool:
        """Whether late rows are kept in a side output."""
        return self.drops_late_rows and not self.kind.is_in_order

    @property
    def length_us(self) -> int | None:
        """Return the common lifetime of all events, us, if the spec defines one; else None."""
        if self.kind.gives_items or not isinstance(self.ve, int | None):
            return None
        return self.ve or 1


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest piece assigned to one vertex: a row group, a segment, a file or part of it."""

    path: str = field(metadata={"fingerprint": False})
    #: The number of the row group, for Parquet only.
    row_group: int | None = None
    #: Number of rows, if known in advance (Parquet, text, items, streams).
    rows: int | None = None
    #: For text only: number of rows of the source before this unit.
    rows_before: int = 0
    #: For Parquet only: no row passes the filters, so the payload may be null. See row_groups.py.
    only_times: bool = False
    #: For CSV and JSON only: the bytes ``[lo, hi)`` of the file, whole rows. None: to the file's
    #: end.
    lo: int = field(default=0, metadata={"fingerprint": False})
    hi: int | None = field(default=None, metadata={"fingerprint": False})
    #: If ``only_times``: greatest start of the rows before the unit in its partition, us.
    before_us: int | None = None
    #: Version of the file to read; None: any version.
    version: FileVersion | None = field(
        default=None, compare=False, metadata={"fingerprint": False}
    )
    #: For streams and logs: the first item to read, and the number of the stream.
    first_seq: int = 0
    stream: int = 0
    #: For streams of another job only: number of streams of that output; 0: unknown.
    streams: int = field(default=0, compare=False, metadata={"fingerprint": False})
    #: For live logs only: ``stream`` is the partition. It is read from position ``first_seq`` up to
    #: this position. None: unbounded.
    until: int | None = None
    #: For live logs only: the log's unique id, if it has one.
    log_id: str = field(default="", compare=False, metadata={"fingerprint": False})
    #: For live logs only: number of partitions when the job was planned; 0: unknown.
    log_partitions: int = field(default=0, compare=False, metadata={"fingerprint": False})
    #: For live logs only: upper bound of the positions that earlier instances read; None: unknown.
    settles_at: int | None = field(default=None, compare=False, metadata={"fingerprint": False})


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """The units that one source vertex reads, in order."""

    spec: SourceSpec
    units: tuple[Unit, ...]
    index: int
    #: If planning found the delay: how far the known later rows allow the frontier to advance.
    known: KnownFrontier | None = None
    #: For live logs only: partitions created after planning that are assigned to this vertex.
    added: tuple[Unit, ...] = field(default=(), metadata={"fingerprint": False})

    @property
    def log_units(self) -> tuple[Unit, ...]:
        """Return the log partitions that the vertex reads. Added partitions are last."""
        return (*self.units, *self.added)

    def with_added(self, partitions: tuple[int, ...]) -> SourcePartition:
        """Return the same units with exactly these added log partitions.

        An added partition is read from its first record. ``settles_at`` is unset for the other
        partitions, because an earlier instance may have read any part of them.
        """
        if partitions == tuple(unit.stream for unit in self.added):
            return self
        path, log_id = self.units[0].path, self.units[0].log_id
        return replace(
            self,
            units=tuple(replace(unit, settles_at=None) for unit in self.units),
            added=tuple(Unit(path, stream=p, log_id=log_id) for p in partitions),
        )
