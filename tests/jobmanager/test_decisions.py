"""Decisions of the job manager that depend on a single line, each in a scene that shows it.

Each was a planted bug that no other test detected. Not covered: how hosts follow instructions
(tests/sim).
"""

from __future__ import annotations

import pytest

from jobmanager.config import KEEP_ALL
from jobmanager.state.messages import (
    DeleteFiles,
    DrainRequested,
    HostLost,
    StartHost,
    StragglerFound,
)
from jobmanager.state.recovery import plan_restarts
from jobmanager.state.tracker import SnapshotTracker
from rvertex.messages import (
    CheckpointTaken,
    ItemsLost,
    TakeCheckpoint,
    VertexFailed,
)
from rvertex.vertex.spec import Recovery
from tests.jobmanager.manager.test_joining import said
from tests.jobmanager.state.test_recovery import View
from tests.support.scene import Scene, taken
from tests.support.shapes import chain, siblings, snapshot_at

TWO, THREE = Recovery("replication", 2), Recovery("replication", 3)


def announced(
    scene: Scene, epoch: int, name: str, at: int, *, reads: int | None = None, parts: str = ""
) -> list[object]:
    """``b`` announces a checkpoint. Return the job manager's instructions."""
    where, rows = (at,), (at if reads is None else reads,)
    names = tuple(parts.split())
    notice = CheckpointTaken("b", epoch, name, where, where, 1, rows, names, 0, asked=False)
    return list(scene.tell(notice))


# ---- joins


def test_a_join_whose_source_dies_uses_another_one() -> None:
    scene = Scene(chain("async", b=THREE), hosts=4)
    scene.start_all()
    scene.answers = False
    scene.lose("h1.0")
    scene.ready("h1.1")
    (join,) = scene.manager.vertices["b"].joins
    assert join.source == 3
    out = scene.tell(HostLost("h2.0", "killed"))
    assert said(out, TakeCheckpoint) == [TakeCheckpoint("h3.0", "b", 4)]
    assert {j.source for j in scene.manager.vertices["b"].joins} <= {4, None}


def test_a_new_replica_takes_the_free_checkpoint_slot() -> None:
    scene = Scene(chain("async", b=THREE), hosts=4)
    scene.start_all()
    scene.lose("h2.0")
    scene.ready("h2.1")
    slots = [i.checkpoint_slot for i in scene.manager.vertices["b"].instances]
    assert slots == [0, 2, 1]


def test_a_drain_starts_only_the_allowed_number_of_twins() -> None:
    scene = Scene(siblings(5), hosts=2, twins_max=1)
    scene.start_all()
    scene.answers = False
    scene.tell(DrainRequested("h0.0"))
    assert sum(len(v.joins) for v in scene.manager.vertices.values()) == 1


def test_on_a_drained_host_the_next_vertex_moves_when_one_has_ended() -> None:
    """Only one twin runs at a time: when its vertex ends, the next vertex gets a twin."""
    scene = Scene(siblings(5), hosts=2, twins_max=1)
    scene.start_all()
    scene.answers = False
    scene.tell(DrainRequested("h1.0"))
    (first,) = [v for v in scene.manager.vertices.values() if v.joins]
    scene.finish(first.shape.id, 10, 10)
    (second,) = [v for v in scene.manager.vertices.values() if v.joins]
    assert second is not first


def test_a_notice_of_a_former_instance_starts_nothing() -> None:
    """A notice of a removed instance is not logged, so it must not start another one."""
    scene = Scene(hosts=5, twins_max=1)
    scene.start_all()
    slow = scene.at("c").epoch
    scene.tell(StragglerFound("c", slow))
    scene.answer("c", slow)
    twin = next(i for i in scene.manager.vertices["c"].instances if i.replaces == slow)
    scene.answers = False
    scene.tell(DrainRequested(scene.at("a").host))
    assert not scene.manager.vertices["a"].joins, "there is a twin already"
    scene.tell(DrainRequested(twin.host))
    assert scene.manager.job.instance("c", twin.epoch) is None
    before = repr(scene.manager.vertices)
    out = scene.checkpoint("c", "late", 5, 5, epoch=twin.epoch)
    assert said(out, TakeCheckpoint) == []
    assert repr(scene.manager.vertices) == before
    scene.checkpoint("b", "in time", 5, 5)
    assert scene.manager.vertices["a"].joins, "it waits for a notice that is logged, no longer"


# ---- instances


