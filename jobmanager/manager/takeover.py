"""Takeover: what a job manager learns from the notices of its predecessor. Pure.

Only facts count that outlive every process: which checkpoints there are, who has finished, which
names were used. What was decided then (who was restarted, joined, drained) ended with the hosts, so
a successor need not come to the same decisions, and may be told to work differently. It assumes
that nobody lives, and applies the marks at the places of the log where its predecessor did; that
keeps no checkpoint that was deleted or refused, because one that knows of living instances keeps at
least as much, and both refuse the same (ADR 22). Where the predecessor fell back to checkpoints for
a reason that only it could see, it logged what it was left with. Its retention is in the log, too.

Invariants: (1) names of hosts and epochs of instances are never given twice, as the names of hosts
count the takeovers, which are durable before they order anything, and epochs skip more than can
have been given out since the log was last durable; (2) the log holds no
notice of an instance that was fenced (:meth:`jobmanager.manager.manager.JobManager.is_stale`).
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
    JobResumed,
    JobStarted,
    OutputDamaged,
    OutputRestored,
)
from rvertex.messages import CheckpointTaken, VertexFinished

if TYPE_CHECKING:
    from jobmanager.state.job_state import JobState
    from jobmanager.state.messages import Notice


def recall(job: JobState, notice: Notice) -> None:
    """Learn from a notice of the log."""
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
        case OutputRestored():
            output_restored(job, notice)
        case CheckpointsKept():
            take_up(job, notice)
        case JobStarted(retain_us=retain_us):
            job.retain_us = retain_us
        case JobResumed(retain_us=retain_us):
            collect_durable(job)  # as it had done itself, when it had read the log until here
            job.retain_us = retain_us
            job.take_over()
        case _:
            pass
