"""One of several standbys continues a job whose driver was killed.

Not covered: a driver on another machine, which counts as dead when its status is old (tests of
:mod:`jobmanager.storage.liveness`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager import JobFailedError
from jobmanager.cli.main import app
from jobmanager.driver.running.standby import LOOK_EVERY_S, stand_by
from jobmanager.storage.documents import json_document
from jobmanager.storage.root import STATUS, JobRoot, display_uri, epoch_name
from planner import Stream, col, event
from rstream.clock import SystemClock
from tests.rooms import ROOT
from tests.support.jobs import ROWS, WAIT_S, output_items

PACE = 40.0


def test_a_standby_exits_if_the_job_has_ended(expected: jobmanager.Job) -> None:
    found = CliRunner().invoke(app, ["standby", expected.root])
    assert (found.exit_code, found.stdout) == (0, "")
    assert "finished; the standby was not needed" in found.stderr
    found = CliRunner().invoke(app, ["standby", expected.root, "--json"])
    assert json.loads(found.stdout)["output_digest"] == expected.status()["output_digest"]


def test_a_root_without_a_job_is_an_error(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["standby", str(tmp_path)])
    assert (found.exit_code, found.stdout) == (2, "")
    assert "is not the folder of a job" in found.stderr


@pytest.fixture
def failed(tmp_path: Path) -> JobRoot:
    """A job that fails in each run."""
    words = Stream.from_items({"x": "string"}, [event(1, x="a")])
    root = str(tmp_path / "job")
    query = words.select(n=col("x").cast("int64")).to_parquet()
    with pytest.raises(JobFailedError):
        jobmanager.run(query, root=root, executor="local", parallelism=1).wait(WAIT_S)
    return JobRoot(root)


def test_a_failed_job_is_not_taken_over(failed: JobRoot) -> None:
    found = CliRunner().invoke(app, ["standby", failed.uri])
    assert found.exit_code == 1
    assert re.search(r"failed \(.*cast.*\); the standby was not needed", found.stderr)


def test_an_unreadable_root_is_reported_once(
    failed: JobRoot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(display_uri(failed.uri))
    (folder / STATUS).rename(folder / "kept")
    (folder / STATUS).mkdir()
    waits: list[float] = []

    def sleep(wait_s: float) -> None:
        waits.append(wait_s)
        if len(waits) == 3:
            (folder / STATUS).rmdir()
            (folder / "kept").rename(folder / STATUS)

    monkeypatch.setattr(time, "sleep", sleep)
    assert stand_by(failed.uri, executor="local") is None
    assert [STATUS in record.getMessage() for record in caplog.records] == [True]


def test_a_job_without_a_readable_status_is_taken_over(failed: JobRoot) -> None:
    """A driver may die before its first status."""
    failed.store.delete(STATUS)
    job = stand_by(failed.uri, executor="local")
    assert job is not None
    with pytest.raises(JobFailedError):
        job.wait(WAIT_S)


def test_a_standby_pauses_between_two_attempts(
    failed: JobRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine has claimed the job and then stopped reporting."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(WAIT_S)
    now_us = SystemClock().now_us()
    status = failed.read_status() | {"state": "running", "pid": gone.pid, "written_us": now_us}
    failed.store.put(STATUS, json_document(status))
    epoch = status["manager_epoch"] + 1
    claim = {"state": "starting", "pid": 1, "machine": "another", "written_us": now_us}
    failed.store.put(epoch_name(epoch), json_document(claim | {"manager_epoch": epoch}))
    waits: list[float] = []
    real, here = time.sleep, threading.current_thread()

    def sleep(wait_s: float) -> None:
        if threading.current_thread() is not here:
            real(wait_s)
            return
        waits.append(wait_s)
        failed.store.delete(epoch_name(epoch))

    monkeypatch.setattr(time, "sleep", sleep)
    job = stand_by(failed.uri, executor="local")
    assert job is not None
    assert waits[0] == LOOK_EVERY_S
    with pytest.raises(JobFailedError):
        job.wait(WAIT_S)


@pytest.mark.slow
def test_one_of_two_standbys_continues_the_job_and_the_other_waits(
    events: Path, expected: jobmanager.Job, tmp_path: Path
) -> None:
    root = str(tmp_path / "job")
    driver = [*(sys.executable, "-m", "tests.support.killed_driver"), str(events), root]
    standby = [*(sys.executable, "-m", "jobmanager", "standby"), root, "--json"]
    with ExitStack() as ended:

        def started(command: list[str]) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            ended.enter_context(process)
            ended.callback(process.kill)
            return process

        job = started([*driver, str(PACE), str(ROWS // 2)])
        assert job.stdout is not None
        assert job.stdout.readline()  # its root exists; it waits after half of the input
        standbys = [started(standby), started(standby)]
        for process in standbys:
            assert process.stderr is not None
            assert process.stderr.readline().startswith("standby: ready; process ")
        job.kill()
        said = [process.communicate(timeout=WAIT_S) for process in standbys]
        assert [process.returncode for process in standbys] == [0, 0]
    assert sorted("taking over" in told for _, told in said) == [False, True]
    ends = [json.loads(out.splitlines()[-1]) for out, _ in said]
    for end in ends:
        assert end["state"] == "finished"
        assert end["output_digest"] == expected.status()["output_digest"]
    assert output_items(ends[0]["output"]) == output_items(expected.output)
