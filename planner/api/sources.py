"""Checks what users declare of sources, and builds plan nodes: columns, times, lateness, items."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import pyarrow as pa

from planner.api.expressions import Expr
from planner.durations import (
    Duration,
    duration_us,
    latest_us,
    max_ahead_us,
    positive_duration_us,
)
from planner.errors import InvalidPlanError, UnknownColumnError
from planner.expressions.nodes import Column, Node, resolve
from planner.expressions.types import schema_of
from planner.logical.nodes import Source
from planner.logical.traversal import transform
from rstream.items.batch import RESERVED
from rstream.store.part_files import split_part
from rvertex.sources.discover import infer_columns, infer_schema
from rvertex.sources.formats.registry import FORMATS
from rvertex.sources.formats.row_log import holds_log
from rvertex.sources.formats.rows.text_encoding import UTF_8, plain_name
from rvertex.sources.logs.written import growing_streams
from rvertex.sources.spec import (
    Checks,
    Csv,
    DelayOrigin,
    Files,
    Format,
    Idle,
    Json,
    LatePolicy,
    Live,
    LiveFolder,
    OnBadRow,
    SourceKind,
    SourceSpec,
    Streams,
)
from rvertex.sources.times import is_time_type
from rvertex.sources.versions import absolute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.logical.nodes import LogicalNode
    from planner.logical.traversal import Shared

#: A ``pa.Schema``, or a dict from column name to type.
SchemaLike: TypeAlias = Any
#: A file, a folder or a pattern such as "data/2026-*/*.csv", or several of these.
Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
TimeColumn = str | Expr
PARTITIONS_MAX = 1024
#: Planning the job reads all times to find the delay.
AUTO = "auto"
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")


@dataclass(frozen=True, kw_only=True)
class EventOptions:
    """How rows become events; its fields are keywords of every source whose rows have times."""

    #: The column (or expression) of the start; None only for text, whose times are line numbers.
    vs: TimeColumn | None
    ve: TimeColumn | Duration | None = None
    delay: Duration = AUTO
    late: LatePolicy = "drop"
    #: The number of partitions; None: the plan's parallelism.
    partitions: int | None = None


@dataclass(frozen=True, kw_only=True)
class RowOptions(EventOptions):
    """The options of files and topics."""

    #: Types that override the types in the files; the columns of messages.
    schema: SchemaLike | None = None
    #: What to do with rows that cannot become events.
    on_bad_row: OnBadRow = "fail"
    #: How far ahead of the clock a row may start; None: no limit.
    max_ahead: Duration | None = None
    #: The watermark of a partition that had no row for ``idle_after``.
    idle: Idle = "follow"
    idle_after: Duration = "2s"


@dataclass(frozen=True, kw_only=True)
class FileOptions(RowOptions):
    """The options of files, for Python (:meth:`planner.Stream.from_parquet`) and SQL."""

    #: Whether the job also reads files that appear while it runs.
    follow: bool = False
    #: How often a folder is listed.
    poll_every: Duration = "1s"


@dataclass(frozen=True, kw_only=True)
class JsonOptions(FileOptions):
    """The options of files whose format is text."""

    #: An encoding by its name in Python.
    encoding: str = UTF_8


@dataclass(frozen=True, kw_only=True)
class CsvOptions(JsonOptions):
    """The options of CSV files; other formats ignore the delimiter and the null values."""

    delimiter: str = ","
    null_values: Sequence[str] = ("",)


#: The options of lines of text: their times are line numbers, so no row is late.
TEXT = FileOptions(vs=None, delay="0s")


def file_source(format: Format, paths: Paths, given: FileOptions) -> Source:
    """Return a source node over files; reads the columns of the first file."""
    names = _names_of(paths)
    path, *more = map(absolute, names)
    shown = names[0] + (f" and {len(more)} more" if more else "")
    kind = kind_of(format, given)
    live = _live(given, kind) if given.follow else None
    inferred, folders = infer_columns(kind, *names)
    columns = _overridden(inferred, given.schema, shown)
    if format == "csv" and isinstance(given.vs, str):
        _check_delimiter(given.vs, inferred)
    payload = pa.schema([f for f in columns if f.name not in RESERVED])
    if isinstance(kind, Files):
        casts = tuple(schema_of(given.schema).names) if given.schema is not None else ()
        kind = replace(kind, more_paths=tuple(more), casts=casts, folder_columns=folders)
    spec = SourceSpec(kind, path, payload, columns, vs=None, shown=shown, live=live)
    spec = with_rules(spec, given, given.vs)
    return Source(spec, checked_partitions(given.partitions), label_of(names[0]))


def with_rules(spec: SourceSpec, given: RowOptions, vs: TimeColumn | None) -> SourceSpec:
    """Return the source with its rules for times, late rows and bad rows."""
    origin, delay_us, quantile = delay_of(given.delay)
    checked_choice("late", given.late, get_args(LatePolicy))
    checked_choice("on_bad_row", given.on_bad_row, get_args(OnBadRow))
    not_null = (
        [f.name for f in given.schema if not f.nullable]
        if isinstance(given.schema, pa.Schema)
        else []
    )
    checks = Checks(given.on_bad_row, tuple(not_null), max_ahead_us=max_ahead_us(given.max_ahead))
    if not spec.is_endless:
        checks = replace(checks, latest_us=latest_us(given.max_ahead))
    return replace(
        spec,
        vs=None if vs is None else time_source(vs, spec.columns, "vs"),
        ve=end_source(given.ve, spec.columns),
        delay_us=delay_us,
        delay_origin=origin,
        delay_quantile=quantile,
        late=given.late,
        checks=checks,
    )


def kind_of(format: Format, given: FileOptions) -> SourceKind:
    """Return the options of the format's reader."""
    kind = FORMATS[format].kind()
    if isinstance(kind, Csv) and isinstance(given, CsvOptions):
        checked_delimiter(given.delimiter)
        nulls = tuple(given.null_values)
        kind = replace(kind, delimiter=given.delimiter, null_values=nulls)
    if isinstance(kind, Csv | Json) and isinstance(given, JsonOptions):
        kind = replace(kind, encoding=checked_encoding(given.encoding))
    return kind


