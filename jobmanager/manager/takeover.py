"""Takeover: what a job manager learns from the notices of its predecessor. Pure.

Only facts count that outlive every process: the checkpoints, the finished vertices, the used names.
Earlier decisions (restarts, joins, drains) ended with the hosts. So a successor need not repeat
them, and may have another configuration. It assumes that no instance lives, and applies the marks
at the same notices as its predecessor. So it keeps no checkpoint that was deleted or rejected: a
job manager with living instances keeps at least as much, and both reject the same (ADR 22). If the
predecessor fell back to older checkpoints for a reason that is not in the log, it logged the
remaining ones. The log also has its retention. A copy of the state replaces all notices before it.
It has the checkpoints that the predecessor kept, at least those that a successor would have kept.

Invariants: (1) names of hosts and epochs of instances are never reused: names contain the number of
takeovers, which is durable before the first order, and a takeover skips more epochs than can have
been used since the log was last durable; (2) the log has no notice of a fenced instance
(:meth:`jobmanager.manager.manager.JobManager.is_stale`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.manager.collection import (
    collect_durable,
    collect_now_and_then,
    record_checkpoint,
    take_up,
)
from jobmanager.manager.damage import output_restored
from jobmanager.state.messages import (
    CheckpointsKept,
    FinishRequested,
    JobResumed,
    JobStarted,
    OutputDamaged,
    OutputRestored,
    PartitionsAdded,
    StateCopied,
    VertexCopy,
)
from jobmanager.state.records import VertexState
from rstream.types import INF_TIME, MIN_TIME
from rvertex.messages import CheckpointTaken, Mark, VertexFinished

if TYPE_CHECKING:
    from jobmanager.state.job_state import JobState
    from jobmanager.state.messages import Notice


def recall(job: JobState, notice: Notice) -> None:
    """Apply the facts of a logged notice."""
    job.epoch = max(job.epoch, getattr(notice, "epoch", 0))
    match notice:
        case CheckpointTaken():
            record_checkpoint(job, notice)
            collect_now_and_then(job)
        case VertexFinished(vertex=vertex):
            job.vertices[vertex].record_end(notice)
            collect_now_and_then(job)
        case OutputDamaged(stream=stream):
            job.vertices[job.topology.writer(stream)].is_finished = False
        case FinishRequested():
            job.is_finishing = True
        case OutputRestored():
            output_restored(job, notice)
        case PartitionsAdded(vertices=vertices):
            # Changes nothing if the plan, which became durable earlier, has the partitions.
            for row in vertices:
                job.add_partitions(row.vertex, row.partitions)
        case CheckpointsKept():
            take_up(job, notice)
        case StateCopied():
            _begin_from(job, notice)
        case JobStarted(retain_us=retain_us):
            job.retain_us = retain_us
        case JobResumed(retain_us=retain_us):
            collect_durable(job)  # the predecessor did so after it had read the log up to here
            job.retain_us = retain_us
            job.take_over()
        case _:
            pass


def copy_of(job: JobState) -> StateCopied:
    """Return a copy of a running job's state, which replaces all notices so far."""
    return StateCopied(
        epoch=job.epoch,
        takeovers=job.takeovers,
        retain_us=job.retain_us,
        checkpointed_us=job.checkpointed_us,
        uncollected=job.uncollected,
        collected_us=job.collected_us,
        collected=tuple(Mark(stream, seq) for stream, seq in sorted(job.collected.items())),
        is_damaged=job.is_damaged,
        is_finishing=job.is_finishing,
        vertices=tuple(_vertex_copy(job, vertex) for vertex in job.vertices.values()),
    )


def _vertex_copy(job: JobState, vertex: VertexState) -> VertexCopy:
    return VertexCopy(
        vertex=vertex.shape.id,
        refs=tuple(job.tracker.refs(vertex.shape.id)),
        parts=tuple(vertex.parts),
        is_finished=vertex.is_finished,
        finisher=vertex.finisher,
        digests=vertex.digests,
        ends=vertex.ends,
        counts=vertex.counts,
        added=vertex.shape.added,
    )


def _begin_from(job: JobState, notice: StateCopied) -> None:
    """Replace the state by a copy."""
    job.epoch, job.takeovers = notice.epoch, notice.takeovers
    job.retain_us = notice.retain_us
    job.checkpointed_us, job.collected_us = notice.checkpointed_us, notice.collected_us
    job.uncollected = notice.uncollected
    job.collected = {mark.stream: mark.seq for mark in notice.collected}
    job.is_damaged, job.is_finishing = notice.is_damaged, notice.is_finishing
    for copy in notice.vertices:
        # The plan has these partitions, unless a replaced driver wrote an older plan.
        job.add_partitions(copy.vertex, copy.added)
        job.tracker.restore(copy.vertex, copy.refs)
        job.vertices[copy.vertex] = VertexState(
            job.topology.vertices[copy.vertex],
            is_new=not copy.is_finished,
            is_finished=copy.is_finished,
            finisher=copy.finisher,
            digests=copy.digests,
            ends=copy.ends,
            cti=INF_TIME if copy.is_finished else MIN_TIME,
            counts=copy.counts,
            parts=dict.fromkeys(copy.parts),
        )
