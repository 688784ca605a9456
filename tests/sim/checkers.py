"""The laws, one small checker each. They look at what becomes durable, not at what anyone says.

Content is read back with plain pyarrow, ranges are computed by brute force; only ``recoverable``
asks production code (what would a job manager that takes over now do?) and checks its answer
against the store.
"""

from __future__ import annotations

import re
from operator import ge
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from jobmanager import takeover
from jobmanager.manager import JobManager
from jobmanager.messages import LOG_CODEC, DeleteFiles, Tell, TwinLevel
from jobmanager.notice_log import FENCE, folder_of, parts_in_force
from jobmanager.recovery import plan_restarts
from jobmanager.topology import Topology
from rstream import MemoryBlobs
from rvertex.errors import CorruptCheckpointError
from rvertex.messages import CheckpointTaken, Collect, StartVertex
from rvertex.state import load_checkpoint
from tests.sim.storage import root_of
from tests.sim.workload import ROOT, hashes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.messages import Instruction, Notice
    from jobmanager.topology import StreamShape
    from jobmanager.tracker import CheckpointRef
    from tests.sim.scheduler import Scheduler
    from tests.sim.workload import Workload

SEGMENT = re.compile(r"(.*/)(\d{20})-(\d{20})\.parquet")
MARK = "_low_water_mark"
HOME = root_of(ROOT)
CHECKPOINTS = f"{HOME}checkpoints/"
NOTICES = f"{HOME}notices/"
Position = tuple[int, ...]


