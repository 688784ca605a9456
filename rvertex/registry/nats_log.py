"""The logs of a registry on NATS servers with JetStream: a stream per shard, three replicas each.

An append returns when a majority of the servers has the entry. Set ``sync_interval: always`` on the
servers: without it they keep entries in the page cache for up to two minutes, and a power loss of
all of them may lose acknowledged entries.

The client is asynchronous, so it has its own thread; calls from any thread wait for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

import nats
from nats.errors import Error as NatsError
from nats.js.api import RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, BadRequestError, NotFoundError

from rvertex.registry.errors import RegistryAwayError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from nats.aio.client import Client

T = TypeVar("T")

#: Time-outs of one request to the servers, and of a call with all its retries, s.
REQUEST_S, CALL_S = 2.0, 15.0
_PAUSE_S = 0.1
#: Pause before an acknowledged entry is read again from a replica that lacked it, s.
_BEHIND_S = 0.002
_READ_MAX = 256
_WRONG_LAST_SEQUENCE = 10071
_AWAY = (NatsError, OSError, asyncio.TimeoutError)


class NatsLog:
    """Implements :class:`rvertex.registry.protocol.ClaimLog`."""

    def __init__(self, servers: Sequence[str], name: str, *, replicas: int = 3) -> None:
        self._servers, self._name, self._replicas = list(servers), name, replicas
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"registry-{name}", daemon=True
        )
        self._thread.start()
        self._client: Client | None = None
        self._streams: set[str] = set()

    def append(self, shard: int, data: bytes) -> int:
        """Implement :class:`ClaimLog`.

        Makes one attempt: only the caller knows whether a retry is safe.
        """
        stream = self._stream(shard)

        async def publish() -> int:
            js = await self._jetstream(stream)
            return int((await js.publish(stream, data, timeout=REQUEST_S)).seq)

        return self._tried(publish, once=True)

    def read(self, shard: int, next_seq: int, until_seq: int | None) -> list[tuple[int, bytes]]:
        """Implement :class:`ClaimLog`."""
        stream = self._stream(shard)

        async def fetch() -> list[tuple[int, bytes]]:
            js = await self._jetstream(stream)
            entries: list[tuple[int, bytes]] = []
            while len(entries) < _READ_MAX:  # ends at the end of the log
                seq = entries[-1][0] + 1 if entries else next_seq
                try:
                    message = await js.get_msg(
                        stream, max(seq, 1), subject=stream, direct=True, next=True
                    )
                except NotFoundError:
                    if entries or until_seq is None:
                        break
                    await asyncio.sleep(_BEHIND_S)
                    continue
                assert message.seq is not None
                entries.append((message.seq, message.data or b""))
                if until_seq is not None and message.seq >= until_seq:
                    break
            return entries

        return self._tried(fetch)

    def trim(self, shard: int, below_seq: int) -> None:
        """Implement :class:`ClaimLog`."""
        stream = self._stream(shard)

        async def purge() -> None:
            js = await self._jetstream(stream)
            await js.purge_stream(stream, seq=below_seq)

        self._tried(purge)

    def read_map(self) -> tuple[int, bytes] | None:
        """See :class:`ClaimLog`. Reads from the leader, because another replica may lag behind."""
        stream = f"{self._name}-map"

        async def last() -> tuple[int, bytes] | None:
            js = await self._jetstream(stream)
            try:
                message = await js.get_msg(stream, subject=stream)
            except NotFoundError:
                return None
            assert message.seq is not None
            return message.seq, message.data or b""

        return self._tried(last)

    def write_map(self, data: bytes, version: int | None) -> bool:
        """Implement :class:`ClaimLog`."""
        stream = f"{self._name}-map"
        headers = {"Nats-Expected-Last-Subject-Sequence": str(version or 0)}

        async def publish() -> bool:
            js = await self._jetstream(stream)
            try:
                await js.publish(stream, data, timeout=REQUEST_S, headers=headers)
            except BadRequestError as error:
                if error.err_code != _WRONG_LAST_SEQUENCE:
                    raise
                stored = await js.get_msg(stream, subject=stream)
                # An earlier attempt wrote this map, but its reply was lost
                return bool(stored.data == data)
            return True

        return self._tried(publish)

    def close(self) -> None:
        """Close the connection and end the thread; idempotent."""
        if not self._thread.is_alive():
            return
        if self._client is not None:
            self._wait(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _stream(self, shard: int) -> str:
        return f"{self._name}-{shard}"

    async def _jetstream(self, stream: str) -> Any:
        """Return the client; create the stream if it does not exist."""
        if self._client is None:
            self._client = await nats.connect(
                self._servers,
                max_reconnect_attempts=-1,
                reconnect_time_wait=_PAUSE_S,
                connect_timeout=REQUEST_S,
                allow_reconnect=True,
                error_cb=_ignored,
            )
        js = self._client.jetstream(timeout=REQUEST_S)
        if stream not in self._streams:
            try:
                await js.stream_info(stream)
            except NotFoundError:
                await js.add_stream(
                    StreamConfig(
                        name=stream,
                        subjects=[stream],
                        num_replicas=self._replicas,
                        retention=RetentionPolicy.LIMITS,
                        storage=StorageType.FILE,
                        allow_direct=not stream.endswith("-map"),
                        max_age=0,
                    )
                )
            self._streams.add(stream)
        return js

    def _tried(self, call: Callable[[], Coroutine[Any, Any, T]], *, once: bool = False) -> T:
        """Return the result of a call, which is retried while the servers are unreachable."""
        deadline_s = time.monotonic() + CALL_S
        while True:  # ends at the deadline
            try:
                return self._wait(asyncio.wait_for(call(), CALL_S))
            except (*_AWAY, APIError) as error:
                self._streams.clear()  # a deleted stream is created again, empty
                if once or time.monotonic() > deadline_s:
                    reason = f"no answer from {', '.join(self._servers)} ({error!r:.120})"
                    raise RegistryAwayError(self._name, reason) from error
            time.sleep(_PAUSE_S)

    def _wait(self, call: Awaitable[T]) -> T:
        return asyncio.run_coroutine_threadsafe(_awaited(call), self._loop).result()


async def _awaited(call: Awaitable[T]) -> T:
    return await call


async def _ignored(error: Exception) -> None:
    """Ignore a connection error, because each call reports its own error."""
