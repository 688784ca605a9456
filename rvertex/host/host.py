"""An instance host: one process (a Spark task, or a thread) that runs the vertices assigned to it.

Theory of operation. One thread loops: it executes the job manager's instructions, polls every
runner and reports progress. Threads of the stream service serve readers on other hosts. Background
threads flush, upload and open instances. Every completed background task and every received item
wakes the loop (``wake``). An instance is *starting* while it is opened, and *flushing* from its
stop until all its output is durable.

Invariants: (1) the host loads nothing before the job manager has accepted its (host, attempt); (2)
after it lost its job manager, the host writes nothing more and exits; (3) a failure in a vertex is
reported as a notice and ends only that vertex; (4) at most one instance of a vertex runs or starts:
the newest.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import traceback
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from rstream.errors import OperatingError, StreamEngineError
from rvertex.checkpoint.checkpointer import CheckpointSlot
from rvertex.errors import OutputLostError
from rvertex.host.environment import HostEnvironment, HostLimits
from rvertex.host.failure_words import family_of, message_of
from rvertex.host.opening import Starting, prepare_instance
from rvertex.host.runner import VertexRunner
from rvertex.host.watch import Watch
from rvertex.messages import (
    INSTRUCTION_CODEC,
    NOTICE_CODEC,
    Collect,
    Confirm,
    EndSource,
    HostReady,
    Locate,
    OutputLost,
    Progress,
    StartVertex,
    StopHost,
    StopVertex,
    TakeCheckpoint,
    VertexFailed,
    VertexProgress,
    VertexStarted,
)
from rvertex.vertex.spec import with_added

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rvertex.host.wiring import ControlLink, StreamService, Wiring
    from rvertex.messages import HostInstruction, HostNotice
    from rvertex.vertex.spec import VertexSpec

#: Shortest sleep of a host without work, s.
SLEEP_MIN_S = 0.0001
#: An upper bound of all epochs: it stops any instance of a vertex.
EPOCH_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class HostSpec:
    """The configuration of a new host; it travels inside Spark's closure."""

    host: str
    job: str
    root: str
    control_address: str
    #: The secret of the job; kept out of logs and messages.
    secret: str = field(repr=False)
    limits: HostLimits
    #: Interface that the Flight service listens on.
    bind: str = "127.0.0.1"
    #: The host that this one replaces. If it hangs, the executor cancels its task.
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class HostExit:
    """How a host ended: "stopped" on request, "fenced" by the job manager, or "orphaned"."""

    host: str
    how: str
    #: The address at which the process waits for its next host; empty: it exits.
    stays_at: str = ""


