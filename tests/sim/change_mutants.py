"""Planted bugs in changes of running jobs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from jobmanager.driver import root_keeper
from jobmanager.driver.job_deliveries import JobDeliveries
from jobmanager.driver.running.changes import apply, cut, drafting, ends, pending, taking
from jobmanager.driver.running.changes.ends import truncate
from jobmanager.driver.running.changes.generation import Builder
from jobmanager.driver.running.changes.rescaled import Rescaler
from jobmanager.manager import stopping
from jobmanager.storage.root import PLAN
from rstream.items.hashing import slots_of
from rstream.log import durable
from rstream.store.fences import valid_segments
from rvertex.checkpoint.ranges.slots import SlotRange
from rvertex.events.arrays import as_one_array
from rvertex.host.parking import Processes
from rvertex.vertex import partitioner
from tests.sim.planting import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable

TRAPS = ("trap_changing",)
CRASHES = ("crash_changing",)
FREEZES = ("freeze_changing",)
#: Calls of a store between two writes that must not be in this order.
LOOKS = 40


def a_range_is_owned_twice() -> Mutant:
    """Bug: each new vertex gets the whole state of the old vertices."""
    whole = lambda self, stage, states, slots, all_slots: tuple(states)  # noqa: E731
    return Mutant(Rescaler, "_restricted", whole, change=True)


def a_row_at_a_bound_goes_to_the_range_before() -> Mutant:
    """Writers take the first slot of a range for the last one of the range before."""

    def one_too_far(edge: Any, slots: Any) -> Any:
        return np.array(edge.owners)[np.searchsorted(edge.bounds, slots, side="left")]

    return Mutant(partitioner, "owners_of", one_too_far, change=True)


def a_range_ends_one_slot_too_late() -> Mutant:
    """The state of the key at a bound goes to both ranges."""

    def mask(self: SlotRange, columns: Any) -> Any:
        slots = slots_of([as_one_array(pa.chunked_array([column])) for column in columns])
        return (slots >= self.lo) & (slots <= self.hi)

    return Mutant(SlotRange, "mask", mask, change=True)


def a_row_is_left_behind() -> Mutant:
    """Rows that no vertex has read yet are lost at a rescale."""
    return Mutant(Rescaler, "_lanes", lambda self, vertex, old, slots: {}, change=True)


def a_file_goes_that_a_savepoint_names() -> Mutant:
    """The deletion of obsolete files ignores savepoints."""
    return Mutant(root_keeper, "named_files", lambda store: frozenset(), change=True)


def files_of_a_new_savepoint_are_deleted() -> Mutant:
    """A job manager that has read which files savepoints name does not read it again."""
    return Mutant(root_keeper.RootKeeper, "note_savepoint", lambda self: None, change=True)


def rows_on_their_way_are_not_saved() -> Mutant:
    """A savepoint has no items between the checkpoints of two vertices."""
    return Mutant(taking, "rests_of", lambda job, plan, refs: (), change=True)


def rows_are_left_out_at_the_change() -> Mutant:
    """The output continues one row later than it ended."""
    original = Rescaler._with_outputs

    def with_outputs(self: Any, vertex: Any, snapshot: Any) -> Any:
        made = original(self, vertex, snapshot)
        return replace(made, outputs=tuple(o and o + 1 for o in made.outputs))

    return Mutant(Rescaler, "_with_outputs", with_outputs, change=True)


def rows_are_repeated_at_the_change() -> Mutant:
    """A deployed query starts to write one row too early."""
    original = Builder._with_outputs

    def with_outputs(self: Any, *given: Any) -> Any:
        made = original(self, *given)
        return replace(made, outputs=tuple(o and o - 1 for o in made.outputs))

    return Mutant(Builder, "_with_outputs", with_outputs, change=True)


def the_new_plan_is_written_before_the_commit() -> Mutant:
    """A crash between the two writes leaves the new plan and the old log."""
    original = apply._commit

    def commit(drafted: Any, change: Any, shell: Any) -> Any:
        root, store = drafted.draft.final, drafted.draft.final.store
        placed = store.get(f"{change.drawn_folder(root.epoch)}/{pending.PLACED}")
        store.put(root.own_path(PLAN), placed)
        for _ in range(LOOKS):  # so that a process often dies in between
            store.list(pending.COMMITS)
        return original(drafted, change, shell)

    return Mutant(apply, "_commit", commit, TRAPS, change=True)


def nobody_looks_whether_all_are_level() -> Mutant:
    """Sources stop before restarted vertices have caught up, so checkpoints are inconsistent."""
    return Mutant(
        stopping,
        "_have_caught_up",
        lambda job: True,
        CRASHES,
        more=(
            (cut, "_check_ends", lambda *given: None),
            (ends, "reaches_beyond", lambda *given: False),
            (JobDeliveries, "have_caught_up", property(lambda self: True)),
        ),
        change=True,
        # fences hide rows after the cut from readers, but destinations have received them
        deliver=True,
    )


def a_rollback_goes_to_another_time() -> Mutant:
    """The output is rolled back one row further than the state."""

    def too_far(store: Any, end: int, generation: int) -> None:
        truncate(store, max(end - 1, 0), generation)

    return Mutant(apply, "truncate", too_far, change=True)


def a_rollback_takes_back_what_was_delivered() -> Mutant:
    """The rollback does not check whether rows since the change were delivered."""
    return Mutant(drafting, "end_of", lambda cut, stream: 0, change=True, deliver=True)


def a_change_is_closed_before_its_log_begins() -> Mutant:
    """Its commit file is deleted too early: a crash leaves the new plan with the old log."""
    original = apply.begin_log

    def begin_log(root: Any, copy: Any, shell: Any) -> None:
        for path in root.store.list(pending.COMMITS):
            root.store.delete(path)
        original(root, copy, shell)

    return Mutant(apply, "begin_log", begin_log, TRAPS, change=True)


def a_suspended_host_writes_on() -> Mutant:
    """Readers ignore fences: later writes of a former generation's host count."""
    counting = partial(valid_segments, before=0)
    return Mutant(durable, "valid_segments", counting, FREEZES, change=True)


def a_process_that_has_ended_is_given_a_host() -> Mutant:
    """A process that has died while it waited for its next host is still used for a host."""

    def end(self: Processes[Any], process: Any) -> str:
        return "" if self.is_parked(process) else self._hosts.pop(process, "")

    return Mutant(Processes, "end", end, CRASHES, change=True)


CHANGE_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    a_range_is_owned_twice,
    a_row_at_a_bound_goes_to_the_range_before,
    a_range_ends_one_slot_too_late,
    a_row_is_left_behind,
    a_file_goes_that_a_savepoint_names,
    files_of_a_new_savepoint_are_deleted,
    rows_on_their_way_are_not_saved,
    rows_are_left_out_at_the_change,
    rows_are_repeated_at_the_change,
    the_new_plan_is_written_before_the_commit,
    nobody_looks_whether_all_are_level,
    a_rollback_goes_to_another_time,
    a_rollback_takes_back_what_was_delivered,
    a_change_is_closed_before_its_log_begins,
    a_suspended_host_writes_on,
    a_process_that_has_ended_is_given_a_host,
)
