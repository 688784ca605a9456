"""A savepoint of a running job: checkpoints are requested readers first, and then protected.

Not covered: whether a job that starts from them returns the same rows (test_savepoints.py).
"""

from __future__ import annotations

from dataclasses import replace

from jobmanager.manager import saving
from jobmanager.state.messages import (
    DeleteFiles,
    SavepointEnded,
    SavepointRequested,
    StopRequested,
    Tell,
)
from rvertex.messages import Collect, TakeCheckpoint
from tests.support.scene import Scene, taken


def asked(out: list[object]) -> list[str]:
    orders = (i.instruction for i in out if isinstance(i, Tell))
    return [o.vertex for o in orders if isinstance(o, TakeCheckpoint) and o.whole and not o.holds]


def answer(scene: Scene, vertex: str, consumed: int, written: int) -> list[object]:
    """Let an instance report a checkpoint at this position."""
    notice = taken(vertex, scene.at(vertex).epoch, f"{vertex}-saved-{written}", consumed, written)
    return list(scene.tell(replace(notice, asked=True, is_whole=True)))


def marks(out: list[object]) -> list[int]:
    orders = (i.instruction for i in out if isinstance(i, Tell))
    return [mark.seq for order in orders if isinstance(order, Collect) for mark in order.marks]


def begun(scene: Scene) -> None:
    """All vertices run and have reported, and the savepoint is requested."""
    scene.start_all()
    scene.answers = False
    for name in "abc":
        scene.progress(name, 10, 10)
    assert asked(list(scene.tell(SavepointRequested()))) == ["c"], "readers come before writers"


def test_a_savepoint_requests_all_checkpoints_and_the_job_continues() -> None:
    scene = Scene()
    begun(scene)
    assert asked(answer(scene, "c", 12, 12)) == ["b"]
    assert asked(answer(scene, "b", 20, 20)) == ["a"]
    assert saving.refs(scene.manager.job) is None
    assert asked(answer(scene, "a", 30, 30)) == []
    found = saving.refs(scene.manager.job)
    assert found is not None
    assert {name: ref.outputs for name, ref in found.items()} == {
        "a": (30,),
        "b": (20,),
        "c": (12,),
    }
    assert scene.manager.state == "running"


def test_checkpoints_and_items_of_a_savepoint_are_kept_until_it_ends() -> None:
    scene = Scene()
    begun(scene)
    out = answer(scene, "c", 12, 12)
    for seq in (40, 50):
        for name in "abc":
            out += scene.progress(name, seq, seq)
            out += scene.checkpoint(name, f"{name}-{seq}", seq, seq)
    names = [name for i in out if isinstance(i, DeleteFiles) for name in i.names]
    assert "c-saved-12" not in names
    assert max(marks(out), default=0) <= 12
    out = list(scene.tell(SavepointEnded()))
    for name in "cba":
        out += scene.checkpoint(name, f"{name}-60", 60, 60)
    assert "c-saved-12" in [n for i in out if isinstance(i, DeleteFiles) for n in i.names]
    assert max(marks(out)) >= 50


def test_a_writer_behind_its_reader_takes_another_checkpoint() -> None:
    scene = Scene(durability="async")
    begun(scene)
    answer(scene, "c", 12, 12)
    assert asked(answer(scene, "b", 11, 11)) == []
    assert asked(list(scene.pass_time(1.0))) == ["b"]
    assert asked(answer(scene, "b", 13, 13)) == ["a"]


def test_a_savepoint_restarts_if_a_checkpoint_is_lost() -> None:
    scene = Scene(durability="async")
    begun(scene)
    answer(scene, "c", 12, 12)
    scene.manager.job.tracker.forget("c")
    assert asked(list(scene.pass_time(1.0))) == ["c"]


def test_a_stop_abandons_the_savepoint() -> None:
    scene = Scene()
    begun(scene)
    scene.tell(StopRequested())
    assert scene.manager.job.saving is None


def test_a_stop_keeps_the_checkpoints_of_a_complete_savepoint_until_it_is_written() -> None:
    scene = Scene(durability="async")
    begun(scene)
    for name, seq in (("c", 12), ("b", 20), ("a", 30)):
        answer(scene, name, seq, seq)
    found = saving.refs(scene.manager.job)
    for name in "abc":
        scene.progress(name, 40, 40)
    scene.answers = True
    out: list[object] = list(scene.tell(StopRequested()))
    assert asked(out) == [], "no more checkpoints for the savepoint"
    scene.obey(out)  # type: ignore[arg-type]
    assert scene.manager.state == "stopped"
    assert found is not None
    assert saving.refs(scene.manager.job) == found
    assert not any("-saved-" in line for line in scene.lines if "DeleteFiles" in line)


def test_a_checkpoint_for_a_savepoint_does_not_count_for_a_stop() -> None:
    """The upload began before the stop, and the vertex has written more items since."""
    scene = Scene(durability="async")
    begun(scene)
    answer(scene, "c", 12, 12)
    answer(scene, "b", 20, 20)
    scene.progress("a", 60, 60)
    scene.progress("b", 50, 50)
    scene.tell(StopRequested())
    answer(scene, "a", 30, 30)
    assert "a" in scene.manager.job.unanswered
    scene.answer("a", scene.at("a").epoch)
    assert "a" not in scene.manager.job.unanswered


def test_a_late_checkpoint_replaces_no_other() -> None:
    """The checkpoint was requested before the savepoint restarted, so it fits no reader's."""
    scene = Scene(durability="async")
    begun(scene)
    answer(scene, "c", 12, 12)
    answer(scene, "b", 20, 20)
    answer(scene, "c", 50, 50)
    ref = saving.ref_of(scene.manager.job, "c")
    assert ref is not None
    assert ref.outputs == (12,)
