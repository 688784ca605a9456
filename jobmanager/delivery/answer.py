"""Reads the durable result of a job: as tables for programs, or printed for people.

The rows are as in the output's files: events without watermarks, times as timestamps under the
names of the result's columns. Partitions follow one after another, each in its row order.

:func:`read_table` returns the rows that are alive at a time T: rows that start at or before T and
end after T. It reads each stream from its start and drops rows that end at or before T on the way.
So the memory contains the live rows and one batch.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from jobmanager.config import SPARK_DAEMON
from jobmanager.delivery.deliveries import clean_rows, output_form
from jobmanager.errors import BeginningDeletedError, NoJobError
from jobmanager.state.held_time import exact_time
from jobmanager.storage.output_claim import answer_files, is_complete
from jobmanager.storage.root import JobRoot, display_uri
from planner.durations import time_us
from rstream import open_reader
from rstream.current import CurrentRows, RowCopies
from rstream.errors import SequenceDiscardedError, UsageError
from rstream.items.batch import event_schema, only_events
from rstream.items.edges import paired
from rstream.items.json_text import plain_values
from rstream.store.blobs import open_store
from rstream.types import INF_TIME
from rvertex.sources.versions import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.durations import Time
    from planner.physical.plan import PhysicalPlan
    from rstream import StreamReader

#: Default number, and greatest number, of rows that are printed.
ROWS, ROWS_MAX = 10, 100_000
CELL_CHARACTERS_MAX = 40
#: Most attempts of a read. It starts again if retention deletes its items meanwhile.
_TRIES = 5
_CALENDAR_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)


class Answer:
    """The durable rows of a plan's output. Each read returns the rows that are durable by then."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        self._rows = clean_rows(plan)
        self.schema = self._rows.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches, which are read lazily."""
        for _, uri in self._plan.sink_streams():
            yield from self._partition(uri)

    def first(self, rows: int) -> pa.Table:
        """Return the first durable rows in order of time. Reads no more items than it needs."""
        batches: list[pa.RecordBatch] = []
        for _, uri in self._plan.sink_streams():
            left = rows
            for batch in self._partition(uri):
                batches.append(batch.slice(0, left))
                left -= batches[-1].num_rows
                if left == 0:
                    break
        table = pa.Table.from_batches(batches, schema=self.schema).combine_chunks()
        starts = (
            table.column(self._rows.start).cast(pa.timestamp("us", "UTC"), safe=False).cast("int64")
        )
        order = np.argsort(starts.to_numpy(), kind="stable")[:rows]
        return table.take(pa.array(order))

    def show(self, rows: int, notes: Sequence[str], more: str) -> None:
        """Print the first rows.

        The lines ``notes`` are printed to stderr, ``more`` if rows remain.
        """
        first = self.first(rows + 1)
        print_rows(first.slice(0, rows))
        for line in (*notes, *([more] if first.num_rows > rows else [])):
            print(line, file=sys.stderr)

    def _partition(self, uri: str) -> Iterator[pa.RecordBatch]:
        reader = open_reader(uri)
        try:
            if reader.read_schema() is None:
                return  # no row is durable yet
            if self._rows.has_edges:
                if reader.next_seq:
                    raise BeginningDeletedError(display_uri(uri), reader.next_seq)
                yield from self._whole(reader)
                return
            while (items := reader.read_next()) is not None:
                if (rows := self._rows.of(items)) is not None:
                    yield rows.table
        finally:
            reader.close()

    def _whole(self, reader: StreamReader) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their ends.

        A row whose end is not in the stream has null as its end.
        """
        tables = []
        while (items := reader.read_next()) is not None:
            tables.append(pa.Table.from_batches([only_events(items.batch)]))
        if tables:  # batches from before a change of the job may lack columns
            events = pa.concat_tables(tables, promote_options="default")
            missing = [
                field for field in self._plan.schema if field.name not in events.schema.names
            ]
            for field in missing:
                events = events.append_column(field, pa.nulls(events.num_rows, field.type))
            events = events.select(event_schema(self._plan.schema).names)
            yield from self._rows.table(paired(events)).to_batches()

    def to_arrow(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def to_pandas(self) -> Any:
        """Return all rows, as a DataFrame of pandas.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            return self.to_arrow().to_pandas()
        except ImportError as error:
            raise _missing("pandas") from error

    def to_polars(self) -> Any:
        """Return all rows, as a DataFrame of Polars.

        Raises:
            UsageError: Polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise _missing("polars") from error
        return polars.from_arrow(self.to_arrow())

    def to_spark(self) -> Any:
        """Return all rows as a DataFrame of the active Spark session, or the one that jobs share.

        If the result is complete and on a local disk, Spark reads its files itself. In all other
        cases this process reads the rows and passes them to Spark.
        """
        from pyspark.sql import SparkSession

        from rvertex.host.spark import spark_context

        session = SparkSession.getActiveSession() or SparkSession(spark_context(None, SPARK_DAEMON))
        folder = local_path(self._plan.output)
        if folder is None or output_form(self._plan) is None or not is_complete(self._plan.output):
            return session.createDataFrame(self.to_arrow())
        empty = session.createDataFrame(self.schema.empty_table())
        files = [f"{folder}/{name}" for name in answer_files(self._plan.output)]
        return session.read.schema(empty.schema).parquet(*files) if files else empty


def _missing(package: str) -> UsageError:
    return UsageError(f"{package} is not installed: pip install {package}, or use to_arrow()")


def check_rows(who: str, rows: int) -> None:
    """Check the number of rows that a caller requests.

    Raises:
        UsageError: the number is out of range.
    """
    if not 1 <= rows <= ROWS_MAX:
        raise UsageError(f"{who}(rows={rows}): must be between 1 and {ROWS_MAX:,}")


def print_rows(table: pa.Table) -> None:
    """Print rows under a header of column names, with times as ISO-8601 text."""
    cells = [[_cell(value) for value in column] for column in map(_values, table.columns)]
    widths = [max(map(len, [n, *c])) for n, c in zip(table.column_names, cells, strict=True)]
    for line in (table.column_names, *zip(*cells, strict=True)):
        print("  ".join(f"{text:<{w}}" for text, w in zip(line, widths, strict=True)).rstrip())


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return Python values.

    A time that ``datetime`` cannot represent is an int, us; no end is "-".
    """
    if not pa.types.is_timestamp(column.type):
        return plain_values(column)
    us = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    least, greatest = _CALENDAR_US
    return [
        time.as_py()
        if t is None or least <= t <= greatest
        else ("-" if t == INF_TIME else f"{t}us")
        for t, time in zip(us.to_pylist(), column, strict=True)
    ]


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    text = str(value).removesuffix("+00:00")
    whole = text if len(text) <= CELL_CHARACTERS_MAX else text[: CELL_CHARACTERS_MAX - 1] + "…"
    # Control characters are escaped, so that a value cannot move the terminal's cursor.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in whole)


def read_table(
    root: str, at: Time | None = None, *, output: str | None = None, trust: bool = False
) -> pa.Table:
    """Return the rows of a job's result that are alive at a time, during the job or after it.

    ``at``: the time; None: the watermark of the output. ``output``: the name of an output, for a
    job with several. The columns are those of the result. The end of a row is null while it is
    unknown. Rows are sorted by partition, and within it by start.

    Raises:
        NoJobError: there is no job at ``root``.
        BeginningDeletedError: retention has deleted rows that may be alive.
        UsageError: the watermark of the output has not reached ``at``.
    """
    plan = JobRoot(root, trust=trust).read_plan()
    if plan is None:
        raise NoJobError(display_uri(root))
    at_us = None if at is None else time_us(at, what="at")
    return alive(plan.output_named(output), at_us)


def alive(plan: PhysicalPlan, at_us: int | None) -> pa.Table:
    """Return the rows of the output of ``plan`` that are alive; see :func:`read_table`."""
    return CurrentTable(plan).read(at_us)


class CurrentTable:
    """The live rows of an output. Each read continues where the previous read ended."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._rows = clean_rows(plan)
        store = open_store(plan.root)
        self._streams = [(uri, RowCopies(store, name)) for name, uri in plan.sink_streams()]
        self._current: dict[str, CurrentRows] = {}
        self._lock = threading.Lock()

    def read(self, at_us: int | None = None) -> pa.Table:
        """Return the rows alive now, or at a time; see :func:`read_table`."""
        with self._lock:
            parts = [self._of(uri, copies, at_us) for uri, copies in self._streams]
        tables = [self._rows.table(events) for events in parts if events is not None]
        return pa.concat_tables([self._rows.schema.empty_table(), *tables])

    def _of(self, uri: str, copies: RowCopies, at_us: int | None) -> pa.Table | None:
        for _ in range(_TRIES):
            known = self._current.get(uri) if at_us is None else None
            current = known or begun(uri, copies, at_us)
            try:
                current.advance(uri, at_us=at_us)
                break
            except SequenceDiscardedError:  # a newer copy has replaced these items
                self._current.pop(uri, None)
        else:
            raise BeginningDeletedError(display_uri(uri), current.seq)
        if at_us is None:
            self._current[uri] = current
            return current.alive(current.reached - 1)
        if current.reached <= at_us:
            raise UsageError(
                f"at={exact_time(at_us)}: the output is complete up to "
                f"{exact_time(current.reached)} UTC; ask for an earlier time"
            )
        return current.alive(at_us)


def begun(uri: str, copies: RowCopies, at_us: int | None) -> CurrentRows:
    """Return the live rows from which a read starts: the rows of a copy, or no rows.

    Raises:
        BeginningDeletedError: retention has deleted items that no copy replaces.
    """
    reader = open_reader(uri)
    first_seq = reader.next_seq
    reader.close()
    copy = None
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            copy = copies.newest()
            break
    if copy is not None and (at_us is None or copy.reached <= at_us):
        return copy
    if first_seq:
        raise BeginningDeletedError(display_uri(uri), first_seq)
    return CurrentRows()
