"""Kafka clients of deliveries; only this module of the sinks imports the client library.

A delivery stores its progress as the offset of its own consumer group: the offset is the next seq,
its metadata the writer's epoch and the digest. Each output partition has a separate group, with an
offset for partition 0 of the topic, because every topic has that partition.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from rstream.secret_values import secret_value, secrets_of, without_secrets
from rstream.store.limited import with_limit
from rvertex.sinks.errors import (
    DeliveryFencedError,
    DestinationError,
    DestinationRefusedError,
    InvalidSinkError,
    RowsRefusedError,
)
from rvertex.sinks.kafka.refusals import refusal_of
from rvertex.sinks.protocol import DeliveryProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rvertex.sinks.protocol import DeliveredRows
    from rvertex.sinks.spec import DeliveryPlace, KafkaSink

#: Longest wait for the brokers' response to one request.
ANSWER_WAIT_S = 20.0
#: Limits for storing progress in a transaction, and in a group alone, as multiples of
#: ANSWER_WAIT_S.
OFFSETS_WAITS, GROUP_WAITS = 3, 2
#: Wait for the progress before a writer has ended its predecessor's open transaction, s. Brokers do
#: not report the progress until that transaction has ended, so a longer wait would be in vain.
LOOK_WAIT_S = 1.0
#: Wait for the abort of a transaction when a delivery stops, s.
ABORT_WAIT_S = 2.0
#: Time-out of transactions, which are short. An open transaction of a crashed delivery hides later
#: records of other producers no longer than this.
TRANSACTION_TIMEOUT_MS = 30_000
#: Most records queued in the client; further records wait until some were sent.
QUEUE_RECORDS_MAX = 100_000
#: Wait of a fetch that returns no records, ms. Then the partition is assumed to be at its end.
END_WAIT_MS = 10
#: Pause between two attempts to queue a record when the client's queue is full, s.
ROOM_WAIT_S = 0.01
_NO_DIGEST = "-"
_FENCED = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
)
#: Error codes without a cause. The cause is the last error of a connection or record.
_SILENT = (
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._INCONSISTENT,
    # An error has ended this transaction already. The record's callback has that error.
    KafkaError._STATE,
)
_UNKNOWN_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_log = logging.getLogger(__name__)


class KeptProgress(NamedTuple):
    """The stored state of a delivery's group: newest epoch, and progress (None at the start)."""

    epoch: int
    progress: DeliveryProgress | None


class Link:
    """Translates errors of one delivery: those of calls, and those of callbacks."""

    def __init__(self, sink: KafkaSink) -> None:
        self.label = f"topic {sink.topic}"
        #: Secrets that must be removed from all messages of this delivery.
        self.secrets: list[str] = []
        self.begin(0)

    def begin(self, epoch: int) -> None:
        """Reset the errors and the seq range. ``epoch`` is the writer's epoch."""
        self.epoch = epoch
        #: The last error of a connection or a record that a retry does not fix.
        self._refused: KafkaError | None = None
        #: Seq range of the items written since the last commit.
        self.items: tuple[int, int] | None = None

    def add_items(self, rows: DeliveredRows) -> None:
        """Extend the seq range by rows that are about to be sent."""
        first_seq = rows.first_seq if self.items is None else self.items[0]
        self.items = (first_seq, rows.next_seq)

    def note(self, error: KafkaError) -> None:
        """Record a connection error, which calls would only report as a time-out."""
        _log.info("client", extra={"reason": self.shown(error)})
        if refusal_of(error) is not None:
            self._refused = error

    def note_record(self, error: KafkaError | None, _: Message) -> None:
        """Record a record's error; the commit would only report that there is one."""
        if error is not None:
            self.note(error)

    def shown(self, error: KafkaError) -> str:
        """Return the client's message without secrets; it may contain the client's options."""
        text = error.str().rstrip()
        if text.endswith(":"):  # the broker sent no message
            text += f" {KafkaError(error.code()).str()}"
        return without_secrets(text, self.secrets)

    def refused(self, error: KafkaException) -> InvalidSinkError:
        """Return the error for options that the client rejects."""
        return InvalidSinkError(self.label, self.shown(error.args[0]))

    def failed(self, error: KafkaException, client: Producer | Consumer) -> Exception:
        """Return the error for a failed call, after the callbacks of ``client`` have run."""
        kafka_error: KafkaError = error.args[0]
        if kafka_error.code() in _SILENT:
            with contextlib.suppress(KafkaException):
                # Consumers report errors as messages
                while isinstance(message := client.poll(0), Message):
                    self.note_record(message.error(), message)
            kafka_error = self._refused or kafka_error
        return self.meaning(kafka_error)

    def poll(self, client: Producer | Consumer, wait_s: float) -> None:
        """Run the client's callbacks; raise its fatal error, such as fencing.

        Raises:
            StreamEngineError: the delivery must open again, or end.
        """
        try:
            client.poll(wait_s)
        except KafkaException as error:
            raise self.meaning(error.args[0]) from error

    def keep(self, send: Callable[[], object], client: Producer | Consumer, waits: int) -> None:
        """Store progress in a group; ``send`` blocks, at most ``waits`` times ANSWER_WAIT_S.

        The client's call ends by the limit of its connection, with one exception: if the connection
        is lost while the broker is frozen, the call waits until the broker resumes. Such a call is
        abandoned.

        Raises:
            StreamEngineError: it is unknown whether the group has stored it.
        """
        try:
            with_limit(send, waits * ANSWER_WAIT_S)
        except KafkaException as error:
            raise self.failed(error, client) from error
        except TimeoutError as error:
            raise DestinationError(self.label, str(error)) from error

    def meaning(self, error: KafkaError, items: tuple[int, int] | None = None) -> Exception:
        """Translate an error of the client to an error of the delivery."""
        if error.code() in _FENCED:
            return DeliveryFencedError(self.label, self.epoch)
        refusal, (first_seq, next_seq) = refusal_of(error), items or self.items or (0, 0)
        if refusal is None:
            return DestinationError(self.label, self.shown(error))
        if refusal.is_rows:
            return RowsRefusedError(
                self.label, first_seq, next_seq, self.shown(error), refusal.advice
            )
        return DestinationRefusedError(self.label, self.shown(error), refusal.advice)


