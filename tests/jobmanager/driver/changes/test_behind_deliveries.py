"""A stopped job is not changed while its output lacks rows that a destination has.

Not covered: a destination that another program changed.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import replace
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from jobmanager.driver.running.changes.errors import ChangeUndoneError
from jobmanager.driver.running.deploying import rescale
from jobmanager.storage.root import JobRoot
from tests.support.changed_jobs import COUNTS, QUICK, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S, with_limits

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 40


def delivered(folder: Path) -> Counter[tuple[object, ...]]:
    tables = [pq.read_table(path).to_pylist() for path in (folder / "to").rglob("*.parquet")]
    return Counter((row["key"], row["n"], row["m"]) for rows in tables for row in rows)


def deliver_and_die(folder: Path) -> None:
    """Deliver rows that are not durable in the output yet."""
    changed = ChangedJob(folder)
    changed.append(SECONDS)
    to = f".deliver(ss.sinks.parquet({str(folder / 'to')!r}, roll='0s'))"
    stream = replace(QUICK.host.stream, flush_interval_ms=WAIT_S * 1_000)
    config = with_limits(QUICK, checkpoint_interval_s=WAIT_S, stream=stream)
    changed.run(changed.query("counts", f"{COUNTS}{to}"), config=config)
    changed.has_emitted_all()
    changed.watch.until(
        lambda status: all(row["commits"] and not row["lag_items"] for row in status["deliveries"])
    )
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_job_that_was_killed_is_changed_after_it_has_caught_up(tmp_path: Path) -> None:
    """With other partitions, rows that the destination has would arrive again."""
    process = get_context("spawn").Process(target=deliver_and_die, args=(tmp_path,))
    process.start()
    process.join(WAIT_S)
    assert process.exitcode == -signal.SIGKILL
    before, changed = delivered(tmp_path), ChangedJob(tmp_path)
    changed.appended = SECONDS
    job = changed.resume(config=with_limits(QUICK, step_rows_max=4))
    job.stop()
    status = job.wait(WAIT_S)
    assert status["state"] == "stopped"
    unknown = [{**row, "delivered_seq": 0} for row in status["deliveries"]]
    for rows in (status["deliveries"], unknown):
        JobRoot(changed.root).write_status({**status, "deliveries": rows})
        with pytest.raises(ChangeUndoneError, match="and change it while it runs"):
            rescale(changed.root, parallelism=5)
    changed.resume()
    rescale(changed.root, parallelism=5, wait_s=WAIT_S)
    changed.finish()
    whole = Counter((r["key"], r["n"], r["m"]) for r in whole_answer(changed, COUNTS))
    assert delivered(tmp_path) == whole
    assert whole > before
    assert JobRoot(changed.root).read_status()["state"] == "finished"
