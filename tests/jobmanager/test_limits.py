"""Every limit of a job is lowered until it takes effect: nothing waits or grows without bound.

Limits that other test modules lower are not repeated here; the last test checks that every limit of
:class:`JobConfig` and :class:`HostLimits` has a test. Not covered: a wait that has no limit.
"""

from __future__ import annotations

import itertools
from concurrent.futures import Future
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from jobmanager.config import JobConfig
from jobmanager.driver.driver import Driver
from jobmanager.manager.manager import JobManager
from jobmanager.state.messages import EndJob, Feed, HostLost, RestartDue
from jobmanager.storage.notice_log import NoticeLog
from jobmanager.storage.root import CANCEL, JobRoot
from rstream import InlineBackground, MemoryBlobs, OperatingError, StoreError
from rstream.clock import ManualClock
from rstream.limits import StreamLimits
from rvertex.host.environment import HostLimits
from rvertex.messages import TakeCheckpoint, VertexFailed
from rvertex.vertex.spec import Recovery
from tests.jobmanager.driver.test_driver import Hosts, Lines
from tests.jobmanager.manager.test_joining import said
from tests.rooms import ROOT
from tests.support.scene import Scene
from tests.support.shapes import chain

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

TESTS = ROOT / "tests"
#: Properties of a job rather than limits.
CHOICES = {
    "parallelism",
    "hosts",
    "host",
    "py_files",
    "stream",
    "delivery",
    "pace",
    "pace_started_us",
    "verify",
    "retention_us",
    "side_retention_us",
    "scratch_folder",
    "until_end",
}
#: Limits of a step's input: only memory and time show them (benchmarks/bench_smoke.py), because the
#: output must not depend on them.
STEPS = {"narrow_steps", "narrow_bytes_max"}
#: Tests lower these under the names of run options.
OPTIONS = {
    "state_memory_bytes": '"state_memory": budget',
    "scratch_bytes_max": "scratch_limit=5_000",
}
T = TypeVar("T")


def test_the_number_of_restarts_without_progress_is_limited() -> None:
    scene = Scene(hosts=1, vertex_restarts_max=2, host_restarts_max=100)
    for generation in range(3):
        scene.start_all()
        assert scene.manager.state == "running", generation
        scene.lose_to(f"h0.{generation}", "power")
    assert scene.manager.state == "failed"
    assert scene.manager.error.startswith(
        "vertex a was restarted 2 times without progress within 600 s; "
    )
    assert "last, host h0.2" in scene.manager.error


@pytest.mark.parametrize(
    "limits",
    [
        {"vertex_restarts_max": 2, "host_restarts_max": 100},
        {"vertex_restarts_max": 100, "host_restarts_max": 2},
    ],
)
def test_a_job_that_waits_for_days_may_lose_a_host_each_day(limits: dict[str, int]) -> None:
    """Only recent restarts count, even without any progress in between."""
    scene = Scene(hosts=1, restart_window_s=600.0, stall_wait_s=1e9, host_silence_s=1e9, **limits)
    for day in range(10):
        scene.start_all()
        assert scene.manager.state == "running", day
        scene.pass_time(day * 86_400.0)
        scene.lose_to(f"h0.{day}", "power")
    assert scene.manager.state == "running"
    assert len(scene.manager.vertices["a"].fruitless_restarts) == 1


def test_progress_resets_the_count_of_restarts() -> None:
    scene = Scene(hosts=1, vertex_restarts_max=2, host_restarts_max=100)
    for generation in range(6):
        scene.start_all()
        for vertex in "abc":
            scene.progress(vertex, generation + 1, generation + 1)
        scene.lose(f"h0.{generation}")
    assert scene.manager.state == "running"


