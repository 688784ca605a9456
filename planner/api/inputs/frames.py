"""Streams that begin with tables which the caller has: Arrow, pandas, Polars and Spark.

They are written once, when the stream is made, and then read as Parquet files are.
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
    """The options of tables that the caller has."""

    #: Where the rows are written; None: a temporary folder.
    folder: str | None = None


def arrow_source(
    table: Any,
    what: str,
    given: TableOptions,
) -> Source:
    """A source over a table of Arrow, which is stored once.

    Raises:
        InvalidPlanError: it is no table, has no rows, or a column that no Parquet file has.
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
    """A DataFrame of pandas; an index that is not just row numbers is a column, or several.

    Raises:
        InvalidPlanError: it is none, or has values that no column can hold.
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
    """A DataFrame or LazyFrame of Polars.

    Raises:
        InvalidPlanError: it is none.
    """
    frame = frame.collect() if hasattr(frame, "collect") else frame
    if not hasattr(frame, "to_arrow"):
        raise InvalidPlanError(f"from_polars() takes a DataFrame, not a {type(frame).__name__}")
    return frame.to_arrow()


def spark_source(
    frame: Any,
    given: TableOptions,
) -> Source:
    """A source over a DataFrame of Spark, which is computed and written once, here.

    Raises:
        InvalidPlanError: it is none, has no end or no rows, or a cluster cannot write it here.
    """
    if not hasattr(frame, "sparkSession") or not hasattr(frame, "isStreaming"):
        raise InvalidPlanError(f"from_spark() takes a DataFrame, not a {type(frame).__name__}")
    if frame.isStreaming:
        raise InvalidPlanError("from_spark() takes a DataFrame with an end: readStream has none")
    master = frame.sparkSession.conf.get("spark.master", "local")
    if given.folder is None and not master.startswith("local"):
        raise InvalidPlanError(
            f"from_spark() on {master}: give folder=, a place that all workers and the job can "
            "reach, where the rows are written once"
        )
    path = given.folder or f"{temporary_folder()}/spark-{len(_written)}"
    _written.append(path)
    with _plain_timestamps(frame.sparkSession):
        frame.write.mode("errorifexists").parquet(path)
    return _given(path, given)


#: What this process has written for Spark, so that each has a folder of its own.
_written: list[str] = []


@contextmanager
def _plain_timestamps(session: Any) -> Iterator[None]:
    """Timestamps as other readers know them, with statistics."""
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
    return replace(source, spec=replace(source.spec, given=place), label="table")


class FrameInputs:
    """The sources of :class:`planner.Stream` that begin with a table which the caller has."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, plan: Source) -> None: ...

    @classmethod
    @keywords_of(TableOptions)
    def from_arrow(cls, table: Any, given: TableOptions) -> Self:
        """The rows of a ``pyarrow.Table`` or RecordBatch.

        ``vs``, ``ve``, ``delay``, ``late`` and ``partitions`` are as for :meth:`from_parquet`. What
        a job reads has to be there when it reads again after a failure. So the table is written
        once, as Parquet: to ``folder``, where it has to stay as long as the job may be resumed, or
        without it to a temporary one, of which each job keeps a copy below its root (``inputs``).
        """
        return cls(arrow_source(table, "from_arrow", given))

    @classmethod
    @keywords_of(TableOptions)
    def from_pandas(cls, frame: Any, given: TableOptions) -> Self:
        """The rows of a DataFrame of pandas; see :meth:`from_arrow`.

        An index that is not just row numbers is a column under its name, or ``index``.
        """
        return cls(arrow_source(pandas_table(frame), "from_pandas", given))

    @classmethod
    @keywords_of(TableOptions)
    def from_polars(cls, frame: Any, given: TableOptions) -> Self:
        """The rows of a DataFrame of Polars; see :meth:`from_arrow`. A LazyFrame is collected."""
        return cls(arrow_source(polars_table(frame), "from_polars", given))

    @classmethod
    @keywords_of(TableOptions)
    def from_spark(cls, frame: Any, given: TableOptions) -> Self:
        """The rows of a DataFrame of Spark, which is computed here, once; see :meth:`from_arrow`.

        On a cluster give ``folder``, which all workers and the job have to reach.
        """
        return cls(spark_source(frame, given))
