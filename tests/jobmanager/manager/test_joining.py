"""Instances that join and retire: replicas, twins of stragglers, drains; with and without failures.

Golden transcripts as in test_manager. Not covered: how readers and newcomers act on
instructions (tests/jobmanager/driver/test_job.py, tests/sim, tests/spark).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from jobmanager.driver.report import status_of
from jobmanager.state.messages import (
    DeleteFiles,
    DrainRequested,
    EndJob,
    Feed,
    HostLost,
    RestartDue,
    StragglerFound,
    Tell,
    Tick,
    TwinLevel,
)
from jobmanager.state.topology import Topology
from rvertex.messages import (
    Collect,
    Counts,
    ItemsLost,
    Locate,
    Mark,
    StopHost,
    StopVertex,
    TakeCheckpoint,
    VertexFailed,
)
from rvertex.vertex.spec import Recovery
from tests.support.scene import SECOND, Scene, started, taken
from tests.support.shapes import chain, siblings, vertex

if TYPE_CHECKING:
    from jobmanager.state.messages import Instruction
    from rvertex.messages import CheckpointTaken

TWO = Recovery("replication", 2)


def replicated(hosts: int = 3, **limits: Any) -> Scene:
    """``a -> b x 2 -> c``, all running; b is on the hosts of slots 1 and 2."""
    scene = Scene(chain("async", b=TWO), hosts=hosts, **limits)
    scene.start_all()
    return scene


def said(out: list[Instruction], kind: type) -> list[object]:
    """Return the instructions of one kind that were sent to hosts."""
    return [i.instruction for i in out if isinstance(i, Tell) and isinstance(i.instruction, kind)]


def endpoints(out: list[Instruction], vertex: str) -> list[int]:
    """The instances of a vertex that the first host was last sent."""
    told = [x for x in said(out, Locate) if isinstance(x, Locate) and x.vertex == vertex]
    return [endpoint.epoch for endpoint in told[-1].endpoints]


# ---- replicas


def test_replicas_start_on_different_hosts_and_take_turns_with_checkpoints(rewrite: bool) -> None:
    scene = replicated()
    assert scene.instances("b") == [(2, "h1.0"), (3, "h2.0")]
    slots = [(i.checkpoint_slot, i.consumed) for i in scene.manager.vertices["b"].instances]
    assert slots == [(0, (0,)), (1, (0,))]
    scene.progress("b", 60, 30, epoch=2)
    scene.progress("b", 40, 20, epoch=3)
    scene.checkpoint("b", "b40", 40, 20, epoch=3)
    scene.check("two_replicas", rewrite=rewrite)


def test_memory_is_kept_for_the_slower_replica() -> None:
    scene = Scene(chain("volatile", b=TWO))
    scene.start_all()
    assert said(scene.progress("b", 60, 30, epoch=2), Collect) == []
    out = scene.progress("b", 40, 20, epoch=3)
    assert said(out, Collect) == [Collect("h0.0", (Mark("ab", 40),))]
    out = scene.progress("c", 10, 5)
    assert said(out, Collect) == [
        Collect("h1.0", (Mark("bc", 10),)),
        Collect("h2.0", (Mark("bc", 10),)),
    ]


def test_a_dead_replica_leaves_no_gap_and_a_new_one_joins(rewrite: bool) -> None:
    scene = replicated()
    scene.progress("b", 60, 30, epoch=2)
    scene.progress("b", 40, 20, epoch=3)
    out = scene.tell(HostLost("h1.0", "SIGKILL"))
    assert started(out) == [], "nobody restarts"
    assert endpoints(out, "b") == [3], "readers are told of the other one at once"
    scene.answers = False
    scene.ready("h1.1")
    assert (
        said_last(scene, TakeCheckpoint)
        == "TakeCheckpoint(host='h2.0', vertex='b', epoch=3, holds=False, inputs=())"
    )
    scene.progress("b", 55, 28, epoch=3)
    assert scene.manager.job.consumed("b") == (40,), "held as it was when it was asked"
    scene.answer("b", 3)
    assert scene.instances("b") == [(3, "h2.0"), (5, "h1.1")]
    assert scene.manager.vertices["b"].instances[1].checkpoint == "b-3-55"
    assert scene.manager.vertices["b"].instances[1].checkpoint_slot == 0
    assert scene.manager.job.consumed("b") == (55,)
    scene.check("replica_dies", rewrite=rewrite)


def said_last(scene: Scene, kind: type) -> str:
    """Return the last instruction of this kind to a host in the transcript."""
    lines = [x for x in scene.lines if f"instruction={kind.__name__}(" in x]
    return lines[-1].split("instruction=")[1][:-1]


def test_both_replicas_die_and_restart_together() -> None:
    scene = replicated()
    scene.checkpoint("b", "b40", 40, 20, epoch=3)
    scene.lose("h1.0")
    out = scene.lose("h2.0")
    assert started(out) == []
    scene.ready("h2.1")
    scene.ready("h1.1")
    states = [(i.checkpoint, i.state) for i in scene.manager.vertices["b"].instances]
    assert states == [("b40", "running"), ("b40", "running")]
    hosts = {host for _, host in scene.instances("b")}
    assert hosts == {"h1.1", "h2.1"}


def test_a_replica_dies_while_its_replacement_joins(rewrite: bool) -> None:
    """The replica that should send its state dies before it has done so, so both restart."""
    scene = replicated()
    scene.checkpoint("b", "b40", 40, 20, epoch=2)
    scene.answers = False
    scene.lose("h1.0")
    scene.ready("h1.1")
    scene.lose("h2.0")
    assert [i.checkpoint for i in scene.manager.vertices["b"].instances] == ["b40", "b40"]
    assert scene.manager.vertices["b"].joins == []
    scene.answers = True
    scene.ready("h2.1")
    assert len(scene.instances("b")) == 2
    scene.check("replica_dies_while_one_joins", rewrite=rewrite)


def test_a_joining_replica_dies_and_another_one_joins() -> None:
    scene = replicated()
    scene.lose("h1.0")
    scene.ready("h1.1")
    assert scene.instances("b") == [(3, "h2.0"), (5, "h1.1")]
    scene.lose("h1.1")
    assert scene.instances("b") == [(3, "h2.0")]
    scene.ready("h1.2")
    assert scene.instances("b") == [(3, "h2.0"), (6, "h1.2")]


def test_a_failed_join_is_retried_after_a_pause() -> None:
    scene = replicated(restart_pause_s=1.0)
    scene.tell(VertexFailed("b", 2, "operating", "disk full", ""))
    assert scene.instances("b") == [(3, "h2.0")]
    assert scene.pass_time(0.9) == []
    assert scene.pass_time(1.1)[0] == Feed(RestartDue("b"))
    assert len(scene.instances("b")) == 2
    assert scene.instances("b")[0] == (3, "h2.0"), "who is at work is not disturbed"
    scene.tell(VertexFailed("b", scene.instances("b")[1][0], "operating", "disk full", ""))
    assert scene.pass_time(3.0) == [], "the second pause is twice as long"
    assert scene.pass_time(3.2)[0] == Feed(RestartDue("b"))


def test_readers_try_every_replica_before_one_restarts() -> None:
    scene = Scene(chain("volatile", b=TWO))
    scene.start_all()
    c = scene.at("c").epoch
    assert scene.tell(ItemsLost("c", c, "bc", 5, (2,))) == []
    out = scene.tell(ItemsLost("c", c, "bc", 5, (2, 3)))
    assert started(out) == [("b", "")], "one recomputes, the other serves on"
    assert len(scene.instances("b")) == 2


def test_items_that_a_reader_lacks_are_recomputed_although_a_join_failed() -> None:
    scene = Scene(chain("volatile"), restart_pause_s=1.0)
    scene.start_all()
    b, c = scene.at("b").epoch, scene.at("c").epoch
    scene.obey(scene.tell(StragglerFound("b", b)))
    (_, (twin, _)) = scene.instances("b")
    scene.tell(VertexFailed("b", twin, "operating", "disk full", ""))
    assert scene.manager.vertices["b"].due_us is not None
    out = scene.tell(ItemsLost("c", c, "bc", 0, (b,)))
    assert started(out) == [("b", "b-2-0")]


def test_a_twin_that_recomputes_items_for_a_reader_is_still_a_twin() -> None:
    scene = Scene(chain("volatile"))
    scene.start_all()
    elder = scene.at("b").epoch
    scene.obey(scene.tell(StragglerFound("b", elder)))
    (_, (twin, _)) = scene.instances("b")
    scene.obey(scene.tell(ItemsLost("c", scene.at("c").epoch, "bc", 0, (elder, twin))))
    instances = scene.manager.vertices["b"].instances
    assert instances[1].epoch > twin
    assert [i.replaces for i in instances] == [None, elder]
    assert instances[1].reason == "slow"


def test_the_other_replica_is_stopped_when_one_finishes() -> None:
    scene = replicated()
    out = scene.finish("b", 100, 50, epoch=3)
    assert said(out, StopVertex) == [StopVertex("h1.0", "b", 2, flush=False)]
    assert scene.manager.vertices["b"].state == "finished"
    assert endpoints(out, "b") == [3]


def test_a_replica_runs_on_while_readers_need_its_memory() -> None:
    scene = Scene(chain("volatile", b=TWO))
    scene.start_all()
    out = scene.finish("b", 100, 50, epoch=3)
    assert said(out, StopVertex) == []
    scene.lose("h2.0")
    scene.progress("b", 90, 45, epoch=2)
    state = scene.manager.vertices["b"]
    assert (state.state, state.counts) == ("finished", Counts(100, 50))
    assert scene.instances("b") == [(2, "h1.0")]


@pytest.mark.parametrize("is_host_lost", [False, True])
def test_a_vertex_has_finished_again_when_its_recomputing_instance_is_gone(
    *, is_host_lost: bool
) -> None:
    """The other instance had ended, so no notice would report the end again."""
    scene = Scene(chain("volatile", b=TWO))
    scene.start_all()
    for epoch in (2, 3):
        scene.finish("b", 100, 50, epoch=epoch)
    scene.obey(scene.tell(ItemsLost("c", scene.at("c").epoch, "bc", 5, (2, 3))))
    (_, (writer, host)) = scene.instances("b")
    assert writer > 3
    assert scene.manager.vertices["b"].state != "finished"
    if is_host_lost:
        scene.lose(host)
    else:
        scene.obey(scene.tell(VertexFailed("b", writer, "operating", "disk full", "")))
    assert scene.manager.vertices["b"].state == "finished"
    assert [epoch for epoch, _ in scene.instances("b")] == [2]


def test_replicas_with_different_results_fail_the_job() -> None:
    scene = Scene(chain("volatile", b=TWO))
    scene.start_all()
    scene.finish("b", 100, 50, epoch=3)
    state = scene.manager.vertices["b"]
    state.digests = (b"other",)
    out = scene.finish("b", 100, 50, epoch=2)
    assert isinstance(out[-1], EndJob)
    assert "vertex b is not deterministic" in out[-1].error


def test_more_replicas_than_hosts_fail_with_a_remedy() -> None:
    scene = Scene(chain("async", b=Recovery("replication", 3)), hosts=2)
    assert scene.manager.state == "failed"
    assert "b needs 3 replicas" in scene.manager.error
    assert "start more hosts" in scene.manager.error


# ---- drain


def test_a_drain_moves_vertices_by_twins(rewrite: bool) -> None:
    scene = Scene(chain("async"), hosts=2)
    scene.start_all()
    scene.progress("b", 60, 30)
    out = scene.tell(DrainRequested("h1.0"))
    assert said(out, TakeCheckpoint) == [TakeCheckpoint("h1.0", "b", 2)]
    scene.obey(out)
    (_, twin) = scene.instances("b")
    assert twin == (4, "h0.0")
    out = scene.progress("b", 60, 30, epoch=4)
    assert out == [Feed(TwinLevel("b", 2, 4))]
    assert scene.instances("b") == [(4, "h0.0")]
    assert said_last(scene, StopVertex).startswith("StopVertex(host='h1.0', vertex='b', epoch=2")
    assert said_last(scene, StopHost) == "StopHost(host='h1.0', flush=True)"
    assert [h.state for h in scene.manager.hosts] == ["ready", "drained"]
    assert scene.lose("h1.0") == [], "it left as it was told"
    scene.check("drain", rewrite=rewrite)


def test_a_twin_is_level_at_the_position_its_elder_had_at_the_first_check() -> None:
    scene = Scene(chain("async"), hosts=2)
    scene.start_all()
    scene.progress("b", 60, 30)
    scene.obey(scene.tell(DrainRequested("h1.0")))
    level = Feed(TwinLevel("b", 2, 4))
    assert level not in scene.progress("b", 80, 40, epoch=2)
    assert level not in scene.progress("b", 90, 45, epoch=2)
    assert level not in scene.progress("b", 79, 39, epoch=4)
    assert level in scene.progress("b", 80, 40, epoch=4), "the elder is at 90 by now"


def test_an_elder_is_kept_while_a_replayed_reader_may_need_its_memory() -> None:
    """``c`` has consumed 40 items and would read from 10 again; the twin of ``b`` begins at 30."""
    scene = Scene(chain("volatile", c=Recovery("replay", horizon_us=5)), hosts=4)
    scene.start_all()
    scene.progress("b", 60, 30)
    scene.progress("c", 40, 40)
    scene.tell(replayed_from(scene, "early", 35, reads=10))
    scene.obey(scene.tell(DrainRequested("h1.0")))
    twin = next(i for i in scene.manager.vertices["b"].instances if i.replaces is not None)
    twin.released["bc"] = 30
    scene.progress("b", 80, 45, epoch=twin.epoch)
    assert len(scene.instances("b")) == 2, "a restart of c would find nothing from 10 to 30"
    scene.tell(replayed_from(scene, "late", 45, reads=30))
    scene.progress("b", 81, 46, epoch=twin.epoch)
    assert [epoch for epoch, _ in scene.instances("b")] == [twin.epoch]


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_new_instance_starts_where_its_inputs_are_in_memory(*, is_waiting: bool) -> None:
    """``b`` was restarted and has items from 30; ``c`` runs, and would read from 10.

    ``is_waiting``: the host of ``b`` has only been started.
    """
    scene = Scene(chain("volatile", c=Recovery("replay", horizon_us=5)), hosts=4, join_wait_s=1)
    scene.start_all()
    scene.answers = False
    scene.progress("c", 40, 40)
    scene.at("b").released["bc"] = 30
    if is_waiting:
        scene.at("b").state, scene.at("b").host = "waiting", ""
    scene.tell(DrainRequested(scene.at("c").host))
    out = scene.tell(dataclasses.replace(replayed_from(scene, "early", 42, reads=10), asked=True))
    assert started(out) == []
    out = scene.tell(Tick(2 * SECOND))
    assert len(said(out, TakeCheckpoint)) == 1, "it is asked again"
    assert said(scene.tell(Tick(2 * SECOND + 1)), TakeCheckpoint) == [], "once in a while"
    out = scene.tell(dataclasses.replace(replayed_from(scene, "late", 45, reads=30), asked=True))
    assert started(out) == [("c", "late")]


def replayed_from(scene: Scene, name: str, at: int, *, reads: int) -> CheckpointTaken:
    """Positions of ``c``, whose state is rebuilt from ``reads``."""
    notice = taken("c", scene.at("c").epoch, name, at, at)
    return dataclasses.replace(notice, reads=(reads,))


def test_the_host_of_a_replica_is_drained() -> None:
    scene = replicated(hosts=3)
    scene.progress("b", 60, 30, epoch=2)
    scene.progress("b", 55, 25, epoch=3)
    scene.obey(scene.tell(DrainRequested("h1.0")))
    instances = scene.manager.vertices["b"].instances
    assert [(i.slot, i.replaces) for i in instances] == [(1, None), (2, None), (0, 2)]
    assert instances[2].checkpoint == "b-3-55", "the one that stays was asked"
    scene.progress("b", 60, 30, epoch=instances[2].epoch)
    assert [host for _, host in scene.instances("b")] == ["h0.0", "h2.0"]
    assert scene.manager.hosts[1].state == "drained"


def refusals(scene: Scene) -> dict[str, str]:
    """Why hosts cannot be drained, as the status shows it."""
    rows = status_of(scene.manager, now_us=0)["hosts"]
    return {row["host"]: row["cannot_drain"] for row in rows}


def test_a_drain_that_leaves_too_few_hosts_is_rejected_with_a_reason() -> None:
    scene = replicated(hosts=2)
    assert scene.tell(DrainRequested("h1.0")) == []
    assert refusals(scene)["h1.0"] == "b has 2 replicas, and the other hosts are only 1"
    alone = Scene(hosts=1)
    alone.start_all()
    assert alone.tell(DrainRequested("h0.0")) == []
    assert refusals(alone) == {"h0.0": "there is no other host"}
    left = Scene(chain("async"), hosts=2)
    left.start_all()
    left.obey(left.tell(DrainRequested("h1.0")))
    assert refusals(left)["h0.0"] == "there is no other host", "the other one is about to leave"
    assert not left.manager.hosts[0].is_draining


def test_recomputation_is_not_left_to_a_twin_that_will_be_retired() -> None:
    """The twin would retire in favour of its elder, which has lost the reader's first items."""
    scene = Scene(chain("volatile"), hosts=4)
    scene.start_all()
    scene.obey(scene.tell(DrainRequested("h1.0")))
    (elder, _), (twin, host) = scene.instances("b")
    for epoch in (elder, twin):
        scene.finish("b", 100, 50, epoch=epoch)
    scene.tell(DrainRequested(host))
    for instance in scene.manager.vertices["b"].instances:
        instance.released["bc"] = 50
    out = scene.lose(scene.instances("c")[0][1])
    assert [vertex for vertex, _ in started(out)] == ["b"]
    (newest, _) = max(scene.instances("b"))
    assert newest > twin
    assert scene.manager.job.released("bc") == 0


