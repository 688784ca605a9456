"""The order of a driver's upkeep of its root at each tick.

Cannot catch: a driver that does not call it (``tests/sim`` does).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager.driver.root_keeper import RootKeeper
from jobmanager.errors import JobRunningError
from jobmanager.storage.root import JobRoot
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


def look_after(run: Run, keeper: RootKeeper) -> None:
    keeper.look_after(run.manager, lambda request: None, lambda: None)


def test_a_copy_that_becomes_durable_after_the_look_waits_for_the_next_look() -> None:
    """A successor that claims in between has read the log without the copy, and needs all of it."""
    run, root, keeper = aged()

    def take_over_then_flush() -> None:
        JobRoot(run.root.store, pid=2, machine="m").claim(2_000_000)
        run.log.flush()

    root.after = take_over_then_flush
    there = set(run.root.store.list())
    look_after(run, keeper)
    assert run.log.has_durable_copy
    assert there <= set(run.root.store.list()), "the successor's log lost files"
    with pytest.raises(JobRunningError):
        look_after(run, keeper)
    assert keeper.is_replaced
    assert there <= set(run.root.store.list())


def test_a_durable_copy_begins_the_log_anew_and_deletes_what_came_before() -> None:
    run, _, keeper = aged()
    run.log.flush()
    there = set(run.root.store.list())
    look_after(run, keeper)
    assert not there <= set(run.root.store.list())
    assert not run.log.has_durable_copy
