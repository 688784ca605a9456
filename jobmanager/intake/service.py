"""The streams of a server: appends posts to logs within the limits, and counts unanswered posts.

HTTP and Flight both use it, and it depends on neither. It is safe to use from many threads. An
acknowledgement means that the rows are durable. Any other outcome is an error, after which the
producer may repeat the post with the same number. Without a number, a repeated post may be appended
twice.
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

#: Bodies up to this size, in bytes, are decoded in the thread of the event loop. Larger ones would
#: delay other requests there.
INLINE_BYTES_MAX = 64 * 1024
HEADERS = Words("header", "Producer-Id", "Producer-Epoch", "Sequence-Number")


class Room:
    """A limit on a sum, such as the bytes of unanswered posts.

    A request that is alone is accepted even if it exceeds the limit.
    """

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0
        self._lock = threading.Lock()

    def take(self, count: int) -> bool:
        """Reserve ``count`` if the limit allows it. Return whether it did."""
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
    """The streams of one server. It opens the logs of ``config``, and must be their only writer."""

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
        """The streams with their Arrow schemas."""
        return {name: appender.schema for name, appender in self._appenders.items()}

    @property
    def streams(self) -> dict[str, dict[str, str]]:
        """The streams with their columns and types as text."""
        return {
            name: {f.name: f"{f.type}{'' if f.nullable else ' not null'}" for f in appender.schema}
            for name, appender in self._appenders.items()
        }

    @property
    def fenced(self) -> list[str]:
        """The streams whose logs another server has taken over."""
        return [name for name, appender in self._appenders.items() if appender.is_fenced]

    def find(self, name: str) -> Appender:
        """Return the log of a stream. Raises UnknownStreamError."""
        appender = self._appenders.get(name)
        if appender is None:
            raise UnknownStreamError(name[:100])
        return appender

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """Count one more unanswered post until the block ends.

        Raises AppenderBusyError: too many.
        """
        if not self._posts.take(1):
            raise AppenderBusyError(self.config.root, self._posts.used, self._bytes.used)
        try:
            yield
        finally:
            self._posts.give_back(1)

    @contextlib.contextmanager
    def room_for_bytes(self, count: int) -> Iterator[None]:
        """Count the bytes of a body until the block ends. Raises OverloadedError: too many."""
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
        """Append rows and yield the future acknowledgement.

        The rows count as unanswered in the block.

        Raises:
            OverloadedError: too many rows are unanswered.
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
        """Append the rows of a post. Return when they are durable."""
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
        """Return the error for a post that was not durable in time."""
        wait_s = self.limits.answer_wait_s
        reason = f"not durable after {wait_s:g} s; it may still become so: repeat it by its number"
        return StoreError(name, reason)

    def open_producer(self, name: str, producer: str) -> ProducerPosition:
        """Open a producer and return its position.

        A former session of the producer can append no more.
        """
        return self.find(name).open_producer(producer)

    def position(self, name: str, producer: str) -> ProducerPosition:
        """Return the position of a producer. Raises NoProducerError."""
        position = self.find(name).position(producer)
        if position is None:
            raise NoProducerError(producer)
        return position

    def close(self) -> None:
        """Make all accepted rows durable, and write them as segments."""
        with contextlib.ExitStack() as all_of_them:
            for appender in self._appenders.values():
                all_of_them.callback(appender.close)