def _check_delimiter(time: str, columns: pa.Schema) -> None:
    """Raise if the header was read as one name because the file uses another delimiter.

    Raises:
        InvalidPlanError: the time column is one of the joined names.
    """
    (name, *others) = columns.names
    for delimiter in () if others else (";", "\t", "|"):
        if time in name.split(delimiter) and time != name:
            raise InvalidPlanError(
                f"the file has the single column {name!r}: set delimiter={delimiter!r} to read "
                f"{time!r}"
            )


def _names_of(paths: Paths) -> list[str]:
    """Return the paths as the user wrote them."""
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    names = [os.fspath(path) for path in several]
    if not names or any("\n" in name for name in names):
        raise InvalidPlanError(f"{paths!r}: give a file, a folder, a pattern, or a list of these")
    return names


def _live(given: FileOptions, kind: SourceKind) -> Live:
    """Return how a growing folder or log is read."""
    if given.delay == AUTO:
        raise InvalidPlanError(
            f"follow=True with delay={given.delay!r}: live sources need an explicit delay; "
            'set how far rows may be out of order, such as delay="10s"'
        )
    live = live_of(given)
    every_us = positive_duration_us(given.poll_every, what="poll_every")
    if not isinstance(kind, Files):
        return live
    partitions = checked_partitions(given.partitions) or 1
    rules = (live.idle, live.idle_after_us)
    return LiveFolder(*rules, partitions=partitions, poll_every_us=every_us)


def live_of(given: RowOptions) -> Live:
    """Return the rule for partitions without rows."""
    checked_choice("idle", given.idle, get_args(Idle))
    return Live(given.idle, positive_duration_us(given.idle_after, what="idle_after"))


def checked_rows(
    plan: LogicalNode, not_null: Sequence[str], lengths: Mapping[str, int]
) -> LogicalNode:
    """Return the plan of a source whose rows are bad if a column is null, or a text is too long."""
    given = (("not_null", tuple(not_null)), ("lengths", tuple(lengths.items())))
    changes: dict[str, Any] = {name: value for name, value in given if value}

    def required(node: LogicalNode, _shared: Shared) -> LogicalNode:
        if isinstance(node, Source):
            checks = replace(node.spec.checks, **changes)
            return replace(node, spec=replace(node.spec, checks=checks))
        return node

    return transform(plan, required)


def checked_delimiter(given: str) -> None:
    """Check the delimiter of CSV fields.

    Raises:
        InvalidPlanError: it is not one ASCII character, or is a quote or a line end.
    """
    if not isinstance(given, str) or len(given) != 1 or not given.isascii() or given in '"\r\n':
        raise InvalidPlanError(
            f"delimiter={given!r}: it must be one ASCII character, not a quote or a line end"
        )


def checked_encoding(encoding: str) -> str:
    """Return the canonical name of an encoding.

    Raises:
        InvalidPlanError: Python has no encoding of that name.
    """
    try:
        return plain_name(encoding)
    except (LookupError, TypeError, ValueError):
        raise InvalidPlanError(
            f"encoding={encoding!r}: there is no such encoding of text; give one of Python's, such "
            'as "utf-16" or "latin-1"'
        ) from None


