"""JobManager: a pure state machine, ``handle(notice) -> [instruction]``.

Theory of operation. :class:`jobmanager.state.job_state.JobState` holds all its state. Each notice
goes to the part that handles it: hosts and their slots, instances and their restarts, joins and
twins, the collection of obsolete files. After a logged notice, the job manager starts missing
instances.

Invariants: (1) no I/O, clock or thread: the same notices give the same instructions; (2) epochs
only grow, and a notice of an older epoch changes nothing; (3) a checkpoint is deleted only when the
marks show that no recovery can need it; (4) every start or stop of an instance follows from a
logged notice, so the log explains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from jobmanager.errors import NoCheckpointError, NotDeterministicError
from jobmanager.manager import (
    collection,
    damage,
    hosts,
    instances,
    joining,
    live,
    memory,
    saving,
    stopping,
    takeover,
)
from jobmanager.manager.stragglers import Stragglers
from jobmanager.state.job_state import STOPPING, US_PER_S, JobState
from jobmanager.state.messages import (
    CancelRequested,
    CheckpointsKept,
    DrainRequested,
    Feed,
    FinishRequested,
    HostLost,
    JobResumed,
    JobStarted,
    OutputDamaged,
    OutputObsolete,
    OutputRestored,
    OutputWhole,
    PartitionsAdded,
    Record,
    RestartDue,
    SavepointEnded,
    SavepointRequested,
    StateCopied,
    StopRequested,
    StragglerFound,
    Tick,
    TwinLevel,
    is_logged,
)
from rvertex.messages import (
    CheckpointTaken,
    HostBusy,
    HostReady,
    ItemsLost,
    OutputLost,
    Progress,
    VertexFailed,
    VertexFinished,
    VertexStarted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobmanager.config import JobConfig
    from jobmanager.state.messages import Instruction, Notice
    from jobmanager.state.records import HostState, VertexState
    from jobmanager.state.topology import Topology
    from jobmanager.state.tracker import SnapshotTracker


class JobManager:
    """The only code that changes the job's state."""

    def __init__(
        self, topology: Topology, config: JobConfig, *, checks_output: bool = False
    ) -> None:
        """Create the job manager of a new job.

        ``checks_output``: whether the driver checks the output before the job finishes.
        """
        self.job = JobState(topology, config)
        self._checks_output = checks_output
        self._stragglers = Stragglers()

    @property
    def topology(self) -> Topology:
        return self.job.topology

    @property
    def config(self) -> JobConfig:
        return self.job.config

    @property
    def tracker(self) -> SnapshotTracker:
        return self.job.tracker

    @property
    def state(self) -> str:
        return self.job.state

    @property
    def error(self) -> str:
        return self.job.error

    @property
    def hosts(self) -> list[HostState]:
        return self.job.hosts

    @property
    def vertices(self) -> dict[str, VertexState]:
        return self.job.vertices

    def handle(self, notice: Notice) -> list[Instruction]:
        """Handle one notice. Return the instructions for the driver, in order."""
        job = self.job
        job.out = []
        if job.is_open or isinstance(notice, JobResumed):
            is_to_log = is_logged(notice) and not self.is_stale(notice)
            try:
                self._dispatch(notice)
                if job.is_open and is_to_log:
                    joining.fill(job, self._concerned(notice))
                    hosts.release_drained(job)
            except NotDeterministicError as error:
                job.end("failed", str(error))
            except NoCheckpointError as error:
                job.end("failed", damage.explained(job, error))
            if job.has_fallen_back and job.is_open:
                job.out.insert(0, Record(collection.checkpoints_kept(job)))
            job.has_fallen_back = False
        return job.out

    def recall(self, notices: Iterable[Notice]) -> None:
        """Apply the log of a predecessor. No instruction follows from it."""
        for notice in notices:
            takeover.recall(self.job, notice)
        collection.collect_durable(self.job)
        self.job.out = []

    def copy_state(self) -> StateCopied:
        """Return a copy of the state that can replace all notices in the log so far.

        Call it between two notices.
        """
        return takeover.copy_of(self.job)

    def is_stale(self, notice: Notice) -> bool:
        """Return whether the sender has been replaced. Such a notice is not logged."""
        kinds = (
            VertexStarted | CheckpointTaken | VertexFinished | VertexFailed | ItemsLost | OutputLost
        )
        return isinstance(notice, kinds) and not self.job.instance(notice.vertex, notice.epoch)

    def _dispatch(self, notice: Notice) -> None:
        job = self.job
        match notice:
            case Progress():
                collection.progress(job, notice)
                joining.compare_twins(job, [report.vertex for report in notice.vertices])
            case HostBusy():
                hosts.busy(job, notice)
            case Tick(now_us=now_us):
                self._tick(now_us)
            case CheckpointTaken():
                collection.checkpoint_taken(job, notice)
                if job.state == STOPPING:
                    stopping.answered(job, notice)
            case JobStarted() | JobResumed():
                hosts.begin(job, notice)
            case HostReady():
                hosts.ready(job, notice)
            case HostLost(host=host, reason=reason):
                hosts.lost(job, host, reason)
            case PartitionsAdded():
                instances.partitions_added(job, notice)
            case VertexStarted():
                instances.started(job, notice)
            case VertexFinished():
                if instances.finished(job, notice):
                    collection.collect_now_and_then(job)
                    self._end_if_finished()
                    if job.state == STOPPING:
                        stopping.end_if_answered(job)
            case VertexFailed(family=memory.FAMILY, vertex=vertex) if vertex in job.vertices:
                instances.failed(job, memory.named(job, notice))
            case VertexFailed():
                instances.failed(job, notice)
            case ItemsLost():
                damage.items_lost(job, notice)
            case OutputLost():
                damage.output_lost(job, notice)
            case OutputDamaged():
                damage.output_damaged(job, notice)
            case OutputObsolete(marks=marks):
                collection.output_obsolete(job, marks)
            case OutputRestored():
                damage.output_restored(job, notice)
            case OutputWhole():
                damage.output_intact(job)
            case CheckpointsKept() | StateCopied():
                pass  # for a successor only
            case CancelRequested():
                job.end("cancelled", "")
            case FinishRequested():
                live.end_sources(job)
            case StopRequested():
                stopping.stop_requested(job)
            case SavepointRequested() | SavepointEnded():
                self._save(notice)
            case DrainRequested() | StragglerFound() | TwinLevel() | RestartDue():
                self._own_finding(notice)
            case _:
                assert_never(notice)

    def _end_if_finished(self) -> None:
        """Finish the job if all vertices have finished, or first request a check of the output."""
        if not all(vertex.is_finished for vertex in self.job.vertices.values()):
            return
        if self._checks_output:
            damage.check_output(self.job)
        else:
            self.job.end("finished", "")

    def _concerned(self, notice: Notice) -> Iterable[VertexState]:
        """Return the vertices whose joins a notice may advance.

        A notice of an instance affects its vertex only. But while a host is drained, it may affect
        all vertices, because the end of one twin allows the next one.
        """
        vertices = self.job.vertices
        if any(host.is_draining for host in self.job.hosts):
            return vertices.values()
        match notice:
            case VertexStarted() | CheckpointTaken() | VertexFinished():
                return [vertices[notice.vertex]]
            case HostReady():
                return [vertex for vertex in vertices.values() if vertex.joins]
            case _:
                return vertices.values()

    def _save(self, notice: SavepointRequested | SavepointEnded) -> None:
        if isinstance(notice, SavepointRequested):
            saving.begin(self.job)
        else:
            collection.savepoint_ended(self.job)

    def _own_finding(
        self, notice: DrainRequested | StragglerFound | TwinLevel | RestartDue
    ) -> None:
        job = self.job
        match notice:
            case DrainRequested(host=host):
                hosts.drain_requested(job, host)
            case StragglerFound():
                joining.straggler_found(job, notice)
            case TwinLevel():
                joining.twin_level(job, notice)
            case RestartDue(vertex=vertex):
                instances.due(job, vertex)

    def _tick(self, now_us: int) -> None:
        """Check the time limits. Only the job's end is decided here; other findings are notices."""
        job = self.job
        job.now_us = max(job.now_us, now_us)
        hosts.check_limits(job)
        stalled_s = (job.now_us - job.advanced_us) / US_PER_S
        if stalled_s > job.config.stall_wait_s and not job.waiting and not live.is_endless(job):
            busy = "".join(f"; {host.busy}" for host in job.hosts if host.busy)
            job.end("failed", f"no vertex made progress for {stalled_s:.0f} s (stall_wait_s){busy}")
        if not job.is_open:
            return
        for name, vertex in job.vertices.items():
            if vertex.due_us is not None and vertex.due_us <= job.now_us:
                job.out.append(Feed(RestartDue(name)))
        if job.state == STOPPING:
            stopping.check(job)
            return
        if (request := live.request_at_end(job)) is not None:
            job.out.append(Feed(request))
        joining.request_again(job)
        saving.ask(job)
        self._stragglers.find(job)
