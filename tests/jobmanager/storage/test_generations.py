"""A log that is restarted from a copy of the state: short at any age of the job, and complete.

Not covered: a job manager's decisions after reading (tests/sim restarts logs all the time;
tests/sim/generation_mutants.py).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jobmanager.config import JobConfig
from jobmanager.errors import BrokenFileError, JobRunningError
from jobmanager.manager.manager import JobManager
from jobmanager.manager.takeover import copy_of, recall
from jobmanager.state.messages import (
    LOG_CODEC,
    DrainRequested,
    JobStarted,
    Notice,
    StateCopied,
)
from jobmanager.storage.notice_log import (
    BEGINNING,
    NoticeLog,
    folder_of,
    parts_in_force,
    read_notices,
)
from jobmanager.storage.root import EPOCHS, NOTICES, JobRoot
from rstream import BlobStore, InlineBackground, MemoryBlobs, StoreError
from rstream.clock import ManualClock
from rvertex.messages import CheckpointTaken, Counts, HostReady, VertexFinished, VertexStarted
from tests.support.crashing_store import CrashingBlobs, DiedError, Life, deaths
from tests.support.shapes import chain

if TYPE_CHECKING:
    from jobmanager.state.job_state import JobState

CONFIG = JobConfig(log_notices_max=20)
HOME = ("a", "b", "c")


class Run:
    """A job manager with its log, like in a driver; every notice is durable at once."""

    def __init__(
        self,
        store: BlobStore,
        config: JobConfig = CONFIG,
        *,
        name: str = "m",
        kind: type[JobRoot] = JobRoot,
    ) -> None:
        self.root = kind(store, pid=1, machine=name)
        self.root.claim(1_000_000)
        self.background = InlineBackground()
        self.log = NoticeLog(self.root, ManualClock(7), config, self.background)
        self.known = self.log.replay()
        self.manager = JobManager(chain("async"), config)
        self.manager.recall(self.known)

    def take(self, *notices: Notice) -> None:
        for notice in notices:
            self.log.append(notice)
            self.manager.handle(notice)
        self.log.flush()

    def begin(self) -> None:
        self.take(JobStarted(1, 1_000_000), HostReady("h0.0", 0, 1, "m", "grpc://h0.0"))

    def checkpoint(self, seq: int) -> None:
        """Every vertex takes a checkpoint at ``seq``."""
        for name in HOME:
            (instance,) = self.manager.vertices[name].instances
            outputs = (seq,)
            parts = (f"checkpoints/{name}/parts/{seq}",)
            path = f"checkpoints/{name}/{seq}"
            at = (seq,)
            self.take(
                CheckpointTaken(
                    name, instance.epoch, path, at, outputs, 9, at, parts, seq, asked=False
                )
            )

    def look_after_log(self) -> None:
        """Do the work of a driver's tick."""
        if self.log.has_durable_copy:
            for name in self.log.truncate():
                self.root.store.delete(name)
        elif self.log.is_long:
            self.log.append_copy(self.manager.copy_state())
            self.log.flush()


def age(run: Run, first: int, last: int) -> None:
    for seq in range(first, last):
        run.checkpoint(seq)
        run.look_after_log()


def facts(job: JobState) -> object:
    """Return the facts that a successor must know about a job."""
    copied = copy_of(job)
    vertices = [replace(v, parts=tuple(sorted(v.parts))) for v in copied.vertices]
    return replace(copied, vertices=tuple(vertices))


def test_a_takeover_reads_as_little_for_an_old_job_as_for_a_new_one() -> None:
    store = MemoryBlobs()
    run = Run(store)
    run.begin()
    read, files = [], []
    for lived in (10, 50, 150):
        age(run, run.manager.tracker.newest("a").outputs[0] + 1, lived)
        read.append(len(read_notices(store)))
        files.append(len(store.list(NOTICES)))
    limit = CONFIG.log_notices_max + 2 * len(HOME) + 1
    assert max(read) <= limit, read
    assert max(files) <= limit + 3, files
    successor = Run(store, name="n")
    assert len(successor.known) == read[-1] == successor.log.notices
    assert isinstance(successor.known[0], StateCopied)
    for name in HOME:
        assert successor.manager.tracker.newest(name) == run.manager.tracker.newest(name)