def checked_choice(what: str, value: object, allowed: Sequence[str]) -> None:
    """Check the value of an option.

    Raises:
        InvalidPlanError: there is no such choice.
    """
    if value not in allowed:
        names = ", ".join(f'"{name}"' for name in allowed)
        raise InvalidPlanError(f"{what}={value!r}: choose one of {names}")


def delay_of(delay: Duration) -> tuple[DelayOrigin, int, float | None]:
    """Return the delay's origin, its fixed length in us or 0, and its quantile ("p99": 0.99).

    Only a source with an end can be scanned for its delay; live sources need an explicit one.
    """
    if delay == AUTO:
        return "auto", 0, None
    if isinstance(delay, str) and (match := _PERCENTILE.fullmatch(delay.strip())):
        percent = Decimal(match[1])
        if not 0 < percent < 100:
            raise InvalidPlanError(f"delay {delay!r}: a percentile is between p0 and p100")
        return "given", 0, float(percent / 100)
    delay_us = duration_us(delay, what="delay")
    if delay_us < 0:
        raise InvalidPlanError(f"delay {delay!r} is negative")
    return "given", delay_us, None


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return the columns as nullable; the source itself checks that required values are there."""
    return pa.schema([pa.field(f.name, f.type) for f in schema])


def stream_source(uri: str, given: FileOptions) -> Source:
    """Return a source node over the streams of another job, or over a log of pushed rows."""
    if holds_log(uri):
        if given.vs is None:
            raise InvalidPlanError(
                f"{uri} is a log of pushed rows, so set vs= to the column with the start "
                'of an event, such as vs="time" (or vs="received_at", the time of arrival)'
            )
        return file_source("log", uri, given)
    if given != FileOptions(vs=None, follow=given.follow):
        raise InvalidPlanError(
            f"{uri} is the output of a job, which already has times and CTIs: vs=, ve=, "
            "delay=, late=, idle=, on_bad_row= and max_ahead= are only for logs of pushed "
            "rows. Set max_ahead= at the sources of the job that writes them"
        )
    columns = growing_streams(uri).columns if given.follow else infer_schema(Streams(), uri)
    spec = SourceSpec(
        kind=Streams(),
        path=absolute(uri),
        schema=columns,
        columns=columns,
        vs=None,
        late="error",
        live=Live(idle="wait") if given.follow else None,
    )
    return Source(spec, None, label_of(split_part(uri)[0]))


def _overridden(columns: pa.Schema, given: SchemaLike | None, path: str) -> pa.Schema:
    """Return the columns found in the files, with the types of ``given`` where it has one."""
    for f in schema_of(given) if given is not None else ():
        at = columns.get_field_index(f.name)
        if at < 0:
            raise UnknownColumnError(f.name, tuple(columns.names), f"schema= of {path}")
        columns = columns.set(at, pa.field(f.name, f.type))
    return columns


def time_source(source: TimeColumn, columns: pa.Schema, role: str) -> str | Node:
    if isinstance(source, str) and source not in columns.names and "." in source:
        source = Expr(Column(source))
    if isinstance(source, str):
        if source not in columns.names:
            raise UnknownColumnError(source, tuple(columns.names), f"{role}=")
        time: str | Node = source
        kind = columns.field(source).type
    elif isinstance(source, Expr):
        time = resolve(source.node, columns)
        kind = time.type
    else:
        raise InvalidPlanError(f"{role}={source!r}: must be the name of a column or an expression")
    if not is_time_type(kind):
        raise InvalidPlanError(
            f"{role}={source} is {kind}; a time is a timestamp, a date, an ISO-8601 string or "
            "integer microseconds"
        )
    return time


def end_source(source: TimeColumn | Duration | None, columns: pa.Schema) -> str | int | Node | None:
    if source is None:
        return None
    if isinstance(source, Expr) or (isinstance(source, str) and not source.startswith("+")):
        return time_source(source, columns, "ve")
    return positive_duration_us(source, what="ve")


def checked_partitions(partitions: int | None) -> int | None:
    if partitions is not None and not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidPlanError(f"partitions={partitions}: must be between 1 and {PARTITIONS_MAX}")
    return partitions


def label_of(path: str) -> str:
    name = PurePosixPath(path.rstrip("/")).name.split(".")[0]
    return "".join(c if c.isalnum() else "-" for c in name).strip("-").lower()[:24] or "source"
