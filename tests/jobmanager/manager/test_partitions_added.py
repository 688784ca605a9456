"""Partitions that a live log gets while its job runs: which vertices restart, and with what.

Not covered: how the vertices read them (tests/sim, tests/jobmanager/test_added_partitions.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jobmanager.config import JobConfig
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import (
    AddedTo,
    FinishRequested,
    HostLost,
    PartitionsAdded,
    StateCopied,
    StopRequested,
    Tell,
)
from jobmanager.state.topology import Topology
from rvertex.messages import (
    CheckpointTaken,
    Counts,
    HostReady,
    Progress,
    StartVertex,
    VertexFailed,
    VertexFinished,
    VertexProgress,
)
from rvertex.vertex.spec import OutputEdge, VertexId
from tests.support.logs import log_vertex
from tests.support.scene import Scene

if TYPE_CHECKING:
    from jobmanager.state.messages import Instruction, Notice

TWO = PartitionsAdded((AddedTo("v.0", (4,)), AddedTo("v.1", (5,))))
MORE = PartitionsAdded((AddedTo("v.0", (4, 6)),))


def topology(*added: PartitionsAdded) -> Topology:
    """A stage of two vertices, each of which reads two partitions of a live log."""
    spec = log_vertex(2, delay_us=0, cti_every_us=4, replays=False)
    found = Topology(
        [
            replace(
                spec,
                id=VertexId(f"v.{k}"),
                index=k,
                outputs=(OutputEdge((f"out{k}",), (f"out{k}",), (), "async", is_sink=True),),
            )
            for k in (0, 1)
        ]
    )
    for notice in added:
        for told in notice.vertices:
            found = found.with_added(told.vertex, told.partitions)
    return found


def scene() -> Scene:
    found = Scene(topology(), hosts=2)
    found.start_all()
    return found


def started(out: list[Instruction]) -> list[StartVertex]:
    told = [i.instruction for i in out if isinstance(i, Tell)]
    return [order for order in told if isinstance(order, StartVertex)]


def progress(found: Scene, vertex: str, inputs: tuple[int, ...], seq: int) -> Progress:
    at, outputs = found.at(vertex), (seq,)
    row = VertexProgress(vertex, at.epoch, inputs, outputs, outputs, 0, 0, Counts(), 0)
    return Progress(at.host, (row,))


def checkpoint(found: Scene, name: str, vertex: str, inputs: tuple[int, ...]) -> CheckpointTaken:
    epoch = found.at(vertex).epoch
    return CheckpointTaken(vertex, epoch, name, inputs, (7,), 1, inputs, (), 1, False)


def test_vertices_with_new_partitions_restart_in_place_from_their_checkpoints() -> None:
    found = scene()
    found.tell(checkpoint(found, "c", "v.0", (3, 5, 1, 0)))
    before = {v: found.at(v) for v in ("v.0", "v.1")}
    orders = started(found.tell(TWO))
    assert [(o.vertex, o.checkpoint, o.added) for o in orders] == [
        ("v.0", "c", (4,)),
        ("v.1", "", (5,)),
    ]
    assert [o.host for o in orders] == [i.host for i in before.values()]
    assert found.at("v.0").consumed == (3, 5, 0, 1, 0, 0)
    assert all(found.at(v).epoch > old.epoch for v, old in before.items())


def test_vertices_without_new_partitions_continue() -> None:
    found = scene()
    found.tell(TWO)
    epoch = found.at("v.1").epoch
    assert [(o.vertex, o.added) for o in started(found.tell(MORE))] == [("v.0", (4, 6))]
    assert found.at("v.1").epoch == epoch
    assert not started(found.tell(MORE))
    assert not started(found.tell(TWO))


def test_notices_of_the_former_instance_change_nothing() -> None:
    found = scene()
    stale = checkpoint(found, "late", "v.0", (9, 9, 0, 0))
    report = progress(found, "v.0", (9, 9, 0, 0), 30)
    found.tell(TWO)
    found.tell(report)
    found.tell(stale)
    assert found.at("v.0").consumed == (0,) * 6
    assert [ref.name for ref in found.manager.tracker.refs("v.0")] == [""]


def test_the_position_of_a_vertex_applies_to_its_wider_successor() -> None:
    found = scene()
    found.tell(progress(found, "v.0", (3, 5, 1, 0), 9))
    found.obey(found.tell(TWO))
    vertex = found.manager.vertices["v.0"]
    assert vertex.best == (3, 5, 0, 1, 0, 0, 9)
    found.tell(progress(found, "v.0", (3, 5, 2, 1, 0, 1), 9))
    assert vertex.best == (3, 5, 2, 1, 0, 1, 9)


def test_later_instances_get_the_new_partitions_too() -> None:
    found = scene()
    found.obey(found.tell(TWO))
    orders: list[StartVertex] = []
    host = found.at("v.0").host
    found.tell(HostLost(host, "killed"))
    following = found.manager.hosts[found.at("v.0").slot].name
    orders += started(found.tell(_ready(following)))
    failed = VertexFailed("v.1", found.at("v.1").epoch, "operating", "gone", "")
    orders += started(found.tell(failed))
    assert {(o.vertex, o.added) for o in orders} == {("v.0", (4,)), ("v.1", (5,))}


def test_new_partitions_are_sent_after_lost_hosts_were_replaced() -> None:
    found = Scene(topology(), hosts=2)
    assert not started(found.tell(TWO))
    orders = [o for host in found.manager.hosts for o in started(found.tell(_ready(host.name)))]
    assert [(o.vertex, o.added) for o in orders] == [("v.0", (4,)), ("v.1", (5,))]


def test_a_finished_vertex_reads_no_new_partitions() -> None:
    found = scene()
    found.tell(FinishRequested())
    at = found.at("v.0")
    found.tell(VertexFinished("v.0", at.epoch, (3, 5, 1, 1), (7,), (b"d",), Counts()))
    assert [o.vertex for o in started(found.tell(TWO))] == ["v.1"]
    assert found.manager.vertices["v.0"].is_finished


def test_a_stopping_job_requests_checkpoints_of_restarted_instances() -> None:
    found = scene()
    found.answers = False
    found.obey(found.tell(StopRequested()))
    found.obey(found.tell(TWO))
    found.answers = True
    found.pass_time(1)
    assert found.manager.state == "stopped"


@pytest.mark.parametrize("known", [(), (TWO,), (TWO, MORE)], ids=["none", "some", "all"])
def test_a_successor_has_the_same_state_with_either_plan(
    known: tuple[PartitionsAdded, ...],
) -> None:
    """The plan may be newer than the log, since it is stored first."""
    found = scene()
    found.tell(checkpoint(found, "c", "v.0", (3, 5, 1, 0)))
    found.obey(found.tell(TWO))
    found.tell(checkpoint(found, "d", "v.0", (4, 6, 1, 1, 0, 1)))
    found.tell(checkpoint(found, "e", "v.1", (4, 6, 1, 1, 0, 1)))
    found.obey(found.tell(MORE))
    found.tell(checkpoint(found, "f", "v.0", (5, 7, 2, 0, 1, 0, 1, 0)))
    copies = [_recalled(log, known) for log in (found.log(), [found.manager.copy_state()])]
    assert copies[0].vertices == copies[1].vertices == found.manager.copy_state().vertices
    refs = copies[0].vertices[0].refs
    assert [ref.inputs for ref in refs] == [(5, 7, 2, 0, 1, 0, 1, 0)]
    assert [vertex.added for vertex in copies[0].vertices] == [(4, 6), (5,)]


def _recalled(log: list[Notice], known: tuple[PartitionsAdded, ...]) -> StateCopied:
    manager = JobManager(topology(*known), JobConfig())
    manager.recall(log)
    return manager.copy_state()


def _ready(host: str) -> Notice:
    return HostReady(host, 0, 1, "m", "a")
