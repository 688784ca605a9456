"""A host is suspended during a change and replaced: it changes no result when it wakes up.

Not covered: a machine that wakes up during the commit.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.running.deploying import rescale
from jobmanager.storage.root import JobRoot
from tests.support.changed_jobs import COUNTS, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

#: Opens each output of a job as a host does, computes more rows, and makes them durable later.
HOST = """
import sys
import pyarrow as pa
from jobmanager.storage.root import JobRoot
from rstream import RStream, StreamLimits
from rstream.items.batch import Items, event_schema
plan = JobRoot(sys.argv[1]).read_plan(to_run=True)
streams = []
for vertex in plan.vertices:
    for edge in vertex.outputs:
        if edge.is_sink:
            streams.append(RStream.open(
                edge.uris[0], vertex.payload_of(edge), form=edge.form, generation=edge.generation,
                limits=StreamLimits(flush_interval_ms=10**6),
            ))
for stream in streams:
    schema = stream.schema
    row = {"_kind": 0, "_vs": 900_000_000, "_ve": 900_700_000}
    row |= {name: 7 for name in schema.names if name not in row}
    stream.append(pa.RecordBatch.from_pylist([row] * 50, schema=schema))
print("computed", flush=True)
sys.stdin.readline()
for stream in streams:
    stream.close(flush=True)
print("written", flush=True)
"""


@pytest.mark.slow
def test_rows_that_a_suspended_host_writes_after_a_rescale_do_not_count(tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("first", COUNTS))
    changed.has_emitted_all()
    command = [sys.executable, "-c", HOST, changed.root]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        assert host.stdout.readline() == "computed\n"
        host.send_signal(signal.SIGSTOP)
        host.stdin.write("go on\n")
        host.stdin.flush()
        rescale(changed.root, parallelism=5, wait_s=WAIT_S)
        host.send_signal(signal.SIGCONT)
        assert host.stdout.readline() == "written\n"
    late = [p.name for p in (tmp_path / "job" / "output").glob("part-*.parquet")]
    changed.append()
    changed.has_read_all()
    assert late
    assert JobRoot(changed.root).settings()["generation"] == 1
    assert changed.finish() == whole_answer(changed, COUNTS)
