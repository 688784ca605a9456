"""``jobmanager deliver``: for finished jobs, beside other deliveries, and again from a position.

Not covered: a job that runs on another machine.
"""

from __future__ import annotations

import json
import operator
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from socket import gethostname
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager.cli.main import app
from jobmanager.delivery import standalone
from jobmanager.delivery.claim import recorded_position, recorded_positions
from jobmanager.delivery.clean_rows import CleanRows
from jobmanager.delivery.standalone import deliver
from jobmanager.driver.running.deploying import deploy, rescale
from jobmanager.errors import NoDeliveryError
from jobmanager.storage.documents import json_document
from jobmanager.storage.root import JOB, STATUS, JobRoot
from planner import Stream, agg, event, sinks, tumbling
from rstream import Items
from rstream.clock import SystemClock
from rstream.errors import StoreError
from rstream.items.batch import item_schema
from rvertex.sinks.errors import OutputChangedError
from tests.support.changed_jobs import COUNTS, ChangedJob
from tests.support.jobs import WAIT_S, write_events

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> jobmanager.Job:
    folder = tmp_path_factory.mktemp("finished")
    events = Stream.from_parquet(str(write_events(folder / "e.parquet", 400)), vs="t", delay="1s")
    query = events.group_by("key").window(tumbling("4s")).agg(n=agg.count())
    job = jobmanager.run(query, root=str(folder / "job"), executor="local", fsync=False)
    job.wait(WAIT_S)
    return job


def test_several_deliveries_read_one_output(finished: jobmanager.Job, tmp_path: Path) -> None:
    total = finished.status()["events_out"]
    for name in ("one", "two"):
        target = tmp_path / name
        target.mkdir()

        def save(first_seq: int, batch: Any, stream: str, target: Path = target) -> None:
            name = f"{stream.replace('/', '_')}-{first_seq}"
            (target / name).write_text(str(batch.num_rows))

        rows = deliver(finished.root, [sinks.function(save, name=name)])
        assert {row["state"] for row in rows} == {"finished"}
        assert sum(int(path.read_text()) for path in target.iterdir()) == total


def test_the_position_is_reported_before_the_first_row_and_after_the_last(
    finished: jobmanager.Job,
) -> None:
    """A running job keeps the items that this delivery needs, and may delete them afterwards."""
    store, before = JobRoot(finished.root).store, list[dict[int, int]]()

    def save(first_seq: int, batch: Any, stream: str) -> None:
        before.append(recorded_positions(store, 0))

    rows = deliver(finished.root, [sinks.function(save, name="telling")])
    assert before
    assert all(told == {row["partition"]: 0 for row in rows} for told in before)
    found = {
        row["partition"]: recorded_position(store, "telling", row["partition"]) for row in rows
    }
    assert found == {row["partition"]: row["delivered_seq"] for row in rows}
    assert min(found.values()) > 0


def test_a_root_without_anything_to_deliver_is_an_error(finished: jobmanager.Job) -> None:
    with pytest.raises(NoDeliveryError, match="--to names one"):
        deliver(finished.root)


def test_the_command_prints_rows_once(finished: jobmanager.Job) -> None:
    command = ["deliver", finished.root, "--to", "console", "--json"]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    *rows, last = [json.loads(line) for line in first.stdout.splitlines()]
    assert len(rows) == finished.status()["events_out"]
    assert {row["state"] for row in last["deliveries"]} == {"finished"}
    again = CliRunner().invoke(app, command)
    assert len(again.stdout.splitlines()) == 1


def test_the_exit_code_reports_one_failed_delivery_of_several(tmp_path: Path) -> None:
    events = Stream.from_items({"x": "int64"}, [event(k, x=k) for k in range(5)])
    query = events.deliver(sinks.console(name="fine"))
    job = jobmanager.run(query, root=str(tmp_path / "job"), executor="local")
    job.wait(WAIT_S)
    root = JobRoot(job.root)
    root.claim(1_000_000)
    plan = root.read_plan()
    assert plan is not None
    wrong = sinks.postgres("env:NO_SUCH_DSN", "t", name="wrong")
    root.replace_plan(replace(plan, deliveries=(*plan.deliveries, wrong)))
    found = CliRunner().invoke(app, ["deliver", job.root, "--json"])
    *_, last = [json.loads(line) for line in found.stdout.splitlines()]
    states = {row["delivery"]: row["state"] for row in last["deliveries"]}
    assert states == {"fine": "finished", "wrong": "failed"}
    assert found.exit_code == 1


