"""A completed change leaves nothing that could disturb the next request or a successor.

Not covered: how a running job handles a request (test_deploy.py, test_rescale.py).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.apply import (
    Following,
    Shell,
    _close,
    _delete_channels,
    carry_out,
    roll_forward,
)
from jobmanager.driver.running.changes.errors import ChangePendingError, ChangeWaitsError
from jobmanager.driver.running.changes.pending import new_change
from jobmanager.driver.running.changes.stopped import tidy
from jobmanager.driver.running.deploying import _awaited as awaited
from jobmanager.errors import JobRunningError
from jobmanager.storage.root import STREAMS, JobRoot
from planner import Stream
from planner.physical.lower import lower
from rstream.store.memory_blobs import MemoryBlobs
from tests.support.crashing_store import CrashingBlobs, DiedError, Life

if TYPE_CHECKING:
    import pyarrow as pa

    from jobmanager.driver.running.changes.pending import Change

PLAN = lower(Stream.from_items({"x": "int64"}, []).to_parquet(), root="memory://job")
DONE = {"state": "done", "kind": "savepoint"}


def requested(blobs: MemoryBlobs) -> Change:
    change = new_change("savepoint", savepoint="early")
    pending.request(JobRoot(blobs), change, None, None)
    blobs.put(f"{change.folder}/rest", b"")
    return change


def owned(blobs: MemoryBlobs) -> JobRoot:
    root = JobRoot(blobs)
    root.claim(0)
    return root


def test_a_death_while_a_change_is_closed_does_not_repeat_it() -> None:
    counted, life = MemoryBlobs({}), Life()
    pending.close(CrashingBlobs(counted, life), requested(counted).id, DONE, 1)
    calls = len(life.calls)
    assert calls >= 4
    for at in range(calls):
        blobs = MemoryBlobs({})
        change = requested(blobs)
        with pytest.raises(DiedError):
            pending.close(CrashingBlobs(blobs, Life(at)), change.id, DONE, 1)
        if pending.outcome_of(blobs, change.id) is None:
            assert pending.pending(blobs) == change  # the successor carries it out
            continue
        assert pending.pending(blobs) is None
        assert carry_out(owned(blobs)) is None
        request, outcome = sorted(blobs.list(pending.FOLDER), key=lambda p: change.folder in p)
        assert outcome == pending.outcome_path(change.id, 1)
        following = requested(blobs)
        pending.close(blobs, following.id, DONE, 1)
        assert not blobs.exists(request)


def test_a_suspended_owner_keeps_the_commit_of_its_successor() -> None:
    """A suspended owner closes its change late, while its successor makes the next change."""
    blobs = MemoryBlobs({})
    first = requested(blobs)
    pending.commit(blobs, 1, {"id": first.id})
    following = {"id": "next"}
    pending.commit(blobs, 2, following)
    pending.record(blobs, first.id, DONE, 1)
    assert pending.committed(blobs) == following
    pending.record(blobs, "next", DONE, 2)
    assert blobs.list(pending.COMMITS) == []


def test_the_next_change_can_be_requested_before_the_files_of_the_last_are_deleted() -> None:
    """After a change the hosts may not start; then a rollback must be possible at once."""
    blobs = MemoryBlobs({})
    root, shell = owned(blobs), Shell(following=Following(None, None))  # type: ignore[arg-type]
    _close(root, requested(blobs).id, DONE, shell)
    following = requested(blobs)
    assert shell.following is not None
    tidy(root, shell.following.tidy)
    assert pending.pending(blobs) == following
    assert blobs.exists(f"{following.folder}/rest")
    assert len(blobs.list(pending.FOLDER)) == 3  # an outcome, the next request, its file


def test_a_replaced_job_manager_deletes_nothing() -> None:
    """A job manager was suspended before it deleted files; its successor made another change."""
    blobs = MemoryBlobs({})
    root = owned(blobs)
    work = [partial(blobs.delete, "needed"), lambda: _delete_channels(root, PLAN)]
    owned(blobs)
    for path in ("needed", f"{STREAMS}/g2-2.0/s01-0/0.parquet"):
        blobs.put(path, b"")
    paths = blobs.list()
    tidy(root, list(work))
    with pytest.raises(JobRunningError):
        work[1]()
    assert blobs.list() == paths


def test_a_commit_of_a_replaced_job_manager_has_no_effect() -> None:
    """A job manager was suspended right before its commit, and was replaced meanwhile."""
    blobs = MemoryBlobs({})
    former, change = owned(blobs), requested(blobs)
    commit = {"id": change.id, "ends": {}}
    successor = owned(blobs)
    assert pending.cancel_commits(blobs, successor.epoch, change.id) is None
    pending.commit(blobs, former.epoch, commit)
    assert pending.committed(blobs) is None
    pending.commit(blobs, successor.epoch, {**commit, "kind": "rescale"})
    found = pending.committed(blobs)
    assert found is not None
    assert found["kind"] == "rescale"
    before = dict(blobs.blobs)
    for shell in (Shell(), Shell(following=Following(None, None))):  # type: ignore[arg-type]
        with pytest.raises(JobRunningError):
            roll_forward(former, commit, shell)
    assert blobs.blobs == before
    pending.close(blobs, change.id, DONE, successor.epoch)
    pending.commit(blobs, former.epoch, commit)
    assert pending.committed(blobs) is None


def test_a_successor_completes_a_commit() -> None:
    """The dead job manager has committed it before."""
    blobs = MemoryBlobs({})
    former, commit = owned(blobs), {"id": requested(blobs).id, "ends": {}}
    pending.commit(blobs, former.epoch, commit)
    owned(blobs)
    assert pending.committed(blobs) == commit


def test_a_late_outcome_of_a_replaced_job_manager_ends_nothing() -> None:
    """It was suspended right before it recorded the change as undone."""
    blobs = MemoryBlobs({})
    former, change = owned(blobs), requested(blobs)
    successor = owned(blobs)
    assert pending.cancel_commits(blobs, successor.epoch, change.id) is None
    undone = {**DONE, "state": "undone"}
    pending.close(blobs, change.id, undone, former.epoch)
    assert pending.pending(blobs) == change
    assert blobs.exists(f"{change.folder}/rest")
    pending.commit(blobs, successor.epoch, {"id": change.id})
    assert pending.committed(blobs) is not None
    pending.record(blobs, change.id, DONE, successor.epoch)
    pending.record(blobs, change.id, undone, former.epoch)
    assert pending.outcome_of(blobs, change.id) == DONE
    requested(blobs)


def test_an_outcome_that_users_may_have_read_is_kept() -> None:
    """The former job manager recorded it after its successor had looked for one."""
    blobs = MemoryBlobs({})
    change = requested(blobs)
    pending.record(blobs, change.id, DONE, 1)
    assert pending.cancel_commits(blobs, 2, change.id) == DONE


class Overtaken(MemoryBlobs):
    """A store in which another user's change is requested, and maybe closed, before a request."""

    is_closed = False

    def put_new(self, path: str, data: bytes | pa.Buffer) -> bool:
        if path.startswith(pending.REQUESTS) and not self.is_closed:
            self.is_closed = True
            for _ in range(2):
                other = requested(MemoryBlobs(self.blobs))
                pending.close(MemoryBlobs(self.blobs), other.id, DONE, 1)
        return super().put_new(path, data)


def test_a_request_overtaken_by_another_is_an_error_and_leaves_no_file() -> None:
    blobs = Overtaken({})
    with pytest.raises(ChangePendingError):
        requested(blobs)
    assert pending.pending(blobs) is None
    (request,) = blobs.list(pending.REQUESTS)
    following = requested(blobs)
    assert pending.pending(blobs) == following
    assert blobs.list(pending.REQUESTS) > [request]


def test_the_next_change_can_be_requested_after_waiting_for_one() -> None:
    blobs = MemoryBlobs({})
    change = requested(blobs)
    with pytest.raises(ChangeWaitsError, match="is not changed yet after 0 s; the change is still"):
        awaited(JobRoot(blobs), change, 0)
    with pytest.raises(ChangePendingError):
        requested(blobs)
    pending.record(blobs, change.id, DONE, 1)
    assert awaited(JobRoot(blobs), change, 0) == DONE
    requested(blobs)
