"""The durable answer of a job: as tables for programs, its first rows in print for people.

The rows are those that the files show: events alone, times as timestamps under their clean names.
They come partition after partition, each in its order.

:func:`read_table` gives the rows that are alive. A row is alive at T if it began at T or before and
had not ended by then. The streams are read from their beginning; what has ended by the time asked
for is dropped on the way, so memory holds what is alive and one step of reading.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from jobmanager.config import SPARK_DAEMON
from jobmanager.delivery.deliveries import clean_rows, output_form
from jobmanager.errors import BeginningDeletedError, NoJobError
from jobmanager.storage.output_claim import answer_files, is_complete
from jobmanager.storage.root import JobRoot, display_uri
from planner.durations import time_us
from rstream import open_reader
from rstream.errors import UsageError
from rstream.items.batch import CTI, KIND, VE, VS, int64_column, kinds, only_events
from rstream.items.edges import paired
from rstream.items.json_text import plain_values
from rstream.types import INF_TIME, MIN_TIME
from rvertex.sources.versions import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.durations import Time
    from planner.physical.plan import PhysicalPlan
    from rstream import StreamReader

#: How many rows are printed unless others are asked for, and at most.
ROWS, ROWS_MAX = 10, 100_000
CELL_CHARACTERS_MAX = 40
#: Rows read between two looks at what has ended.
_STEP_ROWS = 1 << 18
_CALENDAR_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)


class Answer:
    """What is durable of the output of a plan, each time it is read."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        self._rows = clean_rows(plan)
        self.schema = self._rows.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in pieces, which are read as they are asked for."""
        for _, uri in self._plan.sink_streams():
            yield from self._partition(uri)

    def first(self, rows: int) -> pa.Table:
        """The first of the rows that are durable, in order of time; reads no more than it needs."""
        found: list[pa.RecordBatch] = []
        for _, uri in self._plan.sink_streams():
            left = rows
            for batch in self._partition(uri):
                found.append(batch.slice(0, left))
                left -= found[-1].num_rows
                if left == 0:
                    break
        table = pa.Table.from_batches(found, schema=self.schema).combine_chunks()
        starts = (
            table.column(self._rows.start).cast(pa.timestamp("us", "UTC"), safe=False).cast("int64")
        )
        order = np.argsort(starts.to_numpy(), kind="stable")[:rows]
        return table.take(pa.array(order))

    def show(self, rows: int, told: Sequence[str], more: str) -> None:
        """Print the first rows; lines ``told``, and ``more`` if there are more, to stderr."""
        found = self.first(rows + 1)
        print_rows(found.slice(0, rows))
        for line in (*told, *([more] if found.num_rows > rows else [])):
            print(line, file=sys.stderr)

    def _partition(self, uri: str) -> Iterator[pa.RecordBatch]:
        reader = open_reader(uri)
        try:
            if reader.read_schema() is None:
                return  # nothing is durable yet
            if self._rows.has_edges:
                _check_beginning(reader, uri)
                yield from self._whole(reader)
                return
            while (items := reader.read_next()) is not None:
                if (rows := self._rows.of(items)) is not None:
                    yield rows.table
        finally:
            reader.close()

    def _whole(self, reader: StreamReader) -> Iterator[pa.RecordBatch]:
        """The rows with their ends; of those that come later the end is null."""
        found = []
        while (items := reader.read_next()) is not None:
            found.append(only_events(items.batch))
        if found:
            yield from self._rows.table(paired(pa.Table.from_batches(found))).to_batches()

    def to_arrow(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)

    def to_pandas(self) -> Any:
        """All rows, as a DataFrame of pandas.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            return self.to_arrow().to_pandas()
        except ImportError as error:
            raise _missing("pandas") from error

    def to_polars(self) -> Any:
        """All rows, as a DataFrame of Polars.

        Raises:
            UsageError: Polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise _missing("polars") from error
        return polars.from_arrow(self.to_arrow())

    def to_spark(self) -> Any:
        """All rows, as a DataFrame of the Spark session that is active, or of one that jobs share.

        Spark reads the files of a complete answer on a local disk itself; others come through here.
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
    """How many rows may be asked for.

    Raises:
        UsageError: not so many.
    """
    if not 1 <= rows <= ROWS_MAX:
        raise UsageError(f"{who}(rows={rows}): it is between 1 and {ROWS_MAX:,}")


