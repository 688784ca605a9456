"""Planted bugs of endless jobs: a log restarted from a copy, and merged segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

from jobmanager.driver.root_keeper import RootKeeper
from jobmanager.manager import takeover
from jobmanager.storage.notice_log import NoticeLog
from rstream.log.compaction import Compactor
from tests.sim.decision_mutants import line
from tests.sim.planting import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobmanager.state.messages import StateCopied
    from rstream.types import SeqRange

FAULTS = ("crash_manager", "trap_manager", "trap_takeover", "crash_beginning")


def the_old_generation_goes_before_the_copy_is_durable() -> Mutant:
    """A log starts with a copy that is only in memory, and the notices before it are deleted."""
    has_copy = property(lambda self: self._copy_seq is not None)
    return Mutant(NoticeLog, "has_durable_copy", has_copy, FAULTS)


def a_notice_between_copy_and_beginning_is_lost() -> Mutant:
    """A copy is made at one tick and logged at the next one."""
    original = NoticeLog.append_copy
    held: dict[NoticeLog, StateCopied] = {}

    def append_copy(self: NoticeLog, copy: StateCopied) -> None:
        if self in held:
            original(self, held.pop(self))
        else:
            held[self] = copy

    return Mutant(NoticeLog, "append_copy", append_copy, FAULTS)


def a_replaced_manager_begins_the_log_anew() -> Mutant:
    """The job manager does not check for a successor after the copy became durable."""
    original = RootKeeper.maintain

    def maintain(self: RootKeeper, *how: object) -> None:
        if self._log.has_durable_copy:
            for name in self._log.truncate():
                self._root.store.delete(name)
        original(self, *how)  # type: ignore[arg-type]

    kinds = ("pause_manager", "woken_manager", "second_manager", "crash_manager")
    return Mutant(RootKeeper, "maintain", maintain, kinds)


def the_small_go_before_the_large_is_there() -> Mutant:
    """Segments are deleted while the merged segment is only in memory."""
    original = Compactor._merge

    def merge(self: Compactor, run: Sequence[SeqRange]) -> None:
        write = self._log.write

        def deleting(items: Any) -> None:
            for seqs in run:
                self._log._delete(seqs)
            write(items)

        with mock.patch.object(self._log, "write", deleting):
            original(self, run)

    return Mutant(Compactor, "_merge", merge, ("crash_host", "trap_host", "crash_reader"))


GENERATION_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    the_old_generation_goes_before_the_copy_is_durable,
    a_notice_between_copy_and_beginning_is_lost,
    a_replaced_manager_begins_the_log_anew,
    the_small_go_before_the_large_is_there,
    line(
        "a_copy_forgets_who_ended",
        takeover,
        "_begin_from",
        "is_finished=copy.is_finished",
        "is_finished=False",
        FAULTS,
    ),
    line(
        "a_copy_forgets_which_names_were_given",
        takeover,
        "_begin_from",
        "notice.epoch, notice.takeovers",
        "0, 0",
        FAULTS,
    ),
)
