"""Appends rows to a log; an append returns when its rows are durable.

Concurrent appends share a commit: one thread takes all waiting appends, commits them, and completes
them. Another thread writes commits as Parquet segments, so the number of files does not grow with
the number of appends.

Invariants: (1) an ``Ack`` means durable; (2) after a failure, a producer may repeat an append with
the same number, and the rows are in the log once; (3) the queue of waiting appends is bounded.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.clock import Clock, SystemClock
from rstream.errors import (
    AppenderBusyError,
    AppenderClosedError,
    AppenderFencedError,
    OperatingError,
    StoreError,
    StreamEngineError,
    UsageError,
)
from rstream.intake.producers import Ack, ProducerPosition
from rstream.intake.rows import as_rows
from rstream.intake.writer import Append, LogWriter
from rstream.store.blobs import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from rstream.intake.rows import Rows
    from rstream.intake.writer import Result
    from rstream.limits import AppendLimits
    from rstream.store.protocol import BlobStore

_log = logging.getLogger(__name__)
#: Bytes that an append takes besides its rows.
_APPEND_BYTES = 256
PRODUCER_CHARS_MAX = 200
NUMBER_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Waiting:
    append: Append
    since_s: float
    bytes: int
    future: Future[Any]


class Appender:
    """Appends to the log in a folder or at any fsspec URL. Any thread may use it.

    A log has one appender. When a later appender opens the log, appends of this one fail with
    :class:`~rstream.errors.AppenderFencedError`.
    """

    def __init__(
        self,
        uri_or_store: str | BlobStore,
        schema: pa.Schema | Mapping[str, pa.DataType] | None = None,
        *,
        limits: AppendLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open the log, or create it with ``schema``. Without ``schema`` it must exist.

        Raises:
            NoLogError, LogSchemaError, UsageError: there is no log, or it has other columns.
            StoreError: the folder cannot be read or written.
        """
        store = open_store(uri_or_store) if isinstance(uri_or_store, str) else uri_or_store
        columns = schema if schema is None or isinstance(schema, pa.Schema) else pa.schema(schema)
        self._clock = clock or SystemClock()
        self._writer = LogWriter(store, columns, limits=limits, clock=self._clock)
        self.uri, self.schema, self.limits = store.uri, self._writer.schema, self._writer.limits
        self._changed = threading.Condition()
        self._queue: deque[_Waiting] = deque()
        self._bytes = 0
        self._is_closing = False
        self._fenced: AppenderFencedError | None = None
        #: Why the last segment could not be written; None: it was written.
        self._segment_error: StreamEngineError | None = None
        #: Whether all appends are completed and the committing thread has ended.
        self._is_done = False
        #: When to check for old segments next, monotonic seconds; the first check is at once.
        self._look_due_s = 0.0
        #: After a failed commit, no segment is started before this time, monotonic seconds.
        self._cut_after_s = 0.0
        names = {"log-commit": self._commit_all, "log-segment": self._write_segments}
        self._threads = [
            threading.Thread(target=body, name=name, daemon=True) for name, body in names.items()
        ]
        for thread in self._threads:
            thread.start()

    def append(
        self, rows: Rows, *, producer: str | None = None, epoch: int = 0, number: int | None = None
    ) -> Ack:
        """Append a batch, a table or a list of dicts. Returns when the rows are durable.

        ``producer`` and ``number`` (dense from 0) make retries safe: a repeated number is
        acknowledged again, but appended once. Without them a retry appends the rows again.

        Raises:
            RowError, InvalidBatchError: the rows do not fit the log's columns.
            ProducerGapError, UnknownProducerError, ProducerFencedError: the number is not valid.
            AppenderFencedError: another appender has opened the log.
            AppenderBusyError, TooManyProducersError, StoreError: retry later.
        """
        ack = self._wait(self.submit(rows, producer=producer, epoch=epoch, number=number))
        assert isinstance(ack, Ack), ack
        return ack

    def submit(
        self, rows: Rows, *, producer: str | None = None, epoch: int = 0, number: int | None = None
    ) -> Future[Ack]:
        """Append without waiting. The future gets the result or the exception of ``append``.

        It cannot be cancelled, because the rows may already be durable.
        """
        batch = as_rows(self.uri, self.schema, rows)
        if (producer is None) != (number is None):
            raise UsageError(f"{self.uri}: set both producer= and number=")
        _check_producer(self.uri, producer, epoch, number or 0)
        return self._put(Append(batch, producer, epoch, number or 0), batch.nbytes)

    def open_producer(self, producer: str, epoch: int | None = None) -> ProducerPosition:
        """Return a producer's next number; fence its lower epochs. ``epoch`` None: the next epoch.

        A producer calls this when it restarts, so that appends which its previous process may still
        send are rejected.
        """
        _check_producer(self.uri, producer, epoch or 0, 0)
        known = self._wait(self._put(Append(None, producer, epoch), 0))
        assert isinstance(known, ProducerPosition), known
        return known

    def position(self, producer: str) -> ProducerPosition | None:
        """Return the durable position of a producer; None: the producer is unknown."""
        return self._writer.position(producer)

    @property
    def is_fenced(self) -> bool:
        """Whether another appender has opened the log."""
        return self._fenced is not None

    @property
    def waiting_appends(self) -> int:
        """Number of appends that are not completed yet."""
        return len(self._queue)

    def close(self) -> None:
        """Make all submitted appends durable, write them as a segment, and stop.

        Raises:
            StoreError: a write failed. Acknowledged rows are durable anyway, and the next
                appender continues with them.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(self.limits.close_wait_s)
        if any(thread.is_alive() for thread in self._threads):
            raise StoreError(self.uri, f"close took longer than {self.limits.close_wait_s:g} s")
        if self._segment_error is not None:
            raise self._segment_error

    def __enter__(self) -> Appender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _put(self, append: Append, size_bytes: int) -> Future[Any]:
        limits, future = self.limits, Future[Any]()
        future.set_running_or_notify_cancel()  # after this the caller cannot cancel it
        size_bytes += _APPEND_BYTES
        with self._changed:
            if self._fenced is not None:
                raise self._fenced
            if self._is_closing:
                raise AppenderClosedError(self.uri)
            is_full = self._bytes >= limits.waiting_bytes_max
            if is_full or len(self._queue) >= limits.waiting_appends_max:
                raise AppenderBusyError(self.uri, len(self._queue), self._bytes)
            now_s = self._clock.monotonic_s()
            self._queue.append(_Waiting(append, now_s, size_bytes, future))
            self._bytes += size_bytes
            self._changed.notify_all()
        return future

    def _wait(self, future: Future[Any]) -> object:
        try:
            return future.result(self.limits.append_wait_s)
        except TimeoutError:
            reason = (
                f"not durable after {self.limits.append_wait_s:g} s; the rows may still be stored"
            )
            raise StoreError(self.uri, reason) from None

    def _commit_all(self) -> None:
        """Commit until ``close``, when all appends are completed: the body of the thread."""
        while (taken := self._take()) is not None:
            self._answer(taken, self._commit(taken))
        self._answer([], self._commit([], is_last=True))
        with self._changed:
            self._is_done = True
            self._changed.notify_all()

    def _take(self) -> list[_Waiting] | None:
        """Wait for the next commit and return its appends; [] if only a segment ends; None: closed.

        The appends stay in the queue until they are completed.
        """
        limits, wait_ms = self.limits, self.limits.commit_wait_ms
        with self._changed:
            while True:  # ends when an append or a segment is due, or with ``close``
                now_s = self._clock.monotonic_s()
                if self._queue:
                    left_s = self._queue[0].since_s + wait_ms / 1e3 - now_s
                    is_full = self._bytes >= limits.commit_bytes_max
                    if left_s <= 0 or is_full or self._is_closing or self._fenced is not None:
                        return self._head()
                    self._changed.wait(left_s)
                elif self._is_closing:
                    return None
                else:
                    left = None if self._fenced is not None else self._writer.cut_wait_s()
                    if left is not None:
                        left = max(left, self._cut_after_s - now_s)
                        if left <= 0:
                            return []
                    self._changed.wait(left)

    def _head(self) -> list[_Waiting]:
        """Return the first appends of the queue that fit into a commit; at least one."""
        rows = size_bytes = 0
        taken: list[_Waiting] = []
        for waiting in self._queue:
            batch = waiting.append.rows
            rows += 0 if batch is None else batch.num_rows
            size_bytes += waiting.bytes
            is_over = rows > self.limits.commit_rows_max
            if taken and (is_over or size_bytes > self.limits.commit_bytes_max):
                break
            taken.append(waiting)
        return taken

    def _commit(
        self, taken: Sequence[_Waiting], *, is_last: bool = False
    ) -> list[Result] | StreamEngineError:
        """Commit the appends. Return their results, or the error if none may be acknowledged."""
        if self._fenced is not None:
            return self._fenced
        try:
            self._wait_for_segments()
            is_cut = is_last or self._writer.cut_wait_s() == 0
            return self._writer.commit([w.append for w in taken], is_cut=is_cut)
        except StreamEngineError as error:
            return error
        except Exception as error:  # the appends raise it
            return StoreError(self.uri, repr(error))

    def _answer(self, taken: Sequence[_Waiting], results: list[Result] | StreamEngineError) -> None:
        failure = results if isinstance(results, StreamEngineError) else None
        with self._changed:
            for waiting in taken:
                assert self._queue.popleft() is waiting, waiting
                self._bytes -= waiting.bytes
            if isinstance(failure, AppenderFencedError):
                self._fenced = failure
            elif failure is not None:
                self._cut_after_s = self._clock.monotonic_s() + self.limits.segment_retry_s
            self._changed.notify_all()
        answers = results if isinstance(results, list) else [results] * len(taken)
        for waiting, answer in zip(taken, answers, strict=True):
            if isinstance(answer, StreamEngineError):
                waiting.future.set_exception(answer)
            else:
                waiting.future.set_result(answer)

    def _wait_for_segments(self) -> None:
        """Wait until another segment may end. Raises the error that prevents writing segments."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._writer.segments_pending < self.limits.segments_waiting_max
                    or self._segment_error is not None
                ),
                self.limits.append_wait_s,
            )
            if self._writer.segments_pending < self.limits.segments_waiting_max:
                return
            raise self._segment_error or StoreError(self.uri, "its segments are not written")

    def _write_segments(self) -> None:
        """Write segments and delete old ones: the body of the segment thread.

        It ends after the committing thread.
        """
        keeps_all = self.limits.retention_s is None
        look_s = None if keeps_all else self.limits.retention_look_s
        while True:  # ends with ``close``
            self._collect_when_due()
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_done or self._writer.segments_pending > 0, look_s
                )
                if not self._writer.segments_pending:
                    if self._is_done:
                        return
                    continue
            error = self._write_segment()
            with self._changed:
                self._segment_error = error
                self._changed.notify_all()
                if error is None:
                    continue
                if self._is_done:
                    return
                self._changed.wait(self.limits.segment_retry_s)

    def _collect_when_due(self) -> None:
        """Delete segments beyond the retention. Failed deletions are retried the next time."""
        now_s = self._clock.monotonic_s()
        if self.limits.retention_s is None or now_s < self._look_due_s:
            return
        self._look_due_s = now_s + self.limits.retention_look_s
        try:
            self._writer.collect_old()
        except AppenderFencedError:
            _log.info("retention is another appender's", extra={"log": self.uri})
        except OperatingError as error:
            _log.info("retention waits", extra={"log": self.uri, "reason": str(error)})
        except StreamEngineError as error:
            _log.warning("retention fails", extra={"log": self.uri, "reason": str(error)})

    def _write_segment(self) -> StreamEngineError | None:
        try:
            self._writer.write_segment()
        except StreamEngineError as error:
            return error
        except Exception as error:  # appends and ``close`` raise it
            return StoreError(self.uri, repr(error))
        return None


def _check_producer(log: str, producer: str | None, epoch: int, number: int) -> None:
    """Raise for a producer, epoch or number that the table of producers cannot store."""
    if producer is not None and not (
        0 < len(producer) <= PRODUCER_CHARS_MAX and producer.isprintable()
    ):
        raise UsageError(
            f"{log}: the id of a producer is printable text of 1 to {PRODUCER_CHARS_MAX} "
            f"characters, not {producer[:PRODUCER_CHARS_MAX]!r}"
        )
    if not (0 <= epoch <= NUMBER_MAX and 0 <= number <= NUMBER_MAX):
        raise UsageError(
            f"{log}: epochs and numbers of producers are from 0 to 2**63-1, not {epoch}, {number}"
        )
