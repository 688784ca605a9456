"""An unreachable store: the job waits, reports it, continues, and fails only after a limit.

Not covered: how hosts react to a failing store (tests/jobmanager/test_store_faults.py).
"""

from __future__ import annotations

from jobmanager.driver.report import status_of
from rvertex.messages import VertexFailed
from tests.support.scene import Scene


def fail(scene: Scene, name: str = "b") -> None:
    epoch = scene.at(name).epoch
    scene.obey(scene.tell(VertexFailed(name, epoch, "store", "s3://x/y: nobody answers", "")))


def waiting(scene: Scene) -> str:
    found: str = status_of(scene.manager, now_us=0)["waiting"]
    return found


def test_a_job_waits_for_its_store_and_continues() -> None:
    limits: dict[str, float] = {"restart_pause_s": 1.0, "restart_pause_max_s": 10.0}
    limits |= {"store_wait_s": 300.0, "host_silence_s": 1e9}
    scene = Scene(hosts=1, vertex_failures_max=1, vertex_restarts_max=2, **limits)
    scene.start_all()
    now_s = 0.0
    while now_s < 290:
        if scene.manager.vertices["b"].instances:
            fail(scene)
        now_s += 1.0
        scene.pass_time(now_s)
        assert scene.manager.state == "running", scene.manager.error
        assert waiting(scene) == "store: s3://x/y: nobody answers"
    restarts = scene.manager.vertices["b"].restarts
    assert 25 < restarts < 40, "with a pause that grows to ten seconds"
    scene.pass_time(now_s + 20)
    scene.progress("b", 1, 1)
    assert waiting(scene), "it got further in memory alone"
    scene.progress("b", 2, 2, durable=1)
    assert waiting(scene) == ""
    fail(scene)
    assert waiting(scene), "the wait begins anew"
    assert scene.manager.state == "running"


def test_a_long_outage_of_the_store_ends_the_job() -> None:
    scene = Scene(hosts=1, store_wait_s=30.0, host_silence_s=1e9)
    scene.start_all()
    for second in range(1, 60):
        if scene.manager.vertices["b"].instances:
            fail(scene)
        scene.pass_time(float(second))
    assert scene.manager.state == "failed"
    assert "s3://x/y: nobody answers (its store failed for 3" in scene.manager.error
    assert "store_wait_s is 30 s" in scene.manager.error
    assert waiting(scene) == ""


def test_reading_input_again_is_no_progress_while_the_disk_is_full() -> None:
    scene = Scene(hosts=1, store_wait_s=60.0, host_silence_s=1e9)
    scene.start_all()
    for second in range(1, 100):
        if scene.manager.vertices["b"].instances:
            scene.progress("b", 10 * second, 10 * second)
            assert second == 1 or waiting(scene), second
            fail(scene)
        scene.pass_time(float(second))
    assert scene.manager.state == "failed"
    assert "its store failed for 6" in scene.manager.error


def test_a_store_counts_as_working_after_a_pause_or_a_checkpoint() -> None:
    for is_calm in (True, False):
        scene = Scene(hosts=1, store_wait_s=600.0, host_silence_s=1e9)
        scene.start_all()
        fail(scene)
        scene.pass_time(40.0 if is_calm else 5.0)
        assert waiting(scene)
        if is_calm:
            scene.progress("b", 10, 10)
        else:
            scene.checkpoint("b", "b-1", 0, 0)
        assert waiting(scene) == ""


def test_a_checkpoint_in_another_store_does_not_end_the_wait() -> None:
    scene = Scene(hosts=1, store_wait_s=600.0, host_silence_s=1e9)
    scene.start_all()
    scene.progress("c", 10, 10)
    fail(scene, "c")
    scene.pass_time(1.0)
    scene.progress("c", 10, 10)
    scene.checkpoint("c", "c-1", 0, 0)
    assert waiting(scene), "the output was not stored, a checkpoint elsewhere was"
    scene.pass_time(40.0)
    scene.progress("c", 11, 11)
    assert waiting(scene), "nothing failed for a while, and nothing was stored"
    scene.progress("c", 11, 11, durable=10)
    assert waiting(scene) == "", "also without new input"


def test_the_first_restart_is_immediate_and_later_ones_wait() -> None:
    limits: dict[str, float] = {"restart_pause_s": 1.0, "restart_pause_max_s": 4.0}
    scene = Scene(hosts=1, store_wait_s=300.0, host_silence_s=1e9, **limits)
    scene.start_all()
    now_s = 0.0
    for begun in ([0.0, 1.0, 2.0, 4.0, 4.0], [0.0, 1.0]):
        pauses = []
        for _ in begun:
            fail(scene)
            failed_s = now_s
            while not scene.manager.vertices["b"].instances:
                now_s += 0.5
                scene.pass_time(now_s)
            pauses.append(now_s - failed_s)
        assert pauses == begun
        consumed = scene.at("b").consumed[0] + 1
        scene.progress("b", consumed, 1, durable=consumed)
