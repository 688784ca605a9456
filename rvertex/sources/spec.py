"""What a source is: a frozen, picklable description that a plan holds and a host opens.

A :class:`SourceSpec` says what to read and how rows become events;
:mod:`rvertex.sources.discover` turns it into units (the pieces that can be dealt out) and
partitions; :mod:`rvertex.sources.readers` opens a partition at any row.

Invariants: (1) the rows of a partition are numbered densely from 0 over its units, in order; (2)
the same partition read again gives the same rows, whatever ``rows_max`` or first row was asked for.
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
LatePolicy = Literal["drop", "adjust", "error"]
#: "auto": the delay is found when the job is planned; "found": it was, and no row is late.
DelayOrigin = Literal["given", "auto", "found"]
Idle = Literal["follow", "clock", "wait"]
OnLost = Literal["fail", "skip"]
OnBadRow = Literal["fail", "skip", "dead_letter"]
#: Files of a growing folder that were read: they may go, but not change; or they have to stay as
#: they are; or nobody looks.
TakenFiles = Literal["unchanged", "kept", "any"]
Given = Literal["no", "here", "copy"]
OptionValue = str | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a format promises of its sources to whoever plans or runs them."""

    #: Endings of its files' names; empty: it has no files, or files of any name.
    suffixes: tuple[str, ...] = ()
    #: Files have row groups with statistics, and are read by column.
    has_row_groups: bool = False
    #: A reader gives items: rows with their lifetimes, and the CTIs between them.
    gives_items: bool = False
    #: Rows come in the order of time, so none is late.
    is_in_order: bool = False
    #: Rows have sequence numbers that outlive the files in which they are.
    is_numbered: bool = False


#: By format; how its files are read is in :mod:`rvertex.sources.formats.registry`, how a live log
#: is read in :mod:`rvertex.sources.logs.opening`.
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
#: The option of files that says what becomes of bad rows.
ON_BAD_ROW = "on_bad_row"
#: The option of files that says how far ahead of the clock a row may start, us.
MAX_AHEAD_US = "max_ahead_us"
#: The columns that have to have values, as a list in JSON.
NOT_NULL = "not_null"
BoundOperator = Literal["==", "<", "<=", ">", ">="]
BoundValue = bool | int | float | str | date


@dataclass(frozen=True, slots=True)
class Bound:
    """``column operator value`` is true of every row that is used; null is not true."""

    column: str
    operator: BoundOperator
    value: BoundValue

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.value}"


