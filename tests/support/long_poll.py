"""``python long_poll.py BROKER_PORT PORT``: makes a broker wait as Kafka's do.

The broker that installs from PyPI answers a fetch at once when it has nothing, so an idle consumer
asks for rows ten thousand times a second, and takes most of a processor, the broker another. This
stands in front of it, and keeps an empty answer back until something was written or the wait that
the consumer asked for is over; the rest passes as it is. Requests of a connection are answered in
their order, as Kafka answers them.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections import deque
from dataclasses import dataclass

HOST = "127.0.0.1"
PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS, END_TRANSACTION = 0, 1, 3, 10, 18, 26
#: The newest version of a fetch that is understood here; newer ones are not offered to clients.
FETCH_VERSION_MAX = 11
#: From this version on a fetch has what its answer is parsed by.
FETCH_VERSION_MIN = 7
_WRITES = (PRODUCE, END_TRANSACTION)
_HEADER = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")


@dataclass(eq=False, slots=True)
class Asked:
    """A request and, once it is there, its answer."""

    frame: bytes
    key: int
    version: int
    #: Until then an empty answer is kept back, s of the loop's clock; 0: it is not.
    until_s: float = 0.0
    answer: bytes | None = None
    #: What had been written when it was last sent.
    writes: int = 0
    #: Its answer was empty, and it is to be asked again.
    is_waiting: bool = False


class Front:
    """All connections: what is written in one wakes fetches of the others."""

    def __init__(self, broker_port: int, port: int) -> None:
        self.broker_port, self.port = broker_port, port
        self.links: set[Link] = set()
        #: How often something was written.
        self.writes = 0

    def written(self) -> None:
        """Something was: who waits asks again."""
        self.writes += 1
        for link in self.links:
            link.ask_again()

    async def serve(self) -> None:
        """Until the process is ended."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ClientSide(self), HOST, self.port)
        await server.serve_forever()


class Frames(asyncio.Protocol):
    """Cuts what comes into messages, which begin with their size."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        at = 0
        while len(self._buffer) >= at + 4:
            end = at + 4 + _SIZE.unpack_from(self._buffer, at)[0]
            if len(self._buffer) < end:
                break
            self.frame(bytes(self._buffer[at:end]))
            at = end
        del self._buffer[:at]

    def frame(self, frame: bytes) -> None:
        raise NotImplementedError


class ClientSide(Frames):
    """A connection that a client has opened."""

    def __init__(self, front: Front) -> None:
        super().__init__()
        self._front = front
        self._link = Link(front, self)
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._opening = asyncio.get_running_loop().create_task(self._link.open())

    def frame(self, frame: bytes) -> None:
        self._link.request(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.close()


class BrokerSide(Frames):
    """The connection to the broker that belongs to it."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def frame(self, frame: bytes) -> None:
        self._link.response(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.close()


class Link:
    """A client's connection and the broker's; answers leave in the order of the requests."""

    def __init__(self, front: Front, client: ClientSide) -> None:
        self._front, self._client = front, client
        self._broker: BrokerSide | None = None
        self._early: list[Asked] = []
        self._sent: deque[Asked] = deque()
        self._due: deque[Asked] = deque()
        self._loop = asyncio.get_running_loop()

    async def open(self) -> None:
        """Reach the broker; without it the client finds its connection closed."""
        try:
            _, self._broker = await self._loop.create_connection(
                lambda: BrokerSide(self), HOST, self._front.broker_port
            )
        except OSError:
            self.close()
            return
        self._front.links.add(self)
        for asked in self._early:
            self._send(asked)
        self._early.clear()

    def close(self) -> None:
        """Both sides; idempotent."""
        self._front.links.discard(self)
        for side in (self._client, self._broker):
            if side is not None and side.transport is not None:
                side.transport.close()

    def request(self, frame: bytes) -> None:
        """The client asks."""
        key, version, _, name_bytes = _HEADER.unpack_from(frame, 4)
        asked = Asked(frame, key, version)
        if key == FETCH and version >= FETCH_VERSION_MIN:
            (wait_ms,) = _SIZE.unpack_from(frame, 4 + _HEADER.size + max(0, name_bytes) + 4)
            asked.until_s = self._loop.time() + wait_ms / 1e3
        self._due.append(asked)
        if self._broker is None:
            self._early.append(asked)
        else:
            self._send(asked)

    def response(self, frame: bytes) -> None:
        """The broker answers what it was asked first."""
        asked = self._sent.popleft()
        if asked.key in (METADATA, FIND_COORDINATOR):
            frame = frame.replace(_address(self._front.broker_port), _address(self._front.port))
        elif asked.key == API_VERSIONS:
            frame = _with_fetches_that_are_understood(frame)
        elif asked.until_s > self._loop.time() and is_empty(frame, asked.version):
            if asked.writes != self._front.writes:
                self._send(asked)
                return
            asked.is_waiting = True
            self._loop.call_at(asked.until_s, self._give, asked, frame)
            return
        asked.answer = frame
        self._flush()
        if asked.key in _WRITES:
            self._front.written()

    def ask_again(self) -> None:
        """What waits, because there may be rows."""
        for asked in self._due:
            if asked.is_waiting:
                asked.is_waiting = False
                self._send(asked)

    def _give(self, asked: Asked, empty: bytes) -> None:
        """Its time is over; if it was asked again, that answer is on its way."""
        if asked.is_waiting:
            asked.is_waiting, asked.answer = False, empty
            self._flush()

    def _send(self, asked: Asked) -> None:
        asked.writes = self._front.writes
        self._sent.append(asked)
        assert self._broker is not None
        assert self._broker.transport is not None
        self._broker.transport.write(asked.frame)

    def _flush(self) -> None:
        while self._due and self._due[0].answer is not None:
            answer = self._due.popleft().answer
            if self._client.transport is not None and answer is not None:
                self._client.transport.write(answer)


def is_empty(frame: bytes, version: int) -> bool:
    """Whether the answer to a fetch has neither rows nor an error."""
    error, _, topics = struct.unpack_from(">hii", frame, 12)
    at = 22
    if error:
        return False
    for _ in range(topics):
        (name_bytes,) = struct.unpack_from(">h", frame, at)
        (partitions,) = _SIZE.unpack_from(frame, at + 2 + name_bytes)
        at += 6 + name_bytes
        for _ in range(partitions):
            error, aborted = struct.unpack_from(">4xh24xi", frame, at)
            at += 34 + 16 * max(0, aborted) + (4 if version >= FETCH_VERSION_MAX else 0)
            (row_bytes,) = _SIZE.unpack_from(frame, at)
            at += 4 + max(0, row_bytes)
            if error or row_bytes > 0:
                return False
    return True


def _address(port: int) -> bytes:
    """As brokers are told, in all versions."""
    return HOST.encode() + _SIZE.pack(port)


def _with_fetches_that_are_understood(frame: bytes) -> bytes:
    for newest in range(FETCH_VERSION_MAX + 1, 20):
        offered = struct.pack(">hhh", FETCH, 0, newest)
        frame = frame.replace(offered, struct.pack(">hhh", FETCH, 0, FETCH_VERSION_MAX))
    return frame


if __name__ == "__main__":
    asyncio.run(Front(int(sys.argv[1]), int(sys.argv[2])).serve())