def test_a_copy_has_the_state_of_the_notices() -> None:
    """A job manager that reads the copy has the same state as one that reads all notices."""
    run = Run(MemoryBlobs(), JobConfig())
    run.begin()
    age(run, 1, 4)
    (source,) = run.manager.vertices["a"].instances
    run.take(
        VertexStarted("h0.0", "a", source.epoch, (0,)),
        VertexFinished("a", source.epoch, (9,), (9,), (b"digest",), Counts(9, 9, lateness=b"x")),
    )
    copied = LOG_CODEC.decode(LOG_CODEC.encode(run.manager.copy_state()))
    successor = JobManager(chain("async"), CONFIG)
    recall(successor.job, JobStarted(3, 5, 7))
    recall(successor.job, copied)
    assert facts(successor.job) == facts(run.manager.job)
    assert successor.vertices["a"].is_finished
    assert successor.vertices["a"].digests == (b"digest",)
    assert successor.job.retain_us == 0, "what was read before the copy is forgotten"


def test_a_log_is_not_restarted_from_a_copy_that_is_not_durable() -> None:
    run = Run(MemoryBlobs())
    run.begin()
    run.take(*(DrainRequested("nobody") for _ in range(CONFIG.log_notices_max)))
    assert run.log.is_long
    run.log.append_copy(run.manager.copy_state())
    assert not run.log.has_durable_copy
    run.log.flush()
    assert run.log.has_durable_copy


def test_copies_are_a_small_part_of_the_written_bytes() -> None:
    run = Run(MemoryBlobs(), replace(CONFIG, log_notices_max=10_000, log_bytes_max=1))
    run.begin()
    age(run, 1, 30)
    notices = [notice for _, notice in read_notices(run.root.store)]
    copies = [LOG_CODEC.encode(n) for n in notices if isinstance(n, StateCopied)]
    assert copies
    bytes_since = run.log._bytes - len(copies[-1])
    assert bytes_since <= 2 * len(copies[-1])


def test_files_of_earlier_job_managers_are_deleted() -> None:
    """The first log of a successor makes their logs and claims obsolete."""
    store = MemoryBlobs()
    for life in range(1, 8):
        run = Run(store, name=f"m{life}")
        run.begin() if life == 1 else None
    run.take(*(DrainRequested("nobody") for _ in range(CONFIG.log_notices_max)))
    for _ in range(2):
        run.look_after_log()
    assert store.list(EPOCHS) == [f"{EPOCHS}/{run.root.epoch:010d}"]
    assert {path.split("/")[1] for path in store.list(NOTICES)} == {f"{run.root.epoch:010d}"}
    assert Run(store, name="n").root.epoch == run.root.epoch + 1


def test_a_deleted_claim_is_not_claimed_again() -> None:
    """A process read the newest epoch, then slept while others claimed and ended."""
    store = MemoryBlobs()
    late = JobRoot(store, pid=2, machine="late")
    seen = late.check_idle(1_000_000)
    for life in range(3):
        run = Run(store, name=f"m{life}")
    run.begin()
    run.take(*(DrainRequested("nobody") for _ in range(CONFIG.log_notices_max)))
    for _ in range(2):
        run.look_after_log()
    with pytest.raises(JobRunningError):
        late.claim(1_000_000, after=seen)
    run.root.check_owner()
    assert store.list(EPOCHS) == [f"{EPOCHS}/{run.root.epoch:010d}"]


