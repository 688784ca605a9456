"""Simulates a Kafka broker for the calls of a delivery, in this process.

It replaces the client library, to test a delivery's own logic without a broker: transactions,
fences, lost answers, rejected records. Timeouts of broker and library are tested with a real one
(tests/rvertex/sinks/kafka/test_transactions.py).
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from tests.support.brokers import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Place = tuple[str, int]
State = Literal["open", "committed", "aborted"]


def failure(code: int, *, requires_abort: bool = False) -> KafkaException:
    """The error of a call."""
    return KafkaException(KafkaError(code, None, False, False, requires_abort))


@dataclass
class Transaction:
    """An open transaction of a producer; ``offsets`` by group."""

    state: State = "open"
    places: set[Place] = field(default_factory=set)
    offsets: dict[str, list[TopicPartition]] = field(default_factory=dict)


@dataclass
class Entry:
    """An item of a partition; ``record`` None: the marker that ends a transaction."""

    record: Record | None
    transaction: Transaction | None = None

    @property
    def is_shown(self) -> bool:
        is_committed = self.transaction is None or self.transaction.state == "committed"
        return self.record is not None and is_committed


class Broker:
    """Topics, groups and transactional ids."""

    def __init__(self, topic: str, partitions: int = 2) -> None:
        self.topic = topic
        self.partitions: list[list[Entry]] = [[] for _ in range(partitions)]
        self.groups: dict[str, dict[int, TopicPartition]] = defaultdict(dict)
        self.ids: dict[str, tuple[int, Transaction | None]] = {}
        #: The next error of each call by name, and whether the call still takes effect.
        self.fails: dict[str, tuple[KafkaException, bool]] = {}
        #: self.refuses: Callable[[Record], KafkaError|Why a record is rejected.
        self.refuses: Callable[[Record], KafkaError | None] = lambda _: None
        #: The number of records that a producer can buffer.
        self.room = 1_000_000
        #: Whether records stay in the producer.
        self.is_silent = False
        #: The calls of producers with an effect, in order.
        self.calls: list[str] = []

    def read_committed(self, topic: str) -> list[Record]:
        """The records per partition, in order, up to the first open transaction."""
        assert topic == self.topic
        return [e.record for p in self.partitions for e in self.stable(p) if e.record is not None]

    @staticmethod
    def stable(entries: Sequence[Entry]) -> list[Entry]:
        found = []
        for entry in entries:
            if entry.transaction is not None and entry.transaction.state == "open":
                break
            if entry.is_shown:
                found.append(entry)
        return found

    def call(self, name: str, act: Callable[[], None]) -> None:
        self.calls.append(name)
        error, happens = self.fails.pop(name, (None, True))
        if happens:
            act()
        if error is not None:
            raise error

    def end(self, transaction: Transaction, state: State) -> None:
        if transaction.state != "open":
            raise failure(KafkaError.INVALID_TXN_STATE)
        transaction.state = state
        for _, partition in sorted(transaction.places):
            self.partitions[partition].append(Entry(None, transaction))
        if state == "committed":
            for group, offsets in transaction.offsets.items():
                self.groups[group] |= {p.partition: p for p in offsets}

    def list_topics(self, topic: str, timeout: float) -> Any:
        del timeout
        if topic != self.topic:
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions={})})
        numbers = dict.fromkeys(range(len(self.partitions)))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=numbers)})


class Producer:
    """Replaces the library's producer; records reach the broker when it is polled."""

    def __init__(self, broker: Broker, config: dict[str, Any]) -> None:
        self._broker, self._id = broker, config.get("transactional.id")
        self._epoch = -1
        self._is_gapless = config.get("enable.gapless.guarantee", False)
        self._reports: Any = config.get("on_delivery")
        self._transaction: Transaction | None = None
        self._waiting: list[tuple[Record, Any]] = []
        self._refused: KafkaError | None = None

    def list_topics(self, topic: str, timeout: float) -> Any:
        return self._broker.list_topics(topic, timeout)

    def init_transactions(self, _: float) -> None:
        epoch, left = self._broker.ids.get(str(self._id), (0, None))
        if left is not None and left.state == "open":
            self._broker.end(left, "aborted")
        self._epoch = epoch + 1
        self._broker.ids[str(self._id)] = (self._epoch, None)

    def begin_transaction(self) -> None:
        assert self._transaction is None, "one is open"
        self._transaction = Transaction()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int = -1,
        headers: Sequence[tuple[str, bytes]] = (),
        on_delivery: Any = None,
    ) -> None:
        assert topic == self._broker.topic
        if len(self._waiting) >= self._broker.room:
            raise BufferError
        if key is not None:
            partition = zlib.crc32(key) % len(self._broker.partitions)
        record = Record(value, key, partition, headers=tuple(headers))
        self._waiting.append((record, on_delivery))

    def poll(self, _: float) -> int:
        waiting, self._waiting = self._waiting, []
        if self._broker.is_silent:
            self._waiting = waiting
            return 0
        for record, on_delivery in waiting:
            self._send(record, on_delivery)
        return len(waiting)

    def flush(self, _: float) -> int:
        self.poll(0)
        return len(self._waiting)

    def purge(self) -> None:
        self._waiting = []

    def send_offsets_to_transaction(
        self, offsets: list[TopicPartition], member: str, _: float
    ) -> None:
        def act() -> None:
            assert self._transaction is not None
            self._own().offsets[member] = offsets

        self._broker.call("send_offsets", act)

    def commit_transaction(self, _: float) -> None:
        self.poll(0)
        if self._refused is not None:
            raise failure(self._refused.code(), requires_abort=True)
        self._broker.call("commit", lambda: self._broker.end(self._own(), "committed"))
        self._transaction = None

    def abort_transaction(self, _: float) -> None:
        self._broker.call("abort", lambda: self._broker.end(self._own(), "aborted"))
        self._transaction = None

    def _own(self) -> Transaction:
        """The transaction, if its id has no newer producer."""
        assert self._transaction is not None
        if self._broker.ids[str(self._id)][0] != self._epoch:
            raise failure(KafkaError._FENCED)
        self._broker.ids[str(self._id)] = (self._epoch, self._transaction)
        return self._transaction

    def _send(self, record: Record, on_delivery: Any) -> None:
        error = self._broker.refuses(record)
        if error is None and self._is_gapless and self._refused is not None:
            error = KafkaError(KafkaError._GAPLESS_GUARANTEE)
        if error is not None:
            self._refused = error
            (on_delivery or self._reports)(error, SimpleNamespace())
            return
        transaction = None
        if self._id is not None:
            transaction = self._own()
            transaction.places.add((self._broker.topic, record.partition))
        entries = self._broker.partitions[record.partition]
        entries.append(Entry(record, transaction))
        if on_delivery is not None:
            on_delivery(None, _message(record, len(entries) - 1))


