"""The driver with fake hosts, stores and clocks: its reactions to time and failures.

Not covered: behaviour of real hosts, stores and connections (test_job.py, tests/sim, tests/spark).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jobmanager.config import JobConfig
from jobmanager.driver.driver import Driver
from jobmanager.driver.shell_parts import PAUSE_MAX_S
from jobmanager.errors import JobRunningError
from jobmanager.manager.manager import JobManager
from jobmanager.state.job_state import STOPPING
from jobmanager.state.messages import DeleteFiles, Tick
from jobmanager.storage.notice_log import FLUSHES_MAX, NoticeLog, read_notices
from jobmanager.storage.root import CANCEL, DRAIN, STOP, JobRoot
from rstream import InlineBackground, MemoryBlobs, StoreError
from rstream.clock import ManualClock
from rvertex.messages import (
    INSTRUCTION_CODEC,
    NOTICE_CODEC,
    CheckpointTaken,
    Collect,
    HostReady,
    Progress,
    StopHost,
    VertexStarted,
)
from tests.support.shapes import chain

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from jobmanager.state.topology import Topology
    from rvertex.host.host import HostSpec
    from rvertex.messages import HostInstruction, HostNotice

CONFIG = JobConfig(host_silence_s=30.0, host_start_wait_s=30.0)


class Hosts:
    """An executor that starts nothing."""

    hosts, bind = 1, "nowhere"

    def start(self, spec: HostSpec, on_exit: Callable[[str, str], None]) -> None: ...

    def park(self, secret: str) -> str:
        return "a place"

    def close(self, wait_s: float) -> None: ...

    def release(self) -> None: ...


class Lines:
    """A control service that sends to no host."""

    address = "nowhere"

    def __init__(
        self,
        secret: str,
        on_message: Callable[[str, bytes], None],
        *,
        on_disconnect: Callable[[str], None],
        host: str,
    ) -> None:
        self.on_message = on_message
        self.is_closed = False
        self.on_send: Callable[[str, HostInstruction], object] = lambda peer, said: None

    def send(self, peer: str, message: bytes) -> None:
        self.on_send(peer, INSTRUCTION_CODEC.decode(message))

    def close(self) -> None:
        self.is_closed = True


class Scene:
    """A driver of one host that has reported."""

    def __init__(
        self,
        store: MemoryBlobs,
        on_status: Callable[[dict[str, Any]], None] = lambda status: None,
        shape: Topology | None = None,
    ) -> None:
        self.clock = ManualClock(1_000_000)
        self.manager = JobManager(shape or chain("volatile"), CONFIG)
        self.lines: list[Lines] = []
        root = JobRoot(store)
        root.claim(self.clock.now_us())
        self.driver = Driver(
            root=root,
            manager=self.manager,
            executor=Hosts(),
            config=CONFIG,
            clock=self.clock,
            on_status=on_status,
            background=InlineBackground(),
            open_control=self._open,
            pause=lambda seconds: self.clock.advance(int(seconds * 1e6)),
        )
        self.driver.begin(resumed=False)
        ready = HostReady("h0.0", 0, 1, "m", "grpc://h0.0")
        self.lines[0].on_message("h0.0#0", NOTICE_CODEC.encode(ready))
        self.driver.poll(0)
        self.pass_time(1.0)

    def _open(
        self,
        secret: str,
        on_message: Callable[[str, bytes], None],
        *,
        on_disconnect: Callable[[str], None],
        host: str,
    ) -> Lines:
        self.lines.append(Lines(secret, on_message, on_disconnect=on_disconnect, host=host))
        return self.lines[-1]

    def hear(self, notice: HostNotice) -> None:
        """The host sends this notice, and the driver handles it."""
        self.lines[0].on_message("h0.0#0", NOTICE_CODEC.encode(notice))
        self.driver.poll(0)

    def hear_host(self) -> None:
        """The host reports, so it does not count as dead."""
        self.lines[0].on_message("h0.0#0", NOTICE_CODEC.encode(Progress("h0.0", ())))

    def hear_zombie(self) -> None:
        """A replaced instance has stored a checkpoint, which must be deleted."""
        name, at = "checkpoints/a/zombie", (10,)
        late = CheckpointTaken("a", 99, name, at, at, 5, at, (), 0, asked=False)
        self.lines[0].on_message("h0.0#0", NOTICE_CODEC.encode(late))

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, then poll twice, since the first poll may only queue a notice."""
        self.clock.advance(int(seconds * 1e6))
        self.driver.poll(0)
        self.driver.poll(0)


def test_a_silent_host_is_given_up() -> None:
    scene = Scene(MemoryBlobs())
    for _ in range(40):
        scene.pass_time(1.0)
    assert [h.name for h in scene.manager.hosts] == ["h0.1"]


