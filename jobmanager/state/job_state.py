"""JobState: all state of the job manager, and queries over it. Pure.

The parts (:mod:`jobmanager.manager.hosts`, :mod:`jobmanager.manager.instances`,
:mod:`jobmanager.manager.joining`, :mod:`jobmanager.manager.stragglers`,
:mod:`jobmanager.manager.collection`) are functions over one job state; they append their decisions
to ``out``.

Invariants: (1) the instances of a vertex are on different slots; (2) epochs only grow; (3) the
consumed position of a vertex is the minimum over its instances and over the holds of its joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.state.messages import EndJob, Tell
from jobmanager.state.records import HostState, InstanceState, Saving, VertexState
from jobmanager.state.tracker import SnapshotTracker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.config import JobConfig
    from jobmanager.state.messages import Instruction
    from jobmanager.state.topology import Topology
    from rvertex.messages import HostInstruction

US_PER_S = 1_000_000
#: The number of epochs that a new job manager skips, because its predecessor may have used epochs
#: that are not yet in the log.
EPOCHS_PER_TAKEOVER = 1_000
#: In a large plan it skips this number per instance. An instance is not opened more often between
#: two flushes of the log.
EPOCHS_PER_INSTANCE = 100
#: State of a job that waits for its last checkpoints. Then it ends as "stopped".
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
        #: Per durable stream the seq below which items may have been deleted.
        self.collected: dict[str, int] = {}
        #: Whether a checkpoint could not be read, so inputs that recovery needs may be deleted.
        self.is_damaged = False
        #: Whether checkpoints were forgotten or restored for a reason that is not in the log.
        self.has_fallen_back = False
        #: Per durable stream, the first lost seq. Items from there on must be written again.
        self.lost: dict[str, int] = {}
        #: Which items of a durable stream are lost, and their file; for the message of a failure.
        self.damage = ""
        #: The last error, for the message if the job gives up.
        self.trouble = ""
        #: The last error of the store that stopped a vertex.
        self.store_trouble = ""
        self.hosts: list[HostState] = []
        self.vertices = {v.id: VertexState(v) for v in topology.vertices.values()}
        self.epoch = 0
        #: Number of takeovers by a new job manager so far.
        self.takeovers = 0
        #: Minimum age of obsolete checkpoints, us. A predecessor may have had another value.
        self.retain_us = config.retain_us
        #: Version of the last ``Locate`` that was sent.
        self.locations = 0
        self.now_us = 0
        #: When a vertex last went beyond its furthest position, us UTC.
        self.advanced_us = 0
        #: Time of the latest checkpoint, us UTC. Retention measures ages from it.
        self.checkpointed_us = 0
        #: Number of checkpoints and finished vertices since the low-water marks were last applied,
        #: and the time of that by the clock of checkpoints.
        self.uncollected = 0
        self.collected_us = 0
        #: Whether live sources must end at their present positions.
        self.is_finishing = False
        #: Time of the request to stop, and time of the last checkpoint for it. Then, per vertex
        #: with a missing checkpoint, the epoch of the requested instance; 0: not requested yet.
        self.stop_us = self.answered_us = 0
        self.unanswered: dict[str, int] = {}
        #: The savepoint that is being taken while the job runs; None: there is none.
        self.saving: Saving | None = None
        self.out: list[Instruction] = []

    @property
    def is_open(self) -> bool:
        """Whether the job has not ended."""
        return self.state in OPEN_STATES

    @property
    def waiting(self) -> str:
        """The reason why the job waits, other than for input; empty if it does not."""
        waits = any(v.store_failing_us is not None for v in self.vertices.values())
        return f"store: {self.store_trouble}" if waits else ""

    # ---- decisions

    def tell(self, host: str, instruction: HostInstruction) -> None:
        """Add an instruction to a host to the decisions."""
        self.out.append(Tell(host, instruction))

    def end(self, state: str, error: str) -> None:
        """End the job, once."""
        if self.is_open:
            self.state, self.error = state, error
            self.out.append(EndJob(state, error))

    def add_partitions(self, vertex: str, partitions: tuple[int, ...]) -> bool:
        """Let a vertex read exactly these added partitions. Return whether any is new to it.

        If so, its present instances must be replaced, because their positions lack the partition.
        """
        if {*partitions} <= {*self.topology.vertices[vertex].added}:
            return False
        self.topology = self.topology.with_added(vertex, partitions)
        state, shape = self.vertices[vertex], self.topology.vertices[vertex]
        state.widen(shape)
        self.tracker.widen(vertex, shape.log_partitions)
        return True

    def take_over(self) -> None:
        """Count a takeover, so that new names and epochs differ from those of predecessors."""
        self.takeovers += 1
        instances = sum(v.recovery.replicas for v in self.topology.vertices.values())
        self.epoch += max(EPOCHS_PER_TAKEOVER, EPOCHS_PER_INSTANCE * instances)

    def may_start_over(self, vertex: str) -> bool:
        """Return whether a vertex may start from the initial snapshot, as checkpoints were damaged.

        All its durable inputs must be complete, and it must have no journal, which a restart reads.
        Volatile inputs are written again by their writers, which must start from there too.
        """
        shape = self.topology.vertices[vertex]
        durable = (s.id for s in shape.inputs if s.is_durable)
        is_whole = not any(self.collected.get(stream) for stream in durable)
        return self.is_damaged and is_whole and not shape.is_exclusive

    # ---- hosts and instances

    def current(self, name: str) -> HostState | None:
        """Return the host of that name if it holds its slot and is not lost; else None."""
        slot = HostState.slot_of(name)
        host = self.hosts[slot] if 0 <= slot < len(self.hosts) else None
        if host is None or host.name != name or host.state not in ("starting", "ready"):
            return None
        return host

    def instance(self, vertex: str, epoch: int) -> InstanceState | None:
        """Return the present instance with this epoch, or None."""
        state = self.vertices.get(vertex)
        rows = state.instances if state is not None else []
        return next((i for i in rows if i.epoch == epoch), None)

    def instances(self) -> Iterator[tuple[VertexState, InstanceState]]:
        """Yield all instances, upstream first."""
        for vertex in self.vertices.values():
            for instance in vertex.instances:
                yield vertex, instance

    def is_live(self, instance: InstanceState) -> bool:
        """Return whether the instance was ordered to a host that is alive."""
        host = self.hosts[instance.slot]
        return host.state == "ready" and host.name == instance.host

    def is_running(self, instance: InstanceState) -> bool:
        """Return whether the instance is live and its state is "running"."""
        return instance.state == "running" and self.is_live(instance)

    def furthest(self, vertex: str) -> InstanceState | None:
        """Return the running instance of a vertex that has read most; None if none runs."""
        running = [i for i in self.vertices[vertex].instances if self.is_running(i)]
        return max(running, key=lambda i: i.position, default=None)

    def live(self, vertex: str) -> list[InstanceState]:
        """Return the instances of a vertex on living hosts."""
        return [i for i in self.vertices[vertex].instances if self.is_live(i)]

    def loads(self) -> list[int]:
        """Return per slot the number of its unfinished instances, including planned ones."""
        loads = [0] * len(self.hosts)
        for vertex in self.vertices.values():
            if not vertex.is_finished:
                for slot in [i.slot for i in vertex.instances] + [j.slot for j in vertex.joins]:
                    loads[slot] += 1
        return loads

    # ---- the view of recovery and garbage collection

    def consumed(self, vertex: str) -> tuple[int, ...]:
        """Return the input seqs that all instances of a vertex, and its joins, have consumed."""
        rows = self.positions(vertex)
        if not rows:
            return self.tracker.newest(vertex).reads
        return rows[0] if len(rows) == 1 else tuple(map(min, zip(*rows, strict=True)))

    def positions(self, vertex: str) -> list[tuple[int, ...]]:
        """Return the consumed input seqs of each instance and of each join of a vertex."""
        state = self.vertices[vertex]
        return [i.consumed for i in state.instances] + [j.frozen for j in state.joins if j.frozen]

    def held(self, vertex: str, index: int) -> int:
        """Return the seq of an input below which its writer need not keep items in memory.

        It can be below the consumed position, because a replayed vertex reads some items again.
        """
        seqs = [consumed[index] for consumed in self.positions(vertex)]
        if not seqs or self.vertices[vertex].shape.recovery.strategy == "replay":
            seqs.append(self.tracker.newest(vertex).reads[index])
        return min(seqs)

    def is_serving(self, vertex: str) -> bool:
        """Return whether an instance on a live host can serve the vertex's streams from memory."""
        return bool(self.live(vertex))

    def is_retired(self, vertex: str) -> bool:
        """Return whether the vertex has finished and no restart can need its memory."""
        state = self.vertices[vertex]
        return state.is_finished and all(
            s.is_durable or (s.reader is not None and self.is_retired(s.reader.vertex))
            for s in state.shape.outputs
        )

    def released(self, stream: str) -> int:
        """Return the seq below which no serving instance of its writer has the stream in memory."""
        live = self.live(self.topology.writer(stream))
        return min(i.released.get(stream, 0) for i in live)