class ProgressGroup:
    """The consumer group that stores the progress of one output partition."""

    def __init__(
        self, sink: KafkaSink, place: DeliveryPlace, link: Link, isolation: str = "read_committed"
    ) -> None:
        self._topic, self._link = sink.topic, link
        self.name = f"streamscope.{place.stream}"
        given = {
            "fetch.wait.max.ms": END_WAIT_MS,
            **settings(sink, link),
            "group.id": self.name,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
        try:
            self.consumer = Consumer(given, logger=_log)
        except KafkaException as error:
            raise link.refused(error) from None
        #: Constant, because the consumer never joins the group. Fetched once, because the client
        #: queries another thread for it while it holds Python's global lock.
        self.member = self.consumer.consumer_group_metadata()

    def read(self, wait_s: float | None = None) -> KeptProgress:
        """Return the stored state. ``wait_s``: at most this time, by default ANSWER_WAIT_S.

        Raises:
            DestinationError: no broker answers, or an open transaction would change it.
        """
        place, limit_s = TopicPartition(self._topic, 0), wait_s or ANSWER_WAIT_S
        try:
            (committed,) = self.consumer.committed([place], timeout=limit_s)
        except KafkaException as error:
            raise self._link.failed(error, self.consumer) from error
        if committed.error is not None:
            raise self._link.meaning(committed.error)
        if committed.offset == OFFSET_INVALID or not committed.metadata:
            return KeptProgress(0, None)
        epoch, digest, *seq = str(committed.metadata).split()
        if digest == _NO_DIGEST:
            return KeptProgress(int(epoch), None)
        next_seq = int(seq[0]) if seq else committed.offset
        return KeptProgress(int(epoch), DeliveryProgress(next_seq, bytes.fromhex(digest)))

    def position(self, epoch: int, progress: DeliveryProgress | None) -> list[TopicPartition]:
        """Return the progress as an offset of the group."""
        digest = _NO_DIGEST if progress is None else progress.digest.hex()
        seq = 0 if progress is None else progress.next_seq
        return [TopicPartition(self._topic, 0, seq, metadata=f"{epoch} {digest}")]

    def keep(self, epoch: int, progress: DeliveryProgress | None, ends: dict[int, int]) -> None:
        """Store the progress and ``ends`` of the topic, atomically but without a transaction.

        Raises:
            DestinationError: no broker answers. The progress may have been stored.
        """
        (position,) = self.position(epoch, progress)
        text = f"{position.metadata} {position.offset}"
        kept = [
            TopicPartition(self._topic, k, end, metadata=text if k == 0 else "")
            for k, end in ends.items()
        ]
        commit = functools.partial(self.consumer.commit, offsets=kept, asynchronous=False)
        self._link.keep(commit, self.consumer, GROUP_WAITS)

    def read_ends(self, partitions: int) -> dict[int, int]:
        """Return the stored end of each partition; before the first commit, the current ends."""
        places = [TopicPartition(self._topic, k) for k in range(partitions)]
        try:
            offsets = {
                p.partition: p.offset for p in self.consumer.committed(places, ANSWER_WAIT_S)
            }
            is_new = offsets[0] == OFFSET_INVALID
            for k, offset in offsets.items():
                # Before the first commit, or for a partition that was added later
                if offset == OFFSET_INVALID:
                    offsets[k] = self._end(k) if is_new else 0
        except KafkaException as error:
            raise self._link.failed(error, self.consumer) from error
        return offsets

    def records(self, starts: dict[int, int]) -> Iterator[Message]:
        """Yield the records from these offsets to the ends of the partitions.

        Raises:
            DestinationError: they could not be read within ANSWER_WAIT_S.
        """
        try:
            left = {k for k, start in starts.items() if start < self._end(k)}
            places = [TopicPartition(self._topic, k, starts[k]) for k in sorted(left)]
            self.consumer.assign(places)
        except KafkaException as refused:
            raise self._link.failed(refused, self.consumer) from refused
        try:
            while left:  # ends when the end of each partition was reported
                message = self.consumer.poll(ANSWER_WAIT_S)
                if message is None:
                    raise DestinationError(
                        self._link.label, "the broker did not return the end of a partition"
                    )
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise self._link.meaning(error)
        finally:
            self.consumer.unassign()

    def _end(self, partition: int) -> int:
        place = TopicPartition(self._topic, partition)
        offsets: tuple[int, int] = self.consumer.get_watermark_offsets(place, ANSWER_WAIT_S)
        return offsets[1]

    def close(self) -> None:
        """Close the consumer."""
        self.consumer.close()


def new_producer(
    sink: KafkaSink,
    link: Link,
    *,
    on_failed_record: Callable[[KafkaError | None, Message], None] | None = None,
    **added: Any,
) -> Producer:
    """Open a producer with the user's settings; ``added`` (dots as underscores) overrides them."""
    fixed = {name.replace("_", "."): value for name, value in added.items()}
    if on_failed_record is not None:
        fixed |= {"delivery.report.only.error": True, "on_delivery": on_failed_record}
    usual = {
        "queue.buffering.max.messages": QUEUE_RECORDS_MAX,
        "partitioner": "murmur2_random",
        # Limits a request in progress, because ``send_offsets_to_transaction`` exceeds its own
        # limit
        "socket.timeout.ms": int(ANSWER_WAIT_S * 1e3),
    }
    given = {**usual, **settings(sink, link), **fixed}
    try:
        return Producer(given, logger=_log)
    except KafkaException as error:
        raise link.refused(error) from None


def settings(sink: KafkaSink, link: Link) -> dict[str, Any]:
    """Return the settings that producers and consumers of a sink share."""
    given = {name: secret_value(name, value) for name, value in sink.config}
    link.secrets = secrets_of(given)
    servers = secret_value("servers", sink.servers)
    return {"bootstrap.servers": servers, **given, "error_cb": link.note}


def partition_count(client: Producer | Consumer, topic: str, link: Link) -> int:
    """Return the number of partitions of a topic.

    Raises:
        InvalidSinkError: the topic does not exist.
        DestinationError: no broker answers.
        DestinationRefusedError: the broker rejects the topic's name or the credentials.
    """
    try:
        metadata = client.list_topics(topic, timeout=ANSWER_WAIT_S).topics[topic]
    except KafkaException as error:
        raise link.failed(error, client) from error
    if metadata.error is not None and metadata.error.code() in _UNKNOWN_TOPIC:
        raise InvalidSinkError(link.label, "there is no such topic: create it, and resume")
    if metadata.error is not None:
        raise link.meaning(metadata.error)
    if not metadata.partitions:
        raise DestinationError(link.label, "it has no partitions yet")
    return len(metadata.partitions)


def may_have_happened(error: KafkaException) -> bool:
    """Return whether a commit that failed with this error may have succeeded."""
    kafka_error: KafkaError = error.args[0]
    return kafka_error.code() not in _FENCED and not kafka_error.txn_requires_abort()
