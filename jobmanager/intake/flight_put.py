"""One put: the batches that a producer sends in one Flight call, and their answers in order.

The thread of the call reads the next batch while earlier ones become durable. Another thread
answers each batch as soon as it is durable. This module does not depend on Flight.

Invariants: (1) answers are sent in the order of the batches; (2) the first rejected batch is the
last one that is answered, at once, with the document of its error; (3) a call with unanswered
batches waits for them before it is rejected because other calls use up a limit.

An error may occur while the call waits for the next batch, and the producer may wait for the answer
before it sends one. So an error is first sent as an answer, and then ends the call.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jobmanager.intake.errors import (
    BodyTooLargeError,
    OverloadedError,
    PostError,
    as_document,
)
from jobmanager.intake.ndjson import checked
from jobmanager.intake.producer import Producer, Words, read_producer
from rstream.clock import Clock, SystemClock
from rstream.errors import AppenderBusyError, OperatingError, StreamEngineError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from types import TracebackType

    import pyarrow as pa

    from jobmanager.intake.service import IntakeService
    from rstream.intake.producers import Ack

METADATA = Words("app_metadata:", "producer", "epoch", "number")
_KNOWN = {METADATA.producer, METADATA.epoch, METADATA.number}
_SHOWN_CHARS_MAX = 80


@dataclass(frozen=True, slots=True)
class _Waiting:
    future: Future[Ack]
    #: When the answer is due at the latest, s of the monotonic clock.
    due_s: float
    room: contextlib.ExitStack


class Put:
    """Appends batches to the stream ``name``. ``answer`` sends bytes to the producer.

    A context manager, which waits at its end until all batches are answered.
    """

    def __init__(
        self,
        service: IntakeService,
        name: str,
        answer: Callable[[bytes], None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._service, self._name, self._send = service, name, answer
        self._schema = service.find(name).schema
        self._clock = clock or SystemClock()
        self._heard_s = self._clock.monotonic_s()
        self._changed = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._answered = 0
        self._is_ending = False
        self._failure: StreamEngineError | None = None
        self._thread = threading.Thread(target=self._answer_all, name="flight-answers", daemon=True)

    @property
    def active_s(self) -> float:
        """Return the time of the last message, or now while a not yet due answer is missing."""
        with self._changed:
            owed_s = self._waiting[0].due_s if self._waiting else self._heard_s
        return max(self._heard_s, min(owed_s, self._clock.monotonic_s()))

    def __enter__(self) -> Put:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Answer all accepted batches. Raise the error of the first rejected batch."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._thread.join()
        if self._failure is None and isinstance(error, StreamEngineError):
            self._refuse(error)
        elif self._failure is not None and self._failure is not error:
            raise self._failure

    def take(self, batch: pa.RecordBatch | None, metadata: bytes) -> None:
        """Check a batch and append it. Wait while too many batches of the call are unanswered.

        Raises:
            StreamEngineError: this batch or an earlier one was rejected, so the call ends.
        """
        self._heard_s = self._clock.monotonic_s()
        producer = read_metadata(metadata)
        if batch is None:
            raise PostError("app_metadata without rows")
        # Not ``nbytes``, which is computed from offsets that are not validated yet.
        size = batch.get_total_buffer_size() + len(metadata)
        if size > self._service.limits.body_bytes_max:
            raise BodyTooLargeError(self._service.limits.body_bytes_max)
        rows = checked(self._name, batch, self._schema)
        most = self._service.limits.flight_batches_waiting_max
        while True:  # ends when the batch is accepted, or when no batch of the call is unanswered
            with self._changed:
                self._changed.wait_for(lambda: len(self._waiting) < most or self._failure)
                if self._failure is not None:
                    raise self._failure
                answered = self._answered
            try:
                self._submit(rows, size, producer)
            except (OverloadedError, AppenderBusyError):
                if not self._wait_for_another(answered):
                    raise
            else:
                return

    def drain(self, wait_s: float) -> None:
        """Wait until all accepted batches are answered, at most ``wait_s`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, wait_s)

    def _submit(self, rows: pa.RecordBatch, size: int, producer: Producer) -> None:
        service = self._service
        with contextlib.ExitStack() as room:
            room.enter_context(service.room())
            room.enter_context(service.room_for_bytes(size))
            future = room.enter_context(service.under_way(self._name, rows, producer))
            due_s = self._clock.monotonic_s() + service.limits.answer_wait_s
            waiting = _Waiting(future, due_s, room.pop_all())
        with self._changed:
            self._waiting.append(waiting)
            self._changed.notify_all()

    def _wait_for_another(self, answered: int) -> bool:
        """Wait until more than ``answered`` batches are answered. Return False if none is left."""
        with self._changed:
            if self._answered == answered and not self._waiting:
                return False
            self._changed.wait_for(lambda: self._answered > answered or self._failure is not None)
            return True

    def _answer_all(self) -> None:
        """Answer the batches in order until :meth:`end`. This is the body of the thread.

        Every wait in it ends when the answer is due.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_ending)
                if not self._waiting:
                    return
                waiting = self._waiting[0]
            with waiting.room:
                failure = self._failure or self._answer(waiting)
            with self._changed:
                self._waiting.popleft()
                self._answered += 1
                self._failure = failure
                self._changed.notify_all()

    def _answer(self, waiting: _Waiting) -> StreamEngineError | None:
        """Wait until a batch is appended, and send the answer.

        Return the batch's error, or None.
        """
        left_s = max(0.0, waiting.due_s - self._clock.monotonic_s())
        try:
            ack = waiting.future.result(left_s)
        except TimeoutError:
            return self._refuse(self._service.too_late(self._name))
        except StreamEngineError as error:
            return self._refuse(error)
        waiting.room.close()
        return self._send_document(asdict(ack))

    def _refuse(self, error: StreamEngineError) -> StreamEngineError:
        self._send_document(as_document(error))
        return error

    def _send_document(self, document: dict[str, Any]) -> StreamEngineError | None:
        try:
            self._send(json.dumps(document).encode())
        except Exception as error:  # the producer has disconnected; the accepted rows are durable
            return OperatingError(
                f"{self._name}: the producer does not read the server's answers: {error}"
            )
        self._heard_s = self._clock.monotonic_s()
        return None


def read_metadata(metadata: bytes) -> Producer:
    """Read the producer from a batch's ``app_metadata``: a JSON object, or empty.

    Raises:
        PostError: the metadata is neither.
    """
    if not metadata:
        return Producer()
    try:
        given = json.loads(metadata)
    except (ValueError, RecursionError) as error:
        raise PostError(f"app_metadata is not JSON: {error}") from None
    if not isinstance(given, dict):
        shown = repr(given)[:_SHOWN_CHARS_MAX]
        raise PostError(
            f"app_metadata must be an object of producer, number and epoch, not {shown}"
        )
    for key in given:
        if key not in _KNOWN:
            shown = repr(key)[:_SHOWN_CHARS_MAX]
            raise PostError(f"app_metadata: {shown} is not one of {', '.join(sorted(_KNOWN))}")
    return read_producer(given, METADATA)