def test_a_host_that_dies_during_its_drain_is_not_replaced() -> None:
    scene = Scene(chain("async"), hosts=2)
    scene.start_all()
    scene.answers = False
    scene.tell(DrainRequested("h1.0"))
    out = scene.lose("h1.0")
    assert started(out) == [("b", "")]
    assert scene.manager.hosts[1].state == "drained"
    assert scene.instances("b") == [(4, "h0.0")]


def test_a_twin_waits_until_readers_no_longer_need_its_elder() -> None:
    scene = Scene(chain("volatile"), hosts=2)
    scene.start_all()
    scene.progress("b", 60, 30)
    scene.progress("c", 10, 5)
    scene.obey(scene.tell(DrainRequested("h1.0")))
    twin = scene.instances("b")[1][0]
    assert scene.progress("b", 70, 35, epoch=twin) == [], "c needs bc from 10, it has it from 30"
    assert scene.tell(TwinLevel("b", 2, twin)) == [], "said before c was restarted"
    assert scene.instances("b") == [(2, "h1.0"), (twin, "h0.0")]
    scene.progress("c", 30, 15)
    assert scene.instances("b") == [(twin, "h0.0")]


def test_a_drained_host_serves_until_its_finished_vertices_are_read() -> None:
    plan = [
        vertex("a", writes=["ab"], durability="volatile"),
        vertex("b", reads=["ab"], writes=["bc"]),
        vertex("c", reads=["bc"], writes=["out"], is_sink=True),
    ]
    scene = Scene(Topology(plan))
    scene.start_all()
    scene.finish("a", 100, 100)
    scene.tell(DrainRequested("h0.0"))
    assert scene.manager.hosts[0].state == "ready", "b may have to read ab again"
    scene.finish("b", 100, 50)
    assert scene.manager.hosts[0].state == "drained"


