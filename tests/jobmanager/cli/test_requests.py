"""The verbs ``stop``, ``drain`` and ``deploy``: their replies in each state of a job.

Not covered: how a job handles the request (tests/jobmanager/driver/test_stop.py).
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from jobmanager.cli.exits import EXIT_FAILED, EXIT_USAGE
from jobmanager.cli.main import app
from jobmanager.storage.root import DRAIN, STOP, JobRoot
from rstream.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


def job_in(root: Path, state: str, written_us: int | None = None, **more: Any) -> JobRoot:
    """A root with this status, written by a live process other than this one."""
    job_root = JobRoot(str(root), pid=1)
    job_root.store.put("job.json", b'{"format": 1}')
    told_us = SystemClock().now_us() if written_us is None else written_us
    me: dict[str, Any] = {"pid": 1, "machine": "elsewhere", "written_us": told_us}
    job_root.write_status({"job": "job", "state": state, "error": "", **me, **more})
    return job_root


def stop(root: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["stop", str(root), "--json", *more])


@pytest.mark.parametrize("state", ["running", "stopping"])
def test_a_running_job_receives_a_request(tmp_path: Path, state: str) -> None:
    root = job_in(tmp_path, state)
    assert json.loads(stop(tmp_path).stdout) == {"job": "job", "stop": "requested"}
    assert root.requests() == [STOP]


def test_the_command_waits_for_a_stop(tmp_path: Path) -> None:
    root = job_in(tmp_path, "running")
    refused = stop(tmp_path, "--wait", "0.3")
    assert refused.exit_code == EXIT_FAILED
    assert "the job has not stopped within 0.3 s" in refused.stderr
    assert root.requests() == [STOP]
    later = threading.Timer(0.5, lambda: job_in(tmp_path, "stopped"))
    later.start()
    assert json.loads(stop(tmp_path, "--wait", "60").stdout) == {"job": "job", "stop": "stopped"}
    later.join()


def test_a_job_that_fails_during_a_stop_is_not_a_success(tmp_path: Path) -> None:
    root = job_in(tmp_path, "running")
    later = threading.Timer(0.3, lambda: job_in(tmp_path, "failed", error="ValueError: 7"))
    later.start()
    failed = stop(tmp_path, "--wait", "60")
    later.join()
    assert root.requests() == [STOP]
    assert failed.exit_code == EXIT_FAILED
    assert "job job failed: ValueError: 7" in failed.stderr


def test_a_stopped_job_is_not_stopped_again(tmp_path: Path) -> None:
    root = job_in(tmp_path, "stopped")
    assert json.loads(stop(tmp_path).stdout) == {"job": "job", "stop": "stopped"}
    assert root.requests() == []


def test_a_stopped_job_must_be_resumed_before_it_can_finish(tmp_path: Path) -> None:
    root = job_in(tmp_path, "stopped")
    refused = stop(tmp_path, "--finish")
    assert refused.exit_code == EXIT_USAGE
    assert "it is stopped; jobmanager resume" in refused.stderr
    assert root.requests() == []


@pytest.mark.parametrize("verb", ["stop", "cancel", "drain"])
def test_a_request_without_a_job_manager_is_rejected(tmp_path: Path, verb: str) -> None:
    root = job_in(tmp_path, "running", written_us=1_000_000)
    host = ["h0.0"] if verb == "drain" else []
    refused = CliRunner().invoke(app, [verb, *host, str(tmp_path)])
    assert refused.exit_code == EXIT_USAGE
    assert "no job manager is running" in refused.stderr
    assert "since 1970-01-01 00:00:01 UTC" in refused.stderr
    assert f"jobmanager resume {tmp_path} continues it" in refused.stderr
    assert root.requests() == []


@pytest.mark.parametrize("state", ["finished", "failed", "cancelled"])
def test_a_finished_job_cannot_be_stopped(tmp_path: Path, state: str) -> None:
    root = job_in(tmp_path, state)
    refused = stop(tmp_path)
    assert refused.exit_code == EXIT_USAGE
    assert f"is not running, it is {state}" in refused.stderr
    assert root.requests() == []


def test_finish_needs_a_plan_with_sources_that_can_end(tmp_path: Path) -> None:
    root = job_in(tmp_path, "running")
    refused = stop(tmp_path, "--finish")
    assert refused.exit_code == EXIT_USAGE
    assert "cannot finish" in refused.stderr
    assert "stop it without --finish" in refused.stderr
    assert root.requests() == []


def test_only_a_host_with_a_replacement_can_be_drained(tmp_path: Path) -> None:
    hosts = [{"host": "h0.0", "cannot_drain": ""}, {"host": "h1.0", "cannot_drain": "it is alone"}]
    root = job_in(tmp_path, "running", hosts=hosts)
    for host, reason in (("h1.0", "it is alone"), ("h2.0", "its hosts are h0.0, h1.0")):
        refused = CliRunner().invoke(app, ["drain", host, str(tmp_path)])
        assert (refused.exit_code, reason in refused.stderr) == (EXIT_USAGE, True), refused.output
    assert root.requests() == []
    asked = CliRunner().invoke(app, ["drain", "h0.0", str(tmp_path), "--json"])
    assert json.loads(asked.stdout) == {"job": "job", "drain": "h0.0"}
    assert root.requests() == [DRAIN + "h0.0"]


def test_swapped_arguments_of_deploy_are_rejected(tmp_path: Path) -> None:
    job_in(tmp_path, "running")
    query = tmp_path / "new.py"
    query.write_text("")
    for arguments in ([str(tmp_path), str(query)], [str(query)]):
        refused = CliRunner().invoke(app, ["deploy", *arguments, "--yes"])
        assert refused.exit_code == EXIT_USAGE
        assert "the new query and then the root: deploy NEW.py ROOT" in refused.stderr