def test_an_unreadable_root_is_reported_after_a_time_limit(
    finished: jobmanager.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the state of the job is unknown, the delivery ends with an error; it waited forever."""
    root = shutil.copytree(finished.root, tmp_path / "job")
    next((root / "output").glob("**/*-*.parquet")).unlink()  # so that the delivery waits
    (root / "status.json").unlink()
    (root / "status.json").mkdir()
    monkeypatch.setattr(standalone, "STORE_WAIT_S", 0.6)
    found = CliRunner().invoke(app, ["deliver", str(root), "--to", "console", "--json"])
    assert found.exit_code == 1
    assert f"{root}/status.json" in json.loads(found.stdout.splitlines()[-1])["error"]
    assert found.stderr.count("the root cannot be read; trying again") == 1


def test_partitions_that_a_change_added_just_before_the_end_are_delivered(
    finished: jobmanager.Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delivery must find a change that completes after the former partitions are delivered.

    Here the change is complete only after they are.
    """
    monkeypatch.setattr(standalone, "TICK_S", 0.02)
    root = JobRoot(str(shutil.copytree(finished.root, tmp_path / "job")))
    root.claim(1_000_000)
    plan, settings, delivered = root.read_plan(), root.settings(), list[int]()
    assert plan is not None
    *_, (added, _) = plan.sink_streams()
    fewer = tuple(v for v in plan.vertices if v.id != plan.writers()[added])
    former = replace(plan, vertices=fewer)
    assert former.sink_streams()

    def record(hash_now: str) -> None:
        root.store.put("job.json", json_document({**settings, "plan": hash_now}))

    def save(first_seq: int, batch: Any, stream: str) -> None:
        delivered.append(batch.num_rows)
        record(plan.plan_hash)

    def look(rows: list[dict[str, Any]]) -> None:
        if {row["state"] for row in rows} == {"finished"}:
            root.replace_plan(plan)

    root.replace_plan(former)
    record(former.plan_hash)
    rows = deliver(root.uri, [sinks.function(save, name="late")], on_rows=look)
    assert len(rows) == len(plan.sink_streams()) == len(former.sink_streams()) + 1
    assert sum(delivered) == finished.status()["events_out"]


@pytest.mark.slow
def test_a_delivery_follows_a_changed_job(tmp_path: Path) -> None:
    """Rows after a deployment have the new column; partitions that a rescale added arrive, too."""
    changed, delivered = ChangedJob(tmp_path), list[dict[str, Any]]()
    some, ended = threading.Event(), list[dict[str, Any]]()

    def save(first_seq: int, batch: Any, stream: str) -> None:
        delivered.extend(batch.to_pylist())

    def look(rows: list[dict[str, Any]]) -> None:
        if any(row["rows"] for row in rows):
            some.set()

    def run() -> None:
        copy = sinks.function(save, name="copy")
        ended.extend(deliver(changed.root, [copy], on_rows=look))

    changed.append(2)
    changed.run(changed.query("old", COUNTS), parallelism=1)
    changed.has_read_all()
    process = threading.Thread(target=run, daemon=True)
    process.start()
    assert some.wait(WAIT_S)
    totals = changed.query("new", COUNTS.replace("n=ss", 't=ss.agg.sum("x"), n=ss'))
    deploy(totals, changed.root, yes=True, wait_s=WAIT_S)
    changed.append(2)
    changed.has_read_all()
    rescale(changed.root, parallelism=2, wait_s=WAIT_S)
    changed.append(2)
    changed.has_read_all()
    rows = changed.finish()
    process.join(WAIT_S)
    assert {row["state"] for row in ended} == {"finished"}
    assert {row["partition"] for row in ended} > {0}
    key = operator.itemgetter("window_start", "key")
    found = [{"t": None, **row} for row in delivered]
    assert sorted(found, key=key) == sorted(rows, key=key)
    assert {row["t"] is None for row in rows} == {True, False}


@pytest.mark.slow
def test_a_delivery_follows_the_successor_of_a_job_manager_that_died_in_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the job for ended, and the change for a store that cannot be read."""
    monkeypatch.setattr(standalone, "TICK_S", 0.02)
    changed = ChangedJob(tmp_path)
    job = changed.run_and_stop(2, "counts", COUNTS)
    changed.close()
    root, plan, ticks = JobRoot(changed.root), job.plan, list[None]()
    root.claim(1_000_000)
    status, settings = root.read_status(), root.settings()
    *_, (added, _) = plan.sink_streams()
    former = replace(
        plan, vertices=tuple(v for v in plan.vertices if added not in v.output_streams)
    )
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass

    def write(state: str, pid: int) -> None:
        now_us = SystemClock().now_us()
        now = {**status, "state": state, "pid": pid, "machine": gethostname(), "written_us": now_us}
        root.store.put(STATUS, json_document(now))

    def die() -> None:
        write("running", dead.pid)
        root.replace_plan(former)
        root.store.put(JOB, json_document({**settings, "plan": plan.plan_hash}))

    def look(rows: list[dict[str, Any]]) -> None:
        ticks.append(None)
        if len(ticks) == 3:
            write("running", os.getppid())
            root.replace_plan(plan)
        elif len(ticks) == 9:
            write("stopped", os.getppid())

    die()
    to = [sinks.function(lambda *given: None, name="d")]
    rows = deliver(changed.root, to, on_rows=look)
    assert len(rows) == len(plan.sink_streams())
    assert len(ticks) >= 9
    die()
    monkeypatch.setattr(standalone, "STORE_WAIT_S", 0.3)
    with pytest.raises(StoreError, match=f"jobmanager resume {changed.root} completes the change"):
        deliver(changed.root, to)


def test_a_column_that_is_not_in_the_plan_is_an_error() -> None:
    """A column that the plan lacks used to be dropped, so rows after a change had null in it."""
    schema = item_schema(pa.schema([("x", pa.int64())]))
    rows = CleanRows(schema, None)
    wider = schema.append(pa.field("t", pa.int64()))
    values = {"_kind": [0], "_vs": [1], "_ve": [2], "x": [3], "t": [4]}
    items = Items(0, pa.RecordBatch.from_pydict(values, schema=wider))
    with pytest.raises(OutputChangedError, match=r"new columns \(t\)"):
        rows.of(items)


def test_incomplete_destinations_are_rejected(finished: jobmanager.Job) -> None:
    found = CliRunner().invoke(app, ["deliver", finished.root, "--to", "kafka:t"])
    assert found.exit_code == 2
    assert "--servers" in found.output
