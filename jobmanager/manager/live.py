"""Live sources: leases of their hosts, the end of their logs, and when all rows are done. Pure.

The job manager answers each report of a host that has a source of live logs. The answer repeats the
time of the report by the host's own clock. The host's lease starts at that time, not when the
answer arrives. So a host that hangs cannot extend its lease with an old answer.
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
    """Answer the report of a host that holds its slot, to extend its lease for live logs."""
    vertices = [job.vertices[r.vertex] for r in report.vertices if r.vertex in job.vertices]
    live = [vertex for vertex in vertices if vertex.shape.is_live]
    if live:
        job.tell(report.host, Confirm(report.host, report.sent_us, _reached(job, live)))


def end_sources(job: JobState) -> None:
    """End all live sources at their present positions, including sources that start later."""
    job.is_finishing = True
    for vertex, instance in job.instances():
        order_end(job, vertex, instance)


def order_end(job: JobState, vertex: VertexState, instance: InstanceState) -> None:
    """If the job is finishing, let an instance of a live source end."""
    if job.is_finishing and vertex.shape.is_live and job.is_running(instance):
        host = instance.host
        job.tell(host, EndSource(host, vertex.shape.id, instance.epoch))


def is_endless(job: JobState) -> bool:
    """Return whether vertices may wait for input without limit."""
    return any(v.shape.is_live and not v.is_finished for v in job.vertices.values())


def request_at_end(job: JobState) -> StopRequested | FinishRequested | None:
    """Return the request that a job makes to itself after the last row, according to ``at_end``.

    None while rows are left, or if the job waits for more.
    """
    if job.config.at_end == "wait" or job.is_finishing or not _has_processed_all(job):
        return None
    return StopRequested() if job.config.at_end == "stop" else FinishRequested()


def _has_processed_all(job: JobState) -> bool:
    """Return whether all sources are at their ends, and all vertices have processed their input.

    A report has the consumed and written seqs of a vertex at one moment. So if all sources are at
    their ends, and each reader has consumed all written items, no more items follow. Items that
    MERGE buffers for other inputs count as not consumed, perhaps forever. Then the job counts as
    done after no vertex has made progress for ``stop_lag_s``.
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
    """Return whether the vertex has no source, or a live source that it has read to its end."""
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
    """Return the number of items of a stream that its writer has reported as written."""
    writer = job.vertices[stream.writer.vertex]
    if writer.is_finished:
        return writer.ends[stream.writer.index]
    leader = writer.leader
    return 0 if leader is None else leader.outputs[stream.writer.index]


def _reached(job: JobState, vertices: Sequence[VertexState]) -> tuple[Reached, ...]:
    """Return per vertex the smallest event time that other partitions of its source have.

    Only active partitions of other vertices of the stage count. A vertex is left out if there are
    none.
    """
    frontiers = {v.shape.id: _frontier(v) for v in job.vertices.values() if v.shape.is_live}
    reached: list[Reached] = []
    for vertex in vertices:
        others = [
            time
            for sibling in job.vertices.values()
            if sibling.shape.stage == vertex.shape.stage and sibling is not vertex
            if (time := frontiers.get(sibling.shape.id)) is not None
        ]
        if others:
            reached.append(Reached(vertex.shape.id, min(others)))
    return tuple(reached)


def _frontier(vertex: VertexState) -> int | None:
    """Return the smallest event time that an active partition has reached; None if all are idle.

    A partition that has reported none counts as the earliest time.
    """
    if vertex.is_finished:
        return None
    leader = vertex.leader
    if leader is None or not leader.logs:
        return MIN_TIME
    return min((log.rows_frontier for log in leader.logs if log.state == "active"), default=None)
