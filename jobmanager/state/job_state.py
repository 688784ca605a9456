"""JobState: all state of the job manager, and queries over it. Pure.

The parts (:mod:`jobmanager.manager.hosts`, :mod:`jobmanager.manager.instances`,
:mod:`jobmanager.manager.joining`, :mod:`jobmanager.manager.stragglers`,
:mod:`jobmanager.manager.collection`) are functions over one job state; they append their decisions
to ``out``.

Invariants: (1) the instances of a vertex are on different slots; (2) epochs only grow; (3) the
consumed position of a vertex is the least over its instances and over the holds of its joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.state.messages import EndJob, Tell
from jobmanager.state.records import HostState, InstanceState, VertexState
from jobmanager.state.tracker import SnapshotTracker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.config import JobConfig
    from jobmanager.state.messages import Instruction
    from jobmanager.state.topology import Topology
    from rvertex.messages import HostInstruction

US_PER_S = 1_000_000
#: A job manager that takes over skips this many epochs: its predecessor's last may not be logged.
EPOCHS_PER_TAKEOVER = 1_000
#: In a large plan: how often every instance may have been opened since the log was last durable.
EPOCHS_PER_INSTANCE = 100
#: It is asked for checkpoints, and ends as "stopped" when it has them.
STOPPING = "stopping"
OPEN_STATES = ("starting", "running", STOPPING)


class JobState:
    """The state of one job. It serves recovery and garbage collection as their view of the job."""

    def __init__(self, topology: Topology, config: JobConfig) -> None:
        self.topology = topology
        self.config = config
        self.tracker = SnapshotTracker(topology)
        self.state = "starting"
        self.error = ""
        #: Below these seqs durable streams may have been collected.
        self.collected: dict[str, int] = {}
        #: A checkpoint could not be read: what recovery rests on may be gone.
        self.is_damaged = False
        #: Checkpoints were forgotten, or taken up again, for a reason that is not in the log.
        self.has_fallen_back = False
        #: Of durable streams from here on items are gone, and are to be written again.
        self.lost: dict[str, int] = {}
        #: What is gone of a durable stream, and in which file; for the message of a job that fails.
        self.damage = ""
        #: What went wrong last, for the message of a job that gives up.
        self.trouble = ""
        #: What the store said last to a vertex that could not go on.
        self.store_trouble = ""
        self.hosts: list[HostState] = []
        self.vertices = {v.id: VertexState(v) for v in topology.vertices.values()}
        self.epoch = 0
        #: How many job managers have taken over from another one.
        self.takeovers = 0
        #: By which checkpoints are kept for their age; a predecessor's may have been another.
        self.retain_us = config.retain_us
        #: Version of the last ``Locate`` that was sent.
        self.locations = 0
        self.now_us = 0
        #: When a vertex last got further than ever before.
        self.advanced_us = 0
        #: Time of the latest checkpoint: the clock of retention.
        self.checkpointed_us = 0
        #: Checkpoints and ends since the low-water marks were last applied, and when that was by
        #: the clock of checkpoints.
        self.uncollected = 0
        self.collected_us = 0
        #: Live sources are to end at what they have read.
        self.is_finishing = False
        #: When the job was asked to stop, when the last vertex answered, and whose checkpoints are
        #: waited for: of each vertex the instance that was asked, 0 if nobody was yet.
        self.stop_us = self.answered_us = 0
        self.unanswered: dict[str, int] = {}
        self.out: list[Instruction] = []

    @property
    def is_open(self) -> bool:
        """Whether the job has not ended."""
        return self.state in OPEN_STATES

    @property
    def waiting(self) -> str:
        """What the job waits for beside its input; empty if for nothing."""
        waits = any(v.store_failing_us is not None for v in self.vertices.values())
        return f"store: {self.store_trouble}" if waits else ""

    # ---- what is decided

    def tell(self, host: str, instruction: HostInstruction) -> None:
        """Order an instruction to be sent."""
        self.out.append(Tell(host, instruction))

    def end(self, state: str, error: str) -> None:
        """End the job, once."""
        if self.is_open:
            self.state, self.error = state, error
            self.out.append(EndJob(state, error))

    def add_partitions(self, vertex: str, partitions: tuple[int, ...]) -> bool:
        """A vertex is to read these added partitions; whether it did not read all of them before.

        Then its present instances are to be replaced: what they report does not have them.
        """
        if {*partitions} <= {*self.topology.vertices[vertex].added}:
            return False
        self.topology = self.topology.with_added(vertex, partitions)
        state, shape = self.vertices[vertex], self.topology.vertices[vertex]
        state.widen(shape)
        self.tracker.widen(vertex, shape.log_partitions)
        return True

    def take_over(self) -> None:
        """One more job manager: its names are not those of the ones before it."""
        self.takeovers += 1
        instances = sum(v.recovery.replicas for v in self.topology.vertices.values())
        self.epoch += max(EPOCHS_PER_TAKEOVER, EPOCHS_PER_INSTANCE * instances)

    def may_begin_anew(self, vertex: str) -> bool:
        """Whether it may start from the initial snapshot, because checkpoints were damaged.

        Its durable inputs must all be there, and it must write down nothing that a restart reads.
        Volatile ones are written again by their writers, which must begin anew too.
        """
        shape = self.topology.vertices[vertex]
        durable = (s.id for s in shape.inputs if s.is_durable)
        is_whole = not any(self.collected.get(stream) for stream in durable)
        return self.is_damaged and is_whole and not shape.is_exclusive

    # ---- hosts and instances

    def current(self, name: str) -> HostState | None:
        """The host of that name if it holds its slot and was not given up."""
        slot = HostState.slot_of(name)
        host = self.hosts[slot] if 0 <= slot < len(self.hosts) else None
        if host is None or host.name != name or host.state not in ("starting", "ready"):
            return None
        return host

    def instance(self, vertex: str, epoch: int) -> InstanceState | None:
        """The instance that ``epoch`` names, if it is a present one."""
        state = self.vertices.get(vertex)
        rows = state.instances if state is not None else []
        return next((i for i in rows if i.epoch == epoch), None)

    def instances(self) -> Iterator[tuple[VertexState, InstanceState]]:
        """All instances, upstream first."""
        for vertex in self.vertices.values():
            for instance in vertex.instances:
                yield vertex, instance

    def is_live(self, instance: InstanceState) -> bool:
        """Whether it was ordered to a host that is alive."""
        host = self.hosts[instance.slot]
        return host.state == "ready" and host.name == instance.host

    def is_running(self, instance: InstanceState) -> bool:
        """Whether it is live and at work."""
        return instance.state == "running" and self.is_live(instance)

    def live(self, vertex: str) -> list[InstanceState]:
        """Its instances on living hosts."""
        return [i for i in self.vertices[vertex].instances if self.is_live(i)]

    def loads(self) -> list[int]:
        """By slot, how many unfinished instances are or will be there."""
        loads = [0] * len(self.hosts)
        for vertex in self.vertices.values():
            if not vertex.is_finished:
                for slot in [i.slot for i in vertex.instances] + [j.slot for j in vertex.joins]:
                    loads[slot] += 1
        return loads

    # ---- the view of recovery and garbage collection

    def consumed(self, vertex: str) -> tuple[int, ...]:
        """Input seqs that all its instances, and those that join, have consumed."""
        rows = self.positions(vertex)
        if not rows:
            return self.tracker.newest(vertex).reads
        return rows[0] if len(rows) == 1 else tuple(map(min, zip(*rows, strict=True)))

    def positions(self, vertex: str) -> list[tuple[int, ...]]:
        """The input seqs that each of its instances, and those that join, have consumed."""
        state = self.vertices[vertex]
        return [i.consumed for i in state.instances] + [j.frozen for j in state.joins if j.frozen]

    def held(self, vertex: str, index: int) -> int:
        """Seq of an input below which no memory is kept: a replayed vertex reads some again."""
        seqs = [consumed[index] for consumed in self.positions(vertex)]
        if not seqs or self.vertices[vertex].shape.recovery.strategy == "replay":
            seqs.append(self.tracker.newest(vertex).reads[index])
        return min(seqs)

    def is_serving(self, vertex: str) -> bool:
        """Whether an instance on a live host can serve its streams' memory."""
        return bool(self.live(vertex))

    def is_retired(self, vertex: str) -> bool:
        """Whether it has finished and no restart can ask anything of its memory."""
        state = self.vertices[vertex]
        return state.is_finished and all(
            s.is_durable or (s.reader is not None and self.is_retired(s.reader.vertex))
            for s in state.shape.outputs
        )

    def released(self, stream: str) -> int:
        """Below this seq no instance of its writer, which is serving, has the stream in memory."""
        live = self.live(self.topology.writer(stream))
        return min(i.released.get(stream, 0) for i in live)
