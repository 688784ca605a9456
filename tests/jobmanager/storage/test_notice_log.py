"""The log of consecutive job managers: what each of them and a successor read.

Not covered: a job manager's reaction when it was replaced (test_driver.py, tests/sim).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from jobmanager.config import JobConfig
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import DrainRequested
from jobmanager.state.topology import Topology
from jobmanager.storage.notice_log import NoticeLog, fence, folder_of, read_notices
from jobmanager.storage.root import JobRoot
from rstream import InlineBackground, MemoryBlobs, StoreError
from rstream.clock import ManualClock

if TYPE_CHECKING:
    import pyarrow as pa

    from rstream import BlobStore


class Manager:
    """A job manager that only keeps a log; notices differ by their host names."""

    def __init__(self, store: BlobStore, name: str, *, is_claim: bool = True) -> None:
        self.root = JobRoot(store, pid=1, machine=name)
        if is_claim:
            self.root.claim(1_000_000)
        self.log = NoticeLog(self.root, ManualClock(7), JobConfig(), InlineBackground())
        self.found = hosts_of(self.log.replay())

    def append(self, *hosts: str) -> None:
        for host in hosts:
            self.log.append(DrainRequested(host))

    def flush(self) -> None:
        self.log.flush()


def hosts_of(notices: object) -> str:
    assert isinstance(notices, list)
    return "".join(notice.host for notice in notices)


def durable(store: BlobStore) -> str:
    """Return the notices that a new job manager would read."""
    return hosts_of([notice for _, notice in read_notices(store)])


def test_notices_flushed_by_a_replaced_job_manager_are_ignored(shared_store: BlobStore) -> None:
    first = Manager(shared_store, "m1")
    first.append("a", "b")
    first.flush()
    first.append("x", "y")
    second = Manager(shared_store, "m2")
    assert second.found == "ab"
    second.append("c")
    second.flush()
    first.append("z")
    first.flush()
    assert durable(shared_store) == "abc"
    third = Manager(shared_store, "m3")
    assert third.found == "abc"
    second.append("w")
    second.flush()
    third.append("d")
    third.flush()
    assert Manager(shared_store, "m4").found == "abcd"


def test_notices_flushed_before_the_fence_count() -> None:
    store = MemoryBlobs()
    first = Manager(store, "m1")
    first.append("a")
    successor = JobRoot(store, pid=1, machine="m2")
    successor.claim(1_000_000)
    first.flush()
    assert [part.end for part in fence(successor)] == [0, 1]


def test_a_job_manager_that_died_before_its_fence_is_skipped() -> None:
    store = MemoryBlobs()
    first = Manager(store, "m1")
    first.append("a")
    first.flush()
    late = JobRoot(store, pid=1, machine="m2")
    late.claim(1_000_000)
    third = Manager(store, "m3")
    third.append("b")
    third.flush()
    fence(late)  # it was still alive
    assert (third.found, durable(store)) == ("a", "ab")


def test_a_fence_needs_an_epoch() -> None:
    with pytest.raises(AssertionError, match="owns nothing"):
        Manager(MemoryBlobs(), "m1", is_claim=False)


def test_a_log_without_epochs_is_continued() -> None:
    store = MemoryBlobs()
    old = Manager(store, "m1")
    old.append("a", "b")
    old.flush()
    folder = folder_of(1)
    for path in store.list(folder):
        if path.endswith(".parquet"):
            store.put(path.replace(folder, folder_of(0)), store.get(path))
        store.delete(path)
    assert durable(store) == "ab"
    again = Manager(store, "m2")
    assert again.found == "ab"
    again.append("c")
    again.flush()
    assert durable(store) == "abc"


def test_a_notice_is_logged_although_an_earlier_write_failed() -> None:
    class Busy(MemoryBlobs):
        """Segments cannot be written for a while."""

        is_busy: ClassVar = [False]

        def child(self, folder: str) -> Busy:
            return Busy(self.blobs, f"{self._root}{folder}/")

        def put(self, path: str, data: bytes | pa.Buffer) -> None:
            if self.is_busy[0] and path.endswith(".parquet"):
                raise StoreError(path, "busy")
            super().put(path, data)

    store = Busy()
    manager = Manager(store, "m1")
    store.is_busy[0] = True
    manager.append("a")
    with pytest.raises(StoreError, match="busy"):
        manager.flush()
    manager.append("b")
    manager.log._stream._on_flush_timer()  # it fails, and no caller knows yet
    store.is_busy[0] = False
    manager.append("c")
    manager.flush()
    assert durable(store) == "abc"


def test_a_successor_skips_host_names_that_a_change_may_have_used() -> None:
    store, states = MemoryBlobs(), []
    for manager in range(3):
        root, job = JobRoot(store), JobManager(Topology(()), JobConfig())
        root.claim(manager)
        log = NoticeLog(root, ManualClock(0), JobConfig(), InlineBackground())
        if manager == 0:
            log.begin_with(job.copy_state())
            log.truncate()
        else:
            job.recall(log.replay())
            log.flush()
        states.append(job.job.takeovers)
        log.close()
    assert states == [0, 1, 1], "before each of them counts its own takeover"
