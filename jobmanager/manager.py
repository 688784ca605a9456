"""JobManager: a pure state machine, ``handle(notice) -> [instruction]``.

Theory of operation. Every vertex is placed on a slot; a slot is held by one host at a time. A host
that is lost is replaced, and only its vertices (with what :mod:`jobmanager.recovery` adds upstream)
restart, each under a new epoch. Progress reports release volatile memory; checkpoints move the
low-water marks.

Invariants: (1) no I/O, clock or thread: the same notices give the same instructions, which is how
``resume`` replays them; (2) epochs only grow, and a notice of an older epoch changes nothing; (3) a
checkpoint is deleted only when the marks say that no recovery can need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from jobmanager.errors import NoCheckpointError, NotDeterministicError
from jobmanager.low_water_marks import low_water_marks
from jobmanager.messages import (
    CancelRequested,
    DeleteCheckpoint,
    EndJob,
    Feed,
    HostLost,
    JobResumed,
    JobStarted,
    Refuse,
    StartHost,
    Tell,
    Tick,
)
from jobmanager.recovery import plan_restarts
from jobmanager.state import HostState, VertexState
from jobmanager.tracker import CheckpointRef, SnapshotTracker
from rstream.types import INF_TIME, MIN_TIME
from rvertex.messages import (
    CheckpointTaken,
    Collect,
    HostReady,
    ItemsLost,
    Locate,
    Mark,
    Progress,
    Site,
    StartVertex,
    VertexFailed,
    VertexFinished,
    VertexStarted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.config import JobConfig
    from jobmanager.messages import Instruction, Notice
    from jobmanager.topology import Topology

#: A job manager that takes over skips this many epochs: its predecessor's last may not be logged.
EPOCHS_PER_TAKEOVER = 1_000
_US_PER_S = 1_000_000
OPEN_STATES = ("starting", "running")


class JobManager:
    """The only mutator of job state."""

    def __init__(self, topology: Topology, config: JobConfig) -> None:
        self.topology = topology
        self.config = config
        self.tracker = SnapshotTracker(topology)
        self.state = "starting"
        self.error = ""
        self.hosts: list[HostState] = []
        self.vertices = {v.id: VertexState(v, slot=0) for v in topology.vertices.values()}
        self._epoch = 0
        self._locations = 0
        self._now_us = 0
        self._advanced_us = 0
        self._out: list[Instruction] = []

    def handle(self, notice: Notice) -> list[Instruction]:
        """Take one notice; gives what the shell must do now, in order."""
        self._out = []
        if self.state in OPEN_STATES or isinstance(notice, JobResumed):
            try:
                self._dispatch(notice)
            except (NotDeterministicError, NoCheckpointError) as error:
                self._end("failed", str(error))
        return self._out

    def _dispatch(self, notice: Notice) -> None:
        match notice:
            case JobStarted() | JobResumed():
                self._begin(notice)
            case HostReady():
                self._host_ready(notice)
            case HostLost(host=host, reason=reason):
                self._host_lost(host, reason)
            case Progress():
                self._progress(notice)
            case VertexStarted():
                self._vertex_started(notice)
            case CheckpointTaken():
                self._checkpoint_taken(notice)
            case VertexFinished():
                self._vertex_finished(notice)
            case VertexFailed():
                self._vertex_failed(notice)
            case ItemsLost():
                self._items_lost(notice)
            case CancelRequested():
                self._end("cancelled", "")
            case Tick(now_us=now_us):
                self._tick(now_us)
            case _:
                assert_never(notice)

    # ---- hosts

    def _begin(self, notice: JobStarted | JobResumed) -> None:
        assert notice.hosts >= 1, notice.hosts
        self.state, self.error = "running", ""
        self._now_us = self._advanced_us = notice.now_us
        generation = 1 + max((h.generation for h in self.hosts), default=-1)
        self.hosts = [HostState(slot, generation) for slot in range(notice.hosts)]
        for k, vertex in enumerate(self.vertices.values()):
            vertex.slot = k % notice.hosts
        if isinstance(notice, JobResumed):
            self._epoch += EPOCHS_PER_TAKEOVER
        if all(v.state == "finished" for v in self.vertices.values()):
            self._end("finished", "")
            return
        for host in self.hosts:
            host.heard_us = self._now_us
            self._out.append(StartHost(host.name))
        self._restart(v for v in self.vertices if not self.is_settled(v))

    def _current(self, name: str) -> HostState | None:
        """The host of that name if it holds its slot and was not given up."""
        for host in self.hosts:
            if host.name == name and host.state != "lost":
                return host
        return None

    def _host_ready(self, notice: HostReady) -> None:
        host = self._current(notice.host)
        if host is None or host.state != "starting" or notice.attempt != 0:
            self._out.append(Refuse(notice.host, notice.attempt))
            return
        host.state, host.heard_us = "ready", self._now_us
        host.address, host.machine, host.pid = notice.address, notice.machine, notice.pid
        for vertex in self.vertices.values():
            if vertex.state in ("running", "finished"):
                self._out.append(Tell(host.name, self._location(vertex)))
        for vertex in self.vertices.values():
            if vertex.slot == host.slot and vertex.state == "waiting":
                self._start(vertex)

    def _host_lost(self, name: str, reason: str) -> None:
        host = self._current(name)
        if host is None:
            return
        host.losses += 1
        if host.losses > self.config.host_restarts_max:
            self._end("failed", f"host of slot {host.slot} was lost {host.losses} times: {reason}")
            return
        host.state = "lost"
        self._out.append(Refuse(name, 0))  # should it still be alive, it must leave
        lost = [v.shape.id for v in self.vertices.values() if v.slot == host.slot]
        self.hosts[host.slot] = HostState(
            host.slot, host.generation + 1, heard_us=self._now_us, losses=host.losses
        )
        self._out.append(StartHost(self.hosts[host.slot].name))
        self._restart(v for v in lost if not self.is_settled(v))
        for vertex in lost:
            if self.is_settled(vertex):
                self._publish(self.vertices[vertex])

    # ---- vertices

    def _start(self, vertex: VertexState) -> None:
        host = self.hosts[vertex.slot]
        if host.state != "ready":
            vertex.state = "waiting"
            return
        vertex.state, vertex.host = "starting", host.name
        order = StartVertex(host.name, vertex.shape.id, vertex.epoch, vertex.checkpoint, 0, 1)
        self._out.append(Tell(host.name, order))

    def _restart(self, lost: Iterable[str]) -> None:
        """Restart these vertices, and those upstream that must recompute for them."""
        lost = list(lost)
        for name in lost:
            self.vertices[name].state = "waiting"
        chosen = plan_restarts(lost, self.topology, self.tracker, self)
        for name, ref in chosen.items():
            vertex = self.vertices[name]
            if vertex.epoch:
                vertex.restarts += 1
                vertex.fruitless_restarts += 1
            if vertex.fruitless_restarts > self.config.vertex_restarts_max:
                self._end("failed", f"vertex {name} was restarted {vertex.restarts} times in vain")
                return
            self._epoch += 1
            vertex.epoch, vertex.checkpoint = self._epoch, ref.name
            vertex.consumed, vertex.outputs = ref.inputs, ref.outputs
            vertex.released = {
                s.id: ref.outputs[s.writer.index] for s in vertex.shape.outputs if not s.is_durable
            }
            vertex.cti = MIN_TIME
            self._start(vertex)

    def _location(self, vertex: VertexState) -> Locate:
        name = vertex.shape.id
        self._locations += 1
        if self.is_serving(name):
            site = Site(vertex.epoch, vertex.host, self.hosts[vertex.slot].address)
            return Locate(name, self._locations, (site,))
        return Locate(name, self._locations, ())

    def _publish(self, vertex: VertexState) -> None:
        """Tell every host where the streams of ``vertex`` are."""
        for host in self.hosts:
            if host.state == "ready":
                self._out.append(Tell(host.name, self._location(vertex)))

    def _instance(self, vertex: str, epoch: int) -> VertexState | None:
        """The vertex, if ``epoch`` names its current instance."""
        state = self.vertices.get(vertex)
        return state if state is not None and state.epoch == epoch else None

    def _vertex_started(self, notice: VertexStarted) -> None:
        vertex = self._instance(notice.vertex, notice.epoch)
        if vertex is None or vertex.state != "starting":
            return
        vertex.state = "running"
        self._publish(vertex)

    def _vertex_finished(self, notice: VertexFinished) -> None:
        vertex = self._instance(notice.vertex, notice.epoch)
        if vertex is None:
            return
        vertex.state, vertex.digests = "finished", notice.digests
        vertex.consumed, vertex.outputs = notice.inputs, notice.outputs
        vertex.durable = notice.outputs
        vertex.events_in, vertex.events_out = notice.events_in, notice.events_out
        vertex.late_events = notice.late_events
        vertex.cti = INF_TIME
        self._advanced_us = self._now_us
        if all(v.state == "finished" for v in self.vertices.values()):
            self._end("finished", "")
            return
        self._collect_durable()

    def _vertex_failed(self, notice: VertexFailed) -> None:
        vertex = self._instance(notice.vertex, notice.epoch)
        if vertex is None:
            return
        if notice.family == "checkpoint" and vertex.checkpoint:
            self.tracker.discard(notice.vertex, vertex.checkpoint)
        elif notice.family != "operating":
            self._end("failed", f"{notice.vertex}: {notice.message}")
            return
        elif vertex.fruitless_restarts >= self.config.vertex_failures_max:
            tries = vertex.fruitless_restarts
            self._end("failed", f"{notice.vertex}: {notice.message} (after {tries} restarts)")
            return
        self._restart([notice.vertex])

    def _items_lost(self, notice: ItemsLost) -> None:
        vertex = self._instance(notice.vertex, notice.epoch)
        if vertex is None:
            return
        writer = self.topology.streams[notice.stream].writer
        upstream = self.vertices[writer.vertex]
        if upstream.state in ("running", "finished"):
            self._restart([writer.vertex])

    # ---- progress, checkpoints, marks

    def _progress(self, notice: Progress) -> None:
        host = self._current(notice.host)
        if host is None:
            return
        host.heard_us = self._now_us
        for report in notice.vertices:
            vertex = self._instance(report.vertex, report.epoch)
            if vertex is None or vertex.state not in ("starting", "running"):
                continue
            if vertex.advance(report):
                host.losses = 0
                self._advanced_us = self._now_us
        self._release_volatile()

    def _release_volatile(self) -> None:
        """Let writers forget what the readers of volatile streams have consumed."""
        marks: dict[int, list[Mark]] = {}
        for stream in self.topology.streams.values():
            if stream.is_durable or stream.reader is None:
                continue
            reader, writer = (
                self.vertices[stream.reader.vertex],
                self.vertices[stream.writer.vertex],
            )
            seq = reader.consumed[stream.reader.index] if reader.consumed else 0
            if seq > writer.released.get(stream.id, 0) and self.is_serving(writer.shape.id):
                writer.released[stream.id] = seq
                marks.setdefault(writer.slot, []).append(Mark(stream.id, seq))
        self._tell_marks(marks)

    def _tell_marks(self, marks: dict[int, list[Mark]]) -> None:
        for slot, rows in sorted(marks.items()):
            host = self.hosts[slot].name
            self._out.append(Tell(host, Collect(host, tuple(rows))))

    def _checkpoint_taken(self, notice: CheckpointTaken) -> None:
        vertex = self._instance(notice.vertex, notice.epoch)
        if vertex is None:
            self._out.append(DeleteCheckpoint(notice.name, ()))
            return
        vertex.reached(notice.inputs, notice.outputs)
        self.tracker.add(notice.vertex, CheckpointRef.announced(notice))
        self._collect_durable()

    def _collect_durable(self) -> None:
        """Apply the low-water marks: delete old checkpoints, collect durable streams."""
        low = low_water_marks(self.topology, self.tracker, self.is_settled, self.consumed)
        for name, ref in low.keep.items():
            if ref is not None:
                dropped = self.tracker.drop_before(name, ref)
                self._out.extend(DeleteCheckpoint(r.name, ()) for r in dropped)
        marks: dict[int, list[Mark]] = {}
        for stream in self.topology.streams.values():
            seq = low.marks.get(stream.id)
            writer = self.vertices[stream.writer.vertex]
            if not stream.is_durable or not seq or not self.is_serving(writer.shape.id):
                continue
            if seq > writer.released.get(stream.id, 0):
                writer.released[stream.id] = seq
                marks.setdefault(writer.slot, []).append(Mark(stream.id, seq))
        self._tell_marks(marks)

    # ---- recovery's view of the job

    def consumed(self, vertex: str) -> tuple[int, ...]:
        """Input seqs that the current instance has consumed, as last reported."""
        state = self.vertices[vertex]
        return state.consumed or (0,) * state.shape.input_count

    def is_serving(self, vertex: str) -> bool:
        """Whether an instance on a live host can serve its streams' memory."""
        state = self.vertices[vertex]
        if state.state not in ("starting", "running", "finished"):
            return False
        host = self.hosts[state.slot]
        return host.state == "ready" and host.name == state.host

    def is_settled(self, vertex: str) -> bool:
        """Whether it has finished and no restart can ask anything of its memory."""
        state = self.vertices[vertex]
        if state.state != "finished":
            return False
        return all(
            s.is_durable or (s.reader is not None and self.is_settled(s.reader.vertex))
            for s in state.shape.outputs
        )

    def released(self, stream: str) -> int:
        """Below this seq the writer was told to forget the stream."""
        writer = self.vertices[self.topology.writer(stream)]
        return writer.released.get(stream, 0)

    # ---- limits and the end

    def _tick(self, now_us: int) -> None:
        self._now_us = max(self._now_us, now_us)
        for host in self.hosts:
            silent_s = (self._now_us - host.heard_us) / _US_PER_S
            if host.state == "starting" and silent_s > self.config.host_start_wait_s:
                self._end(
                    "failed",
                    f"host {host.name} did not start within host_start_wait_s = "
                    f"{self.config.host_start_wait_s:g} s; does Spark have a free task slot for "
                    "every host?",
                )
                return
            if host.state == "ready" and silent_s > self.config.host_silence_s:
                lost = HostLost(host.name, f"silent for {silent_s:.0f} s")
                self._out.append(Feed(lost))
        stalled_s = (self._now_us - self._advanced_us) / _US_PER_S
        if stalled_s > self.config.stall_wait_s and self.state in OPEN_STATES:
            self._end("failed", f"no vertex got further for {stalled_s:.0f} s (stall_wait_s)")

    def _end(self, state: str, error: str) -> None:
        if self.state in OPEN_STATES:
            self.state, self.error = state, error
            self._out.append(EndJob(state, error))
