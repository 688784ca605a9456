"""Live sources: leases of their hosts, and the end of their logs. Pure.

The job manager answers each report of a host that has a source of live logs. The answer names the
time of the report by the host's own clock: from then on, not from when the answer arrives, the
host has a lease. So a host that hangs cannot take old answers for new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.types import MIN_TIME
from rvertex.messages import Confirm, EndSource, Reached

if TYPE_CHECKING:
    from jobmanager.state.job_state import JobState
    from jobmanager.state.records import InstanceState, VertexState
    from rvertex.messages import Progress


def confirm(job: JobState, report: Progress) -> None:
    """Answer the report of a host that holds its slot, if it has a source of live logs."""
    vertices = [job.vertices[r.vertex] for r in report.vertices if r.vertex in job.vertices]
    if any(vertex.shape.is_live for vertex in vertices):
        job.tell(report.host, Confirm(report.host, report.sent_us, _reached(job)))


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


def _reached(job: JobState) -> tuple[Reached, ...]:
    """By stage with live logs, the least frontier of the partitions that are not idle.

    A stage is left out if all of its partitions are idle, or nothing is known of one of them.
    """
    least: dict[str, int] = {}
    for vertex in job.vertices.values():
        if not vertex.shape.is_live or vertex.is_finished:
            continue
        leader = vertex.leader
        times = [log.frontier for log in leader.logs if log.state == "active"] if leader else []
        if leader is None or not leader.logs:
            times = [MIN_TIME]
        for time in times:
            least[vertex.shape.stage] = min(time, least.get(vertex.shape.stage, time))
    return tuple(Reached(stage, time) for stage, time in least.items())