def print_rows(found: pa.Table) -> None:
    """Print rows below the names of their columns, times as people read them."""
    cells = [[_cell(value) for value in column] for column in map(_values, found.columns)]
    widths = [max(map(len, [n, *c])) for n, c in zip(found.column_names, cells, strict=True)]
    for line in (found.column_names, *zip(*cells, strict=True)):
        print("  ".join(f"{text:<{w}}" for text, w in zip(line, widths, strict=True)).rstrip())


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Values of Python; times that its calendar lacks as microseconds, the end of time as "-"."""
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
    # Nothing of a value moves the cursor.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in whole)


def read_table(
    root: str, at: Time | None = None, *, output: str | None = None, trust: bool = False
) -> pa.Table:
    """The rows of a job's answer that are alive, while it runs or after it.

    ``at``: a time; None: the watermark of the output. ``output``: the name of an output, for a
    job with more than one. The columns are those of the answer; a row
    whose end is not known has null there. Rows come partition by partition, in order of start.

    Raises:
        NoJobError: there is no job at ``root``.
        BeginningDeletedError: retention has deleted rows that may be alive.
        UsageError: the output has not come to ``at`` yet.
    """
    plan = JobRoot(root, trust=trust).read_plan()
    if plan is None:
        raise NoJobError(display_uri(root))
    at_us = None if at is None else time_us(at, what="at")
    return alive(plan.output_named(output), at_us)


def alive(plan: PhysicalPlan, at_us: int | None) -> pa.Table:
    """The rows of the output of ``plan`` that are alive; see :func:`read_table`."""
    rows = clean_rows(plan)
    found = [_alive_in(uri, at_us) for _, uri in plan.sink_streams()]
    tables = [rows.table(events) for events in found if events is not None]
    return pa.concat_tables([rows.schema.empty_table(), *tables])


def _alive_in(uri: str, at_us: int | None) -> pa.Table | None:
    """The events of one stream that are alive; None: nothing is durable yet."""
    reader = open_reader(uri)
    try:
        if reader.read_schema() is None:
            return None
        _check_beginning(reader, uri)
        kept: pa.Table | None = None
        step: list[pa.RecordBatch] = []
        reached: int = MIN_TIME
        while (items := reader.read_next()) is not None:
            batch = items.batch
            ctis = int64_column(batch, VS)[kinds(batch) == CTI]
            reached = int(ctis[-1]) if len(ctis) else reached
            if at_us is not None:
                batch = batch.slice(0, int(int64_column(batch, VS).searchsorted(at_us, "right")))
            step.append(batch.drop_columns([KIND]) if not len(ctis) else only_events(batch))
            if sum(some.num_rows for some in step) > _STEP_ROWS:
                time = reached if at_us is None else min(reached, at_us)
                kept, step = _living(kept, step, time), []
            if at_us is not None and reached > at_us:
                break
        if at_us is not None and reached <= at_us:
            raise UsageError(f"at={at_us}: the output has come to {reached} us, and not beyond")
        until = reached - 1 if at_us is None else at_us
        found = _living(kept, step, until + 1) if kept is not None or step else None
        if found is None:
            return None
        return found.filter(pa.array(found.column(VS).to_numpy() <= until))
    finally:
        reader.close()


def _check_beginning(reader: StreamReader, uri: str) -> None:
    """A row that lives may have begun with the first item.

    Raises:
        BeginningDeletedError: retention has deleted it.
    """
    if reader.next_seq:
        raise BeginningDeletedError(display_uri(uri), reader.next_seq)


def _living(kept: pa.Table | None, step: list[pa.RecordBatch], time: int) -> pa.Table:
    """The rows so far that have not ended before ``time``, in order of start."""
    tables = [] if kept is None else [kept]
    table = paired(pa.concat_tables([*tables, pa.Table.from_batches(step)]))
    ends = table.column(VE).to_numpy()
    # An end edge may come for a row that began before; it is found among those kept.
    return table.filter(pa.array(ends >= time))
