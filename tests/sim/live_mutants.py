"""Planted bugs of live sources: a successor decides differently from its predecessor.

Planted bugs of live sources: a successor decides other than its predecessor did.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rvertex.checkpoint.intake import Intake
from rvertex.host.log_feed import LogFeed
from rvertex.sources.logs.folder import FolderLog
from rvertex.vertex.idle import Looks, PartitionFacts
from rvertex.vertex.log_channel import LogChannel
from rvertex.vertex.log_input import LogInput
from tests.sim.planting import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rvertex.sources.logs.entries import LogEntry

CRASHES = ("crash_host", "crash_all", "trap_host")
ZOMBIES = ("zombie", "partition", "cut_control")


def a_choice_is_not_written_down() -> Mutant:
    """Entries of the journal take effect without being stored, so a successor lacks them."""

    def write(self: Any, entries: Sequence[LogEntry], background: Any, wake: Any) -> None:
        for entry in entries:
            self._told[entry.partition] += 1
        stored: Future[str] = Future()
        stored.set_result("")
        self._pending = tuple(entries), stored
        self._unnamed.append((self._number, *self._told))
        self._number += 1

    return Mutant(Intake, "write", write, CRASHES, live=True)


def a_choice_is_written_down_after_its_use() -> Mutant:
    """Entries of the journal take effect before they are durable."""
    original = Intake.write

    def write(self: Any, entries: Sequence[LogEntry], background: Any, wake: Any) -> None:
        self._log.decide(entries, self._number)
        original(self, entries, background, wake)

    kinds = (*CRASHES, "slow_store")
    more = ((Intake, "holds", lambda self, partition: False),)
    return Mutant(Intake, "write", write, kinds, more, live=True)


def rows_overtake_an_entry_on_its_way() -> Mutant:
    """A partition is read on while one of its entries is not durable."""
    kinds = ("slow_store", "straggler")
    return Mutant(Intake, "holds", lambda self, partition: False, kinds, live=True)


def a_partition_is_silent_though_rows_were_fetched() -> Mutant:
    """Only a timer decides, regardless of the log's reported end."""
    is_idle = lambda self, now_s, after_s: not self.is_ended  # noqa: E731
    return Mutant(PartitionFacts, "is_idle", is_idle, live=True)


def promises_climb_on_promises() -> Mutant:
    """A silent partition follows the CTIs of other silent partitions instead of times of rows."""
    original = LogFeed._facts

    def facts(self: Any, **options: Any) -> list[PartitionFacts]:
        return [replace(f, rows_frontier=f.frontier) for f in original(self, **options)]

    return Mutant(LogFeed, "_facts", facts, live=True)


def the_others_are_read_on_meanwhile() -> Mutant:
    """The frontiers when the decision is made are used, not those when the log was queried."""
    return Mutant(Looks, "at", lambda self, time_s: self._looks[-1], live=True)


def the_cut_off_use_rows() -> Mutant:
    """An instance continues although its job manager has not confirmed it for long."""
    return Mutant(LogFeed, "_has_lease", lambda self: True, ZOMBIES, live=True)


def entries_go_with_any_checkpoint() -> Mutant:
    """A checkpoint names journal blobs although their entries have not taken effect."""

    def names(self: Any) -> tuple[str, ...]:
        return tuple(self._journal.name(number) for number, *_ in self._unnamed)

    return Mutant(Intake, "names", names, CRASHES, live=True)


def a_state_forgets_its_entries() -> Mutant:
    """Entries before the snapshot are applied again."""
    original = LogChannel.load

    def load(self: Any, books: dict[str, Any], reorder: Any) -> None:
        original(self, {**books, "entries": max(0, books["entries"] - 1)}, reorder)

    return Mutant(LogChannel, "load", load, CRASHES, live=True)


def a_file_is_taken_twice() -> Mutant:
    """A successor does not know which files were entered before its checkpoint."""
    original = LogInput.files

    def files(self: Any) -> list[LogEntry]:
        taken = {entry.path for entry in original(self)}
        return [e for e in original(self) if e in self._fresh_files] if taken else []

    return Mutant(LogInput, "files", files, CRASHES, live=True)


def a_file_is_entered_before_it_is_whole() -> Mutant:
    """A file is entered after one scan."""
    original = FolderLog._compare

    def compare(self: Any, scan: Any) -> None:
        self._seen = scan.files
        original(self, scan)

    return Mutant(FolderLog, "_compare", compare, live=True)


LIVE_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    a_choice_is_not_written_down,
    a_choice_is_written_down_after_its_use,
    rows_overtake_an_entry_on_its_way,
    a_partition_is_silent_though_rows_were_fetched,
    promises_climb_on_promises,
    the_others_are_read_on_meanwhile,
    the_cut_off_use_rows,
    entries_go_with_any_checkpoint,
    a_state_forgets_its_entries,
    a_file_is_taken_twice,
    a_file_is_entered_before_it_is_whole,
)
