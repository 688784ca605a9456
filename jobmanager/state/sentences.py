"""Describes the history of a job: one sentence per notice of its log. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.state import messages as own
from rvertex import messages as host_notices

if TYPE_CHECKING:
    from jobmanager.state.messages import Notice


def sentence(notice: Notice) -> str:
    """Return the sentence for a notice; empty for internal bookkeeping."""
    return _of_vertices(notice) or _of_the_job(notice)


def _of_vertices(notice: Notice) -> str:
    match notice:
        case host_notices.VertexStarted(host=host, vertex=vertex, epoch=epoch, inputs=inputs):
            at = ", ".join(map(str, inputs))
            return f"{vertex} runs on {host} as instance {epoch}, reading from {at}"
        case host_notices.CheckpointTaken(vertex=vertex, inputs=inputs, size_bytes=size):
            at = ", ".join(map(str, inputs))
            return f"{vertex} has a checkpoint at {at} ({size:,} bytes)"
        case host_notices.VertexFinished(vertex=vertex):
            return f"{vertex} has finished"
        case host_notices.VertexFailed(vertex=vertex, family=family, message=message):
            return f"{vertex} failed ({family}): {message}"
        case host_notices.ItemsLost(vertex=vertex, stream=stream, seq=seq):
            return f"{vertex} needs item {seq} of {stream}, lost: its writer recomputes it"
        case own.StragglerFound(vertex=vertex):
            return f"{vertex} is behind its siblings and gets a second instance"
        case own.RestartDue(vertex=vertex):
            return f"{vertex} is restarted"
        case _:
            return ""


def _of_the_job(notice: Notice) -> str:
    match notice:
        case own.JobStarted(hosts=hosts):
            return f"the job begins with {hosts} host{'s' if hosts > 1 else ''}"
        case own.JobResumed(hosts=hosts):
            return f"a new job manager continues with {hosts} host{'s' if hosts > 1 else ''}"
        case host_notices.HostReady(host=host, pid=pid, machine=machine):
            return f"host {host} has started: process {pid} on {machine}"
        case own.HostLost(host=host, reason=reason):
            return f"host {host} is lost: {reason}"
        case own.CancelRequested():
            return "the job was cancelled"
        case own.StopRequested():
            return "the job was requested to stop and keep its state"
        case own.FinishRequested():
            return "the sources were requested to end"
        case own.DrainRequested(host=host):
            return f"host {host} is being drained"
        case own.OutputDamaged(stream=stream, seq=seq, reason=reason):
            return f"output {stream} is damaged from item {seq} on: {reason}"
        case own.OutputRestored():
            return "the output is complete again"
        case _:
            return ""