def test_pauses_between_restarts_double_up_to_the_maximum() -> None:
    scene = Scene(hosts=1, vertex_failures_max=100, restart_pause_s=1.0, restart_pause_max_s=3.0)
    scene.start_all()
    pauses, now_s = [], 0.0
    for _ in range(5):
        epoch = scene.at("b").epoch
        scene.obey(scene.tell(VertexFailed("b", epoch, "operating", "reset", "")))
        due_us = scene.manager.vertices["b"].due_us
        if due_us is None:  # the first one is restarted at once
            continue
        pauses.append(due_us / 1e6 - now_s)
        assert Feed(RestartDue("b")) not in scene.pass_time(now_s + pauses[-1] - 0.1)
        now_s += pauses[-1]
        assert Feed(RestartDue("b")) in scene.pass_time(now_s)
    assert pauses == [1.0, 2.0, 3.0, 3.0]


def test_a_missing_checkpoint_is_requested_again() -> None:
    scene = Scene(chain("async", b=Recovery("replication", 2)), join_wait_s=2.0)
    scene.start_all()
    scene.answers = False
    scene.lose("h1.0")
    scene.ready("h1.1")
    again = [TakeCheckpoint("h2.0", "b", 3)]
    assert said(scene.pass_time(1.9), TakeCheckpoint) == []
    assert said(scene.pass_time(2.1), TakeCheckpoint) == again
    assert said(scene.pass_time(4.0), TakeCheckpoint) == [], "it waits as long each time"
    assert said(scene.pass_time(4.2), TakeCheckpoint) == again


def test_a_join_without_a_response_does_not_delay_the_job() -> None:
    """Only running instances count: the job keeps the memory that it may read without waiting."""
    scene = Scene(chain("volatile", b=Recovery("replication", 2)), join_wait_s=2.0)
    scene.start_all()
    scene.answers = False
    scene.progress("b", 40, 20, epoch=3)
    scene.lose("h1.0")
    scene.ready("h1.1")
    scene.progress("b", 90, 45, epoch=3)
    assert scene.manager.job.consumed("b") == (40,)
    scene.finish("b", 100, 50, epoch=3)
    assert scene.manager.job.consumed("b") == (100,)


def test_a_silent_host_and_a_stalled_job_end_exactly_at_their_limits() -> None:
    scene = Scene(hosts=2, host_silence_s=5.0, stall_wait_s=8.0, vertex_restarts_max=100)
    scene.start_all()
    assert scene.pass_time(5.0) == []
    out = scene.pass_time(5.1)
    assert [i for i in out if isinstance(i, Feed)] == [
        Feed(HostLost(f"h{k}.0", "silent for 5 s")) for k in range(2)
    ]
    scene.start_all()
    assert not [i for i in scene.pass_time(8.0) if isinstance(i, EndJob)]
    (end,) = [i for i in scene.pass_time(8.1) if isinstance(i, EndJob)]
    assert "no vertex made progress for 8 s (stall_wait_s)" in end.error


# ---- of the shell around it


