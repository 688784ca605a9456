"""Driver: the shell around the job manager. It performs instructions and feeds notices back.

Theory of operation. Host messages (from the Flight service's threads), exits (from the executor's)
and time all become notices in one queue. The driver's thread takes them one by one: log,
``handle``, perform. Before a checkpoint is deleted the log is made durable, so a job manager that
takes over never relies on a file that was deleted for a reason it does not know.

Invariants: (1) one thread calls ``handle``; (2) a decision that deletes is durable first; (3) so is
a takeover, because it numbers its instances by how many takeovers there were.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, assert_never

import pyarrow as pa

from jobmanager.messages import (
    LOG_CODEC,
    CancelRequested,
    DeleteFiles,
    EndJob,
    Feed,
    HostLost,
    JobResumed,
    JobStarted,
    Refuse,
    StartHost,
    Tell,
    Tick,
    is_logged,
    rests_on_progress,
)
from jobmanager.report import status_of
from jobmanager.root import NOTICES
from jobmanager.state import HostState
from jobmanager.subscription import Sites
from rstream import RStream
from rstream.batch import EVENT, only_events
from rstream.errors import OperatingError
from rstream.flight import ControlServer
from rvertex.errors import InvalidMessageError
from rvertex.host import HostSpec, peer_name
from rvertex.messages import (
    INSTRUCTION_CODEC,
    NOTICE_CODEC,
    Collect,
    HostReady,
    Locate,
    Progress,
    StartVertex,
    StopHost,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.config import JobConfig
    from jobmanager.manager import JobManager
    from jobmanager.messages import Instruction, Notice
    from jobmanager.root import JobRoot
    from rstream.background import Background
    from rstream.clock import Clock
    from rvertex.executor import Executor

_log = logging.getLogger(__name__)
#: Work that keeps the driver from listening for longer than this is not the hosts' silence.
PAUSE_MAX_S = 5.0
_NOTICE_PAYLOAD = pa.schema([pa.field("notice", pa.binary())])


class ControlService(Protocol):
    """The job manager's side of the lines to its hosts."""

    @property
    def address(self) -> str:
        """Where hosts find it."""
        ...

    def send(self, peer: str, message: bytes) -> None:
        """Queue a message. Raises OperatingError if the peer is gone."""
        ...

    def close(self) -> None:
        """End every line."""
        ...


class OpenControl(Protocol):
    """How a driver opens its control service; by default over Flight."""

    def __call__(
        self,
        secret: str,
        on_message: Callable[[str, bytes], None],
        *,
        on_disconnect: Callable[[str], None],
        host: str,
    ) -> ControlService: ...


class NoticeLog:
    """The job manager's notices, as an rStream of its own."""

    def __init__(
        self, root: JobRoot, clock: Clock, config: JobConfig, background: Background | None
    ) -> None:
        self._clock = clock
        self._flush_wait_s = config.notice_flush_wait_s
        self._stream = RStream.open(
            root.store.child(NOTICES),
            _NOTICE_PAYLOAD,
            stream_id=NOTICES,
            clock=clock,
            background=background,
        )

    def append(self, notice: Notice) -> None:
        """Add a notice; it becomes durable in the background."""
        now = self._clock.now_us()
        columns = [
            pa.array([EVENT], pa.int8()),
            pa.array([now], pa.int64()),
            pa.array([now + 1], pa.int64()),
            pa.array([LOG_CODEC.encode(notice)], pa.binary()),
        ]
        self._stream.append(pa.RecordBatch.from_arrays(columns, schema=self._stream.schema))

    def replay(self) -> list[Notice]:
        """All durable notices, in order."""
        reader = self._stream.register(0)
        notices: list[Notice] = []
        while (items := reader.read_next()) is not None:
            rows = only_events(items.batch).column("notice").to_pylist()
            notices.extend(LOG_CODEC.decode(data) for data in rows)
        reader.close()
        return notices

    def flush(self) -> None:
        """Make all notices so far durable."""
        self._stream.flush(self._flush_wait_s)

    def close(self) -> None:
        """Flush and close."""
        self._stream.close()


