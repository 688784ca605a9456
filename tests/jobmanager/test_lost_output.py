"""The pure job manager when durable items turn out to be lost; test_damage.py has files."""

from __future__ import annotations

from jobmanager.manager import takeover
from jobmanager.state.job_state import JobState
from jobmanager.state.messages import CheckOutput, EndJob, OutputDamaged, OutputWhole
from rvertex.messages import OutputLost
from tests.support.scene import Scene, started


def finished_scene(*, with_checkpoints: bool = True) -> Scene:
    """All vertices have finished, and the output has not been checked yet."""
    scene = Scene()
    scene.manager._checks_output = True
    scene.start_all()
    if with_checkpoints:
        scene.checkpoint("c", "c10", 10, 10)
    scene.finish("a", 200, 200)
    scene.finish("b", 200, 100)
    assert scene.finish("c", 100, 50) == [CheckOutput({"out": 50})]
    assert scene.manager.state == "running"
    return scene


def test_a_job_has_finished_when_its_output_was_checked() -> None:
    scene = finished_scene()
    assert scene.tell(OutputWhole()) == [EndJob("finished", "")]


def test_lost_output_is_recomputed_and_checked_again() -> None:
    scene = finished_scene()
    out = scene.tell(OutputDamaged("out", 20, "f: it is not there"))
    assert ("c", "c10") in started(out), "its newest checkpoint at or before what is lost"
    scene.obey(out)
    assert scene.tell(OutputWhole()) == [], "an answer from before the damage was known"
    assert CheckOutput({"out": 50}) in scene.finish("c", 100, 50)
    assert scene.tell(OutputWhole()) == [EndJob("finished", "")]


def test_if_the_loss_precedes_every_checkpoint_the_job_restarts_from_its_sources() -> None:
    scene = finished_scene()
    out = scene.tell(OutputDamaged("out", 5, "f: it is not there"))
    assert started(out) == [("c", "")], "its writer still has all of its input in memory"


def test_a_vertex_whose_output_is_missing_restarts_further_back() -> None:
    scene = Scene()
    scene.start_all()
    scene.checkpoint("c", "c10", 10, 10)
    scene.checkpoint("c", "c20", 20, 20)
    epoch = scene.at("c").epoch
    out = scene.tell(OutputLost("c", epoch, "out", 15, "f: it is not there"))
    assert started(out)[-1][0] == "c"
    assert started(out)[-1][1] in ("c10", ""), "not c20, which rests on what is gone"
    assert scene.tell(OutputLost("c", epoch, "out", 15, "again")) == [], "it is no longer there"


def test_a_successor_knows_that_the_vertex_has_not_finished() -> None:
    scene = finished_scene()
    scene.tell(OutputDamaged("out", 20, "f: it is not there"))
    job = JobState(scene.manager.topology, scene.manager.config)
    for notice in scene.log():
        takeover.recall(job, notice)
    assert [v for v, state in job.vertices.items() if not state.is_finished] == ["c"]


def test_an_unrecoverable_loss_fails_with_the_file_and_the_remedy() -> None:
    scene = finished_scene()
    scene.manager.job.collected = dict.fromkeys(scene.manager.topology.streams, 1)
    for vertex in scene.manager.topology.vertices.values():
        object.__setattr__(vertex, "is_exclusive", True)
    (end,) = scene.tell(OutputDamaged("out", 5, "f.parquet: it is not there"))
    assert isinstance(end, EndJob)
    assert end.state == "failed"
    assert "f.parquet" in end.error
    assert "put the file back" in end.error
