"""Planted bugs of the recovery strategies: replay, replicas, joins, twins, incremental checkpoints.

See :mod:`tests.sim.mutants`.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import jobmanager.manager.collection
import jobmanager.manager.instances
import jobmanager.manager.joining
import jobmanager.manager.takeover
from jobmanager.driver.root_keeper import RootKeeper
from jobmanager.state import low_water_marks
from jobmanager.state.job_state import JobState
from jobmanager.state.messages import DeleteFiles, Feed, TwinLevel
from jobmanager.state.tracker import SnapshotTracker
from jobmanager.storage.root import JobRoot
from rstream import Items
from rvertex.host.input_channel import InputChannelReader
from rvertex.vertex.replay import ReplayPoints
from rvertex.vertex.rvertex import RVertex
from tests.sim.planting import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable

DEATHS = ("crash_host", "crash_all")


def replay_puts_out_what_it_repeats() -> Mutant:
    """While a state is rebuilt, the vertex's output is written."""
    original = RVertex.execute

    def execute(self: Any) -> Any:
        target, self._target = self._target, None
        result = original(self)
        if target is not None:
            self._target = target
            self._end_replay()
        return result

    return Mutant(RVertex, "execute", execute, DEATHS)


def no_state_reaches_back() -> Mutant:
    """A replayed vertex does not read items from before the last CTI, which its state needs."""
    original = ReplayPoints.__init__
    return Mutant(ReplayPoints, "__init__", lambda self, horizon_us: original(self, 0), DEATHS)


def marks_forget_what_replay_reads() -> Mutant:
    """Inputs are collected up to the checkpoint instead of the start of the replay."""
    original = low_water_marks.low_water_marks

    def inputs_only(topology: Any, *args: Any) -> Any:
        low = original(topology, *args)
        marks = {
            stream.id: None if ref is None else ref.inputs[k]
            for name, ref in low.keep.items()
            for k, stream in enumerate(topology.vertices[name].inputs)
        }
        return replace(low, marks={**low.marks, **marks})

    return Mutant(jobmanager.manager.collection, "low_water_marks", inputs_only)


def memory_is_not_held_for_replay() -> Mutant:
    """Writers drop the items that a replayed vertex has consumed."""
    return Mutant(JobState, "held", lambda self, vertex, k: self.consumed(vertex)[k])


def an_item_is_skipped_at_a_new_endpoint() -> Mutant:
    """A reader that continues at another instance misses one item."""
    return _wrong_at_a_new_endpoint(lambda b: pa.concat_batches([b.slice(1), b.slice(len(b) - 1)]))


def an_item_is_repeated_at_a_new_endpoint() -> Mutant:
    """A reader that continues at another instance gets one item twice."""
    return _wrong_at_a_new_endpoint(
        lambda b: pa.concat_batches([b.slice(0, 1), b.slice(0, len(b) - 1)])
    )


def _wrong_at_a_new_endpoint(change: Callable[[Any], Any]) -> Mutant:
    original = InputChannelReader.read

    def read(self: Any, seq: int, rows_max: int) -> Any:
        had_read, former = self._has_read, self._attached
        items = original(self, seq, rows_max)
        self.is_new = getattr(self, "is_new", False) or (had_read and self._attached is not former)
        if items is None or not self.is_new or items.batch.num_rows < 2:
            return items
        self.is_new = False
        return Items(items.first_seq, change(items.batch))

    return Mutant(InputChannelReader, "read", read, ("crash_host", "cut_data", "cut_control"))


def joins_do_not_hold_the_marks() -> Mutant:
    """Items are deleted although a new instance will read them after its checkpoint is taken."""

    def positions(self: Any, vertex: str) -> Any:
        return [i.consumed for i in self.vertices[vertex].instances]

    return Mutant(JobState, "positions", positions, ("drain",))


def a_twin_counts_as_level_at_once() -> Mutant:
    """The old instance is retired as soon as the new one runs."""

    def compare_twins(job: Any, _: Any) -> None:
        for vertex, twin in job.instances():
            old = None if twin.replaces is None else job.instance(vertex.shape.id, twin.replaces)
            if old is not None and not twin.is_level_reported and job.is_running(twin):
                twin.is_level_reported = True
                job.out.append(Feed(TwinLevel(vertex.shape.id, old.epoch, twin.epoch)))

    return Mutant(jobmanager.manager.joining, "compare_twins", compare_twins, ("drain",))