class Driver:
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
    ) -> None:
        self._root = root
        self._manager = manager
        self._executor = executor
        self._config = config
        self._clock = clock
        self._origin_us = clock.now_us() - int(clock.monotonic_s() * 1e6)
        self._on_status = on_status
        self._notices: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        #: For readers in this process: where vertices write, and what opens the lines to them.
        self.sites = Sites()
        self.secret = secrets.token_hex(16)
        self._log = NoticeLog(root, clock, config, background)
        self._open_control = open_control
        self._server: ControlService | None = None
        #: Monotonic seconds of the first order to start a vertex, and of the job's end.
        self.started_s: float | None = None
        self.ended_s: float | None = None
        self._ticked_s = 0.0
        #: What hosts that replace others are told; the first ones begin when they begin.
        self._pace_started_us = 0
        self._is_resumed = False
        #: The last report of each host, where it is not in the log.
        self._reports: dict[str, Progress] = {}

    def cancel(self) -> None:
        """Ask for the end of the job; from any thread."""
        self._notices.put(CancelRequested())

    def run(self, *, resumed: bool) -> None:
        """Start (or take over) the job and serve it until it has ended."""
        try:
            self.begin(resumed=resumed)
            while self.ended_s is None:
                self.turn(self._config.tick_s)
        finally:
            self.close()

    def begin(self, *, resumed: bool) -> None:
        """Open for hosts, replay the log of a job that is taken over, give the first orders."""
        self._server = self._open_control(
            self.secret,
            self._receive,
            on_disconnect=self._disconnected,
            host=self._executor.bind,
        )
        if resumed:
            for notice in self._log.replay():
                self._manager.handle(notice)
        self._is_resumed = resumed
        begin = JobResumed if resumed else JobStarted
        self._handle(begin(self._executor.hosts, self._now_us()))

    def turn(self, wait_s: float) -> None:
        """Take one notice, waiting at most ``wait_s`` for it; let time pass if it is due."""
        with contextlib.suppress(queue.Empty):
            self._handle(self._notices.get(timeout=wait_s))
        now = self._clock.monotonic_s()
        if now - self._ticked_s < self._config.tick_s:
            return
        self._forgive_pause(now)
        self._ticked_s = now
        if self.ended_s is None and self._root.take_cancel():
            self._handle(CancelRequested())
        if self.ended_s is None:
            self._handle(Tick(self._now_us()))
        self._write_status()

    def close(self) -> None:
        """Close the log and the lines, and write the last status.

        The lines end whatever else fails: hosts without a job manager must notice it and leave.
        """
        try:
            self._log.close()
        finally:
            if self._server is not None:
                self._server.close()
        self._write_status()

    def _handle(self, notice: Notice) -> None:
        if isinstance(notice, Progress):
            self._reports[notice.host] = notice
        elif rests_on_progress(notice):
            for report in self._reports.values():
                self._log.append(report)
            self._reports.clear()
        if is_logged(notice):
            _log.info("notice", extra={"notice": repr(notice)})
            self._log.append(notice)
        instructions = self._manager.handle(notice)
        if isinstance(notice, JobResumed) or any(_is_final(i, notice) for i in instructions):
            self._log.flush()
        for instruction in instructions:
            self._perform(instruction)

    def _forgive_pause(self, now_s: float) -> None:
        """Stop the time of limits for as long as the driver did not listen.

        It may wait for a slow store; what hosts said meanwhile is still in the queue.
        """
        pause_s = now_s - self._ticked_s - PAUSE_MAX_S
        if self._ticked_s and pause_s > 0:
            self._origin_us -= int(pause_s * 1e6)

    def _now_us(self) -> int:
        """Time that does not jump: limits on silence and stalls are measured with it."""
        return self._origin_us + int(self._clock.monotonic_s() * 1e6)

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case StartHost(host=host):
                self._executor.start(self._host_spec(host), self._exited)
            case Tell(host=host, instruction=message):
                if isinstance(message, Locate):
                    self.sites.note(message)
                if self.started_s is None and isinstance(message, StartVertex):
                    self.started_s = self._clock.monotonic_s()
                    self._pace_started_us = 0 if self._is_resumed else self._clock.now_us()
                self._send(peer_name(host, 0), INSTRUCTION_CODEC.encode(message))
            case Refuse(host=host, attempt=attempt):
                message = StopHost(host, flush=False)
                self._send(peer_name(host, attempt), INSTRUCTION_CODEC.encode(message))
            case Feed(notice=notice):
                self._notices.put(notice)
            case DeleteFiles(names=names):
                for name in names:
                    self._root.store.delete(name)
            case EndJob():
                self._end()
            case _:
                assert_never(instruction)

    def _send(self, peer: str, data: bytes) -> None:
        assert self._server is not None
        try:
            self._server.send(peer, data)
        except OperatingError:
            _log.info("unreachable", extra={"peer": peer})  # its loss arrives as a notice

    def _host_spec(self, host: str) -> HostSpec:
        assert self._server is not None
        return HostSpec(
            host=host,
            job=self._root.name,
            root=self._root.uri,
            control_address=self._server.address,
            secret=self.secret,
            limits=replace(self._config.host, pace_started_us=self._paced_from_us()),
            bind=self._executor.bind,
            replaces=self._former(host),
        )

    def _paced_from_us(self) -> int:
        """When the first row was due: as configured, or when the first vertex was started."""
        return self._config.host.pace_started_us or self._pace_started_us

    def _former(self, host: str) -> str:
        """The host that held the slot of ``host`` before; empty if none did."""
        state = next(h for h in self._manager.hosts if h.name == host)
        return HostState(state.slot, state.generation - 1).name if state.generation else ""

    def _receive(self, peer: str, data: bytes) -> None:
        """A host's message; from a thread of the Flight service."""
        try:
            notice = NOTICE_CODEC.decode(data)
        except InvalidMessageError as error:
            _log.warning("message refused", extra={"peer": peer, "reason": str(error)})
            return
        if self.ended_s is not None and isinstance(notice, HostReady):
            self._stop_host(peer)  # it started while the job came to its end
        elif peer.endswith("#0") or isinstance(notice, HostReady):
            self._notices.put(notice)

    def _disconnected(self, peer: str) -> None:
        host, _, attempt = peer.partition("#")
        if attempt == "0":
            self._notices.put(HostLost(host, "its control link broke"))

    def _exited(self, host: str, how: str) -> None:
        self._notices.put(HostLost(host, how))

    def _end(self) -> None:
        """Stop the hosts and wait for them, so that nothing writes after the job has ended."""
        self.ended_s = self._clock.monotonic_s()
        for host in self._manager.hosts:
            self._stop_host(peer_name(host.name, 0))
        self._executor.close(self._config.host_stop_wait_s)

    def _stop_host(self, peer: str) -> None:
        host = peer.partition("#")[0]
        self._send(peer, INSTRUCTION_CODEC.encode(StopHost(host, flush=True)))

    def _write_status(self) -> None:
        status = status_of(self._manager, now_us=self._clock.now_us())
        self._on_status(status)


def _is_final(instruction: Instruction, notice: Notice) -> bool:
    """Whether something is deleted, so that what led to it must be durable first."""
    if isinstance(instruction, Tell):  # what follows from progress only frees memory
        return is_logged(notice) and isinstance(instruction.instruction, Collect)
    return isinstance(instruction, DeleteFiles | EndJob)
