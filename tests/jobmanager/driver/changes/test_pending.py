"""A completed change leaves nothing that could disturb the next request or a successor.

Cannot catch: how a running job handles a request (test_deploy.py, test_rescale.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.apply import carry_out
from jobmanager.driver.running.changes.errors import ChangePendingError, ChangeWaitsError
from jobmanager.driver.running.changes.pending import new_change
from jobmanager.driver.running.deploying import _awaited as awaited
from jobmanager.storage.documents import json_document
from jobmanager.storage.root import JobRoot
from rstream.store.memory_blobs import MemoryBlobs
from tests.support.crashing_store import CrashingBlobs, DiedError, Life

if TYPE_CHECKING:
    from jobmanager.driver.running.changes.pending import Change

DONE = {"state": "done", "kind": "savepoint"}


def requested(blobs: MemoryBlobs) -> Change:
    change = new_change("savepoint", savepoint="early")
    pending.request(JobRoot(blobs), change, None, None)
    blobs.put(f"{change.folder}/rest", b"")
    return change


def test_a_death_while_a_change_is_closed_does_not_repeat_it() -> None:
    counted, life = MemoryBlobs({}), Life()
    pending.close(CrashingBlobs(counted, life), requested(counted).id, DONE)
    calls = len(life.calls)
    assert calls >= 4
    for at in range(calls):
        blobs = MemoryBlobs({})
        change = requested(blobs)
        with pytest.raises(DiedError):
            pending.close(CrashingBlobs(blobs, Life(at)), change.id, DONE)
        if pending.outcome_of(blobs, change.id) is None:
            assert pending.pending(blobs) == change  # the successor carries it out
            continue
        with pytest.raises(ChangePendingError):
            requested(blobs)
        assert carry_out(JobRoot(blobs)) == DONE
        assert pending.pending(blobs) is None
        requested(blobs)


class ClosedLater(MemoryBlobs):
    """A store in which the request is deleted while a process waits for its outcome."""

    #: The number of reads of the request until it is deleted.
    looks_left = 100

    def get(self, path: str) -> bytes:
        if path == pending.REQUEST:
            self.looks_left -= 1
            if self.looks_left == 0:
                self.delete(path)
        return super().get(path)


def test_who_waits_for_a_change_can_request_the_next_one() -> None:
    blobs = ClosedLater({})
    change = requested(blobs)
    with pytest.raises(ChangeWaitsError, match="is not changed yet after 0 s; the change is still"):
        awaited(JobRoot(blobs), change, 0)
    blobs.put(f"{change.folder}/{pending.OUTCOME}", json_document(DONE))
    blobs.looks_left = 2
    assert awaited(JobRoot(blobs), change, 60) == DONE
    requested(blobs)