# ---- stragglers


def slow_one(hosts: int = 2, **limits: Any) -> Scene:
    """b1 is stuck at 10 since b0 reached 20, eleven seconds ago."""
    scene = Scene(siblings(2), hosts=hosts, straggler_after_s=10.0, **limits)
    scene.start_all()
    scene.progress("b0", 20, 20, cti=20 * SECOND)
    scene.progress("b1", 10, 10, cti=10 * SECOND)
    scene.pass_time(1)
    return scene


def test_a_straggler_gets_a_twin_and_the_slower_one_is_retired(rewrite: bool) -> None:
    scene = slow_one()
    assert scene.pass_time(10) == []
    assert scene.pass_time(11.5)[0] == Feed(StragglerFound("b1", 3))
    assert scene.instances("b1") == [(3, "h0.0"), (4, "h1.0")]
    scene.progress("b1", 11, 11, epoch=3, cti=11 * SECOND)
    assert scene.progress("b1", 10, 10, epoch=4) == [], "not yet"
    assert scene.progress("b1", 12, 12, epoch=4) == [Feed(TwinLevel("b1", 3, 4))]
    assert scene.instances("b1") == [(4, "h1.0")]
    scene.check("straggler", rewrite=rewrite)


def test_a_twin_is_compared_with_the_current_position_of_its_elder() -> None:
    scene = slow_one()
    scene.pass_time(11.5)
    scene.progress("b1", 11, 11, epoch=3, cti=11 * SECOND)
    assert scene.progress("b1", 10, 10, epoch=4) == []
    scene.progress("b1", 15, 15, epoch=3, cti=15 * SECOND)
    assert scene.progress("b1", 12, 12, epoch=4) == []
    assert scene.progress("b1", 15, 15, epoch=4) == [Feed(TwinLevel("b1", 3, 4))]