def test_the_only_checkpoint_is_kept_although_unreadable_while_a_replica_lives() -> None:
    """The replica keeps running and will take another checkpoint."""
    scene = Scene(chain("async", b=TWO))
    scene.start_all()
    for epoch in (2, 3):
        scene.progress("b", 40, 40, epoch=epoch)
    announced(scene, 3, "b40", 40)
    assert [r.name for r in scene.manager.tracker.refs("b")] == ["b40"]
    scene.lose("h1.0")
    scene.lose("h2.0")
    scene.ready("h1.1")
    scene.ready("h2.1")
    (broken, _), (other, _) = scene.instances("b")
    scene.tell(VertexFailed("b", broken, "checkpoint", "b40 is corrupt", ""))
    assert scene.manager.state == "running"
    assert [epoch for epoch, _ in scene.instances("b")] == [other]
    assert [r.name for r in scene.manager.tracker.refs("b")] == ["b40"]


def test_one_of_several_checkpoints_is_dropped_if_unreadable_while_a_replica_lives() -> None:
    scene = Scene(chain("async", b=TWO), retain_us=KEEP_ALL)
    scene.start_all()
    announced(scene, 3, "b40", 40)
    scene.lose("h1.0")
    scene.lose("h2.0")
    scene.ready("h1.1")
    (broken, _), _ = scene.instances("b")
    assert [r.name for r in scene.manager.tracker.refs("b")] == ["", "b40"]
    scene.tell(VertexFailed("b", broken, "checkpoint", "b40 is corrupt", ""))
    assert [r.name for r in scene.manager.tracker.refs("b")] == [""]


def test_input_of_a_replay_is_kept_until_it_was_read() -> None:
    """If the writer dies during the replay, it restarts at a position that covers the replay."""
    scene = Scene(chain("volatile", b=Recovery("replay", 1, 20)))
    scene.start_all()
    scene.checkpoint("a", "a30", 30, 30)
    scene.checkpoint("a", "a50", 50, 50)
    announced(scene, scene.at("b").epoch, "b60", 60, reads=40)
    scene.progress("c", 60, 60)
    scene.lose("h1.0")
    scene.ready("h1.1")
    assert scene.at("b").checkpoint == "b60"
    assert scene.manager.job.consumed("b") == (40,)
    scene.lose("h0.0")
    assert scene.at("a").checkpoint == "a30"


def test_an_instance_that_waits_for_its_host_recomputes_before_a_serving_one() -> None:
    scene = Scene(chain("volatile"), hosts=3)
    scene.start_all()
    b, c = scene.at("b").epoch, scene.at("c").epoch
    scene.answers = False
    scene.obey(scene.tell(StragglerFound("b", b)))
    (join,) = scene.manager.vertices["b"].joins
    scene.manager.hosts[join.slot].state = "starting"
    scene.answer("b", b)
    assert [i.state for i in scene.manager.vertices["b"].instances] == ["running", "waiting"]
    (_, (waiting, _)) = scene.instances("b")
    scene.tell(ItemsLost("c", c, "bc", 0, (b, waiting)))
    epochs = [epoch for epoch, _ in scene.instances("b")]
    assert b in epochs
    assert waiting not in epochs


# ---- restarts


def test_a_writer_chosen_before_its_reader_is_chosen_again() -> None:
    """``a`` and ``c`` died.

    ``b`` must restart for ``c``, and then ``a`` further back than planned.
    """
    topology = chain()
    tracker = SnapshotTracker(topology)
    for name, at in [("a", 10), ("a", 50), ("b", 20), ("b", 60), ("c", 20)]:
        tracker.add(name, snapshot_at(f"{name}{at}", (at,), (at,)))
    job = View(topology, {"b"}, consumed_at={"b": (60,)}, released_at={"bc": 40})
    chosen = plan_restarts(["a", "c"], topology, tracker, job)
    assert {k: v.name for k, v in chosen.items()} == {"a": "a10", "b": "b20", "c": "c20"}


# ---- checkpoints and their parts


def test_parts_that_the_next_checkpoint_may_name_are_kept() -> None:
    scene = Scene(chain("async", b=TWO))
    scene.start_all()
    for epoch in (2, 3):
        scene.progress("b", 70, 70, epoch=epoch)
    announced(scene, 2, "b60", 60, parts="p q")
    out = announced(scene, 3, "b70", 70, parts="r")
    assert [i for i in out if isinstance(i, DeleteFiles)] == [DeleteFiles(("b60",))]
    out = announced(scene, 2, "b75", 75, parts="p")
    assert [i for i in out if isinstance(i, DeleteFiles)] == [], "3 has not passed 75"
    scene.progress("b", 80, 80, epoch=3)
    out = announced(scene, 3, "b80", 80, parts="s")
    (deleted,) = [i for i in out if isinstance(i, DeleteFiles)]
    assert set(deleted.names) == {"b70", "q", "r"}