def test_an_owner_whose_claim_was_deleted_notices_that_it_was_replaced() -> None:
    store = MemoryBlobs()
    asleep = Run(store, name="asleep")
    for life in range(3):
        run = Run(store, name=f"m{life}")
    run.begin()
    run.take(*(DrainRequested("nobody") for _ in range(CONFIG.log_notices_max)))
    for _ in range(2):
        run.look_after_log()
    with pytest.raises(JobRunningError):
        asleep.root.check_owner()


def test_notices_deleted_during_a_read_are_taken_from_the_copy() -> None:
    """A job manager that was just replaced completes its call, since its check came earlier."""
    store = MemoryBlobs()
    old = Run(store)
    old.begin()
    old.take(*(DrainRequested(f"{k}") for k in range(CONFIG.log_notices_max)))
    old.look_after_log()
    assert old.log.has_durable_copy
    new_root = JobRoot(store, pid=1, machine="n")
    new_root.claim(1_000_000)
    log = NoticeLog(new_root, ManualClock(7), CONFIG, InlineBackground())
    for name in old.log.truncate():
        store.delete(name)
    for path in store.list(folder_of(1)):
        if path.endswith("1.parquet") and path != max(store.list(folder_of(1))):
            store.delete(path)
    (first, *_) = log.replay()
    assert isinstance(first, StateCopied)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"seq": "x"}', b'{"seq": 900}'])
def test_an_unreadable_first_file_is_named(data: bytes) -> None:
    store = MemoryBlobs()
    run = Run(store)
    run.begin()
    age(run, 1, 20)
    path = f"{folder_of(1)}/{BEGINNING}"
    assert store.exists(path)
    store.put(path, data)
    with pytest.raises(BrokenFileError, match="notices/0000000001"):
        parts_in_force(store)


def log_and_copy(store: BlobStore, told: list[int]) -> None:
    """Take over, continue counting, restart the log twice; ``told``: the durable numbers."""
    root = JobRoot(store, pid=1, machine="m")
    root.claim(1_000_000)
    log = NoticeLog(root, ManualClock(7), CONFIG, InlineBackground())
    count = value_of(log.replay())
    assert not told or told[-1] <= count
    for _ in range(2):
        for _ in range(2):
            log.append(DrainRequested(f"{count}"))
            count += 1
        log.append_copy(StateCopied(count, 0, 0, 0, 0, 0, (), False, False, ()))
        log.append(DrainRequested(f"{count}"))
        count += 1
        log._stream.flush(0)
        told.append(count)
        root.check_owner()
        assert log.has_durable_copy
        for name in log.truncate():
            store.delete(name)


def value_of(notices: list[Notice]) -> int:
    """Each notice is the next number; a copy has the count so far."""
    count = 0
    for k, notice in enumerate(notices):
        if isinstance(notice, StateCopied):
            assert k == 0 or notice.epoch == count
            count = notice.epoch
        else:
            assert isinstance(notice, DrainRequested)
            assert notice.host == f"{count}"
            count += 1
    return count


def test_a_process_dies_at_every_call_while_it_restarts_the_log() -> None:
    """The second owner of a root dies while it truncates the log and deletes the first one's."""
    store, undisturbed, before = MemoryBlobs(), Life(), list[int]()
    log_and_copy(store, before)
    log_and_copy(CrashingBlobs(store, undisturbed), list(before))
    for at, how in deaths(undisturbed.calls, is_atomic=True):
        store, told = MemoryBlobs(), list[int]()
        log_and_copy(store, told)
        life = Life(at, how)
        with contextlib.suppress(DiedError, StoreError):
            log_and_copy(CrashingBlobs(store, life), told)
        assert life.is_dead
        where = f"{how} call {at}, {life.calls[-1]}"
        found = value_of([notice for _, notice in read_notices(store)])
        assert told[-1] <= found <= told[-1] + 3, where
        log_and_copy(store, told)
        assert value_of([notice for _, notice in read_notices(store)]) == told[-1], where
