"""Streams that begin with files, with items in the query, or with the output of another job."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from planner.api.inputs.items import Cti, Event, items_source
from planner.api.inputs.keywords import keywords_of
from planner.api.inputs.tables import table_file, table_rows
from planner.api.sources import (
    TEXT,
    CsvOptions,
    FileOptions,
    JsonOptions,
    Paths,
    SchemaLike,
    TimeColumn,
    file_source,
    stream_source,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.durations import Duration
    from planner.logical.nodes import Source
    from rvertex.sources.spec import FileFormat, Idle, LatePolicy, OnBadRow


class FileInputs:
    """The sources of :class:`planner.Stream` that have an end, and folders that grow."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, plan: Source) -> None: ...

    @classmethod
    @keywords_of(FileOptions)
    def from_parquet(cls, path: Paths, given: FileOptions) -> Self:
        """Read the rows of a Parquet file or of a folder of such files.

        ``path`` may also be a pattern, such as ``"data/2026-*/*.parquet"``, or a list of paths.

        ``vs`` is the column (or expression) of the event's start. ``ve`` is the column of its end
        (null: no end), a length such as ``"+1h"``, or None for point events. Rows may be in any
        order: ``delay="auto"`` reads all times when the job is planned, so no row is late. Any
        other ``delay`` is how far rows may be out of order. ``late`` decides about later rows: drop
        them (:func:`jobmanager.read_late` returns them), adjust them, or raise an error.

        ``delay="p99"`` estimates the delay every 1,024 rows of a partition, so that 99 % of the
        last 16,384 rows are in time; the first 1,024 rows are buffered for the first estimate.
        ``schema`` overrides column types. In an Arrow schema, a field that is not nullable must
        have a value.

        A row is bad if its time cannot be read, if a value does not fit its column's type, if a
        required value is missing, or (CSV, JSON) if it cannot be parsed. ``on_bad_row="fail"``
        raises an error that names file, row, column and value. ``"skip"`` counts the row and drops
        it. ``"dead_letter"`` counts it and keeps it with file, row, column, value and reason
        (:func:`jobmanager.read_dead_letters` returns such rows).

        ``max_ahead="1h"``: a row that starts more than an hour after now is bad, too; in a folder
        that grows, more than an hour after it is read. Without the limit, one row with a time in
        2036 would make all rows after it late.

        ``follow=True``: the folder grows, and the job reads each new file once, when it is
        complete. It lists the folder every ``poll_every``. It needs an explicit ``delay``.
        ``partitions`` read different files at the same time. ``idle`` is the watermark of a
        partition that got no file for ``idle_after``: it follows the other partitions
        (``"follow"``) or the wall clock less the delay (``"clock"``), or it stays and so delays the
        result (``"wait"``).
        """
        return cls(file_source("parquet", path, given))

    @classmethod
    @keywords_of(CsvOptions)
    def from_csv(cls, path: Paths, given: CsvOptions) -> Self:
        """Read the rows of CSV files with a header line; see :meth:`from_parquet`.

        ``encoding``: a name that Python knows, such as ``"utf-16"`` or ``"latin-1"``.
        """
        return cls(file_source("csv", path, given))

    @classmethod
    @keywords_of(JsonOptions)
    def from_json(cls, path: Paths, given: JsonOptions) -> Self:
        """Read the objects of JSON-lines files; see :meth:`from_parquet` and :meth:`from_csv`."""
        return cls(file_source("json", path, given))

    @classmethod
    def table(
        cls,
        data: object,
        *,
        format: FileFormat | None = None,
        schema: SchemaLike | None = None,
        on_bad_row: OnBadRow = "fail",
        delimiter: str = ",",
        null_values: Sequence[str] = ("",),
        encoding: str = "utf-8",
    ) -> Self:
        """Read rows without times, which are always valid, to join streams with.

        ``data``: a Parquet, CSV or JSON-lines file; a folder of them, with ``format``; or an Arrow
        table or an object that exports one (pandas, Polars, DuckDB). Such an object is stored in
        the plan.
        """
        if isinstance(data, str | os.PathLike):
            path = os.fspath(data)
            given = CsvOptions(
                vs=None,
                schema=schema,
                on_bad_row=on_bad_row,
                delimiter=delimiter,
                null_values=null_values,
                encoding=encoding,
            )
            return cls(table_file(path, format, given))
        return cls(table_rows(data, schema))

    @classmethod
    def from_text(cls, path: str, *, partitions: int | None = None) -> Self:
        """Read lines of text files as column ``line``; line n (over all files) starts at n us."""
        return cls(file_source("text", str(path), replace(TEXT, partitions=partitions)))

    @classmethod
    def from_items(
        cls, schema: SchemaLike, items: Iterable[Event | Cti], partitions: int = 1
    ) -> Self:
        """Make a stream of ``event(...)`` and ``cti(...)`` items, in this order."""
        return cls(items_source(schema, items, partitions=partitions))

    @classmethod
    def from_rstream(
        cls,
        uri: str,
        *,
        vs: TimeColumn | None = None,
        ve: TimeColumn | Duration | None = None,
        delay: Duration = "auto",
        late: LatePolicy = "drop",
        follow: bool = False,
        idle: Idle = "follow",
        idle_after: Duration = "2s",
        on_bad_row: OnBadRow = "fail",
        max_ahead: Duration | None = None,
    ) -> Self:
        """Read the output of another job, with the exact lifetimes of its rows, or a log of rows.

        ``uri`` is the output folder of a finished job, the part of one vertex (``.../part-0-*``),
        or the folder of a durable stream inside of a job. The watermarks (CTIs) of that job are
        read, too. With ``follow=True`` that job may still run, and be killed and resumed: its rows
        are read as they are flushed, until its output ends.

        ``uri`` may also be a log that :class:`rstream.Appender` or ``jobmanager intake`` writes:
        the rows it has when the job is planned, or with ``follow=True`` also later rows. A log
        needs ``vs``; ``ve``, ``delay``, ``late``, ``idle``, ``idle_after``, ``on_bad_row`` and
        ``max_ahead`` are as for :meth:`from_parquet`. Its column ``received_at`` is the time of
        arrival.
        """
        given = FileOptions(
            vs=vs, ve=ve, delay=delay, late=late, follow=follow, idle=idle, idle_after=idle_after,
            on_bad_row=on_bad_row, max_ahead=max_ahead,
        )  # fmt: skip
        return cls(stream_source(str(uri), given))
