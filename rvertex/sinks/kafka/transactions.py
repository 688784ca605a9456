"""Delivers into a topic exactly once: rows and progress in one transaction of Kafka.

Each output partition has its own transactional id. So when a successor starts, the brokers abort
the open transaction of its predecessor and reject its later records. The progress is part of the
transaction (:class:`rvertex.sinks.kafka.client.ProgressGroup`). If the response to a commit is
lost, ``open`` determines the result: starting a producer waits until the previous transaction has
ended, and the stored offset then shows whether it was committed.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from rvertex.sinks.errors import (
    DeliveryUnknownError,
    DestinationError,
)
from rvertex.sinks.kafka import client
from rvertex.sinks.kafka.headers import KafkaHeaders, KafkaWriter

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

    from rvertex.sinks.protocol import DeliveredRows, DeliveryProgress
    from rvertex.sinks.spec import DeliveryPlace, KafkaSink


class KafkaTransactions(KafkaWriter):
    """The rows of one output partition in a topic; see :class:`.protocol.Destination`."""

    def __init__(self, sink: KafkaSink, place: DeliveryPlace) -> None:
        super().__init__(sink, place)
        self._is_begun = False

    def open(self, epoch: int) -> DeliveryProgress | None:
        """Implement :class:`.protocol.Destination`."""
        self._leave()
        self._epoch = epoch
        self._link.begin(epoch)
        if self._group is None:
            self._group = client.ProgressGroup(self._sink, self._place, self._link)
        # The progress may be unreadable before init_transactions
        with contextlib.suppress(DestinationError):
            self._refuse_if_older(self._group.read(client.LOOK_WAIT_S))
        self._producer = client.new_producer(
            self._sink,
            self._link,
            transactional_id=self._group.name,
            transaction_timeout_ms=client.TRANSACTION_TIMEOUT_MS,
            on_failed_record=self._link.note_record,
        )
        try:
            self._producer.init_transactions(client.ANSWER_WAIT_S)
        except KafkaException as error:
            raise self._link.failed(error, self._producer) from error
        # Must follow init_transactions: before it, this call takes 0.5 s longer (librdkafka 2.16).
        count = client.partition_count(self._producer, self._sink.topic, self._link)
        self._partition = self._place.partition % count
        kept = self._group.read()
        self._refuse_if_older(kept)
        if kept.epoch < epoch:
            self._commit(kept.progress)
        return kept.progress

    def write(self, rows: DeliveredRows) -> None:
        """Implement :class:`.protocol.Destination`."""
        assert self._producer is not None
        self._begin()
        self._link.add_items(rows)
        topic, own = self._sink.topic, self._partition
        produce = self._producer.produce
        for value, key, seq, next_seq in self._records.of(rows):
            # Ends: brokers acknowledge records, which empties the queue, or records time out
            while True:
                try:
                    if key is None:
                        produce(topic, value, partition=own)
                    else:
                        produce(topic, value, key)
                    break
                except BufferError:
                    self._link.poll(self._producer, client.ROOM_WAIT_S)
                except KafkaException as error:
                    raise self._link.meaning(error.args[0], (seq, next_seq)) from error
        self._link.poll(self._producer, 0)

    def commit(self, progress: DeliveryProgress) -> None:
        """Implement :class:`.protocol.Destination`."""
        self._commit(progress)

    def _begin(self) -> None:
        assert self._producer is not None
        if self._is_begun:
            return
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._link.failed(error, self._producer) from error
        self._is_begun = True

    def _commit(self, progress: DeliveryProgress | None) -> None:
        assert self._producer is not None
        assert self._group is not None
        self._begin()
        offsets = self._group.position(self._epoch, progress)
        self._send_offsets(self._producer, offsets, self._group.member)
        try:
            self._producer.commit_transaction(client.ANSWER_WAIT_S)
        except KafkaException as error:
            if client.may_have_happened(error):
                raise DeliveryUnknownError(
                    self._link.label, self._link.shown(error.args[0])
                ) from error
            raise self._link.failed(error, self._producer) from error
        self._is_begun = False
        self._link.items = None

    def _send_offsets(self, producer: Producer, offsets: list[TopicPartition], member: Any) -> None:
        """Add the progress to the transaction.

        If the call is abandoned after its time-out, the next ``open`` makes a new producer, which
        ends this transaction.
        """
        send = producer.send_offsets_to_transaction
        call = functools.partial(send, offsets, member, client.ANSWER_WAIT_S)
        self._link.keep(call, producer, client.OFFSETS_WAITS)

    def _leave(self) -> None:
        """Abort the open transaction, if any."""
        producer, self._producer = self._producer, None
        was_begun, self._is_begun = self._is_begun, False
        if producer is None:
            return
        if was_begun:
            with contextlib.suppress(KafkaException):  # else the next start ends it
                producer.abort_transaction(client.ABORT_WAIT_S)
        producer.purge()


def open_destination(spec: KafkaSink, place: DeliveryPlace) -> KafkaHeaders | KafkaTransactions:
    """Open the destination, as :attr:`rvertex.sinks.spec.SinkSpec.home` requires."""
    return (KafkaHeaders if spec.mode == "headers" else KafkaTransactions)(spec, place)
