"""Stop: ends a job and keeps its state, so that ``resume`` continues it from there. Pure.

Theory of operation. Once all vertices have written as many items as before a failure, the job
manager requests a checkpoint from one running instance of every vertex that has not finished,
writers before readers. After the request, a source reads no more rows. A reader gets its request
after its writers have answered, and first reads their output up to their checkpoints. So the
checkpoints are a *cut*: each reader has read all output of its writers, and has consumed it, except
items that MERGE buffers for other inputs.

When all have answered, the job ends as ``stopped``; its hosts flush their streams and shut down. If
a vertex loses its instance meanwhile, its next instance gets another request. Then the checkpoints
may be no cut, so a change of the job checks them. The job ends at most ``stop_wait_s`` after the
request: ``resume`` can start from any checkpoints, so a missing one only costs time.

Invariant: a stopping job starts no twins, and waits for no vertex longer than ``stop_wait_s``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.manager import saving
from jobmanager.manager.collection import release_volatile
from jobmanager.state.job_state import STOPPING, US_PER_S
from rvertex.messages import TakeCheckpoint

if TYPE_CHECKING:
    from jobmanager.state.job_state import JobState
    from jobmanager.state.records import InstanceState
    from jobmanager.state.topology import StreamShape
    from rvertex.messages import CheckpointTaken


def stop_requested(job: JobState) -> None:
    """Begin to stop the job. A repeated request changes nothing."""
    if job.state == STOPPING:
        return
    job.state = STOPPING
    if saving.refs(job) is None:  # a complete savepoint is being written: its files must stay
        job.saving = None
    job.stop_us = job.answered_us = job.now_us
    job.unanswered = {v.shape.id: 0 for v in job.vertices.values() if not v.is_finished}
    ask(job)


def ask(job: JobState) -> None:
    """Request checkpoints from vertices whose writers have answered, if no request is open."""
    if not _have_caught_up(job):
        return
    for name, epoch in job.unanswered.items():
        if job.instance(name, epoch) is None and _is_due(job, name):
            instance = job.furthest(name)
            if instance is not None:
                job.unanswered[name] = instance.epoch
                _hold(job, name, instance)


def _have_caught_up(job: JobState) -> bool:
    """Return whether all vertices without a request have written as many items as before a failure.

    After a restart, a source reads again from its checkpoint. If it stopped too early, its readers
    would wait for items that they had consumed before the failure.
    """
    for name, epoch in job.unanswered.items():
        if job.instance(name, epoch) is not None:
            continue
        instance, vertex = job.furthest(name), job.vertices[name]
        if instance is None:
            return False
        known = [job.tracker.newest(name).outputs, vertex.durable]
        known.append(vertex.best[len(vertex.best) - len(vertex.shape.outputs) :])
        for stream in vertex.shape.outputs:
            at, reader = stream.writer.index, stream.reader
            needed = [outputs[at] for outputs in known if outputs]
            if reader is not None and not job.vertices[reader.vertex].is_finished:
                needed.append(job.tracker.newest(reader.vertex).inputs[reader.index])
            if instance.outputs[at] < max(needed):
                return False
    return True


def _hold(job: JobState, name: str, instance: InstanceState) -> None:
    """Request an instance's last checkpoint. Other instances of a source stop reading too."""
    shape = job.topology.vertices[name]
    ends = tuple(written(job, stream) for stream in shape.inputs)
    others = job.vertices[name].instances if shape.is_source else []
    for one in (instance, *(i for i in others if i is not instance and job.is_running(i))):
        job.tell(one.host, TakeCheckpoint(one.host, name, one.epoch, True, ends))


def written(job: JobState, stream: StreamShape) -> int:
    """Return the number of items of a stream at its writer's last checkpoint, or at its end."""
    writer, index = stream.writer.vertex, stream.writer.index
    if job.vertices[writer].is_finished:
        return job.vertices[writer].ends[index]
    return job.tracker.newest(writer).outputs[index]


def _is_due(job: JobState, name: str) -> bool:
    """Return whether all writers of a vertex have sent their last checkpoints."""
    shape = job.topology.vertices[name]
    return not any(stream.writer.vertex in job.unanswered for stream in shape.inputs)


def answered(job: JobState, notice: CheckpointTaken) -> None:
    """Handle a checkpoint. If no last checkpoint is missing any more, the job has stopped."""
    if notice.is_last and job.unanswered.get(notice.vertex) == notice.epoch:
        del job.unanswered[notice.vertex]
        job.answered_us = job.now_us
        ask(job)
    end_if_answered(job)


def end_if_answered(job: JobState) -> None:
    """Do not wait for vertices that have finished. End the job if no checkpoint is missing.

    Then hosts flush only items that their readers have not consumed by their last checkpoints.
    """
    for name in [n for n in job.unanswered if job.vertices[n].is_finished]:
        del job.unanswered[name]
    if not job.unanswered:
        release_volatile(job, job.vertices)
        job.end("stopped", "")


def check(job: JobState) -> None:
    """Request checkpoints from new instances, or end the job after ``stop_wait_s``."""
    ask(job)
    if job.now_us - job.stop_us > job.config.stop_wait_s * US_PER_S:
        job.end("stopped", "")
