"""Streams that begin with files, with items of the query, or with what another job wrote."""

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

    from planner.api.inputs.tables import TableFormat
    from planner.durations import Duration
    from planner.logical.nodes import Source
    from rvertex.sources.spec import Idle, LatePolicy, OnBadRow


class FileInputs:
    """The sources of :class:`planner.Stream` that have an end, and folders that grow."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, plan: Source) -> None: ...

    @classmethod
    @keywords_of(FileOptions)
    def from_parquet(cls, path: Paths, given: FileOptions) -> Self:
        """Rows of a Parquet file or of a folder of such files.

        ``path`` may be a pattern, such as ``"data/2026-*/*.parquet"``, and a list of all these.

        ``vs`` is the column (or expression) of the event's start; ``ve`` is its end (null:
        no end), a length such as ``"+1h"``, or None for point events. Rows may be in any order:
        ``delay="auto"`` reads all times when the job is planned, so no row is late. Any other
        ``delay`` is how far rows may be out of order; ``late`` drops later rows
        (:func:`jobmanager.read_late` returns them), adjusts them or raises an error.
        ``delay="p99"`` estimates the delay every 1,024 rows of a partition, enough for 99 % of the
        last 16,384 rows; the first 1,024 wait for each other. ``schema`` overrides column types;
        in an Arrow schema, a field that is not nullable must have a value.

        A row is bad if it has no usable time, a value that is not of its column's type or lacks one
        that it has to have, or (CSV, JSON) is no row at all. It is an error that names file, row,
        column and value (``on_bad_row="fail"``), is counted and left out (``"skip"``), or is
        counted and kept with these and the reason (``"dead_letter"``;
        :func:`jobmanager.read_dead_letters` has them).

        With ``max_ahead="1h"`` a row is bad, too, that starts more than an hour after now, or in a
        folder that grows after the moment when it is read: one with a time in 2036 would make all
        that follow late.

        ``follow=True``: the folder grows, and the job reads each file once, as it comes and is
        complete; it looks every ``poll_every``. The ``delay`` must be given then. ``partitions``
        read different files side by side. One that had no file for ``idle_after`` no longer holds
        time back: it promises what the others have reached (``idle="follow"``), or the wall clock
        less the delay (``"clock"``), or nothing (``"wait"``).
        """
        return cls(file_source("parquet", path, given))

    @classmethod
    @keywords_of(CsvOptions)
    def from_csv(cls, path: Paths, given: CsvOptions) -> Self:
        """Rows of CSV files with a header line; see :meth:`from_parquet`.

        ``encoding``: of their text, as Python calls it, such as ``"utf-16"`` or ``"latin-1"``.
        """
        return cls(file_source("csv", path, given))

    @classmethod
    @keywords_of(JsonOptions)
    def from_json(cls, path: Paths, given: JsonOptions) -> Self:
        """Objects of JSON-lines files; see :meth:`from_parquet` and :meth:`from_csv`."""
        return cls(file_source("json", path, given))

    @classmethod
    def table(
        cls,
        data: object,
        *,
        format: TableFormat | None = None,
        schema: SchemaLike | None = None,
        on_bad_row: OnBadRow = "fail",
        delimiter: str = ",",
        null_values: Sequence[str] = ("",),
        encoding: str = "utf-8",
    ) -> Self:
        """Rows without times that are always alive, to join streams with.

        ``data``: a Parquet, CSV or JSON-lines file, or a folder of them with ``format``; or a table
        of Arrow or whatever gives one (pandas, Polars, DuckDB), which travels with the plan.
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
        """Lines of text files in column ``line``; line n (over all files) starts at n us."""
        return cls(file_source("text", str(path), replace(TEXT, partitions=partitions)))

    @classmethod
    def from_items(
        cls, schema: SchemaLike, items: Iterable[Event | Cti], partitions: int = 1
    ) -> Self:
        """The given ``event(...)`` and ``cti(...)`` items, in this order."""
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
        """What another job has written: each row with its exact lifetime, CTIs where they were.

        ``uri`` is the folder of a finished job's answer, one vertex's part of it
        (``.../part-0-*``), or the folder of a durable stream inside of a job. With ``follow=True``
        that job may still run, and be killed and resumed: rows come as it has flushed them, and
        end where its answer does.

        Or the rows of a log that :class:`rstream.Appender` or ``jobmanager intake`` has taken, as
        many as there are when the job is planned, or with ``follow=True`` as they come. Such a log
        needs ``vs``; ``ve``, ``delay``, ``late``, ``idle``, ``idle_after``, ``on_bad_row`` and
        ``max_ahead`` are as for :meth:`from_parquet`. Its column ``received_at`` is the time of
        arrival.
        """
        given = FileOptions(
            vs=vs, ve=ve, delay=delay, late=late, follow=follow, idle=idle, idle_after=idle_after,
            on_bad_row=on_bad_row, max_ahead=max_ahead,
        )  # fmt: skip
        return cls(stream_source(str(uri), given))
