"""A real Kafka broker in a separate process, with helpers for tests.

The broker installs from PyPI (``noida-db``). It has transactions, fencing and offsets like Kafka.
It keeps its data when it is stopped. A kill may lose the last second of acknowledged records, so no
test can check the topics after a crash of a broker. It has two faults, which
:mod:`streamscope.testing.servers.broker_front` corrects: it reports aborted transactions to
consumers that have passed them, which hides later commits of the same producer; and it answers
empty fetches at once.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rstream.errors import UsageError
from streamscope.testing.servers import broker_front

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Consumer, Message, Producer
    from confluent_kafka.admin import AdminClient

READY_S_MAX = 120.0
STOP_S_MAX = 120.0
ANSWER_S_MAX = 120.0
_CONNECT_S = 0.5
#: Below the ports that Linux gives to outgoing connections (32768 to 60999).
_PORTS, _PORTS_TRIED = range(10_000, 32_000), 100
_POLL_S = 0.005
#: How long a fetch at the end of a partition waits for rows.
_END_WAIT_MS = 10
_BATCH = 1000
#: Client options that suppress log messages about brokers that a test stops.
QUIET: Mapping[str, Any] = {"log_level": 0}


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic, to send or read from it."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    #: None: the time of sending.
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    #: -1 for a record that was not sent yet.
    offset: int = -1


def program() -> Path | None:
    """Return the broker's program; None if it is not installed."""
    spec = importlib.util.find_spec("noida_db")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "noida-db"


class Broker:
    """A broker that can be frozen, stopped and restarted at the same address."""

    def __init__(
        self, folder: Path, *, answer_s_max: float = ANSWER_S_MAX, waits: bool = False
    ) -> None:
        """Prepare a broker; ``answer_s_max``: the longest time to read a topic, s.

        ``waits``: run a proxy in front of the broker, which responds to fetches as Kafka does.
        """
        self._folder, self._answer_s_max = folder, answer_s_max
        self._own_port = free_port()
        self._port = free_port() if waits else self._own_port
        self._process: subprocess.Popen[bytes] | None = None
        self._front: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """The address, as ``bootstrap.servers`` takes it."""
        return f"{broker_front.HOST}:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def start(self) -> None:
        """Start the broker and wait until it accepts connections."""
        assert self._process is None, "the broker is already running"
        binary = program()
        if binary is None:
            raise UsageError("no broker is installed: pip install noida-db")
        own_port, port = str(self._own_port), str(self._port)
        options: list[str | Path] = [
            "--only",
            "kafka",
            "--kafka-port",
            own_port,
            "--data-dir",
            self._folder,
        ]
        self._process = _started(binary, "start", *options)
        if self._port != self._own_port:
            self._front = _started(sys.executable, broker_front.__file__, own_port, port)
        deadline_s = time.monotonic() + READY_S_MAX
        while not self._answers():
            assert self._process.poll() is None, f"the broker ended: {self._process.returncode}"
            assert time.monotonic() < deadline_s, f"the broker did not start in {READY_S_MAX} s"
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop the broker; its data are kept. Idempotent."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker; it may lose the records of the last second."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Suspend the broker: connections stay open, and requests get no response."""
        os.kill(self.pid, signal.SIGSTOP)
        deadline_s = time.monotonic() + STOP_S_MAX
        while not all(map(_is_suspended, Path(f"/proc/{self.pid}/task").glob("*/stat"))):
            assert time.monotonic() < deadline_s, f"the broker still runs after {STOP_S_MAX} s"
            time.sleep(_POLL_S)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def create_topic(self, topic: str, partitions: int = 1) -> str:
        """Create a topic and return its name.

        The broker keeps the topic in memory, in over 300 bytes per record.
        """
        from confluent_kafka.admin import NewTopic

        admin = self._admin()  # kept in a variable, since its requests end with it
        made = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
        admin.create_topics([made])[topic].result(ANSWER_S_MAX)
        return topic

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Grow a topic to ``partitions`` partitions."""
        from confluent_kafka.admin import NewPartitions

        admin = self._admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(ANSWER_S_MAX)

    def delete_topic(self, topic: str) -> None:
        admin = self._admin()
        admin.delete_topics([topic])[topic].result(ANSWER_S_MAX)

    def end_of(self, topic: str, partition: int) -> int:
        """Return the offset after the last record."""
        from confluent_kafka import TopicPartition

        with self.consumer() as consumer:
            place = TopicPartition(topic, partition)
            return int(consumer.get_watermark_offsets(place, ANSWER_S_MAX)[1])

    def delete_below(self, topic: str, offsets: Sequence[int]) -> None:
        """Delete the records below an offset for each partition."""
        from confluent_kafka import TopicPartition

        admin = self._admin()
        places = [TopicPartition(topic, p, offset) for p, offset in enumerate(offsets)]
        for answer in admin.delete_records(places).values():
            answer.result(ANSWER_S_MAX)

    def producer(self, **config: Any) -> Producer:
        """Return a producer; ``config``: client options with underscores instead of dots."""
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.servers, **QUIET, **_dotted(config)})

    def produce(self, topic: str, records: Iterable[Record | bytes], partition: int = 0) -> None:
        """Send records and wait for acknowledgements; ``bytes`` go to ``partition``."""
        producer = self.producer(linger_ms=1)
        failed: list[object] = []

        def note(error: object, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for given in records:
            record = given if isinstance(given, Record) else Record(given, partition=partition)
            send(producer, topic, record, on_delivery=note)
        left = producer.flush(ANSWER_S_MAX)
        assert not left, f"{left} records were not delivered within {ANSWER_S_MAX} s"
        assert not failed, failed

    def read_committed(self, topic: str) -> list[Record]:
        """Return all committed records, by partition and offset."""
        return self._read(topic, "read_committed")

    def read_all(self, topic: str) -> list[Record]:
        """Return all records before the first open transaction, aborted ones included."""
        return self._read(topic, "read_uncommitted")

    def partitions(self, topic: str) -> list[int]:
        return sorted(self._admin().list_topics(topic, ANSWER_S_MAX).topics[topic].partitions)

    def _read(self, topic: str, isolation: str) -> list[Record]:
        config = {"isolation_level": isolation, "enable_partition_eof": True}
        with self.consumer(**config, fetch_wait_max_ms=_END_WAIT_MS) as consumer:
            given = topic, self.partitions(topic), self._answer_s_max
            records = list(_to_the_end(consumer, *given))
        return sorted(records, key=lambda record: (record.partition, record.offset))

    @contextlib.contextmanager
    def consumer(self, **config: Any) -> Iterator[Consumer]:
        from confluent_kafka import Consumer

        given = {"group.id": "tests", "enable.auto.commit": False, **_dotted(config)}
        consumer = Consumer({"bootstrap.servers": self.servers, **QUIET, **given})
        try:
            yield consumer
        finally:
            consumer.close()

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, **QUIET})

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            for port in (self._own_port, self._port):
                socket.create_connection((broker_front.HOST, port), _CONNECT_S).close()
            return True
        return False

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        front, self._front = self._front, None
        if front is not None:
            front.kill()
            front.wait()
        if process is None:
            return
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a suspended process handles no signal but SIGKILL
        try:
            process.wait(STOP_S_MAX)
        finally:
            process.kill()
            process.wait()


