"""What a successor restores from a copy of a job's state, and that stale notices change nothing.

Not covered: whether a successor needs more (tests/sim).
"""

from __future__ import annotations

from dataclasses import fields, replace

from jobmanager.manager import damage, takeover
from jobmanager.state.job_state import JobState
from jobmanager.state.messages import DeleteFiles, StateCopied
from rvertex.messages import Counts, Mark
from tests.support.scene import Scene, taken


def fresh(scene: Scene) -> JobState:
    return JobState(scene.manager.topology, scene.manager.config)


def test_a_takeover_restores_everything_in_the_copy() -> None:
    """Every field differs from that of a new job."""
    scene = Scene()
    scene.start_all()
    scene.checkpoint("c", "c10", 10, 10)
    copied = scene.manager.copy_state()
    vertices = tuple(
        replace(
            vertex,
            parts=(f"{vertex.vertex}-part",),
            is_finished=True,
            finisher=3,
            digests=(b"d" * 16,),
            ends=(50,),
            counts=Counts(7, 5),
        )
        for vertex in copied.vertices
    )
    told = StateCopied(
        epoch=1_007,
        takeovers=2,
        retain_us=9,
        checkpointed_us=5_000,
        uncollected=3,
        collected_us=4_000,
        collected=(Mark("out", 8),),
        is_damaged=True,
        is_finishing=True,
        vertices=vertices,
    )
    initial = takeover.copy_of(fresh(scene))
    same = [f.name for f in fields(told) if getattr(told, f.name) == getattr(initial, f.name)]
    assert same == []
    successor = fresh(scene)
    takeover.recall(successor, told)
    assert takeover.copy_of(successor) == told


def test_a_checkpoint_that_arrives_too_late_only_deletes_its_own_files() -> None:
    """The checkpoint may name parts that checkpoints of running instances name, too."""
    scene = Scene()
    scene.start_all()
    epoch = scene.at("c").epoch
    known = replace(taken("c", epoch, "c10", 10, 10), parts=("shared",))
    scene.tell(known)
    late = replace(taken("c", 999, "late", 20, 20), parts=("shared", "new"))
    assert scene.tell(late) == [DeleteFiles(("late", "new"))]


def test_the_first_item_counts_if_a_stream_has_several_losses() -> None:
    for seqs in ((20, 30), (30, 20)):
        job = fresh(Scene())
        for seq in seqs:
            damage._note(job, "out", seq, "gone")
        assert job.lost == {"out": 20}