def test_a_twin_gets_no_twin() -> None:
    scene = slow_one(hosts=3, twins_max=9)
    scene.pass_time(11.5)
    assert scene.tell(StragglerFound("b1", 4)) == []
    assert scene.manager.vertices["b1"].joins == []


def test_a_twin_that_is_not_faster_is_retired_and_not_retried_soon() -> None:
    scene = slow_one(twin_wait_s=5.0)
    scene.pass_time(11.5)
    scene.progress("b1", 11, 11, epoch=3, cti=11 * SECOND)
    scene.pass_time(17)
    assert scene.progress("b1", 10, 10, epoch=4)[-1] == Feed(TwinLevel("b1", 4, 3))
    assert scene.instances("b1") == [(3, "h0.0")]
    assert scene.pass_time(26) == []
    assert Feed(StragglerFound("b1", 3)) in scene.pass_time(27)


def test_without_another_host_there_is_no_twin() -> None:
    assert slow_one(hosts=1).pass_time(30) == []


def test_the_number_of_twins_is_limited() -> None:
    scene = Scene(siblings(5), hosts=2, straggler_after_s=10.0, twins_max=1)
    scene.start_all()
    for k in range(3):
        scene.progress(f"b{k}", 20, 20, cti=20 * SECOND)
    scene.pass_time(1)
    scene.pass_time(12)
    found = [x for x in scene.lines if x.startswith("> StragglerFound")]
    assert len(found) == 1


