"""A process dies at every store call while it takes over a root and logs notices.

Laws: a successor finds all acknowledged notices once and in order; other notices are there or not,
but never half. See tests/rstream/log/test_crash_at_every_call.py.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from jobmanager.config import JobConfig
from jobmanager.errors import BrokenFileError
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import DrainRequested
from jobmanager.state.topology import Topology
from jobmanager.storage.notice_log import FENCE, NoticeLog, read_notices
from jobmanager.storage.root import JobRoot
from rstream import InlineBackground, MemoryBlobs, StoreError
from rstream.clock import ManualClock
from rvertex.checkpoint.journal import Journal
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths
from tests.support.shapes import vertex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobmanager.state.messages import Notice
    from rstream import BlobStore

#: The notices that a process reported as durable.
Told = list[str]


def manage(store: BlobStore, told: Told) -> None:
    """Take over the root, log three notices, and flush after the second and the third."""
    root = JobRoot(store, pid=1, machine="m")
    root.claim(1_000_000)
    log = NoticeLog(root, ManualClock(7), JobConfig(), InlineBackground())
    said = [notice.host for notice in log.replay()]  # type: ignore[union-attr]
    assert said[: len(told)] == told
    count = len(said)
    for step in (2, 1):
        for host in (f"{count + k}" for k in range(step)):
            log.append(DrainRequested(host))
            said.append(host)
        count += step
        log._stream.flush(0)
        told[:] = said


def notices(store: BlobStore) -> Told:
    """Return the state that the next job manager reads."""
    root = JobRoot(store, pid=2, machine="n")
    root.claim(2_000_000)
    log = NoticeLog(root, ManualClock(7), JobConfig(), InlineBackground())
    return [notice.host for notice in log.replay()]  # type: ignore[union-attr]


def write_down(store: BlobStore, told: Told) -> None:
    journal = Journal(store, "values/v")
    numbers = journal.numbers()
    assert [data.decode() for data in journal.read(numbers)][: len(told)] == told
    told[:] = [data.decode() for data in journal.read(numbers)]
    for number in range(len(numbers), len(numbers) + 3):
        journal.append(number, b"%d" % number)
        told.append(f"{number}")


def entries(store: BlobStore) -> Told:
    journal = Journal(store, "values/v")
    return [data.decode() for data in journal.read(journal.numbers())]


@pytest.mark.parametrize(("work", "read"), [(manage, notices), (write_down, entries)])
def test_a_process_dies_at_every_call(
    work: Callable[[BlobStore, Told], None], read: Callable[[BlobStore], Told]
) -> None:
    """The process is the second one on the root; the first has left files, the third continues."""
    store, undisturbed, before = MemoryBlobs(), Life(), []
    work(store, before)
    work(CrashingBlobs(store, undisturbed), list(before))
    for at, how in deaths(undisturbed.calls, is_atomic=True):
        store, told = MemoryBlobs(), []
        work(store, told)
        life = Life(at, how)
        with contextlib.suppress(DiedError, StoreError):
            work(CrashingBlobs(store, life), told)
        assert life.is_dead
        where = f"{how} call {at}, {life.calls[-1]}"
        found = read(store)
        assert found[: len(told)] == told, where
        assert found == [f"{k}" for k in range(len(found))], where
        work(store, told)
        assert read(store) == [f"{k}" for k in range(len(told))], where


COPY = "copy"


def begin_anew(store: BlobStore, said: Told, durable: Told) -> None:
    """Take over the root, log notices, restart the log from a copy, and log another notice.

    ``said``: all logged notices; ``durable``: the acknowledged ones.
    """
    root = JobRoot(store, pid=1, machine="m")
    root.claim(1_000_000)
    log = NoticeLog(root, ManualClock(7), JobConfig(), InlineBackground())
    check_whole(told_of(log.replay()), said, durable)

    def append(*notices: str) -> None:
        for host in notices:
            said.append(host)
            log.append(DrainRequested(host))
        log._stream.flush(0)
        durable[:] = said

    append(f"{len(said)}", f"{len(said) + 1}")
    said.append(COPY)
    log.append_copy(JobManager(Topology([vertex("a", writes=["out"])]), JobConfig()).copy_state())
    was_durable = log.has_durable_copy
    append(f"{len(said)}")
    assert (was_durable, log.has_durable_copy) == (False, True)
    for path in log.truncate():
        root.check_owner()
        store.delete(path)
    root.check_owner()
    append(f"{len(said)}")


def told_of(notices: Sequence[Notice]) -> Told:
    return [n.host if isinstance(n, DrainRequested) else COPY for n in notices]


def check_whole(found: Told, said: Told, durable: Told) -> None:
    """Check that all acknowledged notices are there, from the start or from a copy."""
    starts = [0, *(k for k, host in enumerate(said) if host == COPY)]
    whole = [k for k in starts if said[k:][: len(found)] == found]
    assert whole, (found, said)
    assert min(whole) + len(found) >= len(durable), (found, durable)
    del said[min(whole) + len(found) :]  # no successor knows the rest


def test_a_process_dies_at_every_call_while_its_log_is_restarted() -> None:
    first, undisturbed, before = MemoryBlobs(), Life(), list[str]()
    begin_anew(first, before, [])
    assert len(before) == 5
    second = MemoryBlobs(dict(first.blobs))
    begin_anew(CrashingBlobs(second, undisturbed), list(before), list(before))
    for at, how in deaths(undisturbed.calls, is_atomic=True):
        if how == "torn":  # leaves a file that no listing shows
            continue
        store, life = MemoryBlobs(dict(first.blobs)), Life(at, how)
        said, durable = list(before), list(before)
        with contextlib.suppress(DiedError, StoreError):
            begin_anew(CrashingBlobs(store, life), said, durable)
        try:
            begin_anew(store, said, durable)
            found = told_of([notice for _, notice in read_notices(store)])
            check_whole(found, said, durable)
            assert found[0] == COPY
        except BaseException as error:
            error.add_note(f"{how} call {at}, {life.calls[-1]}")
            raise


def test_a_log_without_its_fence_is_rejected() -> None:
    """Without its fence it is unknown which earlier notices of a log are valid."""
    store = MemoryBlobs()
    for _ in range(2):
        manage(store, [])
    *_, newest = [path for path in store.list("notices") if path.endswith(FENCE)]
    store.delete(newest)
    with pytest.raises(BrokenFileError, match=f"{newest}.*it is gone"):
        read_notices(store)
