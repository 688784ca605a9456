"""Description of a source: frozen and picklable, stored in a plan and opened by a host.

A :class:`SourceSpec` describes what to read and how rows become events.
:mod:`rvertex.sources.discover` splits it into units (the smallest pieces that can be assigned) and
partitions. :mod:`rvertex.sources.readers` opens a partition at any row.

Invariants: (1) the rows of a partition are numbered densely from 0 over its units, in order; (2) a
partition that is read again returns the same rows, for any ``rows_max`` and first row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Literal

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
OptionValue = str | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties of a format that planning and running rely on."""

    #: Suffixes of its files; empty: the format has no files, or files with any suffix.
    suffixes: tuple[str, ...] = ()
    #: Whether files have row groups with statistics and can be read by column.
    has_row_groups: bool = False
    #: Whether a reader returns items: rows with lifetimes, and CTIs (watermarks) between them.
    gives_items: bool = False
    #: Whether rows are in time order, so that none is late.
    is_in_order: bool = False
    #: Whether rows have sequence numbers that stay the same when files are rewritten.
    is_numbered: bool = False


#: By format. :mod:`rvertex.sources.formats.registry` has the readers of file formats,
#: :mod:`rvertex.sources.logs.opening` has the readers of live logs.
TRAITS: dict[Format, Traits] = {
    "parquet": Traits(suffixes=(".parquet", ".parq", ".pq"), has_row_groups=True),
    "csv": Traits(suffixes=(".csv", ".tsv")),
    "json": Traits(suffixes=(".json", ".jsonl", ".ndjson")),
    "text": Traits(is_in_order=True),
    "items": Traits(gives_items=True, is_in_order=True),
    "rstream": Traits(gives_items=True, is_in_order=True, is_numbered=True),
    "log": Traits(is_numbered=True),
}
_NO_TRAITS = Traits()
#: Option of files: what to do with bad rows.
ON_BAD_ROW = "on_bad_row"
#: Option of files: how far after the wall clock a row may start, us.
MAX_AHEAD_US = "max_ahead_us"
#: Option of files: the columns that must not be null, as a JSON list.
NOT_NULL = "not_null"
#: Option: the greatest numbers of characters by column, as JSON.
LENGTHS = "lengths"
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
class LogSpec:
    """The options of a live source beside its :class:`SourceSpec`. Source: ADR 32."""

    #: The watermark of an idle partition (:mod:`rvertex.vertex.idle`).
    idle: Idle = "follow"
    #: Time without a row after which a partition may be idle, us.
    idle_after_us: int = 2_000_000
    #: What to do when the log has deleted rows before they were read.
    on_lost: OnLost = "fail"
    #: What to do with messages that cannot be decoded.
    on_error: OnBadRow = "fail"
    #: Most us of event time that a partition is read ahead of the slowest partition; None: no
    #: limit.
    skew_us: int | None = None
    #: A row that starts more than this time after the wall clock is bad, us; None: no limit.
    max_ahead_us: int | None = None
    #: Whether every partition is read only up to an end position that the plan contains.
    is_bounded: bool = False
    #: Rule for files of a folder after they were read.
    taken_files: TakenFiles = field(default="unchanged", metadata={"fingerprint": False})
    #: Encoding of message values: "json", "avro", "arrow" or "bytes".
    encoding: str = ""
    #: Address of the log, and options of its client. A value may name a secret
    #: (:mod:`rstream.secret_values`), so that a plan contains no passwords.
    config: tuple[tuple[str, str], ...] = field(
        default=(), repr=False, metadata={"fingerprint": False}
    )

    @property
    def keeps_origins(self) -> bool:
        """Whether rows keep their origin, because a decoded row may become a dead letter."""
        return self.max_ahead_us is not None and self.on_error == "dead_letter"


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source, its columns, and how its rows get their times.

    A time is an integer column of microseconds UTC, a timestamp, a date or an ISO-8601 string
    (without a zone: UTC). ``vs`` may be an expression over the columns that are read.
    """

    format: Format
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
    #: Columns whose types the user declared; values in files are cast to them.
    casts: tuple[str, ...] = field(default=(), metadata={"fingerprint": False})
    #: Distance of CTI times, us; all sources of a plan use the same grid.
    cti_every_us: int = 1_000_000
    #: Reader options. csv: ``delimiter``, ``null_values`` (comma separated). Files: ``on_bad_row``
    #: unless it is "fail", :data:`NOT_NULL`, :data:`LENGTHS`.
    options: tuple[tuple[str, OptionValue], ...] = ()
    #: For items only: ``_kind, _vs, _ve, payload`` in arrival order.
    items: pa.RecordBatch | None = None
    #: Filters, for Parquet with plain time columns only. A row that does not satisfy all of them is
    #: dropped right after the source.
    wanted: tuple[Bound, ...] = ()
    #: Longest lifetime of an event, us. A longer lifetime is an error. None: no limit.
    max_duration_us: int | None = None
    #: A row that starts later than this is bad, us: the wall clock during planning plus
    #: ``max_ahead``.
    latest_us: int | None = field(default=None, metadata={"fingerprint": False})
    #: Whether rows are released in time order. If not, they are released in arrival order, however
    #: late.
    sorts: bool = True
    #: A filter: other rows are numbered and advance the frontier, but are dropped. None: no filter.
    #: The fingerprint treats it as a filter operator after the source, which has the same results.
    keep: Evaluator | None = field(default=None, metadata={"fingerprint": False})
    #: Whether the caller passed the rows in memory. "copy": the job stores them below its root.
    given: Given = field(default="no", metadata={"fingerprint": False})
    #: Options of a live log. None: the source is bounded and read once.
    log: LogSpec | None = None
    #: The payload that readers return if late rows keep columns that events lack: a superset of
    #: ``schema``. None: readers return ``schema``.
    late_schema: pa.Schema | None = field(default=None, metadata={"fingerprint": False})

    #: The ``columns`` that come from folder names (:mod:`rvertex.sources.formats.rows.folders`).
    folder_columns: tuple[str, ...] = ()
    #: Filters on folder names: files in other folders are not read.
    folders: tuple[Bound, ...] = ()

    @property
    def traits(self) -> Traits:
        """Return the properties of its format."""
        return TRAITS.get(self.format, _NO_TRAITS)

    def reading(self, names: Collection[str]) -> pa.Schema:
        """Return the schema to read; if folders have all ``names``, one more, to count rows."""
        wanted = [f for f in self.columns if f.name in names]
        others = [f for f in self.columns if f.name not in self.folder_columns]
        if others and all(f.name in self.folder_columns for f in wanted):
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
    def on_bad_row(self) -> OnBadRow:
        """Return what to do with a row that cannot become an event."""
        if self.log is not None:
            return self.log.on_error
        policy: OnBadRow = self.option(ON_BAD_ROW, "fail")  # type: ignore[assignment]
        return policy

    @property
    def not_null(self) -> tuple[str, ...]:
        """Return the columns that are read and must not be null; a null makes a row bad."""
        return tuple(json.loads(str(self.option(NOT_NULL, "[]"))))

    @property
    def lengths(self) -> dict[str, int]:
        """Return the greatest number of characters by column; a longer text makes a row bad."""
        return dict(json.loads(str(self.option(LENGTHS, "{}"))))

    @property
    def checks_values(self) -> bool:
        """Whether a value of the declared type may still make its row bad."""
        return bool(self.not_null or self.lengths)

    @property
    def drops_late_rows(self) -> bool:
        """Whether rows may be late, and late rows are dropped."""
        return self.late == "drop" and self.delay_origin == "given"

    @property
    def keeps_late_rows(self) -> bool:
        """Whether late rows are kept in a side output."""
        return self.drops_late_rows and not self.traits.is_in_order

    @property
    def length_us(self) -> int | None:
        """Return the common lifetime of all events, us, if the spec defines one; else None."""
        if self.traits.gives_items or not isinstance(self.ve, int | None):
            return None
        return self.ve or 1

    def option(self, name: str, default: OptionValue) -> OptionValue:
        """Return the option ``name``, or ``default`` if it is not set."""
        return dict(self.options).get(name, default)


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