def test_a_restarted_instance_is_not_a_straggler() -> None:
    scene = slow_one()
    scene.lose("h0.0")
    scene.ready("h0.1")
    assert not [i for i in scene.pass_time(11.5) if isinstance(i, Feed)]


def test_a_straggler_while_a_host_is_lost(rewrite: bool) -> None:
    """The twin's host dies before it starts, then the straggler's host: nothing hangs."""
    scene = slow_one(hosts=3)
    scene.answers = False
    scene.pass_time(11.5)
    (join,) = scene.manager.vertices["b1"].joins
    lost = scene.manager.hosts[join.slot].name
    scene.lose(lost)
    scene.answer("b1", 3)
    assert [i.state for i in scene.manager.vertices["b1"].instances] == ["running", "waiting"]
    scene.lose("h2.0")
    assert [i.replaces for i in scene.manager.vertices["b1"].instances] == [None]
    scene.answers = True
    for host in scene.manager.hosts:
        if host.state == "starting":
            scene.ready(host.name)
    assert scene.manager.vertices["b1"].state == "running"
    scene.check("straggler_and_lost_host", rewrite=rewrite)


# ---- the job manager's own death


def taken_over(scene: Scene, topology: Topology | None = None) -> Scene:
    """A job manager that knows only another one's log, after its hosts have reported."""
    successor = Scene(topology or scene.manager.topology, log=scene.log())
    successor.start_all()
    return successor


