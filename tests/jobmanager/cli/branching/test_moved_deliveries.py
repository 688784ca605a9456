"""An exported job continues the deliveries of the former job: each row arrives once.

Not covered: a destination that lost rows.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager.cli.branching.export import export
from jobmanager.driver.running.changes.errors import ChangeRefusedError, ChangeUndoneError
from jobmanager.driver.running.deploying import rescale, rescale_stopped, take_savepoint
from jobmanager.storage.root import JobRoot
from jobmanager.storage.savepoints import STOP
from tests.support.changed_jobs import COUNTS, QUICK, ChangedJob, whole_answer
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from tests.support.brokers import Broker
    from tests.support.postgres_server import PostgresServer


def in_files(folder: str) -> Counter[tuple[object, ...]]:
    tables = [pq.read_table(path).to_pylist() for path in Path(folder).rglob("*.parquet")]
    return Counter((row["key"], row["n"], row["m"]) for rows in tables for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["stopped", "went on", "undelivered"])
def test_an_exported_job_delivers_each_row_once(
    case: str, tmp_path: Path, postgres: PostgresServer, postgres_schema: str, broker: Broker
) -> None:
    """From its stop; from a savepoint after which it delivered more; from one with rows left."""
    changed, folder = ChangedJob(tmp_path), str(tmp_path / "delivered")
    table = f"{postgres_schema}.counts"
    roll = "1h" if case == "undelivered" else "0s"
    parquet = f"ss.sinks.parquet({folder!r}, roll={roll!r})"
    topic = broker.create_topic(f"moved-{case.replace(' ', '-')}", 2)
    mode = "headers" if case == "went on" else "transactions"
    kafka = f"ss.sinks.kafka({topic!r}, servers={broker.servers!r}, mode={mode!r})"
    to = f".deliver({parquet}, ss.sinks.postgres({postgres.dsn!r}, {table!r}), {kafka})"
    never = replace(QUICK.delivery, commit_interval_ms=WAIT_S * 1_000)
    config = replace(QUICK, delivery=never) if case == "undelivered" else QUICK
    changed.append(2)
    query = changed.query("counts", f"{COUNTS}{to}")
    job = changed.run(query, retention="delivered", config=config)
    changed.has_emitted_all()
    changed.watch.until(lambda status: all(row["commits"] for row in status["deliveries"]))
    changed.append(1)
    changed.has_emitted_all()
    take_savepoint(changed.root, "early", wait_s=WAIT_S)
    if case == "undelivered":
        job.cancel()
    else:
        changed.append(2)
        changed.has_emitted_all()
        job.stop()
    job.wait(WAIT_S)
    before = in_files(folder)
    assert (before.total() < job.to_arrow(wait=False).num_rows) == (case == "undelivered")
    other = str(tmp_path / "other")
    export(JobRoot(changed.root), STOP if case == "stopped" else "early", other)
    changed.append(1)
    moved = jobmanager.resume(other, config=QUICK)
    moved.stop(finish=True)
    assert moved.wait(WAIT_S)["state"] == "finished", moved.status()
    changed.close()
    whole = Counter((r["key"], r["n"], r["m"]) for r in whole_answer(changed, COUNTS))
    assert in_files(folder) == whole
    assert Counter(postgres.query(f"SELECT key, n, m FROM {table}")) == whole
    records = [json.loads(record.value) for record in broker.read_committed(topic) if record.value]
    assert Counter((row["key"], row["n"], row["m"]) for row in records) == whole
    assert whole > before


@pytest.mark.slow
def test_deliveries_that_cannot_be_continued_are_refused(tmp_path: Path) -> None:
    changed, other = ChangedJob(tmp_path), str(tmp_path / "other")
    changed.append(2)
    to = ".deliver(ss.sinks.function(print))"
    job = changed.run(changed.query("counts", f"{COUNTS}{to}"))
    changed.has_emitted_all()
    take_savepoint(changed.root, "early", wait_s=WAIT_S)
    with pytest.raises(ChangeRefusedError, match="which still runs; stop it first; for a trial"):
        export(JobRoot(changed.root), "early", other)
    rescale(changed.root, parallelism=5, wait_s=WAIT_S)
    job.stop()
    job.wait(WAIT_S)
    changed.close()
    with pytest.raises(ChangeRefusedError, match="it was changed after savepoint early, and may"):
        export(JobRoot(changed.root), "early", other)
    assert not JobRoot(other).store.list()
    export(JobRoot(changed.root), STOP, other)


@pytest.mark.slow
def test_an_exported_job_is_changed_after_it_has_caught_up(tmp_path: Path) -> None:
    """With other partitions, rows that the destination has would arrive again."""
    changed, folder, other = ChangedJob(tmp_path), str(tmp_path / "to"), str(tmp_path / "other")
    changed.append(2)
    to = f".deliver(ss.sinks.parquet({folder!r}, roll='0s'))"
    job = changed.run(changed.query("counts", f"{COUNTS}{to}"), retention="delivered")
    changed.has_emitted_all()
    take_savepoint(changed.root, "early", wait_s=WAIT_S)
    changed.append(3)
    changed.has_emitted_all()
    job.stop()
    job.wait(WAIT_S)
    export(JobRoot(changed.root), "early", other)
    with pytest.raises(ChangeUndoneError, match="its output lacks rows that were delivered"):
        rescale(other, parallelism=5)
    with pytest.raises(ChangeUndoneError, match="resume it as it is, and change it while it runs"):
        rescale_stopped(JobRoot(other), 5)
    assert take_savepoint(other, "copy")["state"] == "done"
    before = in_files(folder)
    moved = jobmanager.resume(other, config=QUICK)
    rescale(other, parallelism=5, wait_s=WAIT_S)
    moved.stop()
    moved.wait(WAIT_S)
    rescale(other, parallelism=3)
    changed.append(1)
    moved = jobmanager.resume(other, config=QUICK)
    moved.stop(finish=True)
    assert moved.wait(WAIT_S)["state"] == "finished", moved.status()
    changed.close()
    whole = Counter((r["key"], r["n"], r["m"]) for r in whole_answer(changed, COUNTS))
    assert in_files(folder) == whole
    assert whole > before
