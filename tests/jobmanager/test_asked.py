"""Requests of users while job managers start and end: done, or rejected with the reason.

Not covered: a store that shows a write late to other processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager.cli.exits import EXIT_USAGE
from jobmanager.driver.engine import open_for_job
from jobmanager.driver.notes import NoteWarning
from jobmanager.storage.root import CANCEL, DRAIN, STOP, JobRoot
from tests.rooms import ROOT
from tests.support.jobs import ROWS, WAIT_S, outcome, two_exchanges, write_events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rvertex.host.executor import Executor
    from tests.support.trouble import Gate

PACE = 40.0


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``jobmanager`` as another process."""
    line = [sys.executable, "-m", "jobmanager", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)


@pytest.fixture
def dead(events: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A killed job manager of ``tmp_path`` that its parent has not waited for."""
    line = [sys.executable, "-m", "tests.support.killed_driver", str(events), str(tmp_path)]
    process = subprocess.Popen(
        [*line, str(PACE), str(ROWS // 2)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as statuses:
        assert any(json.loads(status)["events_in"] >= ROWS // 2 for status in statuses)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process
    process.wait(WAIT_S)


@pytest.mark.slow
def test_a_job_without_a_job_manager_cannot_be_requested_to_stop(
    dead: subprocess.Popen[str], tmp_path: Path
) -> None:
    refused = command("stop", str(tmp_path))
    assert refused.returncode == EXIT_USAGE
    assert "no job manager is running" in refused.stderr
    assert f"jobmanager resume {tmp_path} continues it" in refused.stderr
    dead.wait(WAIT_S)
    assert command("cancel", str(tmp_path)).returncode == EXIT_USAGE
    assert JobRoot(str(tmp_path)).requests() == []


@pytest.mark.slow
def test_a_request_to_a_dead_job_manager_is_done_by_the_next_one(
    dead: subprocess.Popen[str], events: Path, tmp_path: Path
) -> None:
    """A job manager dies with an open request; the next one carries the request out."""
    root = JobRoot(str(tmp_path))
    root.request(STOP)
    root.request(DRAIN + "h0.0")
    resumed = command("resume", str(tmp_path))
    assert resumed.returncode == 0, resumed.stderr
    assert (
        "a request to stop the job was pending when its job manager died; it is done now"
        in resumed.stderr
    )
    assert "drain" not in resumed.stderr
    assert "stopped (resume with" in resumed.stderr
    assert root.requests() == []
    status = jobmanager.resume(str(tmp_path)).wait(WAIT_S)
    whole = jobmanager.run(two_exchanges(events), root=f"{tmp_path}/whole", executor="local")
    assert outcome(status) == outcome(whole.wait(WAIT_S))


def cancelled_half_way(events: Path, tmp_path: Path, gate: Gate) -> str:
    """The root of a cancelled job, whose remaining rows the gate still blocks."""
    gate.close_at(ROWS // 2)
    root = str(tmp_path / "job")
    job = jobmanager.run(two_exchanges(events), root=root, executor="local")
    job.cancel()
    job.wait(WAIT_S)
    return root


@pytest.mark.parametrize(("verb", "state"), [("stop", "stopped"), ("cancel", "cancelled")])
@pytest.mark.slow
def test_a_job_manager_does_requests_that_arrived_before_its_start(
    events: Path,
    tmp_path: Path,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    state: str,
) -> None:
    root = cancelled_half_way(events, tmp_path, gate)
    starts, asked = threading.Event(), threading.Event()

    def open_late(*given: Any, **more: Any) -> Executor:
        starts.set()
        assert asked.wait(WAIT_S)
        return open_for_job(*given, **more)

    monkeypatch.setattr("jobmanager.driver.running.run.open_for_job", open_late)
    ends: list[str] = []

    def resume() -> None:
        ends.append(jobmanager.resume(root).wait(WAIT_S)["state"])

    thread = threading.Thread(target=resume)
    thread.start()
    assert starts.wait(WAIT_S)
    told = command(verb, root)
    asked.set()
    thread.join(WAIT_S)
    assert (told.returncode, told.stdout) == (0, "requested\n")
    assert ends == [state]
    assert JobRoot(root).requests() == []


@pytest.mark.slow
def test_a_request_survives_the_job_manager_that_has_read_it(
    events: Path, tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request lives until the job has ended, so if a stopping manager dies, the next stops."""
    gate.close_at(ROWS // 2)
    root = JobRoot(str(tmp_path / "job"))
    before: dict[str, list[str]] = {}
    write = JobRoot.write_status

    def written(self: JobRoot, status: dict[str, Any]) -> None:
        before[status["state"]] = root.requests()
        write(self, status)

    monkeypatch.setattr(JobRoot, "write_status", written)

    def look(status: dict[str, Any]) -> None:
        if status["state"] == "running" and status["events_in"]:
            root.request(STOP)

    job = jobmanager.run(
        two_exchanges(events), root=f"{tmp_path}/job", executor="local", on_status=look
    )
    assert job.wait(WAIT_S)["state"] == "stopped"
    assert before["stopped"] == [STOP]
    assert root.requests() == []


def test_a_note_reports_a_request_that_was_made_to_a_predecessor(
    events: Path, tmp_path: Path, gate: Gate
) -> None:
    root = cancelled_half_way(events, tmp_path, gate)
    kept = JobRoot(root)
    kept.request(CANCEL)
    # The status that a killed one leaves.
    kept.write_status({**kept.read_status(), "state": "running"})
    with pytest.warns(NoteWarning, match="a request to cancel .* resume it again to continue"):
        job = jobmanager.resume(root)
    assert job.wait(WAIT_S)["state"] == "cancelled"


def test_requests_to_an_ended_job_are_discarded(events: Path, tmp_path: Path, gate: Gate) -> None:
    root = cancelled_half_way(events, tmp_path, gate)
    JobRoot(root).request(CANCEL)
    gate.open()
    assert jobmanager.resume(root).wait(WAIT_S)["state"] == "finished"
    assert JobRoot(root).requests() == []
