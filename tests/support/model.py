"""A deliberately simple world around the job manager: the state of hosts is a few numbers.

Item n of every stream follows from item n of its writer's input, so a position is one number. An
instance reads items from the memory of a live instance of the writer, or durable items; if there
are none, it reports that the item is lost. All instructions of the job manager are followed,
including deletions. A law is broken if a checkpoint to load is gone, if an instance reads past a
hole, if the job does not end, or if a successor that reads the log would keep a checkpoint that the
job manager does not.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobmanager.config import JobConfig
from jobmanager.manager import takeover
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import (
    DeleteFiles,
    DrainRequested,
    EndJob,
    Feed,
    HostLost,
    JobResumed,
    JobStarted,
    Record,
    Refuse,
    StartHost,
    StragglerFound,
    Tell,
    Tick,
    is_logged,
)
from rvertex.messages import (
    CheckpointTaken,
    Collect,
    Counts,
    HostReady,
    ItemsLost,
    Locate,
    Progress,
    StartVertex,
    StopHost,
    StopVertex,
    TakeCheckpoint,
    VertexFailed,
    VertexFinished,
    VertexProgress,
    VertexStarted,
)

if TYPE_CHECKING:
    import random

    from jobmanager.state.messages import Instruction, Notice
    from jobmanager.state.topology import StreamShape, Topology, VertexShape

END = 60
#: How far back a replayed vertex reads.
HORIZON = 7
CONFIG = JobConfig(host_restarts_max=10**6, vertex_restarts_max=10**6, vertex_failures_max=10**6)


@dataclass
class Held:
    """An instance, as its position and the start of its outputs in memory."""

    vertex: str
    epoch: int
    host: str
    #: The next item to read; below ``at`` it only rebuilds its state.
    reads: int
    at: int
    first: dict[str, int]
    asked: int = 0
    told_lost: set[tuple[int, ...]] = field(default_factory=set)
    is_done: bool = False


class Model:
    """A job; :meth:`disturb` does a random action, :meth:`finish` lets the job finish."""

    def __init__(self, topology: Topology, hosts: int, rng: random.Random) -> None:
        self.topology, self.hosts_wanted, self.rng = topology, hosts, rng
        self.manager = JobManager(topology, CONFIG)
        #: A successor that has read the log so far.
        self.successor = JobManager(topology, CONFIG)
        self.instances: dict[tuple[str, int], Held] = {}
        self.hosts: set[str] = set()
        self.starting: set[str] = set()
        self.durable = dict.fromkeys(topology.streams, (0, 0))
        self.files: dict[str, tuple[int, int]] = {}
        self.log: list[Notice] = []
        self.queue: deque[Notice] = deque()
        self.count = 0
        self.now_s = 0
        self.tell(JobStarted(hosts, 0))

    # ---- what the job manager says

    def tell(self, notice: Notice) -> None:
        """Pass a notice to the job manager, and follow its instructions."""
        self.queue.append(notice)
        while self.queue:
            notice = self.queue.popleft()
            is_known = is_logged(notice) and not self.manager.is_stale(notice)
            instructions = self.manager.handle(notice)
            for instruction in instructions:
                self.obey(instruction)
            self.manager.tracker.check()
            if is_known:
                self.follow([notice, *(i.notice for i in instructions if isinstance(i, Record))])

    def follow(self, notices: list[Notice]) -> None:
        """Check that a successor keeps the newest of the kept checkpoints, and no others."""
        for notice in notices:
            self.log.append(notice)
            takeover.recall(self.successor.job, notice)
        for vertex in self.topology.vertices:
            if not self.successor.job.is_retired(vertex):
                known = list(self.successor.tracker.refs(vertex))
                kept = list(self.manager.tracker.refs(vertex))
                assert known == kept[-len(known) :], (vertex, notice, known, kept)

    def obey(self, instruction: Instruction) -> None:
        match instruction:
            case StartHost(host=host):
                self.starting.add(host)
            case Refuse(host=host):
                self.kill(host)
            case Feed(notice=notice):
                self.queue.append(notice)
            case DeleteFiles(names=names):
                for name in names:
                    self.files.pop(name, None)
            case EndJob(state=state, error=error):
                assert state == "finished", error
            case Tell(host=host, instruction=message) if host in self.hosts:
                self.perform(host, message)
            case Tell():
                pass
            case Record():
                pass

    def perform(self, host: str, message: object) -> None:
        match message:
            case StartVertex():
                self.start(message)
            case TakeCheckpoint(vertex=vertex, epoch=epoch):
                if (vertex, epoch) in self.instances:
                    self.instances[vertex, epoch].asked += 1
            case StopVertex(vertex=vertex, epoch=epoch):
                self.instances.pop((vertex, epoch), None)
            case Collect(marks=marks):
                self.collect(host, {m.stream: m.seq for m in marks})
            case StopHost():
                self.kill(host)
            case Locate():
                pass
            case _:
                raise AssertionError(message)

    def start(self, order: StartVertex) -> None:
        for key, held in list(self.instances.items()):
            if held.host == order.host and held.vertex == order.vertex:
                del self.instances[key]
        if order.checkpoint:
            assert order.checkpoint in self.files, f"{order} was deleted"
        at, reads = self.files.get(order.checkpoint, (0, 0))
        outputs = self.topology.vertices[order.vertex].outputs
        held = Held(order.vertex, order.epoch, order.host, reads, at, {s.id: at for s in outputs})
        self.instances[order.vertex, order.epoch] = held
        self.queue.append(VertexStarted(order.host, held.vertex, held.epoch, (reads,)))

    def collect(self, host: str, marks: dict[str, int]) -> None:
        for held in self.instances.values():
            for stream in held.first.keys() & marks.keys():
                if held.host != host:
                    continue
                if self.topology.streams[stream].is_durable:
                    lo, hi = self.durable[stream]
                    self.durable[stream] = max(lo, min(marks[stream], held.at)), hi
                else:
                    held.first[stream] = max(held.first[stream], min(marks[stream], held.at))

    def kill(self, host: str) -> None:
        self.hosts.discard(host)
        self.starting.discard(host)
        self.instances = {k: h for k, h in self.instances.items() if h.host != host}

    # ---- what hosts do

    def ready(self, host: str) -> None:
        self.starting.discard(host)
        self.hosts.add(host)
        self.tell(HostReady(host, 0, 1, "m", f"at {host}"))

    def step(self, held: Held) -> bool:
        """Read some items and write the results. Return whether there was something to do."""
        if held.is_done:
            return False
        shape = self.topology.vertices[held.vertex]
        if held.reads < END:
            end = END if shape.is_source else self.readable(held, shape.inputs[0])
            if end <= held.reads:
                return False
            held.reads = min(end, held.reads + self.rng.randint(1, 9))
            held.at = max(held.at, held.reads)
        if held.at == END and held.reads == END:
            held.is_done = True
            self.flush(held)
            n = len(shape.outputs)
            self.tell(
                VertexFinished(
                    held.vertex, held.epoch, (END,), (END,) * n, (b"d",) * n, Counts(1, 1)
                )
            )
        return True

    def readable(self, held: Held, stream: StreamShape) -> int:
        """The position up to which ``held`` can read the stream."""
        seq = held.reads
        lo, hi = self.durable[stream.id]
        if lo <= seq < hi:
            return hi
        writers = self.serving(stream.writer.vertex)
        ends = [w.at for w in writers if w.first[stream.id] <= seq < w.at]
        if ends:
            return max(ends)
        is_lost = bool(writers) and all(seq < w.first[stream.id] for w in writers)
        retired = self.manager.job.is_retired(stream.writer.vertex)
        tried = tuple(sorted(w.epoch for w in writers))
        if (is_lost or (retired and not writers)) and tried not in held.told_lost:
            held.told_lost.add(tried)
            self.tell(ItemsLost(held.vertex, held.epoch, stream.id, seq, tried))
        return seq

    def serving(self, vertex: str) -> list[Held]:
        job = self.manager.job
        rows = [i for i in self.manager.vertices[vertex].instances if job.is_live(i)]
        keys = [(vertex, i.epoch) for i in rows if i.state in ("running", "finished")]
        return [self.instances[key] for key in keys if key in self.instances]

    def flush(self, held: Held) -> None:
        for stream in self.topology.vertices[held.vertex].outputs:
            lo, hi = self.durable[stream.id]
            if stream.is_durable:
                self.durable[stream.id] = lo, max(hi, held.at)

    def checkpoint(self, held: Held) -> None:
        if held.reads < held.at:
            return  # it has not reached its former position yet
        self.flush(held)
        shape = self.topology.vertices[held.vertex]
        is_replay = shape.recovery.strategy == "replay"
        slack = self.rng.randint(HORIZON, HORIZON + 3) if is_replay else 0
        reads = max(0, held.at - slack)
        self.count += 1
        name = f"{held.vertex}/{held.epoch}-{self.count}"
        self.files[name] = held.at, reads
        asked, held.asked = held.asked, max(0, held.asked - 1)
        outputs = (held.at,) * len(shape.outputs)
        taken = CheckpointTaken(
            *(held.vertex, held.epoch, name, (held.at,), outputs, 1),
            reads=(reads,),
            parts=(),
            taken_us=self.count,
            asked=bool(asked),
        )
        self.tell(taken)

    def report(self, host: str) -> None:
        rows = []
        for held in self.instances.values():
            if held.host == host:
                shape: VertexShape = self.topology.vertices[held.vertex]
                outputs = (held.at,) * len(shape.outputs)
                at = ((held.reads,), outputs, outputs)
                rows.append(VertexProgress(held.vertex, held.epoch, *at, held.at, 0, Counts(), 0))
        self.tell(Progress(host, tuple(rows)))

    # ---- what happens

    def disturb(self) -> None:
        """Do a random action."""
        rng = self.rng
        some = rng.choice(list(self.instances.values())) if self.instances else None
        what = rng.random()
        if what < 0.45 and some is not None:
            self.step(some)
        elif what < 0.6 and self.hosts:
            self.report(rng.choice(sorted(self.hosts)))
        elif what < 0.72 and some is not None:
            self.checkpoint(some)
        elif what < 0.84 and self.starting:
            self.ready(rng.choice(sorted(self.starting)))
        elif what < 0.89 and self.hosts:
            host = rng.choice(sorted(self.hosts))
            self.kill(host)
            self.tell(HostLost(host, "killed"))
        elif what < 0.91 and some is not None:
            del self.instances[some.vertex, some.epoch]
            self.tell(VertexFailed(some.vertex, some.epoch, "operating", "reset", ""))
        elif what < 0.93 and self.hosts:
            self.tell(DrainRequested(rng.choice(sorted(self.hosts))))
        elif what < 0.95 and some is not None:
            self.tell(StragglerFound(some.vertex, some.epoch))
        elif what < 0.96:
            self.take_over()
        else:
            self.tick()

    def tick(self) -> None:
        self.now_s += 1
        for host in sorted(self.hosts):
            self.report(host)
        self.tell(Tick(self.now_s * 1_000_000))

    def take_over(self) -> None:
        """The job manager dies with all its hosts."""
        for host in [*self.hosts, *self.starting]:
            self.kill(host)
        self.manager = JobManager(self.topology, CONFIG)
        self.manager.recall(self.log)
        self.tell(JobResumed(self.hosts_wanted, self.now_s * 1_000_000))

    def finish(self) -> None:
        """Check that the job ends without further disturbances."""
        for _ in range(400):
            if self.manager.state != "running":
                break
            for host in sorted(self.starting):
                self.ready(host)
            for held in list(self.instances.values()):
                if held.asked:
                    self.checkpoint(held)
                self.step(held)
            self.tick()
        told = [(v.shape.id, v.state, v.instances, v.joins) for v in self.manager.vertices.values()]
        assert self.manager.state == "finished", (told, self.instances, self.durable)
        self.check()

    def check(self) -> None:
        """Assert the invariants that always hold."""
        for vertex in self.manager.vertices.values():
            slots = [i.slot for i in vertex.instances] + [j.slot for j in vertex.joins]
            assert len(slots) == len(set(slots)), vertex