class CountingHosts(Hosts):
    """Records how long it waited."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    def close(self, wait_s: float) -> None:
        self.waited_s.append(wait_s)


def driver_of(config: JobConfig, hosts: Hosts, **surroundings: Any) -> Driver:
    """A started driver of the job ``a -> b -> c``; ``surroundings``: the clock and other parts."""
    clock = surroundings.setdefault("clock", ManualClock(1_000_000))
    root = surroundings.setdefault("root", JobRoot(MemoryBlobs()))
    surroundings.setdefault("on_status", lambda status: None)
    root.claim(clock.now_us())
    driver = Driver(
        manager=JobManager(chain("volatile"), config),
        executor=hosts,
        config=config,
        background=InlineBackground(),
        open_control=Lines,
        **surroundings,
    )
    driver.begin(resumed=False)
    return driver


def test_the_job_waits_for_hosts_up_to_the_limit() -> None:
    hosts, root, clock = CountingHosts(), JobRoot(MemoryBlobs()), ManualClock(0)
    driver = driver_of(JobConfig(host_stop_wait_s=0.25), hosts, root=root, clock=clock)
    root.request(CANCEL)
    for _ in range(3):
        clock.advance(1_000_000)
        driver.poll(0)
    assert hosts.waited_s == [0.25]


def test_an_unreachable_root_is_tried_at_growing_intervals() -> None:
    tries: list[float] = []
    clock = ManualClock(0)

    class Away(MemoryBlobs):
        is_away = False

        def exists(self, path: str) -> bool:
            if self.is_away:
                tries.append(clock.monotonic_s())
                raise StoreError(path, "nobody answers")
            return super().exists(path)

    store = Away()
    config = JobConfig(store_pause_s=1.0, store_pause_max_s=4.0)
    driver = driver_of(config, Hosts(), root=JobRoot(store), clock=clock)
    store.is_away = True
    for _ in range(30):
        clock.advance(500_000)
        driver.poll(0)
    assert tries == [0.5, 1.5, 3.5, 7.5, 11.5]


def test_the_status_of_a_large_job_is_written_less_often() -> None:
    """Four rows (three vertices and a host) at one row a second: a status every four seconds."""
    written: list[float] = []
    clock = ManualClock(0)
    driver = driver_of(
        JobConfig(status_rows_per_s_max=1.0),
        Hosts(),
        clock=clock,
        on_status=lambda status: written.append(clock.monotonic_s()),
    )
    for _ in range(24):
        clock.advance(500_000)
        driver.poll(0)
    assert len(written) >= 3
    assert all(b - a >= 4.0 for a, b in itertools.pairwise(written))


class StuckBackground(InlineBackground):
    """Threads that never start their work; waits end at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s: list[float] = []

    def submit(self, task: Callable[[], T]) -> Future[T]:
        return Future()

    def wait_for(
        self, changed: threading.Condition, is_done: Callable[[], bool], timeout_s: float
    ) -> bool:
        self.waited_s.append(timeout_s)
        return is_done()


def test_notices_that_do_not_become_durable_are_awaited_up_to_the_limit() -> None:
    root, clock, background = JobRoot(MemoryBlobs()), ManualClock(1), StuckBackground()
    root.claim(clock.now_us())
    log = NoticeLog(root, clock, JobConfig(notice_flush_wait_s=0.5), background)
    log.append(HostLost("h0.0", "killed"))
    with pytest.raises(OperatingError):
        log.flush()
    assert background.waited_s
    assert set(background.waited_s) == {0.5}


def test_many_hosts_report_less_often() -> None:
    config = JobConfig(reports_per_s_max=10.0, host=HostLimits(report_interval_s=0.1))
    assert config.host_limits(1).report_interval_s == 0.1
    assert config.host_limits(20).report_interval_s == 2.0


# ---- of hosts


def test_a_volatile_channel_keeps_less_in_memory_than_other_streams() -> None:
    limits = HostLimits(channel_bytes_max=100, stream=StreamLimits(tail_bytes_max=1_000))
    assert limits.stream_limits("volatile").tail_bytes_max == 100
    assert limits.stream_limits("async").tail_bytes_max == 1_000
    small = replace(limits, stream=StreamLimits(tail_bytes_max=50))
    assert small.stream_limits("volatile").tail_bytes_max == 50


@pytest.mark.parametrize("limits", [JobConfig, HostLimits])
def test_each_limit_is_lowered_by_a_test(limits: type) -> None:
    """Each limit has a test that lowers it; tests of the simulation do not count."""
    texts = [
        path.read_text()
        for path in sorted(TESTS.rglob("*.py"))
        if "sim" not in path.relative_to(TESTS).parts
    ]
    names = {field.name for field in fields(limits)} - CHOICES - STEPS
    found = {n: OPTIONS.get(n) or f"{n}=" for n in names}
    lowered = {n for n, how in found.items() if any(how in text for text in texts)}
    assert names - lowered == set()
