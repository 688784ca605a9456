"""Tells the logs of pushed rows that a job reads how far it is, so that they keep what it needs.

Theory of operation. At each tick of the driver it is noted from where on each reader of a log would
read again after any failure: where the oldest checkpoint that is kept stands. A thread writes that
beside the log (:mod:`rstream.intake.readers`). A job that has finished, or was cancelled, needs
nothing more; one that was stopped, has failed or died may go on, so what it told stands.

A log that cannot be reached is told again. Stores name whatever goes wrong within them as a
:class:`StoreError`, so nothing else can but a bug, of which a job may fail.

Invariant: a position is told after the notices from which it follows are durable, so a successor
needs nothing below it: between two notices of the driver nothing was dropped that is not logged.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.errors import CannotFinishError
from rstream.clock import SystemClock
from rstream.errors import OperatingError
from rstream.intake.readers import forget_reader, tell_position
from rstream.store.blobs import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.manager.manager import JobManager
    from planner.physical.plan import PhysicalPlan
    from rstream.clock import Clock
    from rstream.store.protocol import BlobStore

_log = logging.getLogger(__name__)
TELL_EVERY_S = 2.0
#: A position that stays is told again so often.
REMIND_EVERY_S = 600.0
_JOIN_WAIT_S = 10.0
#: States after which a job reads its logs no more.
_OVER = ("finished", "cancelled")


@dataclass
class _Reader:
    """A vertex that reads a log."""

    vertex: str
    uri: str
    name: str
    #: Where it began to read.
    first_seq: int
    #: What it needs; None: nobody has looked yet.
    seq: int | None = None
    told: int | None = None
    told_s: float = 0.0


class InputPositions:
    """Of one job; ``note`` is called by the driver's thread, the rest by the job's."""

    #: What users are to know of it.
    notes: tuple[str, ...] = ()

    def __init__(self, plan: PhysicalPlan, job_id: str, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._readers = list(_readers_of(plan, job_id))
        self._wake, self._is_over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, manager: JobManager) -> None:
        """See what is needed; between two notices."""
        for reader in self._readers:
            shape = manager.job.topology.vertices[reader.vertex]
            refs = manager.job.tracker.refs(reader.vertex)
            # A source that is read once counts rows, not positions: it needs what it began with.
            read = min(ref.reads[0] for ref in refs) if shape.is_live else 0
            if reader.seq is None:
                self._wake.set()
            reader.seq = max(read, reader.first_seq)

    def start(self) -> None:
        """Tell now and then, until :meth:`stop`."""
        if self._readers:
            self._thread = threading.Thread(target=self._run, name="input-positions", daemon=True)
            self._thread.start()

    def stop(self, state: str) -> None:
        """Tell no more of a job that has ended in this state."""
        self._is_over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_JOIN_WAIT_S)
        for reader in self._readers:
            try:
                self._end(reader, is_over=state in _OVER)
            except OperatingError as error:
                _log.info(
                    "cannot report a position to a log",
                    extra={"log": reader.uri, "reason": str(error)},
                )

    def tell(self) -> None:
        """Write down what is new, or was told long ago; what fails is told again."""
        now_s = self._clock.monotonic_s()
        for reader in self._readers:
            is_old = now_s - reader.told_s >= REMIND_EVERY_S
            if reader.seq is None or (reader.seq == reader.told and not is_old):
                continue
            try:
                self._tell(reader)
                reader.told_s = now_s
            except OperatingError as error:  # as where only its producers may write
                _log.info("a log was not told", extra={"log": reader.uri, "reason": str(error)})

    def _run(self) -> None:
        self._wake.wait()  # for the first look
        while not self._is_over.is_set():  # until stopped
            self.tell()
            self._is_over.wait(TELL_EVERY_S)

    def _tell(self, reader: _Reader) -> None:
        assert reader.seq is not None, reader
        seq = reader.seq
        tell_position(_store(reader), reader.name, seq, self._clock.now_us())
        reader.told = seq

    def _end(self, reader: _Reader, *, is_over: bool) -> None:
        if is_over:
            forget_reader(_store(reader), reader.name)
        elif reader.seq is not None:
            self._tell(reader)


def _readers_of(plan: PhysicalPlan, job_id: str) -> Iterator[_Reader]:
    for vertex in plan.vertices:
        if vertex.source is not None and vertex.source.spec.format == "log":
            units = vertex.source.units
            first_seq = min((unit.first_seq for unit in units), default=0)
            yield _Reader(vertex.id, vertex.source.spec.path, f"{job_id}-{vertex.id}", first_seq)


def _store(reader: _Reader) -> BlobStore:
    return open_store(reader.uri)


def check_can_finish(plan: PhysicalPlan | None, root: str) -> None:
    """The sources of the plan can end where they are: a live log has such an end (ADR 32).

    Raises:
        CannotFinishError: one of them reads to the end of its input, or there is no plan yet.
    """
    if plan is None:
        raise CannotFinishError(root, "it has no plan yet")
    sources = [vertex.source for vertex in plan.vertices if vertex.source is not None]
    if any(source.spec.log is None for source in sources):
        raise CannotFinishError(root, "it reads files or items, which end by themselves")
