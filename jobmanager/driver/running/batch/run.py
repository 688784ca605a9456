"""``run --batch``: computes a query with Spark SQL and writes its result like a job's output.

The output is one rStream, sorted by ``_vs, _ve`` and the payload. It has the columns and the file
``_SUCCESS`` of a job's output, so the same readers work on both. A batch is not a job: it has no
status and cannot be cancelled or resumed. A failed batch must be run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobmanager.driver.running.batch.validate import collect_batch
from jobmanager.storage.output_claim import claim_output, mark_success
from jobmanager.storage.places import DEFAULT_JOBS_FOLDER
from jobmanager.storage.root import JobRoot, display_uri
from planner.logical.query import only_output
from rstream import RStream
from rstream.clock import SystemClock
from rstream.items.batch import EVENT, cti_batch, item_schema, payload_schema
from rstream.store.part_files import part_name, part_uri
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from planner import Query
    from rstream.format.table import TableForm


def run_batch(
    query: Query,
    *,
    root: str | None = None,
    master: str | None = None,
    parallelism: int | None = None,
    shared_root: bool | None = None,
) -> dict[str, Any]:
    """Compute ``query`` as a batch and write its result. Return a summary like a job's status.

    Raises:
        OutputTakenError: the output folder is not empty.
        UsageError: as :func:`jobmanager.collect_batch`.
    """
    only_output(query, "a batch")
    clock = SystemClock()
    name = f"batch-{clock.now_us()}"
    job_root = JobRoot(root or f"{DEFAULT_JOBS_FOLDER}/{name}")
    root = job_root.uri
    output = query.plan.uri or f"{root.rstrip('/')}/output"
    if query.plan.uri is None and not shared_root:
        job_root.make_private()
    claim_output(output, root, name)
    started_s = clock.monotonic_s()
    table = collect_batch(query, master=master, parallelism=parallelism)
    stream = part_uri(output, part_name(0))
    _write(table, stream, query.plan.form)
    mark_success(output, {"job": name, "events_out": table.num_rows, "batch": True}, [stream])
    return {
        "job": name,
        "state": "finished",
        "error": "",
        "events_out": table.num_rows,
        "elapsed_s": round(clock.monotonic_s() - started_s, 3),
        "root": display_uri(root),
        "output": display_uri(output),
    }


def _write(table: pa.Table, uri: str, form: TableForm | None) -> None:
    """Write the events as a stream, followed by the CTI (watermark) that ends it."""
    schema = item_schema(payload_schema(table.schema))
    stream = RStream.open(uri, payload_schema(table.schema), form=form)
    for batch in table.to_batches():
        kind = pa.repeat(pa.scalar(EVENT, pa.int8()), batch.num_rows)
        stream.append(pa.RecordBatch.from_arrays([kind, *batch.columns], schema=schema))
    stream.append(cti_batch(INF_TIME, schema))
    stream.close()