def test_a_checkpoint_of_a_former_instance_deletes_no_parts_of_others() -> None:
    scene = Scene(chain("async"))
    scene.start_all()
    announced(scene, 2, "b60", 60, parts="p")
    scene.lose("h1.0")
    scene.ready("h1.1")
    assert announced(scene, 2, "b70", 70, parts="p q") == [DeleteFiles(("b70", "q"))]


# ---- takeovers


def names_given(scene: Scene) -> list[str]:
    """All hosts that were ordered."""
    return [line for line in scene.lines if line.startswith("    StartHost(")]


def test_host_names_are_unique() -> None:
    """Host names are unique, including hosts that a predecessor ordered and that never reported."""
    scene = Scene(hosts=2)
    given = names_given(scene)
    scene.start_all()
    for lost in (["h1.0"], ["h0.0", "h1.1"], ["h0.1", "h0.2"]):
        for host in lost:
            scene.tell(HostLost(host, "killed"))
        log = scene.log()
        given = sorted({*given, *names_given(scene)})
        scene = Scene(hosts=2, log=log)
        mine = names_given(scene)
        assert not set(mine) & set(given), (mine, given)
        scene.told = [(notice, False) for notice in log] + scene.told


def test_an_ended_vertex_is_not_run_again_after_a_takeover() -> None:
    scene = Scene(durability="async")
    scene.start_all()
    scene.finish("a", 100, 100)
    scene.finish("b", 100, 50)
    successor = Scene(durability="async", log=scene.log())
    assert [v for v, state in successor.manager.vertices.items() if state.instances] == ["c"]


def test_the_second_successor_has_the_state_of_the_first() -> None:
    """A takeover applies the marks, also in a large plan, where this is done only now and then."""
    plan = siblings(40)
    scene = Scene(plan, hosts=2)
    scene.start_all()
    for at in (10, 20):
        scene.checkpoint("b0", f"b0-{at}", at, at)
    first = Scene(plan, hosts=2, log=scene.log())
    kept = [ref.name for ref in first.manager.tracker.refs("b0")]
    assert kept == ["b0-20"]
    first.start_all()
    epoch = first.at("b0").epoch
    out = first.tell(taken("b0", epoch, "b0-15", 15, 15))
    assert DeleteFiles(("b0-15",)) in out, "it is behind the oldest"
    second = Scene(plan, hosts=2, log=[*scene.log(), *first.log()])
    assert [ref.name for ref in second.manager.tracker.refs("b0")] == kept


@pytest.mark.parametrize("how", ["its host is lost", "it fails"])
def test_a_finished_vertex_stays_finished_if_its_recomputing_instance_is_gone(how: str) -> None:
    """Found by the simulation: its end was not reported again, and the job never ended."""
    scene = Scene(chain("volatile", b=TWO), hosts=4)
    scene.start_all()
    for epoch in (2, 3):
        scene.finish("b", 100, 50, epoch=epoch)
    b = scene.manager.vertices["b"]
    scene.obey(scene.tell(ItemsLost("c", scene.at("c").epoch, "bc", 5, (2, 3))))
    (_, (again, host)) = scene.instances("b")
    assert b.state == "running"
    if how == "its host is lost":
        scene.lose(host)
    else:
        scene.obey(scene.tell(VertexFailed("b", again, "operating", "disk full", "")))
    assert (b.state, b.finisher, scene.instances("b")) == ("finished", 2, [(2, "h1.0")])
    scene.finish("a", 100, 100)
    scene.finish("c", 50, 50)
    assert scene.manager.state == "finished"


# ---- hosts


def test_losses_of_a_slot_are_counted_across_hosts() -> None:
    scene = Scene(hosts=1, host_restarts_max=2, vertex_restarts_max=100)
    for generation in range(3):
        scene.start_all()
        assert scene.manager.state == "running"
        scene.lose(f"h0.{generation}")
    assert scene.manager.state == "failed"
    assert "host of slot 0 was lost 3 times" in scene.manager.error


def test_the_next_host_of_a_slot_has_the_full_time_to_start() -> None:
    scene = Scene(hosts=1, host_start_wait_s=5.0)
    scene.start_all()
    scene.pass_time(20)
    (lost,) = [i for i in scene.tell(HostLost("h0.0", "killed")) if isinstance(i, StartHost)]
    assert lost.host == "h0.1"
    scene.pass_time(24)
    assert scene.manager.state == "running"
    scene.pass_time(26)
    assert scene.manager.state == "failed"
    assert "host h0.1 did not start within host_start_wait_s = 5 s" in scene.manager.error
