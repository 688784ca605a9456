"""``logs`` prints the history of a job.

Not covered: a kind of notice for which ``logs`` has no line.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager.cli.main import app
from jobmanager.cli.verbs import logs as verb
from jobmanager.config import JobConfig
from jobmanager.state.messages import DrainRequested, JobStarted, StateCopied
from jobmanager.storage.documents import json_document
from jobmanager.storage.notice_log import NoticeLog, read_notices
from jobmanager.storage.root import FORMAT, JobRoot
from planner import Stream, event
from rstream.clock import ManualClock, SystemClock
from rstream.log.background import InlineBackground
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logs") / "job"
    stream = Stream.from_items({"x": "int64"}, [event(k, x=k) for k in range(5)])
    jobmanager.run(stream.to_parquet(), root=str(root), executor="local").wait(WAIT_S)
    return root


def lines(*arguments: str) -> list[str]:
    done = CliRunner().invoke(app, ["logs", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_the_log_of_a_job_from_start_to_end(root: Path) -> None:
    found = lines(str(root), "--follow")
    assert "the job begins with" in found[0]
    assert any("runs on h0.0 as instance 1, reading from 0" in line for line in found)
    assert found[-1] == "the job is finished"


def test_only_the_log_of_one_vertex_is_shown(root: Path) -> None:
    found = lines(str(root), "--vertex", "s01-items", "--json")
    assert {json.loads(line)["vertex"].split(".")[0] for line in found} == {"s01-items"}
    wrong = CliRunner().invoke(app, ["logs", str(root), "--vertex", "nix"])
    assert wrong.exit_code == 2
    assert "has no vertex nix; it has s01-items.0" in wrong.stderr


class Running:
    """A job whose log grows between two reads of ``logs --follow``."""

    def __init__(self, root: Path) -> None:
        self.root = JobRoot(str(root), pid=1)
        self.root.store.put("job.json", json_document({"format": FORMAT}))
        self.root.claim(1_000_000)
        self.clock = ManualClock(1_000_000)
        self.log = NoticeLog(self.root, self.clock, JobConfig(), InlineBackground())
        self.log.append(JobStarted(1, 0))
        self.tell("running")

    def tell(self, state: str) -> None:
        me = {"pid": 1, "machine": "elsewhere", "written_us": SystemClock().now_us()}
        self.root.write_status({"job": "job", "state": state, "error": "", **me})

    def drain(self, *hosts: str) -> None:
        for host in hosts:
            self.clock.advance(1_000)
            self.log.append(DrainRequested(host))
        self.log.flush()


def drained(lines: list[str]) -> list[str]:
    return [line.split(" is being drained")[0][-2:] for line in lines if "is being drained" in line]


def test_a_restarted_log_is_not_printed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Running(tmp_path)
    job.drain("h1", "h2")
    job.clock.advance(1_000)
    job.log.append_copy(StateCopied(1, 0, 0, 0, 0, 0, (), False, False, ()))
    job.drain("h3")

    def between_two_looks(_: float) -> None:
        if job.log.has_durable_copy:
            job.log.truncate()
            job.drain("h4")
        else:
            job.drain("h5")
            job.tell("finished")

    monkeypatch.setattr(time, "sleep", between_two_looks)
    found = lines(str(tmp_path), "--follow")
    assert drained(found) == ["h1", "h2", "h3", "h4", "h5"]
    assert found[-1] == "the job is finished"


def test_events_at_the_end_of_a_job_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notices and the end are printed even if they arrive after the last read of the log."""
    job = Running(tmp_path)
    job.drain("h1")

    def read_and_end(store: Any) -> object:
        found = read_notices(store)
        if len(found) == 2:
            job.drain("h2")
            job.tell("finished")
        return found

    monkeypatch.setattr(verb, "read_notices", read_and_end)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert drained(lines(str(tmp_path), "--follow")) == ["h1", "h2"]
