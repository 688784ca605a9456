"""Driver: the shell around the job manager. It performs its instructions and sends it notices.

Theory of operation. Host messages (from the Flight service's threads), exits (from the executor's
threads) and time all become notices in one queue. The driver's thread takes them one by one: it
logs a notice, calls ``handle`` and performs the instructions. It flushes the log before it deletes
a checkpoint, so a job manager that takes over never relies on a deleted file. Work on the root at a
tick (requests, deletions, the status) may fail; the next tick tries it again.

Invariants: (1) one thread calls ``handle``; (2) before a deletion, the driver flushes the log, and
then checks that it still owns the root, so a successor knows of the deletion; (3) it does the same
before it starts or takes over a job, because epochs of instances follow from the number of
takeovers; (4) a driver that finds another owner ends without writing any file, not even a status.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import secrets
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from jobmanager.delivery.output_tap import Endpoints
from jobmanager.driver.report import status_of
from jobmanager.driver.root_keeper import RootKeeper
from jobmanager.driver.shell_parts import KilledForMemory, is_final, nothing_to_check, notice_of
from jobmanager.logs import note
from jobmanager.manager import damage
from jobmanager.state.messages import (
    CancelRequested,
    CheckOutput,
    DeleteFiles,
    DeleteLeftovers,
    EndJob,
    Feed,
    FinishRequested,
    HostLost,
    JobResumed,
    JobStarted,
    OutputObsolete,
    OutputWhole,
    Record,
    Refuse,
    StartHost,
    StopRequested,
    Tell,
    Tick,
    is_logged,
)
from jobmanager.storage import root as requests
from jobmanager.storage.notice_log import NoticeLog
from rstream.errors import InvalidMessageError, OperatingError
from rstream.transport.flight import ControlServer
from rvertex.host.host import HostSpec, peer_name
from rvertex.messages import (
    INSTRUCTION_CODEC,
    NOTICE_CODEC,
    HostReady,
    Locate,
    StartVertex,
    StopHost,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobmanager.config import JobConfig
    from jobmanager.driver.shell_parts import CheckOutputs, ControlService, OpenControl
    from jobmanager.manager.manager import JobManager
    from jobmanager.state.messages import Instruction, Notice, PartitionsAdded
    from jobmanager.storage.root import JobRoot
    from rstream.clock import Clock
    from rstream.log.background import Background
    from rvertex.host.executor import Executor
    from rvertex.messages import HostInstruction, Mark

_log = logging.getLogger(__name__)
#: If the driver itself read no messages for longer than this, s, that time does not count as
#: silence of the hosts.
PAUSE_MAX_S = 5.0
#: Most seconds for hosts of a replaced or failed driver to shut down. Their servers have threads of
#: gRPC, which must not run while Python itself shuts down.
ORPHANS_WAIT_S = 15.0
#: Sleeps for the given number of seconds.
_pause = threading.Event().wait


class Driver:
    """Runs one job to its end. Call :meth:`run` once, from one thread."""

    def __init__(
        self,
        *,
        root: JobRoot,
        manager: JobManager,
        executor: Executor,
        config: JobConfig,
        clock: Clock,
        on_status: Callable[[dict[str, object]], None],
        background: Background | None = None,
        open_control: OpenControl = ControlServer,
        pause: Callable[[float], object] = _pause,
        check_outputs: CheckOutputs = nothing_to_check,
        on_tick: Callable[[JobManager], object] = lambda _: None,
        log: NoticeLog | None = None,
    ) -> None:
        """Prepare. ``on_tick`` is called at each tick. ``log`` None: it is opened."""
        self._root, self._on_tick = root, on_tick
        self._manager, self.job = manager, manager.job
        self._executor = executor
        self._config = config
        self._clock = clock
        self._origin_us = clock.now_us() - int(clock.monotonic_s() * 1e6)
        self._on_status = on_status
        self._notices: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        #: For readers in this process: the addresses of the vertices' writers, and the secret.
        self.endpoints = Endpoints()
        self.secret = secrets.token_hex(16)
        self.log = log or NoticeLog(root, clock, config, background)
        self._open_control, self._check_outputs = open_control, check_outputs
        self._server: ControlService | None = None
        #: Monotonic seconds of the first order to start a vertex; and of the job's end.
        self.started_s: float | None = None
        self.ended_s: float | None = None
        self._ticked_s, self._status_due_s = 0.0, 0.0
        #: When pacing started, for hosts that replace others. The first hosts use their own start.
        self._pace_started_us = 0
        self._is_resumed, self._memory_news = False, KilledForMemory().news
        #: Called when a user requests to retry failed deliveries, or to change the job.
        self.on_retry: Callable[[], None] = lambda: None
        self.on_change: Callable[[], None] = lambda: None
        #: When the job stops: whether the log stays open for another driver; and whether the
        #: processes of hosts wait for other hosts.
        self.keeps_log = self.keeps_processes = False
        self._keeper = RootKeeper(root, self.log, config, clock, pause, self._write_status)

    @property
    def stops_at_end(self) -> bool:
        """Whether the job stops by itself after the last row that its inputs have now."""
        return self._config.at_end == "stop"

    def cancel(self) -> None:
        """Request the end of the job. Safe from any thread."""
        self._notices.put(CancelRequested())

    def finish(self) -> None:
        """Request live sources to end at their present positions. Safe from any thread."""
        self._notices.put(FinishRequested())

    def stop(self) -> None:
        """Request the job to stop and keep its state. Safe from any thread."""
        self._notices.put(StopRequested())

    def collect_output(self, marks: tuple[Mark, ...]) -> None:
        """Allow deleting output items below these low-water marks. Safe from any thread."""
        self._notices.put(OutputObsolete(marks))

    def add_partitions(self, added: PartitionsAdded) -> None:
        """Let vertices read added log partitions of the durable plan. Safe from any thread."""
        self._notices.put(added)

    def run(self, *, resumed: bool, is_at_cut: bool = False) -> None:
        """Start (or take over) the job, and serve it until it has ended."""
        try:
            self.begin(resumed=resumed, is_at_cut=is_at_cut)
            while self.ended_s is None:
                self.poll(self._config.tick_s)
        finally:
            try:
                self.close()
            finally:
                if self.ended_s is None:  # hosts notice the broken connection and shut down
                    self._executor.close(ORPHANS_WAIT_S)

    def begin(self, *, resumed: bool, is_at_cut: bool = False) -> None:
        """Open the port for hosts, replay the log of a resumed job, send the first orders.

        ``is_at_cut``: a change has just checked the ends of the outputs, so they are not read
        again. Damage inside of them is found when the job ends or at the next start.
        """
        self._server = self._open_control(
            self.secret,
            self._receive,
            on_disconnect=self._disconnected,
            host=self._executor.bind,
        )
        if resumed:
            self._manager.recall(self.log.replay())
        if resumed and not is_at_cut:
            damages = self._check_outputs(damage.output_ends(self._manager.job), contents=True)
            for notice in damage.check_notices(self._manager.job, damages):
                self._handle(notice)
        self._is_resumed = resumed
        begin = JobResumed if resumed else JobStarted
        self._handle(begin(self._executor.hosts, self._now_us(), self._config.retain_us))

    def poll(self, wait_s: float) -> None:
        """Handle the queued notices, after waiting at most ``wait_s`` for one; then tick if due.

        Raises:
            JobRunningError: another job manager has taken over.
        """
        if self._ticked_s and self._clock.monotonic_s() - self._ticked_s > PAUSE_MAX_S:
            self._look_after_root()
        with contextlib.suppress(queue.Empty):
            self._handle(self._notices.get(timeout=wait_s))
            for _ in range(self._notices.qsize()):  # notices that arrived while a store was slow
                self._handle(self._notices.get_nowait())
        now = self._clock.monotonic_s()
        if now - self._ticked_s < self._config.tick_s:
            return
        self._forgive_pause(now)
        self._ticked_s = now
        if self.ended_s is None:
            self._handle(Tick(self._now_us()))
        self._on_tick(self._manager)
        self._look_after_root()

    def close(self) -> None:
        """Close the log and the connections, and write the last status.

        The connections are closed even if other steps fail, so that all hosts shut down.
        """
        try:
            if self.ended_s is None or not self.keeps_log:
                # after the end only losses of hosts were logged, which a successor ignores
                self.log.close(flush=self.ended_s is None and not self._keeper.is_replaced)
        finally:
            if self._server is not None:
                self._server.close()
        if self._keeper.is_replaced:
            return
        if self.ended_s is not None:
            if not self.keeps_log:
                with contextlib.suppress(OperatingError):  # ``jobmanager gc`` deletes the rest
                    self.delete_obsolete()
            self._keeper.insist(self._last_status)
        else:
            self._last_status()

    def delete_obsolete(self) -> None:
        """Delete files that the durable log makes obsolete. Raises OperatingError on a failure."""
        self._keeper.check_owner()
        self._keeper.delete_obsolete()

    def _look_after_root(self) -> None:
        """Take requests, delete obsolete files, write the status. Failed work is retried at a tick.

        Raises:
            OperatingError: the work has failed for ``store_wait_s``.
            JobRunningError: another job manager has taken over.
        """
        self._keeper.look_after(self._manager, self._take_request, self._write_due_status)

    def _take_request(self, request: str) -> None:
        own = {requests.RETRY: self.on_retry, requests.CHANGE: self.on_change}
        if request in own:
            own[request]()
        else:
            self._notices.put(notice_of(request))

    def _handle(self, notice: Notice) -> None:
        if is_logged(notice) and not self._manager.is_stale(notice):
            note(_log, notice)
            self.log.append(notice)
        instructions = self._manager.handle(notice)
        for record in (i for i in instructions if isinstance(i, Record)):
            self.log.append(record.notice)
        begins = isinstance(notice, JobStarted | JobResumed)
        if begins or any(is_final(i, notice) for i in instructions):
            self._keeper.insist(self.log.flush)
            self._keeper.insist(self._keeper.check_owner)
        for instruction in instructions:
            self._perform(instruction)

    def _last_status(self) -> None:
        self._keeper.check_owner()
        self._write_status()

    def _forgive_pause(self, now_s: float) -> None:
        """Extend all time limits by the time in which the driver read no messages.

        The driver may have waited for a slow store while the hosts' messages were queued.
        """
        pause_s = now_s - self._ticked_s - PAUSE_MAX_S
        if self._ticked_s and pause_s > 0:
            self._origin_us -= int(pause_s * 1e6)

    def _now_us(self) -> int:
        """Return monotonic time, us, by which limits on silence and stalls are measured."""
        return self._origin_us + int(self._clock.monotonic_s() * 1e6)

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case StartHost(host=host):
                self._executor.start(self._host_spec(host), self._exited)
            case Tell(host=host, instruction=message):
                if isinstance(message, Locate):
                    self.endpoints.note(message)
                if self.started_s is None and isinstance(message, StartVertex):
                    self.started_s = self._clock.monotonic_s()
                    self._pace_started_us = 0 if self._is_resumed else self._clock.now_us()
                self._send(peer_name(host, 0), message)
            case Refuse(host=host, attempt=attempt):
                self._send(peer_name(host, attempt), StopHost(host, flush=False))
            case Feed(notice=notice):
                self._notices.put(notice)
            case DeleteFiles(names=names):
                self._keeper.make_obsolete(names)
            case DeleteLeftovers():
                self._keeper.note_leftovers(instruction)
            case CheckOutput(ends=ends):
                self._keeper.insist(lambda: self._check(ends))
            case Record():
                pass  # its notice is logged before anything else
            case EndJob():
                self._end()
            case _:
                assert_never(instruction)

    def _send(self, peer: str, message: HostInstruction) -> None:
        assert self._server is not None
        try:
            self._server.send(peer, INSTRUCTION_CODEC.encode(message))
        except OperatingError:
            _log.info("unreachable", extra={"peer": peer})  # its loss arrives as a notice

    def _check(self, ends: Mapping[str, int | None]) -> None:
        """Report lost items of the output, or none, as notices. ``verify`` compares digests too."""
        lost = self._check_outputs(ends, contents=self._config.host.verify)
        for notice in lost or (OutputWhole(),):
            self._notices.put(notice)

    def _host_spec(self, host: str) -> HostSpec:
        assert self._server is not None
        limits = self._config.host_limits(self._executor.hosts)
        return HostSpec(
            host=host,
            job=self._root.name,
            root=self._root.uri,
            control_address=self._server.address,
            secret=self.secret,
            limits=replace(limits, pace_started_us=self._paced_from_us()),
            bind=self._executor.bind,
            replaces=self._former(host),
        )

    def _paced_from_us(self) -> int:
        """Return when the first row is due, us: as configured, or at the first vertex's start."""
        return self._config.host.pace_started_us or self._pace_started_us

    def _former(self, host: str) -> str:
        """Return the name of the previous host in the slot of ``host``; empty if there was none."""
        return next(h.former for h in self._manager.hosts if h.name == host)

    def _receive(self, peer: str, data: bytes) -> None:
        """Queue a host's message. Called from a thread of the Flight service."""
        try:
            notice = NOTICE_CODEC.decode(data)
        except InvalidMessageError as error:
            _log.warning("message refused", extra={"peer": peer, "reason": str(error)})
            return
        if self.ended_s is not None and isinstance(notice, HostReady):
            self._stop_host(peer)  # the host was started while the job was ending
        elif peer.endswith("#0") or isinstance(notice, HostReady):
            self._notices.put(notice)

    def _disconnected(self, peer: str) -> None:
        host, _, attempt = peer.partition("#")
        if attempt == "0":
            self._notices.put(HostLost(host, f"its control link broke{self._memory_news()}"))

    def _exited(self, host: str, how: str) -> None:
        self._notices.put(HostLost(host, how))

    def _end(self) -> None:
        """Stop the hosts and wait for them, so that no process writes after the job's end."""
        self.ended_s = self._clock.monotonic_s()
        stays = self.keeps_processes and self._manager.state == "stopped"
        stays_at = self._executor.park(self.secret) if stays else ""
        for host in self._manager.hosts:
            self._stop_host(peer_name(host.name, 0), stays_at)
        self._executor.close(self._config.host_stop_wait_s)

    def _stop_host(self, peer: str, stays_at: str = "") -> None:
        host = peer.partition("#")[0]
        self._send(peer, StopHost(host, flush=True, stays_at=stays_at))

    def _write_due_status(self) -> None:
        if self._clock.monotonic_s() >= self._status_due_s:
            self._write_status()

    def _write_status(self) -> None:
        rows = len(self._manager.vertices) + len(self._manager.hosts)
        wait_s = rows / self._config.status_rows_per_s_max
        self._status_due_s = self._clock.monotonic_s() + wait_s
        status = status_of(self._manager, now_us=self._clock.now_us())
        self._on_status({**status, "waiting": self._keeper.waiting or status["waiting"]})
