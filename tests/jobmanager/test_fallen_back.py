"""What a successor knows of discarded checkpoints, of retention and of names; pure.

Not covered: files that are deleted before the reason is durable (tests/sim).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jobmanager.config import KEEP_ALL, JobConfig
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import (
    LOG_CODEC,
    DeleteFiles,
    HostLost,
    JobResumed,
    JobStarted,
    Record,
    StartHost,
)
from jobmanager.state.records import HostState
from rvertex.messages import OutputLost, VertexFailed
from rvertex.vertex.spec import Recovery
from tests.support.scene import Scene, started, taken
from tests.support.shapes import chain, siblings

if TYPE_CHECKING:
    from jobmanager.state.messages import Instruction, Notice


def successor_of(scene: Scene) -> JobManager:
    """A job manager that has read the log from its bytes."""
    manager = JobManager(scene.manager.topology, scene.manager.config)
    manager.recall([LOG_CODEC.decode(LOG_CODEC.encode(notice)) for notice in scene.log()])
    return manager


def refs(manager: JobManager, vertex: str) -> list[str]:
    return [ref.name for ref in manager.tracker.refs(vertex)]


def two_checkpoints() -> Scene:
    """``b`` has b20 and b40. One instance has not passed b40, which no successor knows."""
    scene = Scene(chain("async", b=Recovery("replication", 2)))
    scene.start_all()
    scene.progress("b", 20, 20, epoch=2)
    scene.progress("b", 40, 40, epoch=3)
    scene.checkpoint("b", "b20", 20, 20, epoch=2)
    scene.checkpoint("b", "b40", 40, 40, epoch=3)
    assert refs(scene.manager, "b") == ["b20", "b40"]
    assert refs(successor_of(scene), "b") == ["b40"]
    for host in ("h1.0", "h2.0"):
        scene.lose(host)
    for host in ("h1.1", "h2.1"):
        scene.ready(host)
    return scene


def test_a_successor_starts_from_the_older_checkpoint_its_predecessor_chose() -> None:
    scene = two_checkpoints()
    out = []
    for epoch, _ in scene.instances("b"):
        out = scene.tell(VertexFailed("b", epoch, "checkpoint", "b40 is corrupt", ""))
    assert ("b", "b20") in started(out)
    assert isinstance(out[0], Record), "before anything is done"
    successor = successor_of(scene)
    assert refs(successor, "b") == refs(scene.manager, "b") == ["b20"]
    assert successor.job.is_damaged
    successor.handle(JobResumed(3, 0))
    assert successor.state == "running"
    assert {i.checkpoint for i in successor.vertices["b"].instances} == {"b20"}


def test_a_successor_knows_of_items_lost_below_a_checkpoint() -> None:
    """Checkpoints after lost items are discarded: a restart from them would miss the items."""
    scene = two_checkpoints()
    scene.answers = False
    epoch = scene.at("b").epoch
    scene.obey(scene.tell(OutputLost("b", epoch, "bc", 30, "f: it is not there")))
    assert refs(scene.manager, "b") == refs(successor_of(scene), "b") == ["b20"]


def test_a_successor_knows_of_a_vertex_that_restarts_from_its_sources() -> None:
    scene = Scene(durability="volatile", hosts=1)
    scene.start_all()
    scene.checkpoint("a", "a40", 40, 40)
    scene.progress("b", 40, 40)
    scene.checkpoint("b", "b40", 40, 40)
    scene.progress("c", 40, 40)
    scene.checkpoint("c", "c40", 40, 40)
    assert refs(scene.manager, "c") == ["c40"]
    epoch = scene.at("c").epoch
    scene.obey(scene.tell(VertexFailed("c", epoch, "operating", "reset", "")))
    epoch = scene.at("c").epoch
    scene.obey(scene.tell(VertexFailed("c", epoch, "checkpoint", "c40 is corrupt", "")))
    assert scene.manager.state == "running"
    successor = successor_of(scene)
    for vertex in "abc":
        assert refs(successor, vertex) == refs(scene.manager, vertex)
        assert refs(successor, vertex)[0] == ""
    successor.handle(JobResumed(1, 0))
    assert successor.state == "running"


def test_a_failure_that_ends_the_job_is_logged() -> None:
    """A job that failed because of a missing file can be resumed once the file is back."""
    scene = Scene(durability="async")
    scene.start_all()
    scene.progress("b", 60, 30)
    scene.checkpoint("b", "b60", 60, 30)
    epoch = scene.at("b").epoch
    scene.obey(scene.tell(VertexFailed("b", epoch, "operating", "reset", "")))
    out = scene.tell(VertexFailed("b", scene.at("b").epoch, "checkpoint", "b60 is corrupt", ""))
    assert scene.manager.state == "failed"
    assert not [i for i in out if isinstance(i, Record)]
    assert refs(successor_of(scene), "b") == ["b60"]


@pytest.mark.parametrize("before", [0, 15, KEEP_ALL])
@pytest.mark.parametrize("after", [0, 15, 25, KEEP_ALL])
def test_a_successor_with_longer_retention_names_no_deleted_checkpoint(
    before: int, after: int
) -> None:
    scene = Scene(durability="async", retain_us=before)
    scene.start_all()
    deleted: set[str] = set()
    for at in (10, 20, 30, 40):
        scene.progress("b", at, at)
        notice = replace(taken("b", scene.at("b").epoch, f"b{at}", at, at), taken_us=at)
        out = scene.tell(notice)
        deleted.update(n for i in out if isinstance(i, DeleteFiles) for n in i.names)
    log = scene.log()
    for _ in range(2):
        successor = JobManager(scene.manager.topology, replace(JobConfig(), retain_us=after))
        successor.recall(log)
        assert deleted.isdisjoint(refs(successor, "b"))
        begin = JobResumed(3, 0, after)
        out = successor.handle(begin)
        deleted.update(n for i in out if isinstance(i, DeleteFiles) for n in i.names)
        assert successor.job.retain_us == after
        log = [*log, begin]


# ---- names


def hosts_ordered(out: list[Instruction]) -> list[str]:
    return [i.host for i in out if isinstance(i, StartHost)]


def test_hosts_get_new_names_although_the_loss_before_was_not_durable() -> None:
    """Earlier losses were not durable either: a successor knows only the number of takeovers."""
    ordered: list[str] = []
    log: list[Notice] = []
    for takeover in range(3):
        manager = JobManager(chain("async"), JobConfig(host_restarts_max=9))
        manager.recall(log)
        begin = JobResumed(2, 0) if takeover else JobStarted(2, 0)
        log.append(begin)  # durable before it orders anything
        ordered += hosts_ordered(manager.handle(begin))
        for _ in range(4):
            for host in list(manager.hosts):
                ordered += hosts_ordered(manager.handle(HostLost(host.name, "killed")))
    assert len(set(ordered)) == len(ordered) == 3 * 2 * 5
    assert {HostState.slot_of(name) for name in ordered} == {0, 1}


def test_a_host_replaces_only_one_of_the_same_job_manager() -> None:
    host = HostState(3, 0, 2)
    assert (host.name, host.former) == ("h3.2.0", "")
    assert (host.following().name, host.following().former) == ("h3.2.1", "h3.2.0")


def test_epochs_are_unique_although_no_restart_in_a_large_plan_was_durable() -> None:
    wide = siblings(300)
    first = JobManager(wide, JobConfig(host_restarts_max=99))
    first.handle(JobStarted(1, 0))
    for _ in range(9):
        first.handle(HostLost(first.hosts[0].name, "killed"))
    second = JobManager(wide, JobConfig())
    second.recall([JobStarted(1, 0)])
    second.handle(JobResumed(1, 0))
    assert min(i.epoch for _, i in second.job.instances()) > first.job.epoch
