"""The streams of a server: takes a post into its log, within the limits, and counts what waits.

Knows nothing of HTTP. An ack means durable; whatever else happens is an error, after which the post
may be repeated with its number. Without a number a repeat may be appended twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from jobmanager.intake.errors import OverloadedError, PostError, UnknownStreamError
from jobmanager.intake.ndjson import decode
from rstream.errors import AppenderBusyError, StoreError
from rstream.intake.appender import Appender

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future

    from jobmanager.intake.config import IntakeConfig
    from rstream.intake.producers import Ack, ProducerPosition

#: Bodies that are decoded in the server's own thread; larger ones would hold others up.
INLINE_BYTES_MAX = 64 * 1024
PRODUCER, EPOCH, NUMBER = "producer-id", "producer-epoch", "sequence-number"


class IntakeService:
    """Opens the logs of ``config`` as their one writer."""

    def __init__(self, config: IntakeConfig) -> None:
        self.config, self.limits = config, config.limits
        self._appenders: dict[str, Appender] = {}
        self._posts = self._rows = self._bytes = 0
        try:
            for name, schema in config.streams.items():
                limits = config.append_limits
                self._appenders[name] = Appender(config.uri(name), schema, limits=limits)
        except BaseException:
            self.close()
            raise

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
        if self._posts >= self.limits.posts_waiting_max:
            raise AppenderBusyError(self.config.root, self._posts, self._bytes)
        self._posts += 1
        try:
            yield
        finally:
            self._posts -= 1

    @contextlib.contextmanager
    def room_for_bytes(self, count: int) -> Iterator[None]:
        """Room for the bytes of a body. Raises OverloadedError."""
        most = self.limits.bytes_in_flight_max
        if self._bytes and self._bytes + count > most:
            raise OverloadedError("bytes of posts", most)
        self._bytes += count
        try:
            yield
        finally:
            self._bytes -= count

    async def post(
        self, name: str, media_type: str, body: bytes, headers: Mapping[str, str]
    ) -> Ack:
        """Append the rows of a post; returns when they are durable."""
        appender = self.find(name)
        producer, epoch, number = _producer(headers)
        if len(body) <= INLINE_BYTES_MAX:
            rows = decode(name, media_type, body, appender.schema)
        else:
            rows = await asyncio.to_thread(decode, name, media_type, body, appender.schema)
        with self._room_for_rows(rows.num_rows):
            future = appender.submit(rows, producer=producer, epoch=epoch, number=number)
            return await self._answer(name, future)

    async def open_producer(self, name: str, producer: str) -> ProducerPosition:
        """Where a producer that starts goes on; the one before is refused from now on."""
        appender = self.find(name)
        return await asyncio.to_thread(appender.open_producer, producer)

    def close(self) -> None:
        """Make durable what is under way, and write it as segments."""
        with contextlib.ExitStack() as all_of_them:
            for appender in self._appenders.values():
                all_of_them.callback(appender.close)

    async def _answer(self, name: str, future: Future[Ack]) -> Ack:
        wait_s = self.limits.answer_wait_s
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), wait_s)
        except TimeoutError:
            reason = f"not durable after {wait_s:g} s; it may become so: repeat it with its number"
            raise StoreError(name, reason) from None

    @contextlib.contextmanager
    def _room_for_rows(self, count: int) -> Iterator[None]:
        most = self.limits.rows_in_flight_max
        if self._rows and self._rows + count > most:
            raise OverloadedError("rows of posts", most)
        self._rows += count
        try:
            yield
        finally:
            self._rows -= count


def _producer(headers: Mapping[str, str]) -> tuple[str | None, int, int | None]:
    """The producer, its epoch and its number; without a producer, nothing."""
    producer = headers.get(PRODUCER)
    if producer is None:
        for name in (EPOCH, NUMBER):
            if name in headers:
                raise PostError(f"header {name.title()} needs Producer-Id")
        return None, 0, None
    if NUMBER not in headers:
        raise PostError("header Producer-Id needs Sequence-Number, dense from 0")
    return producer, _count(headers, EPOCH, "0"), _count(headers, NUMBER)


def _count(headers: Mapping[str, str], name: str, default: str = "") -> int:
    text = headers.get(name, default)
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise PostError(f"header {name.title()} is a number from 0 on, not {text[:80]!r}")
    return int(text)
