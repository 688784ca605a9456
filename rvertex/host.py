"""An instance host: one process (a Spark task, or a thread) that runs the vertices placed on it.

Theory of operation. One thread loops: perform the job manager's instructions, give every runner a
turn, report progress. Readers on other hosts are served by the Flight service's own threads,
flushes and uploads by background threads; whatever they finish sets ``wake``.

Invariants: (1) nothing is loaded before the job manager has accepted this (host, attempt); (2) a
host that lost its job manager writes nothing more and leaves; (3) what goes wrong in a vertex is
reported as a value and ends only that vertex.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from rstream.errors import IntegrityError, OperatingError, StreamEngineError, UsageError
from rvertex.checkpointing import Turn, read_checkpoint
from rvertex.environment import HostEnvironment, HostLimits
from rvertex.errors import CorruptCheckpointError
from rvertex.messages import (
    INSTRUCTION_CODEC,
    NOTICE_CODEC,
    Collect,
    HostReady,
    Locate,
    Progress,
    StartVertex,
    StopHost,
    StopVertex,
    TakeCheckpoint,
    VertexFailed,
    VertexStarted,
)
from rvertex.step import VertexRunner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rvertex.messages import HostInstruction, HostNotice
    from rvertex.types import VertexSpec
    from rvertex.wiring import ControlLink, StreamService, Wiring


@dataclass(frozen=True, slots=True)
class HostSpec:
    """What a host is told at birth; it travels inside Spark's closure."""

    host: str
    job: str
    root: str
    control_address: str
    #: Not for logs or messages.
    secret: str = field(repr=False)
    limits: HostLimits
    #: Interface the Flight service listens on.
    bind: str = "127.0.0.1"
    #: The host whose place it takes. It may hang: an executor takes back what it still holds.
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class HostExit:
    """How a host ended: "stopped" as told, "fenced" by the job manager, or "orphaned"."""

    host: str
    how: str


def peer_name(host: str, attempt: int) -> str:
    """The name under which an attempt of a host is known on the control link."""
    return f"{host}#{attempt}"


