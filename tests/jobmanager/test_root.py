"""The files of a job's root, and who may work on it. Cannot catch: two that begin at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jobmanager.errors import JobExistsError, JobRunningError, NoJobError
from jobmanager.root import CANCEL, DRAIN, STATUS_STALE_US, JobRoot, display_uri, is_owned
from planner import col
from planner.lower import lower
from rstream.blobs import MemoryBlobs
from rstream.clock import SystemClock
from tests.support.queries import bids, stateless

if TYPE_CHECKING:
    from pathlib import Path

NOW_US = SystemClock().now_us()
SETTINGS = {"job": "j", "id": "1"}


@pytest.fixture
def root() -> JobRoot:
    return JobRoot(MemoryBlobs(root="jobs/nightly/"))


def dead_pid() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def owned_by(**fields: Any) -> dict[str, Any]:
    """The status that a job manager wrote."""
    status = {
        "state": "running",
        "machine": socket.gethostname(),
        "pid": os.getppid(),
        "written_us": NOW_US,
    }
    return {**status, **fields}


def test_a_job_is_named_by_its_root(root: JobRoot, tmp_path: Path) -> None:
    assert root.name == "nightly"
    assert JobRoot(f"{tmp_path}/a/b/").name == "b"
    assert display_uri(JobRoot(str(tmp_path)).uri) == str(tmp_path)
    assert display_uri("s3://bucket/x") == "s3://bucket/x"


def test_create_then_read(root: JobRoot) -> None:
    with pytest.raises(NoJobError, match="nightly"):
        root.settings()
    root.create(stateless(), SETTINGS, now_us=NOW_US)
    assert root.settings() == SETTINGS
    assert root.read_query().schema == stateless().schema
    assert root.read_plan() is None
    assert root.read_status() == {}
    plan = lower(root.read_query(), root="ROOT", parallelism=2)
    root.write_plan(plan)
    again = root.read_plan()
    assert again is not None
    assert again.plan_hash == plan.plan_hash


def test_only_a_job_that_never_started_is_replaced(root: JobRoot) -> None:
    root.create(stateless(), SETTINGS, now_us=NOW_US)
    root.write_status(owned_by(state="starting"))
    with pytest.raises(JobExistsError, match=r"\(starting\)"):
        root.create(stateless(), SETTINGS, now_us=NOW_US)
    root.write_status(owned_by(state="failed"))
    other = bids().filter(col("price") > 1).to_parquet()
    root.create(other, SETTINGS, now_us=NOW_US)
    assert root.read_query().schema == other.schema
    root.write_plan(lower(other, root="ROOT", parallelism=1))
    with pytest.raises(JobExistsError, match=r"\(failed\); `jobmanager resume"):
        root.create(stateless(), SETTINGS, now_us=NOW_US)


def test_take_over_is_visible(root: JobRoot) -> None:
    root.write_status(owned_by(pid=dead_pid(), events_in=7))
    root.take_over(NOW_US + 1)
    status = root.read_status()
    assert (status["state"], status["pid"], status["events_in"]) == ("starting", os.getpid(), 7)
    root.write_status(owned_by())
    with pytest.raises(JobRunningError, match=f"pid {os.getppid()} on "):
        root.take_over(NOW_US + 1)
    assert root.read_status() == owned_by()


@pytest.mark.parametrize(
    ("fields", "later_us", "expected"),
    [
        ({}, 0, True),
        ({"state": "starting"}, 0, True),
        ({}, 10 * STATUS_STALE_US, True),  # here a process tells, not the age of the file
        ({"state": "finished"}, 0, False),
        ({"state": "failed"}, 0, False),
        ({"state": "cancelled"}, 0, False),
        ({"machine": "elsewhere"}, 0, True),
        ({"machine": "elsewhere"}, STATUS_STALE_US, False),
        ({"pid": 1, "machine": "elsewhere"}, STATUS_STALE_US - 1, True),
    ],
)
def test_who_owns_a_root(fields: dict[str, Any], later_us: int, expected: bool) -> None:
    assert is_owned(owned_by(**fields), NOW_US + later_us) is expected


def test_the_dead_and_this_process_own_nothing() -> None:
    assert not is_owned({}, NOW_US)
    assert not is_owned(owned_by(pid=dead_pid()), NOW_US)
    assert not is_owned(owned_by(pid=os.getpid()), NOW_US)


def test_a_process_that_only_has_the_old_number_owns_nothing() -> None:
    assert is_owned(owned_by(pid=os.getppid()), NOW_US)
    assert not is_owned(owned_by(pid=os.getppid(), written_us=1_000_000), NOW_US)


def test_requests_stay_until_they_are_taken(root: JobRoot) -> None:
    assert root.requests() == []
    root.request(CANCEL)
    root.request(DRAIN + "h1.0")
    assert root.requests() == [CANCEL, "drain-h1.0"]
    root.forget_request(CANCEL)
    assert root.requests() == ["drain-h1.0"]