def test_a_driver_that_was_suspended_gives_up_no_host() -> None:
    scene = Scene(MemoryBlobs())
    scene.pass_time(600.0)
    assert [h.name for h in scene.manager.hosts] == ["h0.0"]
    for _ in range(int(CONFIG.host_silence_s - PAUSE_MAX_S) + 1):
        scene.pass_time(1.0)
    assert [h.name for h in scene.manager.hosts] == ["h0.1"], "from then on silence counts again"


def test_connections_end_even_if_the_log_cannot_be_closed() -> None:
    class Full(MemoryBlobs):
        """A store that is full after some time."""

        is_full = False

        def put(self, path: str, data: bytes | pa.Buffer) -> None:
            if self.is_full:
                raise StoreError(path, "no space left")
            super().put(path, data)

        def child(self, folder: str) -> Full:
            return self

    store = Full()
    scene = Scene(store)
    store.is_full = True
    again = HostReady("h0.0", 1, 1, "m", "grpc://h0.0")
    scene.lines[0].on_message("h0.0#1", NOTICE_CODEC.encode(again))
    scene.driver.poll(0)
    with pytest.raises(StoreError, match="no space left"):
        scene.driver.close()
    assert scene.lines[0].is_closed


class Broken(MemoryBlobs):
    """A store in which only the log is reachable while it is broken."""

    is_broken = False

    def list(self, folder: str = "") -> list[str]:
        if self.is_broken:
            raise StoreError(folder, "unreachable")
        return super().list(folder)


def test_a_short_outage_of_the_root_does_no_harm() -> None:
    store = Broken()
    scene = Scene(store)
    store.is_broken = True
    JobRoot(store).request(CANCEL)
    for _ in range(int(CONFIG.store_wait_s) - 1):
        scene.hear_host()
        scene.pass_time(1.0)
    assert scene.manager.state == "running"
    store.is_broken = False
    scene.pass_time(CONFIG.store_pause_max_s)
    assert scene.manager.state == "cancelled"


def test_a_long_outage_of_the_root_ends_the_job_manager() -> None:
    store = Broken()
    scene = Scene(store)
    store.is_broken = True
    for _ in range(int(CONFIG.store_wait_s)):
        scene.hear_host()
        scene.pass_time(1.0)
    with pytest.raises(StoreError, match="unreachable"):
        scene.pass_time(1.0 + CONFIG.store_pause_max_s)


def test_obsolete_files_are_deleted_after_an_outage_of_the_store() -> None:
    class Fragile(MemoryBlobs):
        """Deletions fail at first."""

        failures = 3

        def delete(self, path: str) -> None:
            if path.startswith("checkpoints/") and self.failures:
                self.failures -= 1
                raise StoreError(path, "busy")
            super().delete(path)

    store = Fragile()
    scene = Scene(store)
    store.put("checkpoints/a/zombie", b"state")
    scene.hear_zombie()
    for left in (2, 1, 0):
        assert store.exists("checkpoints/a/zombie")
        scene.pass_time(1.0)
        assert store.failures == left
    scene.pass_time(1.0)
    assert not store.exists("checkpoints/a/zombie")


def test_a_job_manager_that_was_replaced_while_suspended_writes_nothing() -> None:
    store = MemoryBlobs()
    scene = Scene(store)
    JobRoot(store, pid=1, machine="elsewhere").claim(1_000_000)
    before = dict(store.blobs)
    scene.hear_host()
    scene.clock.advance(60_000_000)
    with pytest.raises(JobRunningError, match="pid 1 on elsewhere"):
        scene.driver.poll(0)
    scene.driver.close()
    assert store.blobs == before
    assert scene.lines[0].is_closed


def test_a_job_manager_that_was_just_replaced_decides_nothing() -> None:
    """A replaced driver stores its notices in its own folder, and acts on none of them."""
    store = MemoryBlobs()
    scene = Scene(store)
    store.put("checkpoints/a/zombie", b"state")
    successor = JobRoot(store, pid=1, machine="elsewhere")
    successor.claim(1_000_000)
    known = NoticeLog(successor, scene.clock, CONFIG, InlineBackground()).replay()
    scene.hear_zombie()
    with pytest.raises(JobRunningError, match="pid 1 on elsewhere"):
        scene.driver.poll(0)
    scene.driver.close()
    assert store.exists("checkpoints/a/zombie")
    assert [notice for _, notice in read_notices(store)] == known


