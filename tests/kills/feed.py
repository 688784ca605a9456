"""Writes events into the topics of a job over time."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.kills.log_feed import LogFeed
from tests.kills.queries import EVENTS, SIDES, JobSpec
from tests.support.brokers import QUIET, Record, send

PARTITIONS = {EVENTS: 4, SIDES: 2}
RATES_PER_S = {EVENTS: 120, SIDES: 30}
KEYS = 20
#: Share of the later events whose key is a customer's.
CUSTOMERS_SHARE = 0.2
#: An event is written up to this long after its time, so events are out of order.
LATENESS_MS_MAX = 300
#: The last partition is silent in every second period of this length, if any partition is, s.
SILENT_S = 4.0
_TICK_S = 0.02
_FLUSH_S_MAX = 120.0


class Feed:
    """Writes until it is stopped; events that a broker does not accept are buffered."""

    def __init__(
        self,
        servers: str,
        topics: dict[str, str],
        seed: int,
        *,
        silent: bool,
        customers: int = 0,
        share: float = 1.0,
    ) -> None:
        """``topics``: the topics of "events" and "sides". ``share``: of the usual rates.

        ``customers``: keys that get one event and one side at the beginning. Some later events have
        such a key, so most of these keys occur once.
        """
        self._topics, self._silent, self._customers = topics, silent, customers
        self._rates_per_s = {name: rate * share for name, rate in RATES_PER_S.items()}
        #: The number of partitions of each topic that get events.
        self.partitions = dict(PARTITIONS)
        self._dice = random.Random(seed)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "linger.ms": 5,
                "enable.idempotence": True,
                "topic.metadata.refresh.interval.ms": 500,
                **QUIET,
            }
        )
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop writing. All written events are in the topics."""
        self._stopped.set()
        self._thread.join()
        assert self._failure is None, self._failure
        left = self._producer.flush(_FLUSH_S_MAX)
        assert not left, f"{left} events were not taken within {_FLUSH_S_MAX} s"

    def close(self) -> None:
        """End the thread; events may be lost. Idempotent."""
        self._stopped.set()
        self._thread.join()

    def add_partition(self, name: str) -> int:
        """Write into one more partition, which the topic already has. Return their number."""
        self.partitions[name] += 1
        return self.partitions[name]

    def _run(self) -> None:
        try:
            for name in reversed(self._topics):  # an event finds its side row
                for customer in range(self._customers):
                    self._send(name, -1 - customer, 0.0)
            started_s, sent = time.monotonic(), dict.fromkeys(self._topics, 0)
            while not self._stopped.wait(_TICK_S):
                elapsed_s = time.monotonic() - started_s
                for name in self._topics:
                    due = int(elapsed_s * self._rates_per_s[name])
                    for number in range(sent[name], due):
                        self._send(name, number, elapsed_s)
                    sent[name] = due
        except BaseException as error:
            self._failure = error

    def _send(self, name: str, number: int, elapsed_s: float) -> None:
        dice, partitions = self._dice, self.partitions[name]
        if name == EVENTS and self._silent and int(elapsed_s / SILENT_S) % 2:
            partitions -= 1
        # In milliseconds: many events have the same time.
        at_ms = time.time_ns() // 1_000_000 - dice.randrange(LATENESS_MS_MAX)
        event = {"id": number, "at": at_ms * 1_000, "key": self._key(number)}
        value = json.dumps({**event, "value": dice.randrange(1_000)}).encode()
        record = Record(value, partition=dice.randrange(partitions))
        try:
            send(self._producer, self._topics[name], record)
        except KafkaException as error:  # the client does not know the partition yet
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            send(self._producer, self._topics[name], replace(record, partition=0))

    def _key(self, number: int) -> int:
        """Return a random key: one of a few frequent ones, or that of a random customer."""
        if number < 0:
            return KEYS - 1 - number
        if self._customers and self._dice.random() < CUSTOMERS_SHARE:
            return KEYS + self._dice.randrange(self._customers)
        return self._dice.randrange(KEYS)


def feed_of(spec: JobSpec, seed: int, *, customers: int = 0, share: float = 1.0) -> Feed | LogFeed:
    """Begin to write the events of a job."""
    if spec.rate:
        return LogFeed(spec.log, spec.rate)
    topics = {name: spec.topic(name) for name in (EVENTS, SIDES)}
    silent = spec.idle == "follow"
    return Feed(spec.servers, topics, seed, silent=silent, customers=customers, share=share)
