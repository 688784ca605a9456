"""A stop: every vertex is asked for a checkpoint, and the job ends when all have stored one.

Not covered: whether a resume gives the same result (test_stop.py of the driver, tests/sim).
"""

from __future__ import annotations

from jobmanager.state.messages import EndJob, JobResumed, StopRequested, Tell
from rvertex.messages import TakeCheckpoint
from tests.support.scene import Scene


def asked(out: list[object]) -> list[str]:
    orders = (i.instruction for i in out if isinstance(i, Tell))
    return [order.vertex for order in orders if isinstance(order, TakeCheckpoint)]


def waiting(scene: Scene) -> None:
    """A job whose vertices all run; no host has stored a checkpoint yet."""
    scene.start_all()
    scene.answers = False
    out = scene.tell(StopRequested())
    assert asked(list(out)) == ["a"], "writers come before readers"
    assert scene.manager.state == "stopping"


def test_the_job_stops_after_all_vertices_have_stored_checkpoints() -> None:
    scene = Scene()
    waiting(scene)
    scene.answer("a", scene.at("a").epoch)
    scene.answer("b", scene.at("b").epoch)
    assert scene.manager.state == "stopping"
    scene.checkpoint("c", "c1", 0, 0)
    assert scene.manager.state == "stopping", "that one was under way before it was asked"
    scene.answer("c", scene.at("c").epoch)
    assert scene.manager.state == "stopped"


def test_a_second_request_to_stop_has_no_effect() -> None:
    scene = Scene()
    waiting(scene)
    assert scene.tell(StopRequested()) == []
    for name in "abc":
        scene.answer(name, scene.at(name).epoch)
    assert scene.tell(StopRequested()) == []
    assert scene.lines.count("    EndJob(state='stopped', error='')") == 1


def test_a_stop_does_not_wait_for_finished_vertices() -> None:
    scene = Scene(durability="async")
    scene.start_all()
    scene.answers = False
    scene.finish("a", 100, 100)
    assert asked(list(scene.tell(StopRequested()))) == ["b"]
    scene.answer("b", scene.at("b").epoch)
    scene.finish("c", 100, 100)
    assert scene.manager.state == "stopped"


def test_a_job_that_ends_during_a_stop_has_finished() -> None:
    scene = Scene()
    waiting(scene)
    for name in "abc":
        scene.finish(name, 100, 100)
    assert scene.manager.state == "finished"


def test_after_a_loss_the_new_instance_is_asked_for_its_checkpoint() -> None:
    scene = Scene(hosts=1)
    waiting(scene)
    scene.lose("h0.0")
    scene.ready("h0.1")
    assert scene.manager.state == "stopping"
    scene.answers = True
    scene.pass_time(1.0)
    assert scene.manager.state == "stopped"


def test_a_stop_waits_no_longer_than_its_limit() -> None:
    scene = Scene(stop_wait_s=20.0, stop_lag_s=1.0)
    waiting(scene)
    scene.pass_time(19.0)
    assert scene.manager.state == "stopping"
    assert EndJob("stopped", "") in scene.pass_time(21.0)


def test_a_stopped_job_continues() -> None:
    scene = Scene()
    scene.start_all()
    scene.obey(scene.tell(StopRequested()))
    assert scene.manager.state == "stopped"
    successor = Scene(log=scene.log())
    assert isinstance(successor.told[0][0], JobResumed)
    assert successor.manager.state == "running"


def test_a_reader_must_read_all_that_its_writers_have_written() -> None:
    scene = Scene()
    scene.start_all()
    scene.answers = False
    scene.progress("a", 10, 10)
    scene.tell(StopRequested())
    scene.answer("a", scene.at("a").epoch)
    scene.progress("b", 4, 4)
    orders = [line for line in scene.lines if "TakeCheckpoint" in line]
    assert len(orders) == 2
    assert "vertex='b'" in orders[1]
    assert "holds=True, inputs=(10,)" in orders[1]


def test_a_source_stops_after_it_has_repeated_what_its_readers_have() -> None:
    """A restarted source first writes the items that its readers had before the failure."""
    scene = Scene(hosts=1)
    scene.start_all()
    scene.progress("a", 50, 40)
    scene.lose("h0.0")
    scene.ready("h0.1")
    scene.progress("a", 10, 8)
    scene.answers = False
    assert asked(list(scene.tell(StopRequested()))) == []
    scene.progress("a", 49, 39)
    assert asked(list(scene.pass_time(1.0))) == []
    scene.progress("a", 50, 40)
    assert asked(list(scene.pass_time(2.0))) == ["a"]