def test_notices_that_cannot_be_stored_are_retried() -> None:
    class Busy(MemoryBlobs):
        """The log is not writable for a while."""

        failures = 0

        def child(self, folder: str) -> MemoryBlobs:
            child = Busy(self.blobs, f"{folder}/")
            child.put = self.put_below(child)  # type: ignore[method-assign]
            return child

        def put_below(self, child: MemoryBlobs) -> Callable[[str, bytes | pa.Buffer], None]:
            def put(path: str, data: bytes | pa.Buffer) -> None:
                if self.failures:
                    self.failures -= 1
                    raise StoreError(path, "busy")
                MemoryBlobs.put(child, path, data)

            return put

    store = Busy()
    scene = Scene(store)
    store.failures = 2 * FLUSHES_MAX
    scene.driver.cancel()
    scene.driver.poll(0)
    assert (store.failures, scene.manager.state) == (0, "cancelled")


def test_the_last_status_is_retried() -> None:
    """A finished job does not fail because its last status cannot be written at once."""
    failures, told = [3], []

    def on_status(status: dict[str, Any]) -> None:
        if status["state"] == "cancelled" and failures[0]:
            failures[0] -= 1
            raise StoreError("status.json", "busy")
        told.append(status["state"])

    scene = Scene(MemoryBlobs(), on_status)
    scene.driver.cancel()
    scene.driver.poll(0)
    scene.driver.close()
    assert (failures, told[-1]) == ([0], "cancelled")


def test_a_job_whose_last_status_cannot_be_written_can_be_resumed() -> None:
    def on_status(status: dict[str, Any]) -> None:
        if status["state"] == "cancelled":
            raise StoreError("status.json", "busy")

    scene = Scene(MemoryBlobs(), on_status)
    scene.driver.cancel()
    scene.driver.poll(0)
    with pytest.raises(StoreError, match="busy"):
        scene.driver.close()
    assert scene.lines[0].is_closed


def test_files_that_become_obsolete_at_the_end_are_deleted() -> None:
    store = MemoryBlobs()
    scene = Scene(store)
    store.put("checkpoints/a/zombie", b"state")
    scene.hear_zombie()
    scene.driver.poll(0)
    scene.driver.cancel()
    scene.driver.poll(0)
    assert store.exists("checkpoints/a/zombie")
    scene.driver.close()
    assert not store.exists("checkpoints/a/zombie")


class Overtaken(MemoryBlobs):
    """Another job manager claims the root as soon as the next notices are durable."""

    is_due = False

    def child(self, folder: str) -> MemoryBlobs:
        child = MemoryBlobs(self.blobs, f"{folder}/")

        def put(path: str, data: bytes | pa.Buffer) -> None:
            MemoryBlobs.put(child, path, data)
            if self.is_due:
                self.is_due = False
                JobRoot(MemoryBlobs(self.blobs), pid=1, machine="elsewhere").claim(1_000_000)

        child.put = put  # type: ignore[method-assign]
        return child


def test_a_job_manager_that_is_replaced_during_a_write_acts_on_none_of_it() -> None:
    """A driver checks that it owns the root after its notices are durable, before it acts."""
    store = Overtaken()
    scene = Scene(store)
    scene.driver.cancel()
    store.is_due = True
    with pytest.raises(JobRunningError, match="pid 1 on elsewhere"):
        scene.driver.poll(0)
    assert not store.is_due
    assert scene.driver.ended_s is None


def test_the_reason_for_a_deletion_is_durable_before_the_deletion() -> None:
    store = MemoryBlobs()
    scene = Scene(store, shape=chain("async"))
    known: list[bool] = []

    def note(peer: str, said: HostInstruction) -> None:
        if isinstance(said, Collect):
            told = [notice for _, notice in read_notices(store)]
            known.append(any(isinstance(n, CheckpointTaken) for n in told))

    scene.lines[0].on_send = note
    for name in ("a", "b", "c"):
        (instance,) = scene.manager.vertices[name].instances
        scene.hear(VertexStarted("h0.0", name, instance.epoch, (0,)))
    for name in ("c", "b"):
        (instance,) = scene.manager.vertices[name].instances
        at = (10,)
        scene.hear(
            CheckpointTaken(
                name, instance.epoch, f"checkpoints/{name}/1", at, at, 5, at, (), 1, asked=False
            )
        )
    assert known
    assert all(known)


def test_a_host_that_reports_after_the_end_of_the_job_is_told_to_exit() -> None:
    scene = Scene(MemoryBlobs())
    told: list[tuple[str, HostInstruction]] = []
    scene.driver.cancel()
    scene.driver.poll(0)
    scene.lines[0].on_send = lambda peer, said: told.append((peer, said))
    late = HostReady("h0.0", 1, 1, "m", "grpc://h0.0")
    scene.lines[0].on_message("h0.0#1", NOTICE_CODEC.encode(late))
    assert told == [("h0.0#1", StopHost("h0.0", flush=True))]


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("stops", [True, False])
def test_processes_are_parked_only_for_a_change_that_keeps_the_code(
    keeps: bool, stops: bool
) -> None:
    scene = Scene(MemoryBlobs())
    told: list[HostInstruction] = []
    scene.lines[0].on_send = lambda peer, said: told.append(said)
    if keeps:
        scene.driver.keep_processes()
    if stops:
        scene.driver.stop()
        for _ in range(int(CONFIG.stop_wait_s) + 2):  # no checkpoint arrives
            scene.hear_host()
            scene.pass_time(1.0)
    else:
        scene.driver.cancel()
        scene.driver.poll(0)
    assert scene.manager.state == ("stopped" if stops else "cancelled")
    stays_at = "a place" if keeps and stops else ""
    assert told[-1] == StopHost("h0.0", flush=True, stays_at=stays_at)


