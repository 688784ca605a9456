"""A job manager whose decisions are checked against laws, notice by notice."""

from __future__ import annotations

from itertools import pairwise
from operator import ge
from typing import TYPE_CHECKING

from jobmanager.manager import takeover
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import (
    DeleteFiles,
    Record,
    StateCopied,
    Tell,
    TwinLevel,
    is_logged,
)
from jobmanager.state.topology import Topology
from rvertex.messages import CheckpointTaken, Collect, StartVertex, VertexFinished
from streamscope.testing.simulation.laws.decisions import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobmanager.state.messages import Instruction, Notice
    from jobmanager.state.records import InstanceState, VertexState
    from rvertex.vertex.spec import VertexSpec
    from streamscope.testing.simulation.scheduler import Scheduler
    from streamscope.testing.simulation.workload import Workload

Position = tuple[int, ...]


class WatchedManager(JobManager):
    """A job manager with checks: epochs only grow, and notices of old epochs have no effect."""

    def __init__(
        self, workload: Workload, vertices: Sequence[VertexSpec], world: Scheduler
    ) -> None:
        super().__init__(Topology(vertices), workload.config)
        self._world = world
        #: (Old instance, its twin) -> the old instance's input position when the twin started.
        self._pairs: dict[tuple[int, int], Position] = {}
        #: (Vertex, instance) that must store a checkpoint for a new instance -> position at the
        #: request.
        self._sources: dict[tuple[str, int], Position] = {}
        #: By checkpoint: the parts it names; below, the same for each instance's last checkpoint.
        self._parts_of: dict[str, tuple[str, ...]] = {}
        self._last_parts: dict[int, tuple[str, ...]] = {}
        #: Vertices that had ended and were restarted for a reader, which may have ended since.
        self._reopened: set[str] = set()
        #: A job manager that has recalled the same log, for comparison.
        self._successor = JobManager(self.topology, self.config)

    def copy_state(self) -> StateCopied:
        copy = super().copy_state()
        self._world.met["state copied"] += 1
        self._followed([copy])  # a successor that starts from now on reads the copy
        return copy

    def recall(self, notices: Iterable[Notice]) -> None:
        known = list(notices)
        if known and isinstance(known[0], StateCopied):
            self._world.met["takeover from a copy"] += 1
            for copied in known[0].vertices:
                for ref in copied.refs:
                    self._parts_of[ref.name] = ref.parts
        for notice in known:
            if isinstance(notice, CheckpointTaken):
                self._parts_of[notice.name] = notice.parts
            takeover.recall(self._successor.job, notice)
        super().recall(known)

    def handle(self, notice: Notice) -> list[Instruction]:
        newest = self.job.epoch
        epoch, name = getattr(notice, "epoch", None), getattr(notice, "vertex", "")
        rows = self.vertices[name].instances if name in self.vertices else []
        is_stale = epoch is not None and all(i.epoch != epoch for i in rows)
        before = repr(self.vertices.get(name)) if is_stale else ""
        if isinstance(notice, TwinLevel):
            self._is_level(notice)
        if isinstance(notice, CheckpointTaken):
            self._parts_of[notice.name] = self._last_parts[notice.epoch] = notice.parts
        is_recalled = is_logged(notice) and not self.is_stale(notice)
        decision = Decision(self, notice)
        out = super().handle(notice)
        for law, detail in decision.broken(out):
            self._world.violate(law, detail)
        if is_recalled:
            if isinstance(notice, VertexFinished):
                self._reopened.discard(name)
            self._followed([notice, *(i.notice for i in out if isinstance(i, Record))])
        self._count(notice, out, is_stale=is_stale)
        if is_stale and repr(self.vertices.get(name)) != before:
            self._world.violate("stale epochs change nothing", repr(notice)[:200])
        for vertex, instance in self.job.instances():
            if instance.epoch > newest and not self.job.epoch > newest:
                self._world.violate("epochs grow", vertex.shape.id)
            old = self.job.instance(vertex.shape.id, instance.replaces or 0)
            if old is not None:
                self._pairs.setdefault((old.epoch, instance.epoch), old.consumed)
        self.tracker.check()
        self._note_sources()
        if isinstance(notice, CheckpointTaken):
            self._reads_are_in_order(notice.vertex)
        self._is_in_order(newest)
        for instruction in out:
            if isinstance(instruction, Tell) and isinstance(instruction.instruction, Collect):
                self._check_collect(instruction.instruction)
            elif isinstance(instruction, DeleteFiles):
                self._check_deletion(instruction.names)
        return out

    def _followed(self, notices: Iterable[Notice]) -> None:
        """Law: a successor that recalls the log keeps the same newest checkpoints."""
        successor = self._successor
        for notice in notices:
            takeover.recall(successor.job, notice)
        successor.tracker.check()
        # A stopped job manager ignores notices, but they are still logged. So a successor may know
        # more checkpoints. That is safe: nothing is deleted any more, and ``checkers`` checks for
        # every successor that its files exist ("a successor uses no deleted checkpoint").
        if self.state == "stopped":
            return
        for vertex in self.topology.vertices:
            if not successor.job.is_retired(vertex):
                known, kept = successor.tracker.refs(vertex), self.tracker.refs(vertex)
                if list(known) != list(kept)[-len(known) :]:
                    detail = f"{vertex}: {[r.name for r in known]} of {[r.name for r in kept]}"
                    self._world.violate("a successor keeps the same checkpoints", detail)

    def _reads_are_in_order(self, vertex: str) -> None:
        """Law: of two kept checkpoints, the later one has no smaller input position (ADR 22)."""
        for one, other in pairwise(self.tracker.refs(vertex)):
            if not all(map(ge, other.reads, one.reads)):
                self._world.violate("checkpoints read in order", f"{vertex}: {one}, then {other}")

    def _note_sources(self) -> None:
        """Record the position of each instance that must store a checkpoint for a new instance."""
        sources = {
            (vertex.shape.id, join.source): self.job.instance(vertex.shape.id, join.source)
            for vertex in self.vertices.values()
            for join in vertex.joins
            if join.source is not None
        }
        self._sources = {
            one: self._sources.get(one, source.consumed)
            for one, source in sources.items()
            if source is not None
        }

    def _is_in_order(self, newest: int) -> None:
        """Check the laws of instances, of joins, and of new instances' start positions."""
        for vertex in self.vertices.values():
            name, there = vertex.shape.id, {i.epoch for i in vertex.instances}
            slots = [i.slot for i in vertex.instances] + [j.slot for j in vertex.joins]
            if len(slots) != len(set(slots)):
                self._world.violate("one slot per instance", f"{name}: {slots}")
            slots = [i.checkpoint_slot for i in vertex.instances if i.replaces is None]
            if len(slots) != len(set(slots)):
                self._world.violate("each instance has its checkpoint slot", f"{name}: {slots}")
            rests_on = {j.source for j in vertex.joins} | {j.replaces for j in vertex.joins}
            gone = (rests_on | {i.replaces for i in vertex.instances}) - there - {None}
            if gone:
                self._world.violate("nothing depends on an ended instance", f"{name}: {gone}")
            for new in (i for i in vertex.instances if i.epoch > newest):
                self._begins_right(vertex, new)

    def _begins_right(self, vertex: VertexState, new: InstanceState) -> None:
        """Law: a new instance's recorded position is its first read, and that input exists."""
        name, known = vertex.shape.id, {r.name: r for r in self.tracker.refs(vertex.shape.id)}
        if new.checkpoint not in known:
            self._world.violate(
                "instances begin from kept checkpoints", f"{name}: {new.checkpoint}"
            )
            return
        reads = known[new.checkpoint].reads
        if new.consumed != reads:
            self._world.violate("memory is held for a replay", f"{name}: {new.consumed}, {reads}")
        log = self._successor.job
        if log.vertices[name].is_finished and not log.is_retired(name):
            self._reopened.add(name)  # restarted for a reader, which still needs its memory
        elif log.is_retired(name) and not self._is_needed(name):
            self._world.violate("a retired vertex does not run again", name)
        # for a source, ``reads`` also has positions of its external input
        for seq, stream in zip(reads, vertex.shape.inputs, strict=False):
            writers = self.vertices[stream.writer.vertex].instances
            kept = [i.released.get(stream.id, 0) for i in writers]
            if not stream.is_durable and min(kept, default=0) > seq:
                detail = f"{name} begins at {seq} of {stream.id}, which is there from {kept}"
                self._world.violate("the input of a new instance exists", detail)

    def _is_needed(self, name: str) -> bool:
        """Return whether a vertex was restarted for its readers, or such a running vertex reads it.

        Such a vertex runs to its end even if its own readers finish before.
        """
        memory = [s.reader for s in self.vertices[name].shape.outputs if not s.is_durable]
        readers = (reader.vertex for reader in memory if reader is not None)
        return name in self._reopened or any(map(self._is_needed, readers))

    def _count(self, notice: Notice, out: list[Instruction], *, is_stale: bool) -> None:
        met, kind = self._world.met, type(notice).__name__
        met[f"notice {kind}"] += 1
        met["notice of one that is gone"] += is_stale
        for instruction in out:
            order = instruction.instruction if isinstance(instruction, Tell) else None
            if isinstance(order, StartVertex) and order.checkpoint:
                strategy = self.vertices[order.vertex].shape.recovery.strategy
                met[f"instance from a checkpoint by {strategy}"] += 1

    def _check_deletion(self, names: tuple[str, ...]) -> None:
        """Law: parts of an instance's last checkpoint are kept, because the next may name them."""
        for vertex, instance in self.job.instances():
            begun = self._parts_of.get(instance.checkpoint, ())
            lost = {*self._last_parts.get(instance.epoch, begun)}.intersection(names)
            if lost:
                detail = f"{vertex.shape.id} {instance.epoch} may name {sorted(lost)}"
                self._world.violate("nothing live collected", detail)

    def _is_level(self, notice: TwinLevel) -> None:
        """Law: an instance ends only after its twin has caught up.

        That is: the twin has reached the position that the instance had when the twin started.
        """
        new = self.job.instance(notice.vertex, notice.new_epoch)
        goal = self._pairs.get((notice.old_epoch, notice.new_epoch))
        if new is not None and goal is not None and not all(map(ge, new.consumed, goal)):
            self._world.violate("twins are level", f"{notice}: {new.consumed}, not {goal}")

    def _check_collect(self, collect: Collect) -> None:
        """Law: hosts may drop only items below every reader's position after any recovery."""
        for mark in collect.marks:
            stream = self.job.topology.streams[mark.stream]
            if stream.reader is None or self.job.is_retired(stream.reader.vertex):
                continue
            reader, k = self.vertices[stream.reader.vertex], stream.reader.index
            refs = self.tracker.refs(reader.shape.id)
            needs = [i.consumed[k] for i in reader.instances]
            sources = [(reader.shape.id, j.source) for j in reader.joins if j.source is not None]
            needs += [self._sources[one][k] for one in sources if one in self._sources]
            if stream.is_durable:
                needs.append(refs[0].reads[k])
            elif reader.shape.recovery.strategy == "replay":
                needs.append(refs[-1].reads[k])
            if needs and mark.seq > min(needs):
                detail = f"{mark} is collected, {reader.shape.id} needs {min(needs)}"
                self._world.violate("nothing live collected", detail)
