"""Streams that begin with a table in memory: of Arrow, pandas, Polars or Spark.

The table is written to Parquet once, when the stream is made, and then read like other files.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from planner.api.inputs.keywords import keywords_of
from planner.api.sources import EventOptions, FileOptions, file_source
from planner.errors import InvalidPlanError
from rvertex.sources.formats.given_tables import stored_table, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.logical.nodes import Source
    from rvertex.sources.spec import Given

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True, kw_only=True)
class TableOptions(EventOptions):
    """The options of sources that are tables in memory."""

    #: Where the rows are written; None: a temporary folder.
    folder: str | None = None


def arrow_source(
    table: Any,
    what: str,
    given: TableOptions,
) -> Source:
    """Return a source over an Arrow table, which is written to Parquet once.

    Raises:
        InvalidPlanError: it is no table, has no rows, or a column that Parquet cannot store.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise InvalidPlanError(f"{what}() takes a table, not a {type(table).__name__}")
    if not table.num_rows:
        raise InvalidPlanError(f"{what}(): the table has no rows")
    for name in table.schema.names:
        if table.schema.names.count(name) > 1:
            raise InvalidPlanError(f"{what}(): the table has the column {name!r} more than once")
    try:
        path = stored_table(table, given.folder)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidPlanError(f"{what}(): {error}") from None
    return _given(path, given)


def pandas_table(frame: Any) -> pa.Table:
    """Convert a pandas DataFrame; an index other than row numbers becomes one or more columns.

    Raises:
        InvalidPlanError: the value is no DataFrame, or has values that no column can hold.
    """
    if not hasattr(frame, "reset_index"):
        raise InvalidPlanError(f"from_pandas() takes a DataFrame, not a {type(frame).__name__}")
    try:
        if type(frame.index).__name__ != "RangeIndex":
            frame = frame.reset_index()
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidPlanError(f"from_pandas(): {error}") from None


def polars_table(frame: Any) -> pa.Table:
    """Convert a Polars DataFrame or LazyFrame; a LazyFrame is collected.

    Raises:
        InvalidPlanError: the value is neither of them.
    """
    frame = frame.collect() if hasattr(frame, "collect") else frame
    if not hasattr(frame, "to_arrow"):
        raise InvalidPlanError(f"from_polars() takes a DataFrame, not a {type(frame).__name__}")
    return frame.to_arrow()


def spark_source(
    frame: Any,
    given: TableOptions,
) -> Source:
    """Return a source over a Spark DataFrame, which is computed and written once, in this process.

    Raises:
        InvalidPlanError: the value is no DataFrame, streams, has no rows, or Spark runs on a
            cluster and ``folder`` is missing.
    """
    if not hasattr(frame, "sparkSession") or not hasattr(frame, "isStreaming"):
        raise InvalidPlanError(f"from_spark() takes a DataFrame, not a {type(frame).__name__}")
    if frame.isStreaming:
        raise InvalidPlanError("from_spark() takes a batch DataFrame, not one of spark.readStream")
    master = frame.sparkSession.conf.get("spark.master", "local")
    if given.folder is None and not master.startswith("local"):
        raise InvalidPlanError(
            f"from_spark() on {master}: set folder= to a place that all workers and the "
            "job can reach; the rows are written there once"
        )
    path = given.folder or f"{temporary_folder()}/spark-{len(_written)}"
    _written.append(path)
    with _plain_timestamps(frame.sparkSession):
        frame.write.mode("errorifexists").parquet(path)
    return _given(path, given)


#: The folders that this process has written for Spark; their number makes the next name unique.
_written: list[str] = []


@contextmanager
def _plain_timestamps(session: Any) -> Iterator[None]:
    """Write timestamps in microseconds, which other readers know and which have statistics."""
    before = session.conf.get(_TIMESTAMPS, None)
    session.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_TIMESTAMPS)
        else:
            session.conf.set(_TIMESTAMPS, before)


def _given(path: str, given: TableOptions) -> Source:
    times = {f.name: getattr(given, f.name) for f in fields(EventOptions)}
    source = file_source("parquet", path, FileOptions(**times))
    place: Given = "copy" if given.folder is None else "here"
    return replace(source, spec=source.spec.with_options(given=place), label="table")


class FrameInputs:
    """The sources of :class:`planner.Stream` that begin with a table in memory."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, plan: Source) -> None: ...

    @classmethod
    @keywords_of(TableOptions)
    def from_arrow(cls, table: Any, given: TableOptions) -> Self:
        """Read the rows of a ``pyarrow.Table`` or RecordBatch.

        ``vs``, ``ve``, ``delay``, ``late`` and ``partitions`` are as for :meth:`from_parquet`. The
        table is written once, as Parquet, so that a job can read it again after a failure.
        ``folder`` is where; keep it as long as the job may be resumed. Without ``folder`` the table
        goes to a temporary folder, and each job keeps a copy below its root (``inputs``).
        """
        return cls(arrow_source(table, "from_arrow", given))

    @classmethod
    @keywords_of(TableOptions)
    def from_pandas(cls, frame: Any, given: TableOptions) -> Self:
        """Read the rows of a pandas DataFrame; see :meth:`from_arrow`.

        An index other than row numbers becomes a column under its name, or ``index``.
        """
        return cls(arrow_source(pandas_table(frame), "from_pandas", given))

    @classmethod
    @keywords_of(TableOptions)
    def from_polars(cls, frame: Any, given: TableOptions) -> Self:
        """Read the rows of a Polars DataFrame; see :meth:`from_arrow`. A LazyFrame is collected."""
        return cls(arrow_source(polars_table(frame), "from_polars", given))

    @classmethod
    @keywords_of(TableOptions)
    def from_spark(cls, frame: Any, given: TableOptions) -> Self:
        """Read the rows of a Spark DataFrame, which is computed here, once; see :meth:`from_arrow`.

        On a cluster it needs ``folder``, which all workers and the job must be able to reach.
        """
        return cls(spark_source(frame, given))