class Checkers:
    """Fed with every put and delete of the store."""

    def __init__(self, scheduler: Scheduler, workload: Workload) -> None:
        self._world = scheduler
        self._workload = workload
        self.blobs: dict[str, bytes] = {}
        self._folders = {
            root_of(uri): stream
            for vertex in workload.vertices
            for edge in vertex.outputs
            for stream, uri in zip(edge.streams, edge.uris, strict=True)
        }
        self._volatile = {
            root_of(uri)
            for vertex in workload.vertices
            for edge in vertex.outputs
            if edge.durability == "volatile"
            for uri in edge.uris
        }
        self._roots = {stream: root for root, stream in self._folders.items()}
        self._schemas = {str(v.id): v.state_schema for v in workload.vertices}
        self._seen: dict[tuple[str, int], int] = {}
        self._marks: dict[str, int] = {}
        self._positions: dict[str, dict[str, Position]] = {}
        self._parts: set[str] = set()
        self._shadow = Shadow(workload)
        self.segments = self.checkpoints = self.deletions = 0
        #: The job has ended: files may go that no recovery needs any more.
        self.is_over = False

    def on_put(self, path: str, data: bytes) -> None:
        """Something became durable."""
        match = SEGMENT.fullmatch(path)
        if path.endswith(MARK):
            self.marks_are_monotone(path, int(data))
        elif path.startswith(CHECKPOINTS) and "/parts/" in path:
            self.parts_are_put_once(path)
        elif path.startswith(CHECKPOINTS):
            self.checkpoints += 1
            self.snapshots_are_ordered(path, data)
        elif match is not None and match[1] in self._folders:
            self.segments += 1
            stream, lo = self._folders[match[1]], int(match[2])
            self._world.met["segment spilled"] += match[1] in self._volatile
            content = read_hashes(data)
            if len(content) != int(match[3]) - lo:
                self._world.violate("no gap", f"{path} holds {len(content)} items")
            self.no_conflict(stream, lo, content)
            self.as_uninterrupted(stream, lo, content)

    def on_delete(self, path: str) -> None:
        """Something is gone for ever."""
        if self.is_over:
            return
        if SEGMENT.fullmatch(path) or path.startswith(CHECKPOINTS):
            self.deletions += 1
            self.recoverable(f"after the deletion of {path}")

    def marks_are_monotone(self, path: str, mark: int) -> None:
        """A low-water mark never goes back."""
        if mark < self._marks.get(path, 0):
            self._world.violate(
                "marks are monotone", f"{path} went from {self._marks[path]} to {mark}"
            )
        self._marks[path] = mark

    def parts_are_put_once(self, path: str) -> None:
        """The name of a part that may have been deleted never comes back."""
        if path in self._parts:
            self._world.violate("parts are put once", path)
        self._parts.add(path)

    def snapshots_are_ordered(self, path: str, data: bytes) -> None:
        """The snapshots of a vertex are totally ordered; a name means one snapshot for ever."""
        vertex = path.removeprefix(CHECKPOINTS).split("/")[0]
        try:
            snapshot = load_checkpoint(
                data,
                name=path,
                state_schema=self._schemas[vertex],
                fetch=lambda parts: [self.blobs.get(HOME + part) for part in parts],
            ).snapshot
        except CorruptCheckpointError:  # of a fenced instance, whose parts are gone: no one asks
            return
        position = (*snapshot.inputs, *snapshot.outputs)
        mine = self._positions.setdefault(vertex, {})
        if mine.setdefault(path, position) != position:
            self._world.violate("snapshots are ordered", f"{path}: {mine[path]}, then {position}")
        for name, other in mine.items():
            rows = list(zip(position, other, strict=True))
            if any(a < b for a, b in rows) and any(a > b for a, b in rows):
                self._world.violate("snapshots are ordered", f"{path} against {name}: {rows}")

    def no_conflict(self, stream: str, lo: int, content: list[int]) -> None:
        """One seq, one content, in all segments there ever were."""
        for seq, value in enumerate(content, lo):
            if self._seen.setdefault((stream, seq), value) != value:
                self._world.violate("no conflict", f"{stream} seq {seq}")
                return

    def as_uninterrupted(self, stream: str, lo: int, content: list[int]) -> None:
        """What is durable is what the uninterrupted run has there."""
        expected = self._workload.expected.get(stream, [])[lo : lo + len(content)]
        if content != expected:
            self._world.violate("as uninterrupted", f"{stream} [{lo}, {lo + len(content)})")

    def recoverable(self, when: str) -> None:
        """Nothing live is collected: if everybody died now, all could be had again."""
        self._shadow.catch_up(self.blobs)
        self._known_are_there(when)
        for vertex, ref in self._shadow.restarts().items():
            if ref.name and HOME + ref.name not in self.blobs:
                self._world.violate("nothing live collected", f"{when}: {ref.name} is needed")
            for part in ref.parts:
                if HOME + part not in self.blobs:
                    detail = f"{when}: {part} of {ref.name} is needed"
                    self._world.violate("nothing live collected", detail)
            for k, stream in enumerate(self._shadow.topology.vertices[vertex].inputs):
                self._input_is_there(stream, ref.reads[k], when)
            for k, stream in enumerate(self._shadow.topology.vertices[vertex].outputs):
                lo, hi = self._durable(stream.id, ref.outputs[k])
                if stream.is_durable and hi < ref.outputs[k]:
                    detail = f"{when}: {stream.id} is durable in [{lo}, {hi}), {vertex} needs {ref}"
                    self._world.violate("nothing live collected", detail)

    def _known_are_there(self, when: str) -> None:
        """A successor takes up no checkpoint that was deleted, needed now or not."""
        for vertex, ref in self._shadow.known():
            if ref.name and HOME + ref.name not in self.blobs:
                self._world.violate("the deleted are not taken up", f"{when}: {vertex} {ref.name}")

    def _input_is_there(self, stream: StreamShape, seq: int, when: str) -> None:
        """From ``seq`` to where its writer goes on."""
        writer = self._shadow.chosen.get(stream.writer.vertex)
        end = (
            writer.outputs[stream.writer.index]
            if writer is not None
            else len(self._workload.expected.get(stream.id, []))
        )
        if seq >= end:
            return
        hi = self._durable(stream.id, seq)[1] if stream.is_durable else seq
        if hi < end:
            detail = f"{when}: {stream.id} [{seq}, {end}) is needed, it is there up to {hi}"
            self._world.violate("nothing live collected", detail)

    def _durable(self, stream: str, seq: int) -> tuple[int, int]:
        """Where the durable part with ``seq`` begins and ends."""
        root = self._roots[stream]
        mark = int(self.blobs.get(root + MARK, b"0"))
        ranges = sorted(
            (int(m[2]), int(m[3]))
            for name in list(self.blobs)
            if name.startswith(root) and (m := SEGMENT.fullmatch(name)) and m[1] == root
        )
        ranges = [(lo, hi) for lo, hi in ranges if hi > mark]
        start = max(mark, ranges[0][0]) if ranges else mark
        if seq < start:
            return start, seq
        end = start
        for lo, hi in ranges:
            if lo > end:
                break
            end = max(end, hi)
        return start, end

    def output_is_complete(self) -> None:
        """No gap, no duplicate: the sinks hold each item of the uninterrupted run once."""
        for stream, uri in self._workload.sinks:
            root = root_of(uri)
            found: list[int] = []
            for name in sorted(n for n in self.blobs if n.startswith(root)):
                match = SEGMENT.fullmatch(name)
                if match is None:
                    continue
                if int(match[2]) != len(found):
                    law = "no gap" if int(match[2]) > len(found) else "no duplicate output"
                    self._world.violate(law, f"{name} follows seq {len(found)}")
                    return
                found += read_hashes(self.blobs[name])
            if found != self._workload.expected.get(stream, []):
                expected = len(self._workload.expected.get(stream, []))
                self._world.violate("output", f"{stream}: {len(found)} items of {expected}")


