"""A process dies at every call of its store while it takes a root over, logs notices, writes down.

Laws: what was acknowledged is found by who comes next, in order and nothing twice; what was not may
be there or not, but is never half there. See tests/rstream/log/test_crash_at_every_call.py.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from jobmanager.config import JobConfig
from jobmanager.state.messages import DrainRequested
from jobmanager.storage.notice_log import NoticeLog
from jobmanager.storage.root import JobRoot
from rstream import InlineBackground, MemoryBlobs, StoreError
from rstream.clock import ManualClock
from rvertex.checkpoint.journal import Journal
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream import BlobStore

#: What a process says that is durable.
Told = list[str]


def manage(store: BlobStore, told: Told) -> None:
    """Take the root over, log three notices, make them durable after the second and the third."""
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
    """What the next job manager finds."""
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
    """It is the second one on the root: the first has left something, the third goes on."""
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
