"""The files of a job's root, and who may work on it; S3 is moto's real HTTP server.

Not covered: stores without exclusive creation (moto's, of many megabytes).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from jobmanager.config import JobConfig
from jobmanager.errors import (
    BrokenFileError,
    JobExistsError,
    JobFormatError,
    JobRunningError,
    NoJobError,
)
from jobmanager.state.messages import CancelRequested, JobResumed, JobStarted, StopRequested
from jobmanager.storage.documents import json_document
from jobmanager.storage.garbage import collect_garbage
from jobmanager.storage.liveness import STATUS_STALE_US, is_owned
from jobmanager.storage.notice_log import NoticeLog
from jobmanager.storage.ownership import give_back, owned
from jobmanager.storage.root import (
    CANCEL,
    DRAIN,
    EPOCHS,
    FORMAT,
    JOB,
    PLAN,
    STATUS,
    VERSIONS,
    JobRoot,
    display_uri,
)
from jobmanager.storage.shown import shown_status
from planner import col
from planner.physical.lower import lower
from rstream.clock import SystemClock
from rstream.errors import StoreError
from rstream.log.background import InlineBackground
from rstream.store.memory_blobs import MemoryBlobs
from tests.support.interrupted_store import Interrupted
from tests.support.queries import bids, stateless, two_phases

if TYPE_CHECKING:
    from pathlib import Path

    from rstream.store.protocol import BlobStore

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
    """The status of another job manager."""
    status = {
        "state": "running",
        "machine": socket.gethostname(),
        "pid": os.getppid(),
        "written_us": NOW_US,
    }
    return {**status, **fields}


def test_a_job_is_named_after_its_root(root: JobRoot, tmp_path: Path) -> None:
    assert root.name == "nightly"
    assert JobRoot(f"{tmp_path}/a/b/").name == "b"
    assert display_uri(JobRoot(str(tmp_path)).uri) == str(tmp_path)
    assert display_uri("s3://bucket/x") == "s3://bucket/x"


def test_a_created_root_is_read_back(root: JobRoot) -> None:
    with pytest.raises(NoJobError, match="nightly"):
        root.settings()
    root.create(stateless(), SETTINGS, now_us=NOW_US)
    assert root.settings() == root.readable_settings() == {"format": FORMAT, **SETTINGS}
    assert root.read_query().schema == stateless().schema
    assert root.read_plan() is None
    assert root.read_status() == {}
    plan = lower(root.read_query(), root="ROOT", parallelism=2)
    root.write_plan(plan)
    again = root.read_plan()
    assert again is not None
    assert again.plan_hash == plan.plan_hash


@pytest.mark.parametrize("fields", [{}, {"format": FORMAT + 1}])
def test_a_job_of_another_version_is_rejected(root: JobRoot, fields: dict[str, int]) -> None:
    root.create(stateless(), SETTINGS, now_us=NOW_US)
    root.store.put(JOB, json.dumps({**SETTINGS, **fields}).encode())
    with pytest.raises(
        JobFormatError, match=rf"format is \d+, .* reads \d to {FORMAT}\); resume it with"
    ):
        root.readable_settings()
    with pytest.raises(JobFormatError, match=r"nightly/? holds a job of another version"):
        collect_garbage(root, JobConfig(), {}, is_dry_run=True)


@pytest.mark.parametrize("edited", [b'{"format": 7, "job": "x"}', b'{"format": 7}'])
def test_edited_settings_are_rejected(root: JobRoot, edited: bytes) -> None:
    root.create(stateless(), SETTINGS, now_us=NOW_US)
    root.store.put(JOB, edited.replace(b"7", b"%d" % FORMAT))
    with pytest.raises(
        BrokenFileError, match=r"job\.json is broken: it has no checksum, so it was"
    ):
        root.readable_settings()


def test_of_another_version_only_the_format_is_reported(root: JobRoot) -> None:
    root.store.put(JOB, b'{"format": 3, "output": 5, "query_file": {}}')
    assert root.settings() == {"format": 3}
    assert shown_status(root, NOW_US)["state"] == "unknown"


def test_an_edited_status_is_ignored(root: JobRoot) -> None:
    root.create(stateless(), SETTINGS, now_us=NOW_US)
    root.store.put(STATUS, b'{"state": "x", "manager_epoch": "x"}')
    root.take_over(NOW_US)
    assert (root.epoch, root.read_status()["state"]) == (1, "starting")
    root.store.put(STATUS, b'{"job": "x"}')
    assert shown_status(root, NOW_US)["state"] == "unknown"


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


def test_a_takeover_is_visible(root: JobRoot) -> None:
    root.write_status(owned_by(pid=dead_pid(), events_in=7))
    root.take_over(NOW_US + 1)
    status = root.read_status()
    assert (status["state"], status["pid"], status["events_in"]) == ("starting", os.getpid(), 7)
    assert status["manager_epoch"] == root.epoch == 1
    root.write_status(owned_by())
    with pytest.raises(JobRunningError, match=f"pid {os.getppid()} on "):
        root.take_over(NOW_US + 1)
    assert root.read_status() == owned_by(manager_epoch=1)


def rivals(store: BlobStore, count: int) -> list[JobRoot]:
    """Job managers on other machines, whose deaths cannot be detected."""
    return [JobRoot(store, pid=7, machine=f"m{i}") for i in range(count)]


def test_one_of_several_concurrent_starts_becomes_the_owner(shared_store: BlobStore) -> None:
    roots = rivals(shared_store, 6)
    ready = threading.Barrier(len(roots))

    def begin(root: JobRoot) -> str:
        ready.wait()
        try:
            root.take_over(NOW_US)
            root.check_owner()
        except JobRunningError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(roots)) as pool:
        refused = list(pool.map(begin, roots))
    assert refused.count("") == 1
    owner = f"pid 7 on m{refused.index('')}"
    assert all(not reason or owner in reason for reason in refused), refused


def test_a_claim_counts_before_its_owner_writes_more(root: JobRoot) -> None:
    first, second = rivals(root.store, 2)
    first.claim(NOW_US)
    root.store.delete(STATUS)
    with pytest.raises(JobRunningError, match="pid 7 on m0"):
        second.take_over(NOW_US + 1)
    first.write_status(owned_by(machine="m0", pid=7, state="failed"))
    second.take_over(NOW_US + 2)
    assert (first.epoch, second.epoch) == (1, 2)
    second.check_owner()
    with pytest.raises(JobRunningError, match="pid 7 on m1"):
        first.check_owner()


def test_a_status_of_a_replaced_owner_does_not_free_the_root(root: JobRoot) -> None:
    first, second, third = rivals(root.store, 3)
    first.claim(NOW_US)
    second.claim(NOW_US)
    first.write_status(owned_by(state="failed"))
    with pytest.raises(JobRunningError, match="pid 7 on m1"):
        third.take_over(NOW_US + 1)
    second.check_owner()


def test_a_claimed_and_deleted_epoch_is_not_claimed_again(root: JobRoot) -> None:
    first, second, late = rivals(root.store, 3)
    first.claim(NOW_US)
    second.claim(NOW_US)
    for name in root.store.list(EPOCHS):
        if name.endswith("1"):
            root.store.delete(name)
    with pytest.raises(JobRunningError, match="pid"):
        late.claim(NOW_US, after=0)
    assert not [name for name in root.store.list(EPOCHS) if name.endswith("1")]
    second.check_owner()


def test_without_exclusive_creation_the_overwritten_owner_notices(root: JobRoot) -> None:
    first, second = rivals(root.store, 2)
    first.claim(NOW_US)
    name, *_ = root.store.list(EPOCHS)
    root.store.delete(name)  # as if the second one had not read it
    second.claim(NOW_US, after=0)
    second.check_owner()
    with pytest.raises(JobRunningError, match="pid 7 on m1"):
        first.check_owner()


def test_a_missing_claim_is_a_store_error(root: JobRoot) -> None:
    root.claim(NOW_US)
    root.store.delete(root.store.list(EPOCHS)[0])
    with pytest.raises(StoreError, match="epochs/0000000001: the file is gone"):
        root.check_owner()


def test_files_left_incomplete_by_a_crash_count_as_absent(root: JobRoot) -> None:
    """An empty file counts as missing: without hard links, a crash can leave a new file empty."""
    root.store.put(f"{EPOCHS}/0000000001", b"")
    root.store.put(PLAN, b"")
    assert root.read_plan() is None
    root.take_over(NOW_US)
    root.write_plan(lower(stateless(), root="ROOT", parallelism=1))
    root.check_owner()
    assert (root.epoch, root.read_plan() is not None) == (2, True)


def test_a_job_is_started_once(root: JobRoot) -> None:
    """A job manager that slept between its claim and its plan finds another plan."""
    first, second = rivals(root.store, 2)
    for each in (first, second):
        each.claim(NOW_US)
    second.write_plan(lower(stateless(), root="ROOT", parallelism=1))
    with pytest.raises(JobRunningError, match="pid 7 on m1"):
        first.write_plan(lower(stateless(), root="ROOT", parallelism=2))


def test_a_plan_of_a_replaced_job_manager_is_not_replaced(root: JobRoot) -> None:
    """The other job manager may have started, so the current owner must resume the job."""
    first, second = rivals(root.store, 2)
    for each in (first, second):
        each.claim(NOW_US)
    plan = lower(stateless(), root="ROOT", parallelism=1)
    first.write_plan(plan)
    with pytest.raises(JobRunningError, match="pid 7 on m1"):
        second.write_plan(lower(bids().to_parquet(), root="ROOT", parallelism=1))
    found = root.read_plan()
    assert found is not None
    assert found.plan_hash == plan.plan_hash


def test_a_suspended_job_manager_replaces_no_file_of_its_successor() -> None:
    """It is suspended before any call, and its successor replaces the same files meanwhile."""
    first_plan, plan, late = (lower(two_phases(), root="ROOT", parallelism=n) for n in (1, 2, 3))
    assert len({one.plan_hash for one in (first_plan, plan, late)}) == 3
    for at in count():  # ends: there are few calls
        blobs = MemoryBlobs({})
        former = JobRoot(blobs)
        former.claim(NOW_US)
        former.create(two_phases(), SETTINGS, now_us=NOW_US)
        former.write_plan(first_plan)

        def succeed(blobs: MemoryBlobs = blobs) -> None:
            successor = JobRoot(MemoryBlobs(blobs.blobs))
            successor.claim(NOW_US)
            successor.replace_plan(plan)
            successor.replace(JOB, json_document({"format": FORMAT, "id": "2"}))

        store = Interrupted(blobs.blobs, at, succeed)
        suspended = JobRoot(store)
        suspended.epoch, suspended._claim = former.epoch, former._claim
        with contextlib.suppress(JobRunningError):
            suspended.replace_plan(late)
            suspended.replace(JOB, json_document({"format": FORMAT, "id": "3"}))
        root, has_succeeded = JobRoot(blobs), store.calls > at
        found = root.read_plan()
        assert found is not None
        assert found.plan_hash == (plan if has_succeeded else late).plan_hash
        assert root.settings()["id"] == ("2" if has_succeeded else "3")
        if not has_succeeded:
            break
    assert at >= 8


def test_versions_of_former_owners_are_deleted(root: JobRoot) -> None:
    root.create(stateless(), SETTINGS, now_us=NOW_US)
    for owner in rivals(root.store, 3):
        owner.claim(NOW_US)
        owner.replace(JOB, json_document({"format": FORMAT, "id": str(owner.epoch)}))
        assert JobRoot(root.store).settings()["id"] == str(owner.epoch)
    assert root.store.list(VERSIONS) == [f"{VERSIONS}/0000000003/{JOB}"]


def test_a_failure_of_a_replaced_job_manager_is_not_that_of_the_job(root: JobRoot) -> None:
    first, second = rivals(root.store, 2)
    first.claim(NOW_US)
    first.record_failure("my disk", NOW_US)
    assert root.read_status()["error"] == "my disk"
    second.claim(NOW_US)
    first.record_failure("my network", NOW_US)
    status = root.read_status()
    assert (status["state"], status["machine"]) == ("starting", "m1")


def test_the_end_of_a_job_counts_until_it_is_resumed(root: JobRoot) -> None:
    """If the status is lost, the log shows how the job ended, until the job is resumed."""
    root.create(stateless(), SETTINGS, now_us=NOW_US)
    told: list[str] = []
    for life, ending in enumerate((StopRequested(), CancelRequested()), start=1):
        owner = JobRoot(root.store, pid=7, machine=f"m{life}")
        owner.claim(0)
        log = NoticeLog(owner, SystemClock(), JobConfig(), InlineBackground())
        for notice in (JobResumed(1, 0) if life > 1 else JobStarted(1, 0), ending):
            log.append(notice)
            log.flush()
            root.store.delete(STATUS)
            told.append(shown_status(root, NOW_US)["state"])
    assert told == ["unknown", "stopped", "unknown", "cancelled"]


@pytest.mark.parametrize(
    ("fields", "later_us", "expected"),
    [
        ({}, 0, True),
        ({"state": "starting"}, 0, True),
        ({}, 10 * STATUS_STALE_US, True),  # here the process decides, not the age of the file
        ({"state": "finished"}, 0, False),
        ({"state": "failed"}, 0, False),
        ({"state": "cancelled"}, 0, False),
        ({"machine": "elsewhere"}, 0, True),
        ({"machine": "elsewhere"}, STATUS_STALE_US, False),
        ({"pid": 1, "machine": "elsewhere"}, STATUS_STALE_US - 1, True),
    ],
)
def test_the_owner_of_a_root(fields: dict[str, Any], later_us: int, expected: bool) -> None:
    assert is_owned(owned_by(**fields), NOW_US + later_us) is expected


def test_dead_processes_and_this_process_own_nothing() -> None:
    assert not is_owned({}, NOW_US)
    assert not is_owned(owned_by(pid=dead_pid()), NOW_US)
    assert not is_owned(owned_by(pid=os.getpid()), NOW_US)


def test_an_ended_process_owns_nothing_before_its_parent_has_waited() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it remains a zombie process
    assert not is_owned(owned_by(pid=process.pid), time.time_ns() // 1000)
    process.stdout.close()
    process.wait()


def test_a_process_of_another_user_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError(pid, number)

    monkeypatch.setattr(os, "kill", refuse)
    assert is_owned(owned_by(), NOW_US)


def test_another_process_with_the_old_pid_owns_nothing() -> None:
    assert is_owned(owned_by(pid=os.getppid()), NOW_US)
    assert not is_owned(owned_by(pid=os.getppid(), written_us=1_000_000), NOW_US)


def test_the_status_of_a_job_of_this_process_is_exact(root: JobRoot) -> None:
    """A job that runs in this process is shown as running, so that its deliveries continue."""
    root.store.put(JOB, json_document({"format": FORMAT}))
    running = owned_by(pid=os.getpid())
    with owned(root):
        root.write_status(running)
        assert shown_status(root, NOW_US)["state"] == "running"
        give_back(root)
    assert shown_status(root, NOW_US)["state"] == "interrupted"


def test_requests_are_kept_until_the_job_has_ended(root: JobRoot) -> None:
    root.claim(NOW_US)
    root.request(CANCEL)
    root.write_status({"state": "running"})
    assert root.requests() == [CANCEL]
    root.write_status({"state": "cancelled"})
    assert root.requests() == []


def test_only_the_owner_of_a_root_deletes_its_requests(root: JobRoot) -> None:
    root.request(CANCEL)
    root.write_status({"state": "failed"})
    assert root.requests() == [CANCEL]


def test_requests_are_deleted_one_by_one(root: JobRoot) -> None:
    assert root.requests() == []
    root.request(CANCEL)
    root.request(DRAIN + "h1.0")
    assert root.requests() == [CANCEL, "drain-h1.0"]
    root.forget_request(CANCEL)
    assert root.requests() == ["drain-h1.0"]