class WatchedManager(JobManager):
    """The job manager; epochs only grow, and a notice of another epoch changes nothing."""

    def __init__(self, workload: Workload, world: Scheduler) -> None:
        super().__init__(Topology(workload.vertices), workload.config)
        self._world = world
        #: (Old instance, its twin) -> what the old one had consumed when the twin was there.
        self._pairs: dict[tuple[int, int], Position] = {}
        #: What checkpoints name, and what the last one of each instance does.
        self._parts_of: dict[str, tuple[str, ...]] = {}
        self._last_parts: dict[int, tuple[str, ...]] = {}

    def recall(self, notices: Iterable[Notice]) -> None:
        known = list(notices)
        for notice in known:
            if isinstance(notice, CheckpointTaken):
                self._parts_of[notice.name] = notice.parts
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
        out = super().handle(notice)
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
        for instruction in out:
            if isinstance(instruction, Tell) and isinstance(instruction.instruction, Collect):
                self._nobody_needs(instruction.instruction)
            elif isinstance(instruction, DeleteFiles):
                self._nobody_names(instruction.names)
        return out

    def _count(self, notice: Notice, out: list[Instruction], *, is_stale: bool) -> None:
        met, kind = self._world.met, type(notice).__name__
        met[f"notice {kind}"] += 1
        met["notice of one that is gone"] += is_stale
        for instruction in out:
            order = instruction.instruction if isinstance(instruction, Tell) else None
            if isinstance(order, StartVertex) and order.checkpoint:
                strategy = self.vertices[order.vertex].shape.recovery.strategy
                met[f"instance from a checkpoint by {strategy}"] += 1

    def _nobody_names(self, names: tuple[str, ...]) -> None:
        """The next checkpoint of an instance may name what the one before it did."""
        for vertex, instance in self.job.instances():
            begun = self._parts_of.get(instance.checkpoint, ())
            lost = {*self._last_parts.get(instance.epoch, begun)}.intersection(names)
            if lost:
                detail = f"{vertex.shape.id} {instance.epoch} may name {sorted(lost)}"
                self._world.violate("nothing live collected", detail)

    def _is_level(self, notice: TwinLevel) -> None:
        """An instance goes only when its twin has come as far as it was when that began."""
        new = self.job.instance(notice.vertex, notice.new_epoch)
        goal = self._pairs.get((notice.old_epoch, notice.new_epoch))
        if new is not None and goal is not None and not all(map(ge, new.consumed, goal)):
            self._world.violate("twins are level", f"{notice}: {new.consumed}, not {goal}")

    def _nobody_needs(self, collect: Collect) -> None:
        """What hosts may forget is below all that any reader, however recovered, may ask for."""
        for mark in collect.marks:
            stream = self.job.topology.streams[mark.stream]
            if stream.reader is None or self.job.is_settled(stream.reader.vertex):
                continue
            reader, k = self.vertices[stream.reader.vertex], stream.reader.index
            refs = self.tracker.refs(reader.shape.id)
            needs = [i.consumed[k] for i in reader.instances]
            needs += [j.frozen[k] for j in reader.joins if j.frozen]
            if stream.is_durable:
                needs.append(refs[0].reads[k])
            elif reader.shape.recovery.strategy == "replay":
                needs.append(refs[-1].reads[k])
            if needs and mark.seq > min(needs):
                detail = f"{mark} is collected, {reader.shape.id} needs {min(needs)}"
                self._world.violate("nothing live collected", detail)


