"""The streams of a server: takes a post into its log, within the limits, and counts what waits.

Knows nothing of HTTP and Flight, which both go through it; safe to use from many threads. An ack
means durable; whatever else happens is an error, after which the post may be repeated with its
number. Without a number a repeat may be appended twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

from jobmanager.intake.errors import NoProducerError, OverloadedError, UnknownStreamError
from jobmanager.intake.ndjson import decode
from jobmanager.intake.producer import Words, read_producer
from rstream.errors import AppenderBusyError, StoreError
from rstream.intake.appender import Appender

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future

    import pyarrow as pa

    from jobmanager.intake.config import IntakeConfig
    from jobmanager.intake.producer import Producer
    from rstream.intake.producers import Ack, ProducerPosition

#: Bodies that are decoded in the server's own thread; larger ones would hold others up.
INLINE_BYTES_MAX = 64 * 1024
HEADERS = Words("header", "Producer-Id", "Producer-Epoch", "Sequence-Number")


class Room:
    """How much of something may be under way at one time. What is alone always has room."""

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self._lock = threading.Lock()

    def take(self, count: int) -> bool:
        """Take it, unless there is too little left."""
        with self._lock:
            if self.used and self.used + count > self.most:
                return False
            self.used += count
            return True

    def give_back(self, count: int) -> None:
        with self._lock:
            self.used -= count
            assert self.used >= 0, self.used


class IntakeService:
    """Opens the logs of ``config`` as their one writer."""

    def __init__(self, config: IntakeConfig) -> None:
        self.config, self.limits = config, config.limits
        self._appenders: dict[str, Appender] = {}
        limits = self.limits
        self._posts = Room(limits.posts_waiting_max)
        self._rows = Room(limits.rows_in_flight_max)
        self._bytes = Room(limits.bytes_in_flight_max)
        try:
            for name, schema in config.streams.items():
                self._appenders[name] = Appender(
                    config.uri(name), schema, limits=config.append_limits
                )
        except BaseException:
            self.close()
            raise

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The streams and their columns, as Arrow has them."""
        return {name: found.schema for name, found in self._appenders.items()}

    @property
    def streams(self) -> dict[str, dict[str, str]]:
        """The streams and their columns."""
        return {
            name: {f.name: f"{f.type}{'' if f.nullable else ' not null'}" for f in found.schema}
            for name, found in self._appenders.items()
        }

    @property
    def fenced(self) -> list[str]:
        """The streams that another server has taken."""
        return [name for name, found in self._appenders.items() if found.is_fenced]

    def find(self, name: str) -> Appender:
        """The log of a stream. Raises UnknownStreamError."""
        found = self._appenders.get(name)
        if found is None:
            raise UnknownStreamError(name[:100])
        return found

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """Room for one more post. Raises AppenderBusyError."""
        if not self._posts.take(1):
            raise AppenderBusyError(self.config.root, self._posts.used, self._bytes.used)
        try:
            yield
        finally:
            self._posts.give_back(1)

    @contextlib.contextmanager
    def room_for_bytes(self, count: int) -> Iterator[None]:
        """Room for the bytes of a body. Raises OverloadedError."""
        if not self._bytes.take(count):
            raise OverloadedError("bytes of posts", self._bytes.most)
        try:
            yield
        finally:
            self._bytes.give_back(count)

    @contextlib.contextmanager
    def under_way(
        self, name: str, rows: pa.RecordBatch, producer: Producer
    ) -> Iterator[Future[Ack]]:
        """The answer to rows that are on their way into the log; counted until the block ends.

        Raises:
            OverloadedError: too many rows are.
        """
        if not self._rows.take(rows.num_rows):
            raise OverloadedError("rows of posts", self._rows.most)
        try:
            yield self.find(name).submit(
                rows, producer=producer.name, epoch=producer.epoch, number=producer.number
            )
        finally:
            self._rows.give_back(rows.num_rows)

    async def post(
        self, name: str, media_type: str, body: bytes, headers: Mapping[str, str]
    ) -> Ack:
        """Append the rows of a post; returns when they are durable."""
        appender = self.find(name)
        words = (HEADERS.producer, HEADERS.epoch, HEADERS.number)
        producer = read_producer({w: headers[w] for w in words if w in headers}, HEADERS)
        if len(body) <= INLINE_BYTES_MAX:
            rows = decode(name, media_type, body, appender.schema)
        else:
            rows = await asyncio.to_thread(decode, name, media_type, body, appender.schema)
        with self.under_way(name, rows, producer) as future:
            wait_s = self.limits.answer_wait_s
            try:
                return await asyncio.wait_for(asyncio.wrap_future(future), wait_s)
            except TimeoutError:
                raise self.too_late(name) from None

    def too_late(self, name: str) -> StoreError:
        """A post that was not durable in time."""
        wait_s = self.limits.answer_wait_s
        reason = f"not durable after {wait_s:g} s; it may become so: repeat it with its number"
        return StoreError(name, reason)

    def open_producer(self, name: str, producer: str) -> ProducerPosition:
        """Where a producer that starts goes on; the one before is refused from now on."""
        return self.find(name).open_producer(producer)

    def position(self, name: str, producer: str) -> ProducerPosition:
        """Where a producer stands. Raises NoProducerError."""
        found = self.find(name).position(producer)
        if found is None:
            raise NoProducerError(producer)
        return found

    def close(self) -> None:
        """Make durable what is under way, and write it as segments."""
        with contextlib.ExitStack() as all_of_them:
            for appender in self._appenders.values():
                all_of_them.callback(appender.close)
