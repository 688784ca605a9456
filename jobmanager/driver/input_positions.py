"""Reports a job's positions to the intake logs that it reads, so that they keep the rows it needs.

Theory of operation. After a failure, a reader of a log reads again from the position of its oldest
retained checkpoint at worst. Each tick of the driver notes this position. A thread writes it to a
file beside the log (:mod:`rstream.intake.readers`). A job that has finished, or was cancelled,
needs no more rows. A job that was stopped, has failed or died may be resumed, so its positions
stay.

If a log cannot be reached, the position is written again later. Stores raise all their failures as
:class:`StoreError`, so any other exception is a bug, and may fail the job.

Invariant: a position is written after the notices from which it follows are durable. So a successor
needs no row below it: between two notices, the driver drops no checkpoint that it has not logged.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobmanager.errors import CannotFinishError
from rstream.clock import SystemClock
from rstream.errors import OperatingError
from rstream.intake.readers import forget_reader, report_position
from rstream.store.blobs import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobmanager.manager.manager import JobManager
    from planner.physical.plan import PhysicalPlan
    from rstream.clock import Clock
    from rstream.store.protocol import BlobStore

_log = logging.getLogger(__name__)
TELL_EVERY_S = 2.0
#: Seconds after which an unchanged position is written again.
REMIND_EVERY_S = 600.0
_JOIN_WAIT_S = 10.0
#: Final states of a job that never reads its logs again.
_OVER = ("finished", "cancelled")
#: Used instead of a final state: the job continues after a change, in this process.
CHANGING = "changing"


@dataclass
class _Reader:
    """A vertex that reads an intake log."""

    vertex: str
    uri: str
    name: str
    #: The position at which the job started to read the log.
    first_seq: int
    #: The position from which the vertex may read again. None: not noted yet.
    seq: int | None = None
    #: The position that was last written beside the log; and when, monotonic seconds.
    written_seq: int | None = None
    written_s: float = 0.0


class InputPositions:
    """Writes the positions of one job. The driver calls ``note``, the job's thread the others."""

    #: Messages for users about failed writes.
    notes: tuple[str, ...] = ()

    def __init__(self, plan: PhysicalPlan, job_id: str, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._readers = list(_readers_of(plan, job_id))
        self._wake, self._is_over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, manager: JobManager) -> None:
        """Note the position of each reader. Called between two notices."""
        for reader in self._readers:
            shape = manager.job.topology.vertices[reader.vertex]
            refs = manager.job.tracker.refs(reader.vertex)
            # A bounded source counts rows, not log positions, so it may need all of its rows again.
            read = min(ref.reads[0] for ref in refs) if shape.is_live else 0
            if reader.seq is None:
                self._wake.set()
            reader.seq = max(read, reader.first_seq)

    def start(self) -> None:
        """Start the thread that writes positions, until :meth:`stop`."""
        if self._readers:
            self._thread = threading.Thread(target=self._run, name="input-positions", daemon=True)
            self._thread.start()

    def stop(self, state: str) -> None:
        """Stop the thread. ``state``: the final state of the job, or CHANGING."""
        self._is_over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_JOIN_WAIT_S)
        for reader in self._readers if state != CHANGING else ():
            try:
                self._end(reader, is_over=state in _OVER)
            except OperatingError as error:
                _log.info(
                    "cannot report a position to a log",
                    extra={"log": reader.uri, "reason": str(error)},
                )

    def tell(self) -> None:
        """Write positions that are new, or older than REMIND_EVERY_S. Retry failures later."""
        now_s = self._clock.monotonic_s()
        for reader in self._readers:
            is_old = now_s - reader.written_s >= REMIND_EVERY_S
            if reader.seq is None or (reader.seq == reader.written_seq and not is_old):
                continue
            try:
                self._write_position(reader)
                reader.written_s = now_s
            except OperatingError as error:  # for example because only producers may write there
                _log.info(
                    "the position was not reported to a log",
                    extra={"log": reader.uri, "reason": str(error)},
                )

    def _run(self) -> None:
        self._wake.wait()  # until the first ``note``
        while not self._is_over.is_set():  # until stopped
            self.tell()
            self._is_over.wait(TELL_EVERY_S)

    def _write_position(self, reader: _Reader) -> None:
        assert reader.seq is not None, reader
        seq = reader.seq
        report_position(_store(reader), reader.name, seq, self._clock.now_us())
        reader.written_seq = seq

    def _end(self, reader: _Reader, *, is_over: bool) -> None:
        if is_over:
            forget_reader(_store(reader), reader.name)
        elif reader.seq is not None:
            self._write_position(reader)


def _readers_of(plan: PhysicalPlan, job_id: str) -> Iterator[_Reader]:
    for vertex in plan.vertices:
        if vertex.source is not None and vertex.source.spec.format == "log":
            units = vertex.source.units
            first_seq = min((unit.first_seq for unit in units), default=0)
            yield _Reader(vertex.id, vertex.source.spec.path, f"{job_id}-{vertex.id}", first_seq)


def _store(reader: _Reader) -> BlobStore:
    return open_store(reader.uri)


def check_can_finish(plan: PhysicalPlan | None, root: str) -> None:
    """Check that a request can end all sources at their present positions (ADR 32).

    Raises:
        CannotFinishError: a source is bounded, so only its input's end ends it; or the job has no
            plan yet.
    """
    if plan is None:
        raise CannotFinishError(root, "it has no plan yet")
    sources = [vertex.source for vertex in plan.vertices if vertex.source is not None]
    if any(source.spec.live is None for source in sources):
        raise CannotFinishError(root, "it only reads sources that end by themselves")
