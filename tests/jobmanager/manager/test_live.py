"""The job manager's answers to hosts with live sources: leases, and which clock idle logs follow.

Not covered: how hosts act on them (tests/sim runs live jobs).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jobmanager.config import JobConfig
from jobmanager.driver.report import status_of
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import (
    Feed,
    FinishRequested,
    HostLost,
    JobStarted,
    StopRequested,
    Tell,
    Tick,
)
from jobmanager.state.topology import Topology
from rstream.types import MIN_TIME
from rvertex.messages import (
    Confirm,
    Counts,
    EndSource,
    HostBusy,
    HostReady,
    LogProgress,
    Progress,
    Reached,
    StartVertex,
    VertexFailed,
    VertexProgress,
    VertexStarted,
)
from rvertex.vertex.spec import OutputEdge, VertexId
from tests.support.logs import log_vertex
from tests.support.scene import Scene
from tests.support.shapes import vertex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.config import AtEnd
    from rvertex.vertex.spec import Durability

HOST = "h0.0"


def manager(
    vertices: int, config: JobConfig | None = None, *, stages: Sequence[str] = ()
) -> JobManager:
    """A job whose only stage reads a live log with this number of vertices, all on one host.

    ``stages``: a stage per vertex instead.
    """
    spec = log_vertex(1, delay_us=0, cti_every_us=4, replays=False)
    specs = [
        replace(
            spec,
            id=VertexId(f"v.{k}"),
            index=k,
            stage=stages[k] if stages else spec.stage,
            outputs=(OutputEdge((f"out{k}",), (f"out{k}",), (), "async", is_sink=True),),
        )
        for k in range(vertices)
    ]
    found = JobManager(Topology(specs), config or JobConfig())
    found.handle(JobStarted(1, 0))
    found.handle(HostReady(HOST, 0, 1, "m", "a"))
    for k in range(vertices):
        found.handle(VertexStarted(HOST, f"v.{k}", epoch_of(found, k), (0, 0)))
    return found


def epoch_of(found: JobManager, k: int) -> int:
    return found.vertices[f"v.{k}"].instances[0].epoch


def report(found: JobManager, sent_us: int, *logs: tuple[str, int]) -> list[Confirm]:
    """A report in which each vertex has one partition. Return the answers.

    The promise for each partition is above the times of its rows.
    """
    rows = tuple(
        VertexProgress(
            *(f"v.{k}", epoch_of(found, k), (0, 0), (0,), (0,), MIN_TIME, 0, Counts(), 0),
            logs=(LogProgress(k, 0, -1, rows + 50, 0, state, 0, 0, rows_frontier=rows),),
        )
        for k, (state, rows) in enumerate(logs)
    )
    out = found.handle(Progress(HOST, rows, sent_us))
    told = [i.instruction for i in out if isinstance(i, Tell)]
    return [i for i in told if isinstance(i, Confirm)]


def test_a_response_has_the_report_time_by_the_clock_of_the_host() -> None:
    assert report(manager(1), 77, ("active", 5)) == [Confirm(HOST, 77, ())]


def test_a_silent_log_follows_its_active_siblings_but_not_itself() -> None:
    found = manager(3)
    (answer,) = report(found, 1, ("active", 5), ("active", 9), ("idle", 3))
    assert answer.reached == (Reached("v.0", 9), Reached("v.1", 5), Reached("v.2", 5))
    (answer,) = report(found, 2, ("active", 5), ("idle", 9), ("idle", 3))
    assert answer.reached == (Reached("v.1", 5), Reached("v.2", 5))
    (answer,) = report(found, 3, ("idle", 5), ("idle", 9), ("idle", 3))
    assert answer.reached == ()


def test_logs_of_other_sources_are_not_siblings() -> None:
    """The times of two sources may differ without limit."""
    found = manager(4, stages=["a", "a", "b", "b"])
    (answer,) = report(found, 1, ("idle", 5), ("active", 9), ("idle", 3), ("active", 70))
    assert answer.reached == (Reached("v.0", 9), Reached("v.2", 70))


def test_a_source_that_starts_while_the_job_finishes_is_told_to_end() -> None:
    found = manager(1)
    found.handle(FinishRequested())
    found.handle(VertexFailed("v.0", epoch_of(found, 0), "store", "away", ""))
    out = found.handle(VertexStarted(HOST, "v.0", epoch_of(found, 0), (0, 0)))
    ends = [i.instruction for i in out if isinstance(i, Tell)]
    assert EndSource(HOST, "v.0", epoch_of(found, 0)) in ends


def test_a_host_that_lost_its_slot_gets_no_response() -> None:
    assert manager(1).handle(Progress("h0.7", (), 5)) == []


def test_an_instance_that_starts_after_finish_was_requested_ends_too() -> None:
    found = manager(2)
    out = found.handle(FinishRequested())
    ended = [i.instruction.vertex for i in out if isinstance(i, Tell) and _ends(i)]  # type: ignore[union-attr]
    assert ended == ["v.0", "v.1"]
    copy = JobManager(found.topology, JobConfig())
    copy.recall([JobStarted(1, 0), FinishRequested()])
    assert copy.job.is_finishing


def reported(found: JobManager, now_us: int, *ends: bool) -> list[object]:
    """A report of vertices at the end of their logs or not.

    Return the partitions that a tick feeds.
    """
    rows = tuple(
        VertexProgress(
            *(f"v.{k}", epoch_of(found, k), (0, 0), (0,), (0,), MIN_TIME, 0, Counts(), 0),
            logs=(LogProgress(k, 0, 0, 5, 0, "active", 0, 0, at_end=end),),
        )
        for k, end in enumerate(ends)
    )
    found.handle(Progress(HOST, rows, 1))
    return [i.notice for i in found.handle(Tick(now_us)) if isinstance(i, Feed)]


ENDS = [("stop", StopRequested), ("finish", FinishRequested)]


@pytest.mark.parametrize(("at_end", "asked"), ENDS)
def test_a_job_over_bounded_logs_ends_when_all_sources_are_at_their_ends(
    at_end: AtEnd, asked: type[StopRequested | FinishRequested]
) -> None:
    found = manager(2, JobConfig(at_end=at_end))
    assert reported(found, 1, True, False) == []
    assert reported(found, 2, True, True) == [asked()]
    found.handle(asked())
    assert reported(found, 3, True, True) == [], "once"
    assert reported(manager(2), 2, True, True) == [], "others wait for more"


def at_its_end(durability: Durability = "volatile") -> Scene:
    """The only source of a chain has ended, and one reader has not consumed all items."""
    scene = Scene(durability=durability, at_end="stop", stop_lag_s=2.0)
    scene.start_all()
    scene.finish("a", 10, 10)
    scene.progress("b", 9, 9)
    scene.progress("c", 9, 9)
    assert Feed(StopRequested()) not in scene.pass_time(1.0)
    return scene


def test_the_job_ends_only_after_readers_have_consumed_everything() -> None:
    scene = at_its_end()
    scene.progress("b", 10, 10)
    scene.progress("c", 9, 9)
    assert Feed(StopRequested()) not in scene.pass_time(1.1)
    scene.progress("c", 10, 10)
    assert Feed(StopRequested()) in scene.pass_time(1.2)


def test_the_job_ends_if_no_vertex_advances_since_a_merge_may_hold_rows_back() -> None:
    assert Feed(StopRequested()) in at_its_end().pass_time(4.5)


def test_a_source_is_not_at_its_end_before_it_has_reported_so() -> None:
    found = manager(2, JobConfig(at_end="stop"))
    assert [i for i in found.handle(Tick(1)) if isinstance(i, Feed)] == []


def test_a_vertex_in_a_long_step_or_not_yet_started_is_not_quiet() -> None:
    working = at_its_end()
    at = working.at("b")
    working.tell(HostBusy(at.host, "b", at.epoch, "a call", 3, 0))
    assert Feed(StopRequested()) not in working.pass_time(4.5)
    starting = at_its_end("async")
    starting.tell(HostLost(starting.at("c").host, "killed"))
    assert Feed(StopRequested()) not in starting.pass_time(4.5)


def test_items_written_before_a_takeover_must_be_consumed_too() -> None:
    """The writer has ended, and none of its instances is left."""
    former = Scene(durability="async", at_end="stop")
    former.start_all()
    former.finish("a", 10, 10)
    scene = Scene(durability="async", at_end="stop", log=former.log())
    scene.start_all()
    assert scene.instances("a") == []
    for consumed in (9, 10):
        scene.progress("b", consumed, consumed)
        scene.progress("c", consumed, consumed)
        out = scene.pass_time(1.0)
        assert (Feed(StopRequested()) in out) == (consumed == 10)


def test_a_restarted_source_is_told_what_its_reader_has_consumed() -> None:
    """This includes items after the reader's checkpoint: once used, they must not change."""
    spec = log_vertex(1, delay_us=0, cti_every_us=4, replays=False)
    edge = OutputEdge(("ab",), ("mem/ab",), (), "async")
    answer = OutputEdge(("ao",), ("mem/ao",), (), "async", is_sink=True)
    source = replace(spec, id=VertexId("a"), outputs=(edge, answer))
    scene = Scene(Topology([source, vertex("b", reads=["ab"], writes=["out"], is_sink=True)]))
    scene.start_all()
    scene.checkpoint("b", "b4", 4, 4)
    scene.progress("b", 9, 9)
    out = scene.tell(VertexFailed("a", scene.at("a").epoch, "operating", "gone", ""))
    told = [i.instruction for i in out if isinstance(i, Tell)]
    (order,) = [order for order in told if isinstance(order, StartVertex)]
    assert order.consumed == (9, 0), "of the answer nothing is said: no vertex reads it"


def _ends(told: Tell) -> bool:
    return isinstance(told.instruction, EndSource)


@pytest.mark.parametrize(
    ("first", "second", "is_named"),
    [
        ((100, 5), (800, 5), True),
        ((100, 5_000), (800, 5), True),
        ((100, 5), (800, 5_000), True),
        ((100, 5_000), (800, 5_000), False),  # both still catch up
        ((100, -1), (800, -1), False),
        ((770, 5), (800, 5), False),
    ],
)
def test_a_partition_far_behind_the_others_is_named(
    first: tuple[int, int], second: tuple[int, int], *, is_named: bool
) -> None:
    found = manager(2)
    rows = tuple(
        VertexProgress(
            *(f"v.{k}", epoch_of(found, k), (0, 0), (0,), (0,), MIN_TIME, 0, Counts(), 0),
            logs=(LogProgress(k, 9, lag, s * 1_000_000, s * 1_000_000, "active", 0, 0),),
        )
        for k, (s, lag) in enumerate((first, second))
    )
    found.handle(Progress(HOST, rows, 1))
    held = [row["reason"] for row in status_of(found, now_us=0)["held"]]
    assert any("partition 0 of " in what and "holds time back" in what for what in held) == is_named
