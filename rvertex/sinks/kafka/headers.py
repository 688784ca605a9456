"""Delivers into a topic without transactions: headers of a record identify its item.

A record has the headers ``stream`` (job, delivery, partition) and ``seq``. An idempotent producer
keeps the order within a partition of the topic. The progress is the offset of a consumer group, as
in :mod:`rvertex.sinks.kafka.transactions`, but it is stored after the rows. So ``open`` reads the
records after the topic offsets that were stored with the progress, and does not write their items
again.

A writer that pauses in the middle of a commit and resumes later is not fenced: the records it still
sends are repeats. A reader must drop a record whose ``seq`` is not above the last ``seq`` of the
same ``stream`` in the same partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Message, Producer

from rvertex.sinks.errors import DeliveryFencedError, DestinationError
from rvertex.sinks.kafka import client
from rvertex.sinks.kafka.records import RecordEncoder

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress
    from rvertex.sinks.spec import DeliveryPlace, KafkaSink

STREAM, SEQ = "stream", "seq"


class KafkaWriter:
    """Base of writers of one output partition: a producer, and the group with its progress."""

    def __init__(self, sink: KafkaSink, place: DeliveryPlace) -> None:
        self._sink, self._place = sink, place
        self._link = client.Link(sink)
        self._records = RecordEncoder(sink, place.schema, place.end)
        self._group: client.ProgressGroup | None = None
        self._producer: Producer | None = None
        self._epoch = 0
        #: Topic partition of records without a key.
        self._partition = 0

    def close(self) -> None:
        """Implement :class:`.protocol.Destination`."""
        self._leave()
        if self._group is not None:
            self._group.close()
            self._group = None

    def _leave(self) -> None:
        """Discard the records that are not committed, and the producer."""
        raise NotImplementedError

    def _refuse_if_older(self, kept: client.KeptProgress) -> None:
        if kept.epoch > self._epoch:
            raise DeliveryFencedError(self._link.label, self._epoch)


class KafkaHeaders(KafkaWriter):
    """The rows of one output partition in a topic; see :class:`.protocol.Destination`."""

    def __init__(self, sink: KafkaSink, place: DeliveryPlace) -> None:
        super().__init__(sink, place)
        self._partitions = 0
        #: Seqs of items whose records the topic already has after the stored offsets.
        self._found: set[int] = set()
        #: By topic partition: the offset up to which this writer has read or written the records.
        self._ends: dict[int, int] = {}
        self._failure: KafkaError | None = None
        self._pending: list[dict[str, Any]] = []

    def open(self, epoch: int) -> DeliveryProgress | None:
        """Implement :class:`.protocol.Destination`."""
        self._leave()
        self._epoch, self._failure = epoch, None
        self._link.begin(epoch)
        if self._group is None:
            self._group = client.ProgressGroup(
                self._sink, self._place, self._link, "read_uncommitted"
            )
        kept = self._group.read()
        self._refuse_if_older(kept)
        # A record that was rejected and is sent again after its successors is skipped by readers.
        self._producer = client.new_producer(
            self._sink, self._link, enable_idempotence=True, enable_gapless_guarantee=True
        )
        # Get the number of partitions through the consumer: its connection is older than partitions
        # that are added now, so it reads their records.
        self._partitions = client.partition_count(
            self._group.consumer, self._sink.topic, self._link
        )
        self._partition = self._place.partition % self._partitions
        self._ends = self._group.read_ends(self._partitions)
        stream, self._found = self._place.stream.encode(), set()
        for message in self._group.records(self._ends):
            headers = dict(message.headers() or ())
            if headers.get(STREAM) == stream:
                self._found.add(int(headers[SEQ] or b""))
        self._group.keep(epoch, kept.progress, self._ends)
        return kept.progress

    def write(self, rows: DeliveredRows) -> None:
        """Implement :class:`.protocol.Destination`; nothing is sent before the commit."""
        self._link.add_items(rows)
        stream = self._place.stream.encode()
        for value, key, seq, _ in self._records.of(rows):
            if seq in self._found:
                continue
            headers = [(STREAM, stream), (SEQ, b"%d" % seq)]
            place: dict[str, Any] = {"partition": self._partition} if key is None else {"key": key}
            self._pending.append({"value": value, "headers": headers, **place})

    def commit(self, progress: DeliveryProgress) -> None:
        """Implement :class:`.protocol.Destination`."""
        assert self._producer is not None
        assert self._group is not None
        self._refuse_if_older(self._group.read())
        for record in self._pending:
            self._produce(record)
        self._pending = []
        self._flush()
        self._found = {seq for seq in self._found if seq >= progress.next_seq}
        self._group.keep(self._epoch, progress, self._ends)
        self._link.items = None

    def _produce(self, record: dict[str, Any]) -> None:
        assert self._producer is not None
        # Ends: brokers acknowledge records, which empties the queue, or records time out
        while True:
            try:
                self._producer.produce(self._sink.topic, on_delivery=self._delivered, **record)
                return
            except BufferError:
                self._poll(client.ROOM_WAIT_S)
            except KafkaException as error:
                raise self._link.failed(error, self._producer) from error

    def _flush(self) -> None:
        assert self._producer is not None
        try:
            left = self._producer.flush(client.ANSWER_WAIT_S)
        except (KafkaException, SystemError) as error:  # SystemError: two callbacks failed
            self._raise_failure()
            raise DestinationError(
                self._link.label, "the Kafka client dropped records that were not sent yet"
            ) from error
        self._poll(0)
        if left:
            raise DestinationError(self._link.label, "the client did not accept records in time")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error  # later records fail because of it
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._ends[partition] = max(self._ends.get(partition, 0), offset + 1)

    def _poll(self, wait_s: float) -> None:
        assert self._producer is not None
        try:
            self._link.poll(self._producer, wait_s)
        finally:
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            assert self._producer is not None
            raise self._link.failed(KafkaException(self._failure), self._producer)

    def _leave(self) -> None:
        self._pending = []
        if self._producer is not None:
            self._producer.purge()
            self._producer = None
