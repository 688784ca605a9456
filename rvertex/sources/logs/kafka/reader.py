"""The reader of a source vertex: fetches its partitions of a topic in a separate thread.

The thread polls messages from the client, decodes them, and appends rows to a bounded buffer for
each partition. A partition whose buffer is full is paused at the client. If all are full, the
thread polls no messages. So a slow vertex leaves messages on the brokers (back-pressure).

The consumer joins no group: the plan defines its partitions and offsets. Offsets are committed only
so that users can monitor a group's lag; the job never reads them.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rvertex.sources.logs.decode.choose import message_decoder
from rvertex.sources.logs.decode.messages import Messages
from rvertex.sources.logs.errors import (
    LogReplacedError,
    LogUnreachableError,
    LostInputError,
)
from rvertex.sources.logs.kafka.buffers import PartitionBuffer
from rvertex.sources.logs.kafka.client import (
    ASK_S_MAX,
    Client,
    Failure,
    failure,
    is_end,
    is_out_of_range,
)
from rvertex.sources.logs.kafka.options import GROUP, resolved, topic_of
from rvertex.sources.logs.kafka.state import TopicState
from rvertex.sources.spec import Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rstream.clock import Clock
    from rstream.errors import StreamEngineError
    from rvertex.sources.logs.decode.messages import MessageDecoder
    from rvertex.sources.logs.kafka.client import Message, TopicConsumer
    from rvertex.sources.logs.protocol import LogEnd, LogRows
    from rvertex.sources.spec import SourcePartition

#: Most messages polled from the client and decoded together.
FETCH_ROWS_MAX = 10_000
#: Longest wait for messages before the thread does other work, s.
FETCH_WAIT_S = 0.05
COMMIT_EVERY_S = 5.0
#: Longest wait for a client to close, s. Without brokers that is slow; then the client is
#: abandoned.
CLOSE_S_MAX = 3.0
#: Pause before a request to a schema registry is repeated, s.
RETRY_S = 1.0
_ON_LOST = 'set on_lost="skip" to count them and continue, or start a new job'
BOUNDS: tuple[Literal["earliest"], Literal["latest"]] = ("earliest", "latest")


class KafkaLog:
    """The partitions of one source vertex; see :class:`rvertex.sources.logs.protocol.LogReader`."""

    wait_s: float | None = None

    def __init__(
        self,
        partition: SourcePartition,
        positions: Sequence[int],
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        """Start to read ``partition``. ``positions``: next offset to read, per unit."""
        spec, kind = partition.spec, partition.spec.kind
        assert isinstance(kind, Topic), kind
        config = resolved(dict(kind.config))
        self._name = spec.shown or spec.path
        self._client = Client(topic_of(spec), config)
        self._decoder: MessageDecoder = message_decoder(spec, config)
        units = zip(partition.log_units, positions, strict=True)
        self._buffers = [PartitionBuffer(u.stream, at, u.until) for u, at in units]
        self._of_log = {buffer.partition: buffer for buffer in self._buffers}
        ids = {unit.log_id for unit in partition.log_units}
        self._state = TopicState(
            self._client,
            list(self._of_log),
            ids.pop() if len(ids) == 1 else "",
            None if kind.away_max_us is None else kind.away_max_us / 1e6,
            clock,
        )
        self._clock, self._wake = clock, wake
        self._commits = GROUP in config
        self._committed_s = self._clock.monotonic_s()
        self._lock = threading.Lock()
        self._has_room = threading.Condition(self._lock)
        self._is_closed = False
        #: Whether the consumer must be assigned again, because a partition continues at another
        #: offset.
        self._moved = True
        self._trouble = ""
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"fetch {self._name}", daemon=True)
        self._thread.start()

    # ---- called by the vertex's thread

    def read(self, partition: int, rows_max: int) -> LogRows | None:
        with self._has_room:
            buffer = self._buffers[partition]
            rows = buffer.take(rows_max)
            if rows is None:
                if self._state.error is not None:
                    raise self._state.error
                if self._failed is not None:
                    raise self._failed
            elif buffer.is_half_empty:
                self._has_room.notify()
            return rows

    def end(self, partition: int) -> LogEnd | None:
        buffer = self._buffers[partition]
        end = self._state.ends.get(buffer.partition)
        if end is None or end.position != buffer.given:
            return None
        return None if buffer.partition in self._state.open else end

    def closing_position(self, partition: int, since_s: float) -> int | None:
        end = self._state.ends.get(self._buffers[partition].partition)
        return end.position if end is not None and end.reported_s >= since_s else None

    def skip_to(self, partition: int, position: int) -> None:
        with self._has_room:
            self._buffers[partition].skip_to(position)
            self._moved = True
            self._has_room.notify()

    def lag(self, partition: int) -> int | None:
        buffer = self._buffers[partition]
        end = self._state.ends.get(buffer.partition)
        return None if end is None else max(0, end.position - buffer.given)

    @property
    def waiting(self) -> str:
        return self._state.waiting or self._trouble

    @property
    def log_partitions(self) -> int:
        return self._state.log_partitions

    def close(self) -> None:
        with self._has_room:
            self._is_closed = True
            self._has_room.notify()
        self._thread.join(CLOSE_S_MAX)

    # ---- in the fetching thread

    def _run(self) -> None:
        try:
            consumer = self._client.consumer()
            try:
                while not self._is_closed:  # ends with close()
                    self._step(consumer)
                self._commit(consumer)
            finally:
                consumer.close()
        except BaseException as error:  # raised again in the vertex's thread
            self._failed = error
            self._wake()
        finally:
            self._client.close()

    def _step(self, consumer: TopicConsumer) -> None:
        self._state.poll({b.partition: b.fetched for b in self._buffers})
        if self._state.error is not None:
            self._wake()
        if self._clock.monotonic_s() >= self._committed_s + COMMIT_EVERY_S:
            self._commit(consumer)
        with self._has_room:
            if self._moved:
                self._moved = False
                for buffer in self._buffers:
                    buffer.is_paused = False
                going = {b.partition: b.fetched for b in self._buffers if not b.is_done}
                consumer.assign(going)
            if all(buffer.is_full or buffer.is_done for buffer in self._buffers):
                self._has_room.wait(FETCH_WAIT_S)
                return
        self._pace(consumer)
        messages = consumer.fetch(FETCH_ROWS_MAX, FETCH_WAIT_S)
        if messages:
            self._take(messages)
            self._wake()

    def _pace(self, consumer: TopicConsumer) -> None:
        """Pause partitions that are done or whose buffers are full; resume the others."""
        full = [b for b in self._buffers if not b.is_paused and (b.is_full or b.is_done)]
        if full:
            consumer.pause([b.partition for b in full])
        room = [b for b in self._buffers if b.is_paused and b.is_half_empty and not b.is_done]
        if room:
            consumer.resume([b.partition for b in room])
        for buffer in full:
            buffer.is_paused = True
        for buffer in room:
            buffer.is_paused = False

    def _take(self, messages: list[Message]) -> None:
        failures = [message.error() for message in messages]
        if any(failures):
            errors = [m for m, error in zip(messages, failures, strict=True) if error is not None]
            messages = [m for m, error in zip(messages, failures, strict=True) if error is None]
        else:
            errors = []
        ends = self._ends_of(errors)
        for partition, own_messages in self._by_partition(messages).items():
            self._put(self._of_log[partition], own_messages, ends.pop(partition, 0))
        for partition, end in ends.items():
            self._put(self._of_log[partition], [], end)
        for message in errors:
            self._take_error(message)

    def _by_partition(self, messages: list[Message]) -> dict[int, list[Message]]:
        """Group messages by partition.

        The client returns runs of one partition, so slices suffice.
        """
        if len(self._buffers) == 1:
            return {self._buffers[0].partition: messages}
        numbers = np.array([message.partition() for message in messages], np.int64)
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(messages)]
        dealt: dict[int, list[Message]] = {}
        for lo, hi in itertools.pairwise(starts):
            if lo < hi:
                dealt.setdefault(int(numbers[lo]), []).extend(messages[lo:hi])
        return dealt

    @staticmethod
    def _ends_of(errors: list[Message]) -> dict[int, int]:
        """Return the end offset of each partition that was read to its end."""
        return {m.partition(): m.offset() for m in errors if is_end(m.error())}

    def _put(self, buffer: PartitionBuffer, messages: list[Message], end: int) -> None:
        if not messages and end <= buffer.fetched:
            return
        offsets = np.array([message.offset() for message in messages], np.int64)
        decoded = Messages(
            buffer.partition,
            offsets,
            [message.value() for message in messages],
            max(end, int(offsets[-1]) + 1 if len(offsets) else 0),
            _getter(messages, "key"),
            _timestamps(messages),
            _getter(messages, "headers"),
        )
        while not self._is_closed:  # ends when the schema registry has answered
            try:
                rows, error = self._decoder.decode(decoded)
            except LogUnreachableError as unreachable:
                self._trouble = str(unreachable)
                with self._has_room:
                    self._has_room.wait(RETRY_S)
                continue
            self._trouble = ""
            with self._lock:
                if not self._moved:
                    buffer.put(rows)
                    if error is not None and not buffer.is_done:
                        buffer.error = error
            return

    def _take_error(self, message: Message) -> None:
        error = message.error()
        if error is None or is_end(error):
            return
        buffer = self._of_log.get(message.partition() if message.topic() else -1)
        if buffer is not None and is_out_of_range(error):
            lost = self._out_of_range(buffer, error.str())
            with self._lock:
                if not self._moved:
                    buffer.error = buffer.error or lost
            return
        problem = failure(error)
        if problem.is_refused:
            self._state.refuse(problem)
        elif not problem.is_missing:
            self._client.trouble = problem.reason

    def _out_of_range(self, buffer: PartitionBuffer, reason: str) -> StreamEngineError | None:
        """Handle a fetch at an offset without a record: it was deleted, or the topic is new."""
        bounds = []
        for at in BOUNDS:
            answers = self._client.request_offsets([buffer.partition], at).answers(ASK_S_MAX)
            if isinstance(answers, Failure):
                self._moved = True  # retry the fetch at the same offset
                return None
            bounds.append(int(answers[buffer.partition].offset))
        first, end = bounds
        if buffer.fetched > end:
            return LogReplacedError(
                self._name,
                f"partition {buffer.partition} ends at offset {end}, but the job continues at "
                f"offset {buffer.fetched}",
            )
        if buffer.fetched < first:
            lost = "the broker removed them"
            return LostInputError(
                self._name, buffer.partition, buffer.fetched, first, lost, _ON_LOST
            )
        self._client.trouble = reason
        self._moved = True
        return None

    def _commit(self, consumer: TopicConsumer) -> None:
        self._committed_s = self._clock.monotonic_s()
        if self._commits and not self._state.waiting:
            # Offsets are for monitoring only, and are committed again later
            with contextlib.suppress(Exception):
                consumer.commit({b.partition: b.given for b in self._buffers})


def _getter(messages: list[Message], name: str) -> Callable[[int], Any]:
    return lambda i: getattr(messages[i], name)()


def _timestamps(messages: list[Message]) -> Callable[[int], int | None]:
    def timestamp(i: int) -> int | None:
        kind, value = messages[i].timestamp()
        return value if kind else None

    return timestamp
