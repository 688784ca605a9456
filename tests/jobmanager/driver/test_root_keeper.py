"""A driver's upkeep of its root at each tick: its order, and which files it deletes.

Not covered: a driver that does not call it (``tests/sim`` does).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.root_keeper import KEPT_WAIT_S, RootKeeper
from jobmanager.errors import JobRunningError
from jobmanager.storage import savepoints
from jobmanager.storage.root import JobRoot
from jobmanager.storage.savepoints import SavedVertex, Savepoint
from rstream import ManualClock, MemoryBlobs
from tests.jobmanager.storage.test_generations import CONFIG, Run

if TYPE_CHECKING:
    from collections.abc import Callable


class WatchedRoot(JobRoot):
    """Runs a callback right after the owner was checked."""

    after: Callable[[], object] | None = None

    def check_owner(self) -> None:
        super().check_owner()
        if self.after is not None:
            after, self.after = self.after, None
            after()


def aged() -> tuple[Run, WatchedRoot, RootKeeper]:
    """A job manager that took over a root.

    Its log has a copy of the state that is not durable yet.
    """
    store = MemoryBlobs()
    first = Run(store)
    first.begin()
    run = Run(store, kind=WatchedRoot)
    root = run.root
    assert isinstance(root, WatchedRoot)
    keeper = RootKeeper(root, run.log, CONFIG, ManualClock(7), lambda s: None, lambda: None)
    run.log.append_copy(run.manager.copy_state())
    return run, root, keeper


def maintain(run: Run, keeper: RootKeeper) -> None:
    keeper.maintain(run.manager, lambda request: None, lambda: None)


def test_a_copy_that_becomes_durable_after_the_check_waits_for_the_next_one() -> None:
    """A successor that claims in between has read the log without the copy, and needs all of it."""
    run, root, keeper = aged()

    def take_over_then_flush() -> None:
        JobRoot(run.root.store, pid=2, machine="m").claim(2_000_000)
        run.log.flush()

    root.after = take_over_then_flush
    there = set(run.root.store.list())
    maintain(run, keeper)
    assert run.log.has_durable_copy
    assert there <= set(run.root.store.list()), "the successor's log lost files"
    with pytest.raises(JobRunningError):
        maintain(run, keeper)
    assert keeper.is_replaced
    assert there <= set(run.root.store.list())


def test_a_durable_copy_restarts_the_log_and_deletes_older_files() -> None:
    run, _, keeper = aged()
    run.log.flush()
    there = set(run.root.store.list())
    maintain(run, keeper)
    assert not there <= set(run.root.store.list())
    assert not run.log.has_durable_copy


OLD, NEW = "checkpoints/a/1", "checkpoints/a/2"


def saving() -> tuple[Run, RootKeeper, ManualClock]:
    """A job manager with a savepoint that names OLD. OLD and another file are obsolete."""
    run, clock = Run(MemoryBlobs()), ManualClock(7)
    keeper = RootKeeper(run.root, run.log, CONFIG, clock, lambda s: None, lambda: None)
    for name in (OLD, NEW, "checkpoints/a/0"):
        run.root.store.put(name, b"")
    save(run, OLD)
    keeper.make_obsolete([OLD, "checkpoints/a/0"])
    return run, keeper, clock


def save(run: Run, checkpoint: str) -> Savepoint:
    """Take or replace the savepoint ``now``."""
    store = run.root.store
    version = savepoints.new_version(store, "now", 1)
    vertex = SavedVertex("a", checkpoint, (), (), ())
    savepoint = Savepoint("now", 1, 0, "", 1, 1, 0, (vertex,), version=version)
    savepoints.complete(store, savepoint)
    savepoints.delete_replaced(store, savepoint)
    return savepoint


def left(run: Run) -> list[str]:
    return sorted(run.root.store.list("checkpoints"))


@pytest.mark.parametrize("is_replaced", [False, True])
def test_files_of_a_deleted_savepoint_are_deleted(is_replaced: bool) -> None:
    """Each replacement of a savepoint left the files of the former one for ever."""
    run, keeper, clock = saving()
    maintain(run, keeper)
    assert left(run) == [OLD, NEW]
    maintain(run, keeper)
    if is_replaced:
        save(run, NEW)
        keeper.note_savepoint()
    else:
        savepoints.expire(run.root.store, "now")
        clock.advance(int(KEPT_WAIT_S * 1e6))
    maintain(run, keeper)
    assert left(run) == [NEW]


def test_no_file_is_deleted_while_a_savepoint_is_damaged() -> None:
    """The error ended the running job."""
    run, keeper, clock = saving()
    (path,) = savepoints.manifests(run.root.store, savepoints.FOLDER).values()
    whole = run.root.store.get(path)
    run.root.store.put(path, b"{")
    for _ in range(3):
        maintain(run, keeper)
        clock.advance(int(CONFIG.store_wait_s * 1e6))
    assert f"{path}: " in keeper.broken
    assert len(left(run)) == 3
    run.root.store.put(path, whole)
    maintain(run, keeper)
    assert not keeper.broken
    assert left(run) == [OLD, NEW]
