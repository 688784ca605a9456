"""The durable answer of a job as tables for programs: Arrow, pandas, Polars, Spark.

The rows are those that the files show: events alone, times as timestamps under their clean names.
They come partition after partition, each in its order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from jobmanager.config import SPARK_DAEMON
from jobmanager.delivery.clean_rows import CleanRows
from jobmanager.delivery.deliveries import output_form
from jobmanager.storage.output_claim import answer_files, is_complete
from rstream import open_reader
from rstream.errors import UsageError
from rstream.items.batch import item_schema
from rvertex.sources.versions import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.physical.plan import PhysicalPlan


class Answer:
    """What is durable of the output of a plan, each time it is read."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        self._rows = CleanRows(item_schema(plan.schema), output_form(plan))
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

    def _partition(self, uri: str) -> Iterator[pa.RecordBatch]:
        reader = open_reader(uri)
        try:
            if reader.read_schema() is None:
                return  # nothing is durable yet
            while (items := reader.read_next()) is not None:
                if (rows := self._rows.of(items)) is not None:
                    yield rows.table
        finally:
            reader.close()

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