class Shadow:
    """What a job manager that takes over now would know: the durable notices, and no host.

    It reads them as one does, but does not clear up behind the last of them: what it knows after
    each is compared with the store.
    """

    def __init__(self, workload: Workload) -> None:
        self.topology = Topology(workload.vertices)
        self._config = workload.config
        self.core = JobManager(self.topology, workload.config)
        self.chosen: dict[str, CheckpointRef] = {}
        self._fence = ""
        self._next_seqs: dict[str, int] = {}

    def catch_up(self, blobs: dict[str, bytes]) -> None:
        """Replay the notices in force that became durable since the last time."""
        newest = max((n for n in blobs if n.startswith(NOTICES) and n.endswith(FENCE)), default="")
        if newest != self._fence:  # another job manager has begun, and said what counts
            self._fence = newest
            self.core = JobManager(self.topology, self._config)
            self._next_seqs = {}
        for part in parts_in_force(MemoryBlobs(blobs, HOME)):
            self._replay(blobs, f"{HOME}{folder_of(part.epoch)}/", part.end)

    def _replay(self, blobs: dict[str, bytes], folder: str, end: int) -> None:
        for name in sorted(n for n in blobs if n.startswith(folder)):
            match, next_seq = SEGMENT.fullmatch(name), self._next_seqs.get(folder, 0)
            if match is None or int(match[3]) <= next_seq or int(match[2]) >= end:
                continue
            table = pq.read_table(pa.BufferReader(blobs[name]), use_threads=False)
            wanted = slice(next_seq - int(match[2]), end - int(match[2]))
            for data in table.column("notice").to_pylist()[wanted]:
                takeover.recall(self.core.job, LOG_CODEC.decode(data))
            self._next_seqs[folder] = min(int(match[3]), end)

    def restarts(self) -> dict[str, CheckpointRef]:
        """Everybody is dead: who starts from where."""
        lost = [v for v in self.core.vertices if not self.core.job.is_settled(v)]
        self.chosen = plan_restarts(lost, self.topology, self.core.tracker, self)
        return self.chosen

    def known(self) -> list[tuple[str, CheckpointRef]]:
        """The checkpoints of all vertices that may start again."""
        rows = [v for v in self.core.vertices if not self.core.job.is_settled(v)]
        return [(v, ref) for v in rows for ref in self.core.tracker.refs(v)]

    def consumed(self, vertex: str) -> tuple[int, ...]:
        return self.core.job.consumed(vertex)

    def is_serving(self, vertex: str) -> bool:
        return False

    def is_settled(self, vertex: str) -> bool:
        return self.core.job.is_settled(vertex)

    def released(self, stream: str) -> int:
        return 0


def read_hashes(data: bytes) -> list[int]:
    """Content hashes of the items of a segment."""
    table = pq.read_table(pa.BufferReader(data), use_threads=False).drop_columns(["_seq"])
    if not table.num_rows:
        return []
    return hashes(table.combine_chunks().to_batches()[0])