def test_a_second_attempt_does_not_speak_for_the_host() -> None:
    """Spark has started its task twice; the second attempt was rejected, and the first one runs."""
    scene = Scene(MemoryBlobs())
    scene.driver._disconnected("h0.0#1")
    scene.pass_time(1.0)
    assert [h.name for h in scene.manager.hosts] == ["h0.0"]
    for _ in range(40):
        scene.lines[0].on_message("h0.0#1", NOTICE_CODEC.encode(Progress("h0.0", ())))
        scene.pass_time(1.0)
    assert [h.name for h in scene.manager.hosts] == ["h0.1"]
    scene.driver._disconnected("h0.1#0")
    scene.pass_time(1.0)
    assert [h.name for h in scene.manager.hosts] == ["h0.2"]


def test_a_request_is_forwarded_once() -> None:
    store, taken = MemoryBlobs(), list[str]()
    scene = Scene(store)
    scene.driver._take_request = taken.append  # type: ignore[method-assign]
    root = JobRoot(store)
    for what in (STOP, DRAIN + "h0.0"):
        root.request(what)
    for _ in range(3):
        scene.pass_time(1.0)
    assert sorted(taken) == [DRAIN + "h0.0", STOP]
    assert root.requests() == [STOP], "the next job manager takes it, should this one die"


def test_deletions_that_arrive_together_share_one_flush() -> None:
    scene, flushes = Scene(MemoryBlobs()), []
    flush = scene.driver.log.flush
    scene.driver.log.flush = lambda: flushes.append(flush())  # type: ignore[method-assign,func-returns-value]
    for _ in range(3):
        scene.hear_zombie()
    scene.driver.poll(0)
    assert len(flushes) == 1


def test_deletions_during_a_stop_share_one_flush_at_the_next_tick() -> None:
    """Each checkpoint of the stop waited for a flush of its own, while the output paused."""
    scene, flushes = Scene(MemoryBlobs()), []
    flush = scene.driver.log.flush
    scene.driver.log.flush = lambda: flushes.append(flush())  # type: ignore[method-assign,func-returns-value]
    scene.driver.job.state = STOPPING
    scene.manager.handle = lambda _: [DeleteFiles(("checkpoints/a/old",))]  # type: ignore[method-assign]
    for _ in range(3):
        scene.hear_host()
        scene.driver.poll(0)
    assert not flushes
    scene.clock.advance(int(CONFIG.tick_s * 1e6))
    scene.driver.poll(0)
    assert len(flushes) == 1


def test_hosts_that_were_called_before_a_takeover_start_once() -> None:
    class Counting(Hosts):
        """An executor that counts."""

        def __init__(self) -> None:
            self.started: list[str] = []

        def start(self, spec: HostSpec, on_exit: Callable[[str, str], None]) -> None:
            self.started.append(spec.host)

    store, executor = MemoryBlobs(), Counting()
    scene, root = Scene(store), JobRoot(store)
    state = scene.manager.copy_state()
    root.claim(scene.clock.now_us())
    manager = JobManager(chain("volatile"), CONFIG)
    driver = Driver(
        root=root,
        manager=manager,
        executor=executor,
        config=CONFIG,
        clock=scene.clock,
        on_status=lambda status: None,
        background=InlineBackground(),
        open_control=scene._open,
    )
    driver.call_hosts(state)
    called = list(executor.started)
    driver.log.begin_with(state)
    driver.begin(resumed=True)
    assert executor.started == called == [host.name for host in manager.hosts]


def test_deletions_ordered_by_a_tick_do_not_wait_for_the_next_poll() -> None:
    """Deletions that a tick orders used to wait until the next notice arrived."""
    store = MemoryBlobs()
    scene = Scene(store)
    decide = scene.manager.handle
    old = DeleteFiles(("checkpoints/a/old",))
    scene.manager.handle = lambda notice: [old] if isinstance(notice, Tick) else decide(notice)  # type: ignore[method-assign]
    store.put("checkpoints/a/old", b"state")
    scene.hear_host()
    scene.clock.advance(1_000_000)
    scene.driver.poll(0)
    assert not store.exists("checkpoints/a/old")