@dataclass(frozen=True, slots=True)
class LogSpec:
    """What a live source adds to a :class:`SourceSpec`. Source: ADR 32."""

    #: What a partition that has fallen silent promises.
    idle: Idle = "follow"
    #: How long a partition has had no row before it may be idle, us.
    idle_after_us: int = 2_000_000
    #: What becomes of rows that the log no longer has.
    on_lost: OnLost = "fail"
    #: What becomes of messages that cannot be decoded.
    on_error: OnBadRow = "fail"
    #: A partition that is further ahead of the slowest is not read on, us; None: no bound.
    skew_us: int | None = None
    #: A row that starts further ahead of the wall clock is bad, us; None: no row is ahead.
    max_ahead_us: int | None = None
    #: Whether every partition is read up to a position that the plan knows.
    is_bounded: bool = False
    #: What is asked of the files of a folder that were taken.
    taken_files: TakenFiles = field(default="unchanged", metadata={"fingerprint": False})
    #: How the values of messages are encoded: "json", "avro", "arrow", "bytes".
    encoding: str = ""
    #: Where the log is, and options of its client. A value may name a secret
    #: (:mod:`rstream.secret_values`), so that a plan holds none.
    config: tuple[tuple[str, str], ...] = field(
        default=(), repr=False, metadata={"fingerprint": False}
    )

    @property
    def keeps_origins(self) -> bool:
        """Whether a row that was decoded may become a dead letter."""
        return self.max_ahead_us is not None and self.on_error == "dead_letter"


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source and its rule for time.

    A time is an integer column of microseconds UTC, a timestamp, a date or an ISO-8601 string
    (without a zone: UTC). ``vs`` may be an expression over the columns that are read.
    """

    format: Format
    #: A file, a folder or an fsspec URL; "" for items. Plans are equal wherever their files lie.
    path: str = field(metadata={"fingerprint": False})
    #: Payload columns of the events (after pruning); a subset of ``columns`` by name and type.
    schema: pa.Schema
    #: Columns to read from the files, time columns included. Empty for items.
    columns: pa.Schema
    #: None only for text (its ``_vs`` is the row number over all files, in us), items and streams.
    vs: str | Evaluator | None
    #: None: a point event (vs + 1); an int: length in us, > 0; else a time column or expression,
    #: of which null is the end of time.
    ve: str | int | Evaluator | None = None
    #: How far rows may be out of order, us. 0 where it is estimated, or still to be found.
    delay_us: int = 0
    delay_origin: DelayOrigin = "given"
    #: The share of rows that an estimated delay lets pass (:mod:`rvertex.events.delay_estimate`).
    delay_quantile: float | None = None
    late: LatePolicy = "drop"
    #: The path as the user wrote it.
    shown: str = ""
    #: Columns whose types the user gave, whatever the files hold.
    casts: tuple[str, ...] = field(default=(), metadata={"fingerprint": False})
    #: The plan-wide grid of CTI times, us.
    cti_every_us: int = 1_000_000
    #: Reader options; csv: ``delimiter``, ``null_values`` (comma separated); files: ``on_bad_row``
    #: where it is not "fail", :data:`NOT_NULL`.
    options: tuple[tuple[str, OptionValue], ...] = ()
    #: Items only: ``_kind, _vs, _ve, payload`` in the order in which they arrive.
    items: pa.RecordBatch | None = None
    #: Parquet with plain time columns only: rows for which any of these does not hold are dropped
    #: right behind the source.
    wanted: tuple[Bound, ...] = ()
    #: No event lives longer, us; one that does is an error. None: nothing is promised.
    max_duration_us: int | None = None
    #: A row that starts later is bad, us: what ``max_ahead`` allowed when the job was planned.
    latest_us: int | None = field(default=None, metadata={"fingerprint": False})
    #: Whether rows leave by time; if not, as they come, be they below the frontier or not.
    sorts: bool = True
    #: Rows for which it is not true are numbered and timed, and go no further. None: all go on.
    #: The fingerprint of a vertex has it as a filter behind the source, which gives the same.
    keep: Evaluator | None = field(default=None, metadata={"fingerprint": False})
    #: Whether the caller gave the rows from memory; "copy": a job keeps them in its root.
    given: Given = field(default="no", metadata={"fingerprint": False})
    #: Of a live log; None: the source is read once, to its end.
    log: LogSpec | None = None
    #: The payload of rows as readers give them, where late rows are kept with columns that events
    #: do not have; it has all of ``schema``. None: no more than ``schema``.
    late_schema: pa.Schema | None = field(default=None, metadata={"fingerprint": False})

    #: Those of ``columns`` that folders name (:mod:`rvertex.sources.formats.rows.folders`).
    folder_columns: tuple[str, ...] = ()
    #: Files whose folders do not satisfy all of these are left out.
    folders: tuple[Bound, ...] = ()

    @property
    def traits(self) -> Traits:
        """What its format promises."""
        return TRAITS.get(self.format, _NO_TRAITS)

    def reading(self, names: Collection[str]) -> pa.Schema:
        """These columns, and one of the files if all of them are of folders: it counts the rows."""
        wanted = [f for f in self.columns if f.name in names]
        others = [f for f in self.columns if f.name not in self.folder_columns]
        if others and all(f.name in self.folder_columns for f in wanted):
            wanted.append(others[0])
        return pa.schema(wanted)

    @property
    def row_schema(self) -> pa.Schema:
        """The payload of rows as readers give them."""
        return self.schema if self.late_schema is None else self.late_schema

    @property
    def without_late_columns(self) -> SourceSpec:
        """The source for a reader that keeps no late rows."""
        return self if self.late_schema is None else replace(self, late_schema=None)

    @property
    def on_bad_row(self) -> OnBadRow:
        """What becomes of a row that cannot become an event."""
        if self.log is not None:
            return self.log.on_error
        policy: OnBadRow = self.option(ON_BAD_ROW, "fail")  # type: ignore[assignment]
        return policy

    @property
    def not_null(self) -> tuple[str, ...]:
        """The columns of which a null is a bad row, where they are read."""
        return tuple(json.loads(str(self.option(NOT_NULL, "[]"))))

    @property
    def drops_late_rows(self) -> bool:
        """Whether a row may be late, and then goes to the side output."""
        return self.late == "drop" and self.delay_origin == "given"

    @property
    def keeps_late_rows(self) -> bool:
        """Whether late rows are put aside."""
        return self.drops_late_rows and not self.traits.is_in_order

    @property
    def length_us(self) -> int | None:
        """How long every event lives, if the specification alone says it."""
        if self.traits.gives_items or not isinstance(self.ve, int | None):
            return None
        return self.ve or 1

    def option(self, name: str, default: OptionValue) -> OptionValue:
        """The option ``name``, or ``default`` where it was not given."""
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a source that is dealt out whole: a row group, a segment, a file or part of it."""

    path: str = field(metadata={"fingerprint": False})
    #: Parquet only.
    row_group: int | None = None
    #: Rows, where known beforehand (Parquet, text, items, streams).
    rows: int | None = None
    #: Text only: rows of the source before this unit.
    rows_before: int = 0
    #: Parquet only: no row of the unit is wanted, so its payload may be null. See row_groups.py.
    only_times: bool = False
    #: CSV and JSON only: the bytes ``[lo, hi)`` of the file, whole rows; None: to its end.
    lo: int = field(default=0, metadata={"fingerprint": False})
    hi: int | None = field(default=None, metadata={"fingerprint": False})
    #: With ``only_times``: no row before the unit in its partition starts later than this, us.
    before_us: int | None = None
    #: The version of the file that is meant; None: whatever is there.
    version: FileVersion | None = field(
        default=None, compare=False, metadata={"fingerprint": False}
    )
    #: Streams and logs: the first item that is taken, and which of the streams it is.
    first_seq: int = 0
    stream: int = 0
    #: Streams of another job only: the number of streams that its output had; 0: it is not known.
    streams: int = field(default=0, compare=False, metadata={"fingerprint": False})
    #: Live logs only: ``stream`` is the log's partition, read from position ``first_seq`` on; this
    #: is where a bounded read of it ends. None: never.
    until: int | None = None
    #: Live logs only: what the log calls itself, where it has a name that no other one ever had.
    log_id: str = field(default="", compare=False, metadata={"fingerprint": False})
    #: Live logs only: how many partitions the log had when the job was planned; 0: not known.
    log_partitions: int = field(default=0, compare=False, metadata={"fingerprint": False})
    #: Live logs only: no instance of an earlier life has read beyond; None: that is not known.
    settles_at: int | None = field(default=None, compare=False, metadata={"fingerprint": False})


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """The units that one source vertex reads, in order."""

    spec: SourceSpec
    units: tuple[Unit, ...]
    index: int
    #: Where the delay was found: how far the rows that follow let the frontier go besides.
    known: KnownFrontier | None = None
    #: Live logs only: partitions that appeared after the job was planned, and were taken in.
    added: tuple[Unit, ...] = field(default=(), metadata={"fingerprint": False})

    @property
    def log_units(self) -> tuple[Unit, ...]:
        """Of a live log the partitions that the vertex reads, those that were added last."""
        return (*self.units, *self.added)

    def with_added(self, partitions: tuple[int, ...]) -> SourcePartition:
        """The same units, and of the log's partitions that were added later all of these.

        Each of them is read from its first record on. How far the others were read is not known:
        an earlier instance may have read any of it.
        """
        if partitions == tuple(unit.stream for unit in self.added):
            return self
        path, log_id = self.units[0].path, self.units[0].log_id
        return replace(
            self,
            units=tuple(replace(unit, settles_at=None) for unit in self.units),
            added=tuple(Unit(path, stream=p, log_id=log_id) for p in partitions),
        )