class Consumer:
    """Replaces the library's consumer; it reads committed records, or all."""

    def __init__(self, broker: Broker, config: dict[str, Any]) -> None:
        self._broker, self._group = broker, config["group.id"]
        self._is_stable = config["isolation.level"] == "read_committed"
        self._left: list[Any] = []

    def list_topics(self, topic: str, timeout: float) -> Any:
        return self._broker.list_topics(topic, timeout)

    def consumer_group_metadata(self) -> str:
        return str(self._group)

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        del timeout
        for _, transaction in self._broker.ids.values():
            is_open = transaction is not None and transaction.state == "open"
            if is_open and self._group in transaction.offsets:  # type: ignore[union-attr]
                raise failure(KafkaError._TIMED_OUT)
        kept = self._broker.groups[self._group]
        nothing = [TopicPartition(p.topic, p.partition, OFFSET_INVALID) for p in places]
        return [kept.get(place.partition, place) for place in nothing]

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert not asynchronous
        kept = {place.partition: place for place in offsets}
        self._broker.call("keep", lambda: self._broker.groups[self._group].update(kept))

    def get_watermark_offsets(self, place: TopicPartition, _: float) -> tuple[int, int]:
        return 0, len(self._broker.partitions[place.partition])

    def assign(self, places: list[TopicPartition]) -> None:
        self._left = []
        for place in places:
            entries = self._broker.partitions[place.partition]
            shown = self._broker.stable(entries) if self._is_stable else entries
            self._left += [
                _message(entry.record, offset)
                for offset, entry in enumerate(entries)
                if offset >= place.offset and entry.record is not None and entry in shown
            ]
            end = KafkaError(KafkaError._PARTITION_EOF)
            self._left.append(
                SimpleNamespace(error=lambda end=end: end, partition=lambda p=place: p.partition)
            )

    def unassign(self) -> None:
        self._left = []

    def poll(self, _: float) -> Any:
        return self._left.pop(0) if self._left else None

    def close(self) -> None:
        self._left = []


def _message(record: Record, offset: int) -> Any:
    values = {
        "error": None,
        "partition": record.partition,
        "offset": offset,
        "headers": list(record.headers) or None,
    }
    return SimpleNamespace(**{name: lambda v=v: v for name, v in values.items()})