def test_a_takeover_during_a_join(rewrite: bool) -> None:
    scene = replicated()
    scene.checkpoint("b", "b40", 40, 20, epoch=3)
    scene.answers = False
    scene.lose("h1.0")
    scene.ready("h1.1")
    successor = taken_over(scene)
    rows = successor.manager.vertices["b"].instances
    assert [i.checkpoint for i in rows] == ["b40", "b40"]
    assert min(i.epoch for i in rows) > 1000
    assert [h.name for h in successor.manager.hosts] == ["h0.1.0", "h1.1.0", "h2.1.0"]
    successor.check("takeover_in_a_join", rewrite=rewrite)


def test_a_takeover_does_not_use_a_rejected_checkpoint() -> None:
    scene = replicated()
    scene.lose("h1.0")
    out = scene.checkpoint("b", "zombie", 90, 45, epoch=2)
    assert out == [DeleteFiles(("zombie",))]
    assert [r.name for r in taken_over(scene).manager.tracker.refs("b")] == [""]


def test_a_takeover_may_work_with_other_strategies_and_hosts() -> None:
    """A decision is not made twice."""
    scene = slow_one(hosts=3)
    scene.pass_time(11.5)
    scene.progress("b1", 12, 12, epoch=4)
    scene.checkpoint("b1", "b1-12", 12, 12, epoch=4)
    scene.obey(scene.tell(DrainRequested("h0.0")))
    plan = [
        vertex("a", writes=["ab0", "ab1"]),
        vertex("b0", reads=["ab0"], writes=["out0"], is_sink=True, stage="b", recovery=TWO),
        vertex("b1", reads=["ab1"], writes=["out1"], is_sink=True, stage="b", recovery=TWO),
    ]
    successor = taken_over(scene, Topology(plan))
    assert [i.checkpoint for i in successor.manager.vertices["b1"].instances] == ["b1-4-12"] * 2


def test_a_vertex_gets_only_one_twin() -> None:
    scene = Scene(chain("async"), hosts=3, twins_max=3)
    scene.start_all()
    scene.answers = False
    for now_s in range(1, 4):
        scene.tell(DrainRequested("h1.0"))
        scene.tell(Tick(now_s * SECOND))
        vertex_b = scene.manager.vertices["b"]
        assert len(vertex_b.joins) == 1
        assert vertex_b.replaced() == [2]


def test_finished_instances_end_with_their_host() -> None:
    """No reader is sent to a host that was drained."""
    scene = Scene(chain("async"), hosts=2)
    scene.start_all()
    scene.finish("a", 200, 200)
    scene.finish("b", 200, 100)
    assert [host for _, host in scene.instances("b")] == ["h1.0"]
    scene.obey(scene.tell(DrainRequested("h1.0")))
    assert [h.state for h in scene.manager.hosts] == ["ready", "drained"]
    assert scene.instances("b") == []
