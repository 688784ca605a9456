"""Live sources: leases of their hosts, the end of their logs, and when all of it is done. Pure.

The job manager answers each report of a host that has a source of live logs. The answer names the
time of the report by the host's own clock: from then on, not from when the answer arrives, the
host has a lease. So a host that hangs cannot take old answers for new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.state.job_state import US_PER_S
from jobmanager.state.messages import FinishRequested, StopRequested
from rstream.types import MIN_TIME
from rvertex.messages import Confirm, EndSource, Reached

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.state.job_state import JobState
    from jobmanager.state.records import InstanceState, VertexState
    from jobmanager.state.topology import StreamShape
    from rvertex.messages import Progress


def confirm(job: JobState, report: Progress) -> None:
    """Answer the report of a host that holds its slot, if it has a source of live logs."""
    vertices = [job.vertices[r.vertex] for r in report.vertices if r.vertex in job.vertices]
    mine = [vertex for vertex in vertices if vertex.shape.is_live]
    if mine:
        job.tell(report.host, Confirm(report.host, report.sent_us, _reached(job, mine)))


def end_sources(job: JobState) -> None:
    """End all live logs at what was read of them; what starts later ends too."""
    job.is_finishing = True
    for vertex, instance in job.instances():
        tell_end(job, vertex, instance)


def tell_end(job: JobState, vertex: VertexState, instance: InstanceState) -> None:
    """Tell an instance of a live source to end, if the job is to come to its end."""
    if job.is_finishing and vertex.shape.is_live and job.is_running(instance):
        host = instance.host
        job.tell(host, EndSource(host, vertex.shape.id, instance.epoch))


def is_endless(job: JobState) -> bool:
    """Whether vertices may wait for input for any time."""
    return any(v.shape.is_live and not v.is_finished for v in job.vertices.values())


def request_at_end(job: JobState) -> StopRequested | FinishRequested | None:
    """What a job asks of itself that is to work up what is there, once it has."""
    if job.config.at_end == "wait" or job.is_finishing or not _has_worked_all_up(job):
        return None
    return StopRequested() if job.config.at_end == "stop" else FinishRequested()


def _has_worked_all_up(job: JobState) -> bool:
    """Whether all sources are at their ends, and nobody will do anything more about it.

    A report tells what a vertex had consumed and written at one moment. So if sources are at their
    ends, and each reader has consumed what its writer had written, what was written is all. What a
    MERGE holds back for other inputs is never consumed: then it counts that nobody got further.
    """
    for vertex in job.vertices.values():
        if vertex.is_finished:
            continue
        leader = vertex.leader
        if leader is None or leader.state != "running" or not _is_at_end(vertex, leader):
            return False
    if all(_has_consumed_all(job, vertex) for vertex in job.vertices.values()):
        return True
    is_quiet = job.now_us - job.advanced_us > job.config.stop_lag_s * US_PER_S
    return is_quiet and not any(host.busy for host in job.hosts)


def _is_at_end(vertex: VertexState, leader: InstanceState) -> bool:
    """Whether it has no source, or one of live logs that it has read."""
    if not vertex.shape.is_source:
        return True
    return bool(leader.logs) and all(log.at_end for log in leader.logs)


def _has_consumed_all(job: JobState, vertex: VertexState) -> bool:
    leader = vertex.leader
    if vertex.is_finished or vertex.shape.is_source or leader is None:
        return vertex.is_finished or leader is not None
    streams = zip(vertex.shape.inputs, leader.consumed, strict=True)
    return all(seq >= _written(job, stream) for stream, seq in streams)


def _written(job: JobState, stream: StreamShape) -> int:
    """How many items the writer of a stream has written, as far as it was heard."""
    writer = job.vertices[stream.writer.vertex]
    if writer.is_finished:
        return writer.ends[stream.writer.index]
    leader = writer.leader
    return 0 if leader is None else leader.outputs[stream.writer.index]


def _reached(job: JobState, mine: Sequence[VertexState]) -> tuple[Reached, ...]:
    """For each of these, how far the rows of its siblings' active partitions have come: the least.

    A vertex is left out if its siblings are all idle; it never follows itself.
    """
    frontiers = {v.shape.id: _frontier(v) for v in job.vertices.values() if v.shape.is_live}
    found: list[Reached] = []
    for vertex in mine:
        others = [
            time
            for sibling in job.vertices.values()
            if sibling.shape.stage == vertex.shape.stage and sibling is not vertex
            if (time := frontiers.get(sibling.shape.id)) is not None
        ]
        if others:
            found.append(Reached(vertex.shape.id, min(others)))
    return tuple(found)


def _frontier(vertex: VertexState) -> int | None:
    """Of its partitions that are not idle; None: there are none. Unknown: nothing is reached."""
    if vertex.is_finished:
        return None
    leader = vertex.leader
    if leader is None or not leader.logs:
        return MIN_TIME
    return min((log.rows_frontier for log in leader.logs if log.state == "active"), default=None)