def peer_name(host: str, attempt: int) -> str:
    """Return the name by which a host's attempt is known on the control link."""
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
        #: Instances whose checkpoint and streams are being opened in the background.
        self._starting: dict[str, Starting] = {}
        #: Stopped instances whose output is still being made durable.
        self._flushing: list[VertexRunner] = []
        self._is_leaving = False
        self._reported_s = wiring.clock.monotonic_s()
        self._watch = Watch(spec.host, wiring.clock, spec.limits)
        self._server: StreamService | None = None
        self._link: ControlLink | None = None
        #: How the host ended; empty while it runs.
        self.how = ""
        self._stays_at = ""

    def run(self) -> HostExit:
        """Run the loop until the host is stopped, fenced or orphaned."""
        try:
            self.open()
            with self._watch.watching(self._notify):
                while not self.how:  # ends with StopHost or the loss of the job manager
                    self._wake.clear()
                    if not self.poll():
                        self._wake.wait(self._idle_s())
        finally:
            self.close()
        return self.exit

    @property
    def exit(self) -> HostExit:
        """Return how the host ended. Its process stays only after an orderly end."""
        return HostExit(self.spec.host, self.how, self._stays_at * (self.how == "stopped"))

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

    def poll(self) -> bool:
        """Execute instructions, poll every runner, report; return whether there was work."""
        worked = self._perform_all()
        if self.how:
            return worked
        for vertex in list(self._starting):
            worked = self._take_over(vertex) or worked
        for runner in list(self._runners.values()):
            self._watch.begin(runner.spec.id, runner.epoch)
            worked = self._guard(runner.poll, runner.spec.id, runner.epoch) or worked
        self._watch.end()
        for runner in list(self._flushing):
            worked = self._end_flush(runner) or worked
        now = self._wiring.clock.monotonic_s()
        if now - self._reported_s >= self.spec.limits.report_interval_s:
            self._reported_s = now
            self._report()
        if self._is_leaving and not self._flushing:
            self.how = self.how or "stopped"
        return worked

    def close(self) -> None:
        """Close everything, even after failures; nothing is written afterwards.

        Raises:
            Exception: the first failure.
        """
        with ExitStack() as closing:
            closing.callback(self._wiring.close)
            if self._server is not None:
                closing.callback(self._server.close)
            if self._link is not None:
                closing.callback(self._link.close)
            for runner in [*self._runners.values(), *self._flushing]:
                closing.callback(runner.close)
            for starting in self._starting.values():
                closing.callback(starting.abandon)
            self._runners.clear()
            self._starting.clear()
            self._flushing.clear()

    def _idle_s(self) -> float:
        """Return how long to sleep, s: until the next row is due.

        Messages and rows wake the host.
        """
        waits = [w for r in self._runners.values() if (w := r.wait_s) is not None]
        idle_s = min([self.spec.limits.idle_wait_s, *waits])
        return max(idle_s, SLEEP_MIN_S)

    def _receive(self, data: bytes) -> None:
        """Queue a message. Called from the link's thread."""
        try:
            self._inbox.put(INSTRUCTION_CODEC.decode(data))
        except StreamEngineError:
            self._inbox.put(None)
        self._wake.set()

    def _orphan(self) -> None:
        """End the host, because its link to the job manager broke.

        Called from the link's thread.
        """
        self._inbox.put(None)
        self._wake.set()

    def _notify(self, notice: HostNotice) -> None:
        assert self._link is not None
        try:
            self._link.send(NOTICE_CODEC.encode(notice))
        except OperatingError:
            self.how = self.how or "orphaned"

    def _report(self) -> None:
        rows: list[VertexProgress] = []
        for runner in list(self._runners.values()):
            tell = partial(self._add_progress, rows, runner)
            self._guard(tell, runner.spec.id, runner.epoch)
        sent_us = int(self._wiring.clock.monotonic_s() * 1e6)
        self._notify(Progress(self.spec.host, tuple(rows), sent_us, self._env.memory_now()))

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
            case StartVertex():
                self._start(instruction)
            case TakeCheckpoint(vertex=vertex, epoch=epoch):
                runner = self._runners.get(vertex)
                if runner is not None and runner.epoch == epoch:
                    runner.take_checkpoint(instruction)
            case Confirm():
                self._env.confirm(instruction)
            case EndSource(vertex=vertex, epoch=epoch):
                runner = self._runners.get(vertex)
                if runner is not None and runner.epoch == epoch:
                    runner.end_source()
            case StopVertex(vertex=vertex, epoch=epoch, flush=flush):
                self._stop(vertex, epoch, flush=flush)
            case Collect(marks=marks):
                self._collect({m.stream: m.seq for m in marks})
            case StopHost(flush=flush, stays_at=stays_at):
                self._stays_at = stays_at
                self._leave(flush=flush)
            case _:
                assert_never(instruction)

    def _start(self, order: StartVertex) -> None:
        """Start to open an instance.

        It replaces an older one; if a newer one exists, do nothing.
        """
        if order.vertex not in self._runners:  # the previous instance, elsewhere, may hang
            self._env.alone_s.pop(order.vertex, None)
        self._stop(order.vertex, order.epoch, flush=False)
        if order.vertex in self._runners or order.vertex in self._starting or self._is_leaving:
            return
        spec, env = with_added(self._vertices[order.vertex], order.added), self._env
        checkpoint, epoch = order.checkpoint, order.epoch
        opening = env.background.submit(lambda: prepare_instance(spec, checkpoint, epoch, env))
        opening.add_done_callback(lambda _: self._wake.set())
        self._starting[order.vertex] = Starting(order, opening)

    def _take_over(self, vertex: str) -> bool:
        """Run an instance of ``vertex`` whose opening has finished, if there is one."""
        starting = self._starting[vertex]
        if not starting.opening.done():
            return False
        del self._starting[vertex]
        self._guard(lambda: self._run(starting), vertex, starting.order.epoch)
        return True

    def _run(self, starting: Starting) -> bool:
        order, opened = starting.order, starting.opening.result()
        slot = CheckpointSlot(order.checkpoint_slot, order.checkpoint_slots)
        with ExitStack() as undo:
            undo.callback(opened.close)
            runner = VertexRunner(order.epoch, opened, self._env, slot, order.consumed)
            undo.pop_all()
        self._runners[order.vertex] = runner
        runner.collect(starting.marks)
        consumed = runner.vertex.consumed
        self._notify(VertexStarted(self.spec.host, order.vertex, order.epoch, consumed))
        if opened.intake is not None:  # a live source uses no row before a confirmed report
            self._reported_s = float("-inf")
        return True

    def _stop(self, vertex: str, epoch: int, *, flush: bool) -> None:
        """Close the instance of ``vertex`` unless its epoch is greater than ``epoch``."""
        starting = self._starting.get(vertex)
        if starting is not None and starting.order.epoch <= epoch:
            del self._starting[vertex]
            starting.abandon()
        runner = self._runners.get(vertex)
        if runner is None or runner.epoch > epoch:
            return
        del self._runners[vertex]
        self._guard(lambda: self._end(runner, flush=flush), vertex, runner.epoch)

    def _end(self, runner: VertexRunner, *, flush: bool) -> bool:
        """Close an instance; with ``flush``, once all its output is durable."""
        if flush:
            runner.begin_flush()
            self._flushing.append(runner)
        else:
            runner.close()
        return True

    def _end_flush(self, runner: VertexRunner) -> bool:
        """Close a stopped instance once all its output is durable or a flush failed."""
        try:
            if not runner.is_flushed():
                return False
        except Exception as error:
            self._report_failure(runner.spec.id, runner.epoch, error)
        self._flushing.remove(runner)
        self._guard(lambda: self._end(runner, flush=False), runner.spec.id, runner.epoch)
        return True

    def _collect(self, marks: Mapping[str, int]) -> None:
        for starting in self._starting.values():
            for stream, mark in marks.items():
                starting.marks[stream] = max(starting.marks.get(stream, 0), mark)
        for runner in [*self._runners.values(), *self._flushing]:
            self._guard(partial(runner.collect, marks), runner.spec.id, runner.epoch)

    def _leave(self, *, flush: bool) -> None:
        """Stop every instance; the host exits when all have ended."""
        self._is_leaving = True
        for vertex in [*self._runners, *self._starting]:
            self._stop(vertex, EPOCH_MAX, flush=flush)

    def _guard(self, action: Callable[[], bool | None], vertex: str, epoch: int) -> bool:
        """Run ``action``; an exception becomes a notice and ends only this instance."""
        try:
            return bool(action())
        except Exception as error:
            self._report_failure(vertex, epoch, error)
            return True

    def _report_failure(self, vertex: str, epoch: int, error: Exception) -> None:
        """Close an instance that failed, even if closing raises, and report why."""
        detail = "".join(traceback.format_exception(error))
        runner = self._runners.get(vertex)
        if runner is not None and runner.epoch == epoch:
            del self._runners[vertex]
            try:
                runner.close()
            except Exception as second:
                detail += f"\nclosing it failed, too: {message_of(second)}"
        if isinstance(error, OutputLostError):
            self._notify(OutputLost(vertex, epoch, error.stream, error.seq, str(error)))
        else:
            self._notify(VertexFailed(vertex, epoch, family_of(error), message_of(error), detail))

    def _add_progress(self, rows: list[VertexProgress], runner: VertexRunner) -> None:
        timing = self._watch.timing(runner.spec.id, runner.epoch, runner.vertex)
        rows.append(replace(runner.progress(), timing=timing))
