"""The connector ``filesystem``: files that are read, and folders that results are written to."""

# ruff: noqa: RUF009 - option() makes a field

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.api.inputs.tables import always_alive
from planner.api.sources import AUTO, CsvOptions, file_source, kind_of
from planner.api.stream import Stream
from planner.logical.table_form import DEFAULT
from planner.sql.tables.lasting import (
    CHANGELOG,
    DELETED,
    changelog_option,
    deleted_option,
    is_keyed,
    lasting,
)
from planner.sql.tables.options import (
    choice,
    count,
    delay,
    duration,
    node,
    null_or_text,
    option,
    truth,
)
from planner.sql.tables.table import STREAM, Connector, Sink, Source
from rvertex.sources.discover import infer_schema
from rvertex.sources.files import SUFFIXES, format_of
from rvertex.sources.formats.rows.text_encoding import UTF_8

if TYPE_CHECKING:
    from sqlglot import exp

    from planner.logical.query import Query
    from planner.sql.tables.table import Table
    from rvertex.sources.spec import Format, Idle, LatePolicy, OnBadRow

_RSTREAM: Format = "rstream"
_IDLE = {word: word for word in ("follow", "clock", "wait")}
_ON_BAD_ROW = {word: word for word in ("fail", "skip", "dead_letter")}
_LATE = {word: word for word in ("drop", "adjust", "error")}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """The options of files that are read."""

    path: str = option("path")
    format: str | None = option("format", "value_format", default=None)
    vs: exp.Expr | None = option("vs", "timestamp", read=node, default=None)
    ve: exp.Expr | None = option("ve", read=node, default=None)
    upserts: bool = changelog_option()
    deleted: exp.Expr | None = deleted_option()
    delay: int | str = option("delay", read=delay, default=AUTO)
    late: LatePolicy = option("late", read=choice(_LATE), default="drop")
    partitions: int | None = option("partitions", "scan.parallelism", read=count, default=None)
    delimiter: str = option("delimiter", "csv.field-delimiter", "sep", default=",")
    null_values: str = option("null_values", "csv.null-literal", default="")
    encoding: str = option("encoding", default=UTF_8)
    has_header: bool = option("header", read=truth, default=True)
    has_no_header: bool = option("without_header", read=truth, default=False)
    on_bad_row: OnBadRow = option("on_bad_row", read=choice(_ON_BAD_ROW), default="fail")
    ignores_errors: bool = option(
        "csv.ignore-parse-errors", "json.ignore-parse-errors", read=truth, default=False
    )
    max_ahead: int | None = option("max_ahead", read=duration, default=None)
    static: bool = option("static", read=truth, default=False)
    follow: bool = option("follow", read=truth, default=False)
    poll_every: int | None = option(
        "poll_every", "source.monitor-interval", read=duration, default=None
    )
    idle: Idle = option("idle", read=choice(_IDLE), default="follow")
    idle_after: int | str = option(
        "idle_after", "scan.watermark.idle-timeout", read=duration, default="2s"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink:
    """The options of a folder that is written."""

    path: str | None = option("path", default=None)
    format: str = option("format", "value_format", default="parquet")
    kind: str = option("type", read=choice({"append-only": ""}), default="")
    cti_every: int | None = option("cti_every", read=duration, default=None)
    start: str | None = option("start", read=null_or_text, default=DEFAULT)
    end: str | None = option("end", read=null_or_text, default=DEFAULT)


def read_files(table: Table, options: FileSource) -> Stream:
    """Return the stream of the files."""
    format_ = _format(table, options)
    if options.has_no_header or not options.has_header:
        name = "without_header" if options.has_no_header else "header"
        raise table.given.error(name, "a CSV file has a line with the names of its columns here")
    if format_ in ("text", _RSTREAM):
        return _fixed_source(table, options, format_)
    if options.vs is None and table.columns.watermark is None and not options.static:
        keeps = table.text.engine.keeps_rows or is_keyed(
            table, format_, options.path, options.delimiter
        )
        if not keeps or _live(options)["follow"]:
            raise table.no_time()
        options = replace(options, static=True, upserts=False)
    if format_ != "csv":
        for name in ("delimiter", "csv.field-delimiter", "null_values", "csv.null-literal"):
            if name in table.given.values:
                raise table.given.error(name, "only CSV has a delimiter and null_values")
    if format_ == "parquet" and "encoding" in table.given.values:
        raise table.given.error("encoding", "only text, as CSV and JSON, has an encoding")
    plain = CsvOptions(
        vs=None,
        delay=options.delay,
        late=options.late,
        partitions=options.partitions,
        on_bad_row="skip" if options.ignores_errors else options.on_bad_row,
        max_ahead=options.max_ahead,
        **_live(options),
        delimiter=options.delimiter,
        null_values=options.null_values.split(","),
        encoding=options.encoding,
    )
    with table.text.located(table.given.values["path"]):
        inferred = infer_schema(kind_of(format_, plain), options.path)
    table.check_columns(inferred)
    types = table.columns.types
    if table.word != STREAM:
        types = {name: _as_written(inferred, name, kind) for name, kind in types.items()}
    if options.static:
        for name in ("vs", "ve", "delay", "late", "max_ahead", CHANGELOG, DELETED):
            if name in table.given.values and (name != CHANGELOG or options.upserts):
                raise table.given.error(name, f"rows of a static table have no times: no {name}")
        given = replace(always_alive(plain), schema=types or None)
    else:
        times = table.time_options(options.vs, options.ve, _with_types(inferred, types))
        given = replace(plain, **times, schema=types or None)
    with table.text.located(table.given.name):
        stream = Stream(file_source(format_, options.path, given))
    made = table.declared(stream)
    return lasting(table, made, options.ve, upserts=options.upserts, deleted=options.deleted)


def write_files(table: Table, options: FileSink, stream: Stream) -> Query:
    """Return the query that writes ``stream`` to the folder."""
    given = table.given
    if table.columns.primary_key:
        reason = "a folder keeps every version of a row, with its lifetime: leave PRIMARY KEY out"
        raise given.error("", f"{reason}; the connectors postgres and kafka write by key")
    if options.format.lower() not in ("parquet", _RSTREAM):
        raise given.error("format", "a target of INSERT INTO is 'parquet' or 'rstream'")
    with table.text.located(given.name):
        if options.format.lower() != _RSTREAM:
            return stream.to_parquet(
                options.path, cti_every=options.cti_every, start=options.start, end=options.end
            )
        if options.path is None:
            raise given.error("format", "an rstream needs path = '...'")
        for name in ("start", "end"):
            if name in given.values:
                raise given.error(name, "times of an rstream are _vs and _ve")
        return stream.to_rstream(options.path, cti_every=options.cti_every)


def _live(options: FileSource) -> dict[str, Any]:
    """Return the options of a folder that grows; a polling option implies that it grows."""
    return {
        "follow": options.follow or options.poll_every is not None,
        "idle": options.idle,
        "idle_after": options.idle_after,
        "poll_every": "1s" if options.poll_every is None else options.poll_every,
    }


def _fixed_source(table: Table, options: FileSource, format_: Format) -> Stream:
    """Return lines of text, or the output of another job: both have their own times."""
    known = ["connector", "path", "format", *(["partitions"] if format_ == "text" else [])]
    what = "text files" if format_ == "text" else "an rstream"
    for name in table.given.values:
        if name not in known:
            raise table.given.error(name, f"{name} is not an option of {what}")
    if table.columns.names:
        at = next(iter(table.columns.nodes.values()))
        raise table.text.error(at, f"{what} already has its columns; leave them out")
    with table.text.located(table.given.name):
        if format_ == "text":
            return Stream.from_text(options.path, partitions=options.partitions)
        return Stream.from_rstream(options.path)


def _as_written(inferred: pa.Schema, name: str, kind: pa.DataType) -> pa.DataType:
    """Return the type of a column; a time that was written without a zone stays without one."""
    there = inferred.field(name).type if name in inferred.names else kind
    is_time = pa.types.is_timestamp(kind) and pa.types.is_timestamp(there)
    return pa.timestamp("us") if is_time and there.tz is None else kind


def _with_types(inferred: pa.Schema, types: dict[str, pa.DataType]) -> pa.Schema:
    for name, kind in types.items():
        at = inferred.get_field_index(name)
        inferred = inferred.set(at, inferred.field(at).with_type(kind))
    return inferred


def _format(table: Table, options: FileSource) -> Format:
    if options.format is not None:
        formats: dict[str, Format] = {f: f for f in (*SUFFIXES, "text", _RSTREAM)}
        formats["delimited"] = "csv"
        if options.format.lower() not in formats:
            known = ", ".join(formats)
            raise table.given.error("format", f"no format {options.format!r}; there are {known}")
        return formats[options.format.lower()]
    format_ = "text" if options.path.endswith(".txt") else format_of(options.path)
    if format_ is None:
        raise table.given.error("", "the path has no known ending: set format = '...'")
    return format_


CONNECTOR = Connector("filesystem", Source(FileSource, read_files), Sink(FileSink, write_files))
