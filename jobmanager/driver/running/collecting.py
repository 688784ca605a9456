"""``collect``: computes the result of a stream as a table, in a temporary job."""

from __future__ import annotations

import tempfile
import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from jobmanager.driver.lost_rows import lost_lines
from jobmanager.driver.running.run import run
from jobmanager.errors import BadRowsWarning, LateRowsWarning
from planner import Stream
from planner.logical.traversal import refuse_endless
from rstream import read_events
from rstream.errors import UsageError
from rstream.items.batch import VS

if TYPE_CHECKING:
    from jobmanager.config import JobConfig
    from jobmanager.driver.engine import ExecutorName
    from planner.cost.parallelism import Parallelism


def warn_of_lost_rows(status: dict[str, Any], *, stacklevel: int) -> None:
    """Warn of rows that the sources of a temporary job left out, or whose times they changed."""
    for kind, warning in (("late", LateRowsWarning), ("bad", BadRowsWarning)):
        for line in lost_lines({kind: status.get(kind, [])}):
            warnings.warn(line, warning, stacklevel=stacklevel)


def collect(
    stream: Stream,
    *,
    executor: ExecutorName = "local",
    master: str | None = None,
    parallelism: Parallelism | None = None,
    config: JobConfig | None = None,
) -> pa.Table:
    """Run ``stream`` on its finite sources and return its events.

    Columns: ``_vs, _ve`` and the payload. Row order: the streams of the sink vertices are merged by
    ``_vs``; ties by sink vertex, then by seq. Late rows cause a ``LateRowsWarning``.
    """
    if not isinstance(stream, Stream):
        raise UsageError(
            f"collect() takes a Stream (without .to_parquet()), not a {type(stream).__name__}; "
            "after group_by(), call .window(...).agg(...) to get a Stream"
        )
    refuse_endless(stream.plan, "collect()")
    with tempfile.TemporaryDirectory(prefix="streamscope-") as folder:
        job = run(
            stream.to_parquet(technical_columns=True),
            root=f"{folder}/collect",
            executor=executor,
            master=master,
            parallelism=parallelism,
            config=config,
            fsync=False,
        )
        status = job.wait()
        tables = [read_events(uri) for _, uri in job.plan.sink_streams()]
    warn_of_lost_rows(status, stacklevel=3)
    table = pa.concat_tables(tables)
    order = pc.sort_indices(table[VS].combine_chunks()) if table.num_rows else None
    return table if order is None else table.take(order)
