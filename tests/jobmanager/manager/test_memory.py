"""The error for a host or vertex that ran out of memory names the cause and the state."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jobmanager.driver.shell_parts import KilledForMemory
from jobmanager.manager.memory import LOSSES_MAX
from jobmanager.state.messages import HostLost
from rvertex.host.allocator import memory_now
from rvertex.host.failure_words import family_of, message_of
from rvertex.messages import Memory, Progress, VertexFailed
from tests.support.scene import Scene

GIB = 1 << 30
FULL = Memory(7 * GIB, GIB // 4, 8 * GIB)
ROOMY = Memory(GIB, 6 * GIB, 8 * GIB)


def started() -> Scene:
    scene = Scene()
    scene.start_all()
    return scene


def report(scene: Scene, slot: int, memory: Memory | None) -> None:
    scene.tell(Progress(scene.manager.hosts[slot].name, (), memory=(memory,) if memory else ()))


def test_a_host_that_was_nearly_out_of_memory_is_reported_as_such() -> None:
    scene = started()
    slot = next(i.slot for _, i in scene.manager.job.instances())
    vertex = next(v for v in scene.manager.job.vertices.values() if v.instances[0].slot == slot)
    vertex.state_bytes = 3 * GIB
    report(scene, slot, FULL)
    report(scene, slot, None)
    name = scene.manager.hosts[slot].name
    scene.tell(HostLost(name, "its control link broke"))
    trouble = scene.manager.job.trouble
    assert trouble.startswith(f"host {name}: it ran out of memory (its control link broke): ")
    assert "its process had 7.0 GiB" in trouble
    assert "256 MiB of 8.0 GiB were free" in trouble
    assert f"the largest vertex on it is {vertex.shape.id}, with 3.0 GiB" in trouble
    assert "size-memory.md" in trouble


@pytest.mark.parametrize(
    "said",
    [
        "ExecutorLostFailure: Container exited with exit code 137",
        "its control link broke; the kernel has ended a process for lack of memory",
        "OutOfMemoryError: Java heap space",
    ],
)
def test_memory_errors_of_spark_or_the_kernel_are_recognised(said: str) -> None:
    scene = started()
    report(scene, 0, ROOMY)
    scene.tell(HostLost(scene.manager.hosts[0].name, said))
    assert f"it ran out of memory ({said})" in scene.manager.job.trouble


def test_other_losses_are_not_blamed_on_memory() -> None:
    scene = started()
    report(scene, 0, ROOMY)
    scene.tell(HostLost(scene.manager.hosts[0].name, "its control link broke"))
    assert scene.manager.job.trouble == "host h0.0: its control link broke"


def test_a_state_that_does_not_fit_is_not_loaded_again_and_again() -> None:
    scene = started()
    for loss in range(LOSSES_MAX):
        assert scene.manager.state == "running", loss
        report(scene, 0, FULL)
        scene.tell(HostLost(scene.manager.hosts[0].name, "its control link broke"))
        if scene.manager.state == "running":
            scene.ready(scene.manager.hosts[0].name)
    assert scene.manager.state == "failed"
    assert f"was lost {LOSSES_MAX} times without progress: it ran out" in scene.manager.error


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowMemoryError("malloc of size 64 failed")])
def test_a_memory_error_ends_the_job_with_an_explanation(error: Exception) -> None:
    scene = started()
    vertex, instance = next(iter(scene.manager.job.instances()))
    vertex.state_bytes = 5 << 20
    failed = VertexFailed(
        vertex.shape.id, instance.epoch, family_of(error), message_of(error), "trace"
    )
    scene.tell(failed)
    assert scene.manager.state == "failed"
    words = (vertex.shape.id, "it ran out of memory: ", type(error).__name__, "its state had 5 MiB")
    assert all(word in scene.manager.error for word in words)
    assert "--parallelism" in scene.manager.error


def test_the_kernel_is_asked_about_killed_processes() -> None:
    counts = iter([3, 3, 4, 4])
    killed = KilledForMemory(lambda: next(counts))
    assert [bool(killed.news()) for _ in range(3)] == [False, True, False]


def test_memory_of_this_process() -> None:
    (found,) = memory_now()
    assert 0 < found.used_bytes < found.limit_bytes
    assert 0 <= found.free_bytes <= found.limit_bytes
