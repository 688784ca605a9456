"""Stop: ends a job whose state is to be kept, so that ``resume`` goes on where it was. Pure.

Theory of operation. The job manager asks one running instance of every vertex that has not finished
for a checkpoint, writers before readers: a reader is asked when it has consumed what its writers
had written at theirs, or ``stop_lag_s`` after they took them. So a resume can use all of them, also
where channels are volatile. When all have answered the job ends as ``stopped``; its hosts flush
what they have written and leave. A vertex whose instance is lost meanwhile is asked again when it
runs. The job ends ``stop_wait_s`` after the request in any case: a resume may start from any
checkpoints, so what was not answered costs time alone.

Invariant: a job that stops starts no twins and gives nobody more time than the limit says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.state.job_state import STOPPING, US_PER_S
from rvertex.messages import TakeCheckpoint

if TYPE_CHECKING:
    from jobmanager.state.job_state import JobState
    from rvertex.messages import CheckpointTaken


def stop_requested(job: JobState) -> None:
    """A user wants the job to stop; asked again, it changes nothing."""
    if job.state == STOPPING:
        return
    job.state = STOPPING
    job.stop_us = job.answered_us = job.now_us
    job.unanswered = {v.shape.id: 0 for v in job.vertices.values() if not v.is_finished}
    ask(job)


def ask(job: JobState) -> None:
    """Ask vertices whose turn it is, if nobody of theirs was asked who is still there."""
    for name, asked in job.unanswered.items():
        if job.instance(name, asked) is None and _is_due(job, name):
            running = [i for i in job.vertices[name].instances if job.is_running(i)]
            for instance in running[:1]:
                job.unanswered[name] = instance.epoch
                job.tell(instance.host, TakeCheckpoint(instance.host, name, instance.epoch))


def _is_due(job: JobState, name: str) -> bool:
    """Whether its writers have answered, and it has consumed what they had written then."""
    shape = job.topology.vertices[name]
    if any(stream.writer.vertex in job.unanswered for stream in shape.inputs):
        return False
    lag_us = job.now_us - job.answered_us
    if not shape.inputs or lag_us > job.config.stop_lag_s * US_PER_S:
        return True
    consumed = job.consumed(name)
    return all(
        s.is_durable or job.tracker.newest(s.writer.vertex).outputs[s.writer.index] <= seq
        for s, seq in zip(shape.inputs, consumed, strict=True)
    )


def answered(job: JobState, notice: CheckpointTaken) -> None:
    """A checkpoint was taken; if it was the last that was waited for, the job has stopped."""
    if notice.asked and job.unanswered.get(notice.vertex) == notice.epoch:
        del job.unanswered[notice.vertex]
        job.answered_us = job.now_us
        ask(job)
    end_if_answered(job)


def end_if_answered(job: JobState) -> None:
    """Nobody is waited for who has finished meanwhile."""
    for name in [n for n in job.unanswered if job.vertices[n].is_finished]:
        del job.unanswered[name]
    if not job.unanswered:
        job.end("stopped", "")


def check(job: JobState) -> None:
    """Time has passed: ask newcomers, or wait no longer."""
    ask(job)
    if job.now_us - job.stop_us > job.config.stop_wait_s * US_PER_S:
        job.end("stopped", "")