def send(producer: Producer, topic: str, record: Record, **options: Any) -> None:
    """Queue a record in the producer, which sends it later."""
    if record.timestamp_ms is not None:
        options["timestamp"] = record.timestamp_ms
    while True:  # ends when the queue has room, which flush makes
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
                **options,
            )
        except BufferError:
            producer.poll(_CONNECT_S)
        else:
            producer.poll(0)
            return


def _started(*command: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def free_port() -> int:
    """Return a free port of this machine that the system gives to no outgoing connection.

    Otherwise a connection may take it before the server that it is for has started.
    """
    # drawn from the system, not from a test's seed, because tests run at the same time
    for port in random.SystemRandom().sample(_PORTS, _PORTS_TRIED):
        with socket.socket() as taken, contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return port
    raise UsageError(f"no free port found: {_PORTS_TRIED} are taken")


def _to_the_end(
    consumer: Consumer, topic: str, partitions: Sequence[int], limit_s: float
) -> Iterator[Record]:
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    unread = set(partitions)
    deadline_s = time.monotonic() + limit_s
    while unread:
        assert time.monotonic() < deadline_s, f"{topic}: no end of {unread} in {limit_s} s"
        for message in consumer.consume(_BATCH, _CONNECT_S):
            error = message.error()
            if error is None:
                yield _record(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
            else:
                raise AssertionError(error)


def _record(message: Message) -> Record:
    kind, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or ()
    return Record(
        message.value(),
        message.key(),
        message.partition() or 0,
        timestamp_ms if kind else None,
        tuple(headers),
        message.offset() or 0,
    )


def _dotted(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in config.items()}


def _is_suspended(thread: Path) -> bool:
    """Return whether a thread, by its ``stat`` file, is stopped or has ended."""
    try:
        return thread.read_text().rpartition(")")[2].split()[0] in "TtZX"
    except OSError:
        return True
