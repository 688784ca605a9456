"""Driver: the shell around the job manager. It performs its instructions and sends it notices.

Theory of operation. Host messages (from the Flight service's threads), exits (from the executor's
threads) and time all become notices in one queue. The driver's thread takes them one by one: it
logs a notice, calls ``handle`` and performs the instructions. It flushes the log before it deletes
a checkpoint, so a job manager that takes over never relies on a deleted file. The instructions that
follow such a deletion wait for the same flush, once for all notices that are queued. Work on the
root at a tick (requests, deletions, the status) may fail; the next tick tries it again.

Invariants: (1) one thread calls ``handle``; (2) before a deletion, the driver flushes the log, and
then checks that it still owns the root, so a successor knows of the deletion; (3) it does the same
before it starts or takes over a job, because epochs of instances follow from the number of
takeovers (after a change, a successor skips these epochs anyway); (4) a driver that finds another
owner ends without writing any file, not even a status.
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
from jobmanager.driver.shell_parts import (
    PAUSE_MAX_S,
    KilledForMemory,
    PatientClock,
    Requests,
    host_spec,
    is_final,
    is_upkeep,
    may_wait,
    nothing_to_check,
    notice_of,
    rehearsed,
)
from jobmanager.logs import note
from jobmanager.manager import damage
from jobmanager.state.job_state import STOPPING
from jobmanager.state.messages import (
    CheckOutput,
    DeleteFiles,
    DeleteLeftovers,
    EndJob,
    Feed,
    HostLost,
    JobResumed,
    JobStarted,
    OutputWhole,
    Record,
    Refuse,
    SavepointEnded,
    StartHost,
    Tell,
    Tick,
    is_logged,
)
from jobmanager.storage import root as requests
from jobmanager.storage.notice_log import NoticeLog
from rstream.errors import InvalidMessageError, OperatingError
from rstream.transport.flight import ControlServer
from rvertex.host.host import peer_name
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
    from jobmanager.state.messages import Instruction, Notice, StateCopied
    from jobmanager.storage.root import JobRoot
    from rstream.clock import Clock
    from rstream.log.background import Background
    from rvertex.host.executor import Executor
    from rvertex.messages import HostInstruction

_log = logging.getLogger(__name__)
#: How long hosts of a replaced or failed driver may take to shut down. Their servers have threads
#: of gRPC, which must not run while Python itself shuts down.
ORPHANS_WAIT_S = 15.0
_pause = threading.Event().wait


class Driver(Requests):
    """Runs one job to its end; :meth:`run` is called once, from one thread."""

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
        super().__init__()
        self._root, self._on_tick = root, on_tick
        self._manager, self.job = manager, manager.job
        self._executor, self._config, self._clock = executor, config, clock
        self._time = PatientClock(clock)
        self._on_status = on_status
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
        self._called: set[str] = set()  # hosts that were started before the job was taken over
        #: Instructions, in order, that wait until the log is durable.
        self._held: list[Instruction] = []
        #: Called when a user requests to retry failed deliveries, or to change the job.
        self.on_retry: Callable[[], None] = lambda: None
        self.on_change: Callable[[], None] = lambda: None
        #: Called after the hosts of a stopped job were ordered to end.
        self.on_ending: Callable[[], None] = lambda: None
        #: Whether the log stays open for another driver, if the job stops.
        self.keeps_log = False
        #: Where the processes of the hosts then wait for other hosts; empty: they exit.
        self._stays_at = ""
        self._keeper = RootKeeper(root, self.log, config, clock, pause, self._write_status)

    @property
    def stops_at_end(self) -> bool:
        """Whether the job stops by itself after the last row that its inputs have now."""
        return self._config.at_end == "stop"

    def end_save(self) -> None:
        """Release what :meth:`save` protects, except files that a savepoint names."""
        self._keeper.note_savepoint()
        self._notices.put(SavepointEnded())

    def keep_processes(self) -> None:
        """If the job stops, let the processes of its hosts wait for other hosts."""
        self._stays_at = self._executor.park(self.secret)

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

    def call_hosts(self, state: StateCopied) -> None:
        """Start the hosts of a job that :meth:`begin` will take over with this state.

        They load nothing before that. No other job manager may give the same names to hosts.
        """
        self._open()
        begins = JobResumed(self._executor.hosts, self._time.now_us(), self._config.retain_us)
        rehearsing, hosts = rehearsed(self._manager, state, begins)
        for host in hosts:
            self._called.add(host)
            self._start_host(host, rehearsing)

    def dismiss_hosts(self) -> None:
        """Let the hosts exit that :meth:`call_hosts` has started. The job does not begin."""
        if self._server is not None:
            self._server.close()
            self._executor.close(ORPHANS_WAIT_S)

    def _open(self) -> None:
        if self._server is None:
            self._server = self._open_control(
                self.secret,
                self._receive,
                on_disconnect=self._disconnected,
                host=self._executor.bind,
            )

    def begin(self, *, resumed: bool, is_at_cut: bool = False) -> None:
        """Open the port for hosts, replay the log of a resumed job, send the first orders.

        ``is_at_cut``: a change has just checked the ends of the outputs, so they are not read
        again. Damage inside of them is found when the job ends or at the next start.
        """
        self._open()
        if resumed:
            self._manager.recall(self.log.replay())
        if resumed and not is_at_cut:
            damages = self._check_outputs(damage.output_ends(self._manager.job), contents=True)
            for notice in damage.check_notices(self._manager.job, damages):
                self._handle(notice)
        self._is_resumed = resumed
        begin = JobResumed if resumed else JobStarted
        self._handle(begin(self._executor.hosts, self._time.now_us(), self._config.retain_us))

    def poll(self, wait_s: float) -> None:
        """Handle the queued notices, after waiting at most ``wait_s`` for one; then tick if due.

        Raises:
            JobRunningError: another job manager has taken over.
        """
        if self._ticked_s and self._clock.monotonic_s() - self._ticked_s > PAUSE_MAX_S:
            self._maintain_root()
        with contextlib.suppress(queue.Empty):
            self._handle(self._notices.get(timeout=wait_s))
            for _ in range(self._notices.qsize()):  # notices that arrived while a store was slow
                self._handle(self._notices.get_nowait())
        if self._held and not self._may_still_wait():
            self._flush()
        now = self._clock.monotonic_s()
        if self.ended_s is not None or now - self._ticked_s < self._config.tick_s:
            return
        self._time.forgive(self._ticked_s, now)
        self._ticked_s = now
        self._handle(Tick(self._time.now_us()))
        if self._held:
            self._flush()
        self._on_tick(self._manager)
        self._maintain_root()

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

    def _maintain_root(self) -> None:
        """Take requests, delete obsolete files, write the status. Failed work is retried at a tick.

        Raises:
            OperatingError: the work has failed for ``store_wait_s``.
            JobRunningError: another job manager has taken over.
        """
        self._keeper.maintain(self._manager, self._take_request, self._write_due_status)

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
        waits = bool(self._held) or any(is_final(i, notice) for i in instructions)
        if waits and not begins and all(map(may_wait, instructions)):
            self._held += instructions
            return
        if begins and self.log.skips_names:
            self._keeper.insist(self._keeper.check_owner)
        elif waits or begins:
            self._flush()
        for instruction in instructions:
            self._perform(instruction)

    def _may_still_wait(self) -> bool:
        """Return whether the held instructions may wait for the next tick or the end of the job.

        While the job stops, each vertex takes a checkpoint. One flush is enough for all of these.
        """
        return self._manager.state == STOPPING and all(map(is_upkeep, self._held))

    def _flush(self) -> None:
        """Make all notices durable, and perform the instructions that wait for that."""
        self._keeper.insist(self.log.flush)
        self._keeper.insist(self._keeper.check_owner)
        held, self._held = self._held, []
        for instruction in held:
            self._perform(instruction)

    def _last_status(self) -> None:
        self._keeper.check_owner()
        self._write_status()

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case StartHost(host=host) if host not in self._called:
                self._start_host(host, self._manager)
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
            case Record() | StartHost():
                pass  # nothing to do: the notice was logged first, or the host runs already
            case EndJob():
                self._end()
            case _:
                assert_never(instruction)

    def _start_host(self, host: str, manager: JobManager) -> None:
        assert self._server is not None
        limits = self._config.host_limits(self._executor.hosts)
        limits = replace(limits, pace_started_us=limits.pace_started_us or self._pace_started_us)
        place = self._server.address, self.secret
        spec = host_spec(host, self._root, manager, self._executor, *place, limits)
        self._executor.start(spec, self._exited)

    def _send(self, peer: str, message: HostInstruction) -> None:
        assert self._server is not None
        try:
            self._server.send(peer, INSTRUCTION_CODEC.encode(message))
        except OperatingError:
            _log.info("unreachable", extra={"peer": peer})  # a notice of the loss follows

    def _check(self, ends: Mapping[str, int | None]) -> None:
        """Report lost items of the output, or none, as notices. ``verify`` compares digests too."""
        lost = self._check_outputs(ends, contents=self._config.host.verify)
        for notice in lost or (OutputWhole(),):
            self._notices.put(notice)

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
        self.ended_s, is_stopped = self._clock.monotonic_s(), self._manager.state == "stopped"
        for host in self._manager.hosts:
            self._stop_host(peer_name(host.name, 0), self._stays_at if is_stopped else "")
        if is_stopped:
            self.on_ending()
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
        waiting = self._keeper.waiting or self._keeper.broken or status["waiting"]
        self._on_status({**status, "waiting": waiting})