def a_newcomer_has_no_parts() -> Mutant:
    """Parts of checkpoints are deleted although a new instance's first checkpoint may name them."""
    original = jobmanager.manager.instances.new_instance

    def new_instance(*args: Any) -> Any:
        instance = original(*args)
        instance.parts = ()
        return instance

    more = ((jobmanager.manager.joining, "new_instance", new_instance),)
    return Mutant(jobmanager.manager.instances, "new_instance", new_instance, ("crash_host",), more)


def what_the_living_store_is_left_behind() -> Mutant:
    """Bug: files of a live instance count as those of a dead one."""
    original = RootKeeper.note_leftovers

    def note(self: Any, found: Any) -> None:
        original(self, replace(found, present=()))

    return Mutant(RootKeeper, "note_leftovers", note, ("crash_host",))


def what_is_named_is_left_behind() -> Mutant:
    """Files of a dead instance are deleted even if a kept checkpoint names them."""
    original = RootKeeper.note_leftovers

    def note(self: Any, found: Any) -> None:
        original(self, replace(found, needed=()))

    return Mutant(RootKeeper, "note_leftovers", note, DEATHS)


def a_checkpoint_takes_all_its_parts_along() -> Mutant:
    """Parts are deleted with the first obsolete checkpoint that names them."""

    def delete(job: Any, vertex: Any, names: list[str]) -> None:
        parts = tuple(vertex.parts)
        vertex.parts.clear()
        job.out.append(DeleteFiles((*names, *parts)))

    return Mutant(jobmanager.manager.collection, "_delete", delete)


def a_replaced_manager_goes_on() -> Mutant:
    """A suspended job manager does not check whether another one has taken over."""
    return Mutant(JobRoot, "check_owner", lambda self: None, ("woken_manager",))


def a_successor_applies_the_marks_less_often() -> Mutant:
    """A successor that reads the log deletes obsolete items only once per round of checkpoints."""

    def collect_now_and_then(job: JobState) -> None:
        job.uncollected += 1
        if job.uncollected >= len(job.vertices):
            jobmanager.manager.collection.collect_durable(job)

    return Mutant(jobmanager.manager.takeover, "collect_now_and_then", collect_now_and_then)


def only_the_oldest_is_asked_where_a_checkpoint_reads() -> Mutant:
    """Only the oldest kept checkpoint is compared: a bug that seed 120138 found."""

    def add(self: Any, vertex: str, ref: Any) -> bool:
        refs = self._refs[vertex]
        is_usable = all(map(operator.ge, ref.reads, refs[0].reads))
        if is_usable:
            refs.insert(sum(other.precedes(ref) for other in refs), ref)
        return is_usable

    def drop_before(self: Any, vertex: str, keep: Any) -> list[Any]:
        refs = self._refs[vertex]
        left = [r for r in refs[refs.index(keep) :] if all(map(operator.ge, r.reads, keep.reads))]
        self._refs[vertex] = left
        return [r for r in refs if r.name and r not in left]

    more = (
        (SnapshotTracker, "drop_before", drop_before),
        (SnapshotTracker, "check", lambda self: None),
    )
    return Mutant(SnapshotTracker, "add", add, ("crash_host", "trap_host", "partition"), more)


RECOVERY_MUTANTS: tuple[Callable[[], Mutant], ...] = (
    replay_puts_out_what_it_repeats,
    no_state_reaches_back,
    marks_forget_what_replay_reads,
    memory_is_not_held_for_replay,
    an_item_is_skipped_at_a_new_endpoint,
    an_item_is_repeated_at_a_new_endpoint,
    joins_do_not_hold_the_marks,
    a_twin_counts_as_level_at_once,
    a_newcomer_has_no_parts,
    what_the_living_store_is_left_behind,
    what_is_named_is_left_behind,
    a_checkpoint_takes_all_its_parts_along,
    a_replaced_manager_goes_on,
    a_successor_applies_the_marks_less_often,
    only_the_oldest_is_asked_where_a_checkpoint_reads,
)
