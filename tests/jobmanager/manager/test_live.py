"""What the job manager answers to hosts with live sources: leases, and whom silent logs follow.

Cannot catch: what a host makes of it (tests/sim runs live jobs).
"""

from __future__ import annotations

from dataclasses import replace

from jobmanager.config import JobConfig
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import FinishRequested, JobStarted, Tell
from jobmanager.state.topology import Topology
from rstream.types import MIN_TIME
from rvertex.messages import (
    Confirm,
    Counts,
    EndSource,
    HostReady,
    LogProgress,
    Progress,
    Reached,
    VertexProgress,
    VertexStarted,
)
from rvertex.vertex.spec import OutputEdge, VertexId
from tests.support.logs import log_vertex

HOST = "h0.0"


def manager(vertices: int) -> JobManager:
    """A job whose only stage reads a live log with so many vertices, all at work on one host."""
    spec = log_vertex(1, delay_us=0, cti_every_us=4, replays=False)
    specs = [
        replace(
            spec,
            id=VertexId(f"v.{k}"),
            index=k,
            outputs=(OutputEdge((f"out{k}",), (f"out{k}",), (), "async", is_sink=True),),
        )
        for k in range(vertices)
    ]
    found = JobManager(Topology(specs), JobConfig())
    found.handle(JobStarted(1, 0))
    found.handle(HostReady(HOST, 0, 1, "m", "a"))
    for k in range(vertices):
        found.handle(VertexStarted(HOST, f"v.{k}", epoch_of(found, k), (0, 0)))
    return found


def epoch_of(found: JobManager, k: int) -> int:
    return found.vertices[f"v.{k}"].instances[0].epoch


def report(found: JobManager, sent_us: int, *logs: tuple[str, int]) -> list[Confirm]:
    """A report in which each vertex has one partition; gives the answers."""
    rows = tuple(
        VertexProgress(
            *(f"v.{k}", epoch_of(found, k), (0, 0), (0,), (0,), MIN_TIME, 0, Counts(), 0),
            logs=(LogProgress(k, 0, -1, frontier, 0, state, 0, 0),),
        )
        for k, (state, frontier) in enumerate(logs)
    )
    out = found.handle(Progress(HOST, rows, sent_us))
    told = [i.instruction for i in out if isinstance(i, Tell)]
    return [i for i in told if isinstance(i, Confirm)]


def test_an_answer_names_the_time_of_the_report_by_the_hosts_clock() -> None:
    assert report(manager(1), 77, ("active", 5)) == [Confirm(HOST, 77, ())]


def test_a_silent_log_follows_its_siblings_that_are_not_and_never_itself() -> None:
    found = manager(3)
    (answer,) = report(found, 1, ("active", 5), ("active", 9), ("idle", 3))
    assert answer.reached == (Reached("v.0", 9), Reached("v.1", 5), Reached("v.2", 5))
    (answer,) = report(found, 2, ("active", 5), ("idle", 9), ("idle", 3))
    assert answer.reached == (Reached("v.1", 5), Reached("v.2", 5))
    (answer,) = report(found, 3, ("idle", 5), ("idle", 9), ("idle", 3))
    assert answer.reached == ()


def test_a_host_that_lost_its_slot_has_no_answer() -> None:
    assert manager(1).handle(Progress("h0.7", (), 5)) == []


def test_whoever_starts_after_a_job_is_to_finish_ends_too() -> None:
    found = manager(2)
    out = found.handle(FinishRequested())
    ended = [i.instruction.vertex for i in out if isinstance(i, Tell) and _ends(i)]  # type: ignore[union-attr]
    assert ended == ["v.0", "v.1"]
    copy = JobManager(found.topology, JobConfig())
    copy.recall([JobStarted(1, 0), FinishRequested()])
    assert copy.job.is_finishing


def _ends(told: Tell) -> bool:
    return isinstance(told.instruction, EndSource)