class Host:
    """The loop of one instance host."""

    def __init__(
        self,
        spec: HostSpec,
        vertices: Mapping[str, VertexSpec],
        wiring: Wiring,
        *,
        attempt: int = 0,
    ) -> None:
        self.spec = spec
        self._vertices = vertices
        self._wiring = wiring
        self._attempt = attempt
        self._inbox: queue.SimpleQueue[HostInstruction | None] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._runners: dict[str, VertexRunner] = {}
        self._reported_s = wiring.clock.monotonic_s()
        self._server: StreamService | None = None
        self._link: ControlLink | None = None
        #: How it ended; empty while it runs.
        self.how = ""

    def run(self) -> HostExit:
        """Serve until told to stop, fenced or orphaned."""
        try:
            self.open()
            while not self.how:  # ended by StopHost or the loss of the job manager
                if not self.turn():
                    self._wake.wait(self._idle_s())
                    self._wake.clear()
        finally:
            self.close()
        return HostExit(self.spec.host, self.how)

    def open(self) -> None:
        """Start serving and report to the job manager."""
        spec, wiring = self.spec, self._wiring
        self._server = server = wiring.serve(spec.bind, spec.secret)
        self._env = HostEnvironment(
            host=spec.host,
            writers={s: v.id for v in self._vertices.values() for s in v.output_streams},
            root=spec.root,
            server=server,
            secret=spec.secret,
            wiring=wiring,
            limits=spec.limits,
            notify=self._notify,
            wake=self._wake.set,
        )
        peer = peer_name(spec.host, self._attempt)
        self._link = wiring.connect(
            spec.control_address, spec.secret, peer, self._receive, self._orphan
        )
        self._notify(
            HostReady(spec.host, self._attempt, os.getpid(), socket.gethostname(), server.address)
        )

    def turn(self) -> bool:
        """Perform instructions, give every runner a turn, report; whether anything was done."""
        worked = self._perform_all()
        if self.how:
            return worked
        for runner in list(self._runners.values()):
            worked = self._guard(runner.turn, runner.spec.id, runner.epoch) or worked
        now = self._wiring.clock.monotonic_s()
        if now - self._reported_s >= self.spec.limits.report_interval_s:
            self._reported_s = now
            self._report()
        return worked

    def _idle_s(self) -> float:
        """How long to sleep unless woken: until a paced source has its next row, at most."""
        waits = (runner.wait_s() for runner in self._runners.values())
        return min((self.spec.limits.idle_wait_s, *waits))

    def close(self) -> None:
        """Leave: nothing is written after this."""
        for runner in self._runners.values():
            runner.close(flush=False)
        self._runners.clear()
        if self._link is not None:
            self._link.close()
        if self._server is not None:
            self._server.close()
        self._wiring.close()

    def _receive(self, data: bytes) -> None:
        """Called from the link's thread."""
        try:
            self._inbox.put(INSTRUCTION_CODEC.decode(data))
        except StreamEngineError:
            self._inbox.put(None)
        self._wake.set()

    def _orphan(self) -> None:
        """The link broke. Called from the link's thread."""
        self._inbox.put(None)
        self._wake.set()

    def _notify(self, notice: HostNotice) -> None:
        assert self._link is not None
        try:
            self._link.send(NOTICE_CODEC.encode(notice))
        except OperatingError:
            self.how = self.how or "orphaned"

    def _report(self) -> None:
        rows = tuple(r.progress() for r in self._runners.values())
        self._notify(Progress(self.spec.host, rows))

    def _perform_all(self) -> bool:
        worked = False
        while not self._inbox.empty():
            worked = True
            instruction = self._inbox.get_nowait()
            if instruction is None:
                self.how = self.how or "orphaned"
                return True
            self._perform(instruction)
        return worked

    def _perform(self, instruction: HostInstruction) -> None:
        match instruction:
            case Locate():
                self._env.locate(instruction)
            case StartVertex(vertex=vertex, epoch=epoch):
                self._guard(lambda: self._start(instruction), vertex, epoch)
            case TakeCheckpoint(vertex=vertex, epoch=epoch):
                runner = self._runners.get(vertex)
                if runner is not None and runner.epoch == epoch:
                    runner.checkpoints.request()
            case StopVertex(vertex=vertex, epoch=epoch):
                self._stop(vertex, epoch)
            case Collect(marks=marks):
                self._collect({m.stream: m.seq for m in marks})
            case StopHost(flush=flush):
                self._stop_all(flush=flush)
            case _:
                assert_never(instruction)

    def _start(self, order: StartVertex) -> bool:
        self._stop(order.vertex, order.epoch)
        spec = self._vertices[order.vertex]
        loaded = None
        if order.checkpoint:
            loaded = read_checkpoint(self._env.store, order.checkpoint, spec)
        turn = Turn(order.turn, order.turns)
        runner = VertexRunner(spec, order.epoch, loaded, self._env, turn)
        self._runners[order.vertex] = runner
        self._notify(VertexStarted(self.spec.host, spec.id, order.epoch, runner.vertex.consumed))
        return True

    def _stop(self, vertex: str, epoch: int) -> None:
        """Close the instance of ``vertex`` unless it is newer than ``epoch``."""
        runner = self._runners.get(vertex)
        if runner is not None and runner.epoch <= epoch:
            del self._runners[vertex]
            runner.close(flush=False)

    def _collect(self, marks: Mapping[str, int]) -> None:
        for runner in self._runners.values():
            for stream in runner.outputs:
                if stream.stream_id in marks:
                    stream.garbage_collect(min(marks[stream.stream_id], stream.next_seq))

    def _stop_all(self, *, flush: bool) -> None:
        for runner in list(self._runners.values()):
            self._guard(lambda r=runner: self._closed(r, flush), runner.spec.id, runner.epoch)
        self._runners.clear()
        self.how = "stopped"

    def _closed(self, runner: VertexRunner, flush: bool) -> bool:
        runner.close(flush=flush)
        return True

    def _guard(self, action: object, vertex: str, epoch: int) -> bool:
        """Run ``action``; what it raises becomes a notice and ends only this instance."""
        assert callable(action)
        try:
            return bool(action())
        except Exception as error:
            runner = self._runners.pop(vertex, None)
            if runner is not None:
                runner.close(flush=False)
            self._notify(
                VertexFailed(vertex, epoch, _family(error), _message(error), traceback.format_exc())
            )
            return True


def _family(error: Exception) -> str:
    match error:
        case CorruptCheckpointError():
            return "checkpoint"
        case UsageError():
            return "usage"
        case IntegrityError():
            return "integrity"
        case OperatingError():
            return "operating"
        case _:
            return "bug"


def _message(error: Exception) -> str:
    if isinstance(error, StreamEngineError):
        return str(error)
    return f"{type(error).__name__}: {error}"
