"""The first rows of a stream: :func:`head` returns them as a table, :func:`show` prints them."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from jobmanager.delivery.answer import ROWS, check_rows, print_rows
from jobmanager.driver.running.collecting import warn_of_lost_rows
from jobmanager.driver.running.run import run
from planner import Stream
from planner.logical.table_form import DEFAULT, table_form
from rstream.errors import UsageError
from rstream.format.table import TIME_TYPE
from rstream.items.batch import EVENT, VE, VS, event_schema, int64_column, kinds
from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.driver.engine import ExecutorName
    from jobmanager.driver.subscription import Subscription


def head(stream: Stream, rows: int = ROWS, *, executor: ExecutorName = "local") -> pa.Table:
    """Return the first events of a stream, in order of time, with times as timestamps.

    A temporary job with one vertex per stage computes the events. It is cancelled once it has
    emitted ``rows`` of them, so this works for endless streams, too. Late and bad rows until then
    cause a ``LateRowsWarning`` or a ``BadRowsWarning``.
    """
    return _head(stream, rows, executor)


def _head(stream: Stream, rows: int, executor: ExecutorName) -> pa.Table:
    """Compute the result of :func:`head`. Warnings name the line that called :func:`head`."""
    if not isinstance(stream, Stream):
        raise UsageError(f"head() takes a Stream, not a {type(stream).__name__}")
    check_rows("head", rows)
    query = stream.to_parquet(technical_columns=True)
    with tempfile.TemporaryDirectory(prefix="streamscope-") as folder:
        root = f"{folder}/head"
        job = run(query, root=root, executor=executor, parallelism=1, fsync=False)
        try:
            with job.subscribe(progress=True) as subscription:
                events = _first(subscription, rows, len(job.plan.sink_streams()), stream.schema)
            if events.num_rows < rows:
                job.wait()  # all rows were read, so the final counts include the whole input
        finally:
            job.cancel()
            status = job.wait()
    warn_of_lost_rows(status, stacklevel=4)
    form = table_form(stream.plan, DEFAULT, DEFAULT)
    times = [events.column(name).cast(TIME_TYPE) for name in (VS, VE)]
    names = [form.start, form.end or "end", *stream.schema.names]
    return pa.table([*times, *events.columns[2:]], names=names)


def show(stream: Stream, rows: int = ROWS, *, executor: ExecutorName = "local") -> None:
    """Print the first events of a stream; see :func:`head`."""
    print_rows(_head(stream, rows, executor))


def _first(source: Subscription, rows: int, partitions: int, payload: pa.Schema) -> pa.RecordBatch:
    """Return the first events by time over all partitions.

    An event is final once no partition can still emit an earlier one.
    """
    kept: list[list[pa.RecordBatch]] = [[] for _ in range(partitions)]
    reached = np.full(partitions, MIN_TIME, np.int64)
    schema = event_schema(payload)
    for batch in source:  # ends with the job, or with enough rows
        k = batch.column(0)[0].as_py()  # by index, since the payload may have a column of that name
        reached[k] = int64_column(batch, VS)[-1]
        events = batch.filter(pa.array(kinds(batch) == EVENT))
        kept[k].append(events.select(range(batch.num_columns - len(schema), batch.num_columns)))
        if sum(_below(some, int(reached.min())) for some in kept) >= rows:
            break
    tables = [pa.Table.from_batches(some, schema=schema) for some in kept]
    events = pa.concat_tables(tables).combine_chunks()
    order = np.argsort(events.column(VS).to_numpy(), kind="stable")[:rows]
    first = events.take(pa.array(order)).combine_chunks().to_batches()
    return first[0] if first else pa.RecordBatch.from_pylist([], schema=schema)


def _below(some: Sequence[pa.RecordBatch], time: int) -> int:
    """Return the number of events that start before ``time``."""
    return sum(int((int64_column(batch, VS) < time).sum()) for batch in some)
