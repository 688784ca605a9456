"""``python broker_front.py BROKER_PORT PORT``: makes a broker answer fetches as Kafka's do.

The broker that installs from PyPI answers a fetch at once when it has nothing, so an idle consumer
asks for rows ten thousand times a second, and takes most of a processor, the broker another. This
stands in front of it, and keeps an empty answer back until something was written or the wait that
the consumer asked for is over.

It also tells each consumer of all transactions that were ever aborted, so the client hides what
their producers commit later. Those that ended before the rows of a fetch, as somebody has read
here, are left out of its answer. All else passes as it is. Requests of a connection are answered in
their order, as Kafka answers them.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS, END_TRANSACTION = 0, 1, 3, 10, 18, 26
#: The newest version of a fetch that is understood here; newer ones are not offered to clients.
FETCH_VERSION_MAX = 11
#: From this version on a fetch has what its answer is parsed by.
FETCH_VERSION_MIN = 7
_WRITES = (PRODUCE, END_TRANSACTION)
_HEADER = struct.Struct(">hhih")
_SIZE, _OFFSET, _ABORTED = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">qq")
#: From this version on a fetch names the epoch of each partition's leader.
LEADER_EPOCH_VERSION = 9
_BATCH_BYTES_MIN, _IS_CONTROL, _ABORT_KEY = 61, 0x20, b"\0\0\0\0"


#: Where an abort was read: topic, partition, producer and first offset of its transaction.
Aborts: TypeAlias = dict[tuple[bytes, int, int, int], int]


@dataclass(eq=False, slots=True)
class Asked:
    """A request and, once it is there, its answer."""

    frame: bytes
    key: int
    version: int
    #: Of a fetch that is understood; other answers pass as they are.
    fetch: Fetch | None = None
    #: Until then an empty answer is kept back, s of the loop's clock.
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
        self.aborts: Aborts = {}

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
            asked.fetch = Fetch(frame, version, 4 + _HEADER.size + max(0, name_bytes))
            asked.until_s = self._loop.time() + asked.fetch.wait_ms / 1e3
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
        elif asked.fetch is not None:
            frame, is_empty = asked.fetch.answer(frame, self._front.aborts)
            if is_empty and asked.until_s > self._loop.time():
                self._wait(asked, frame)
                return
        asked.answer = frame
        self._flush()
        if asked.key in _WRITES:
            self._front.written()

    def _wait(self, asked: Asked, empty: bytes) -> None:
        if asked.writes != self._front.writes:  # since it was sent
            self._send(asked)
        else:
            asked.is_waiting = True
            self._loop.call_at(asked.until_s, self._give, asked, empty)

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


class Fetch:
    """A fetch: how long it may wait, and from which offsets on rows are asked for."""

    def __init__(self, frame: bytes, version: int, at: int) -> None:
        """``at``: where the body of the request begins."""
        self._version = version
        self.wait_ms: int = _SIZE.unpack_from(frame, at + 4)[0]
        self._offsets: dict[tuple[bytes, int], int] = {}
        (topics,) = _SIZE.unpack_from(frame, at + 25)
        at += 29
        skipped = 4 if version >= LEADER_EPOCH_VERSION else 0
        for _ in range(topics):
            topic, partitions, at = _topic(frame, at)
            for _ in range(partitions):
                (partition,) = _SIZE.unpack_from(frame, at)
                (self._offsets[topic, partition],) = _OFFSET.unpack_from(frame, at + 4 + skipped)
                at += 24 + skipped

    def answer(self, frame: bytes, aborts: Aborts) -> tuple[bytes, bool]:
        """The answer as Kafka would give it, and whether it has neither rows nor an error.

        ``aborts`` gets those that stand in it.
        """
        error, _, topics = struct.unpack_from(">hii", frame, 12)
        at, kept, is_empty = 22, [frame[4:22]], not error
        if error:
            return frame, False
        for _ in range(topics):
            start = at
            topic, partitions, at = _topic(frame, at)
            kept.append(frame[start:at])
            for _ in range(partitions):
                partition, failed, aborted = struct.unpack_from(">ih24xi", frame, at)
                kept.append(frame[at : at + 30])
                at += 34
                told = [_ABORTED.unpack_from(frame, at + 16 * k) for k in range(max(0, aborted))]
                at += 16 * len(told)
                start, at = at, at + (4 if self._version >= FETCH_VERSION_MAX else 0)
                (row_bytes,) = _SIZE.unpack_from(frame, at)
                at += 4 + max(0, row_bytes)
                where, first = (topic, partition), self._offsets.get((topic, partition), 0)
                left = [t for t in told if aborts.get((*where, *t), first) >= first]
                kept.append(_SIZE.pack(len(left) if aborted >= 0 else -1))
                kept += [_ABORTED.pack(*t) for t in left]
                kept.append(frame[start:at])
                for offset, producer in _read_aborts(frame, at - max(0, row_bytes), at):
                    begun = [since for p, since in told if p == producer and since < offset]
                    if begun:
                        aborts.setdefault((*where, producer, max(begun)), offset)
                is_empty = is_empty and not failed and row_bytes <= 0
        body = b"".join(kept)
        return _SIZE.pack(len(body)) + body, is_empty


def _topic(frame: bytes, at: int) -> tuple[bytes, int, int]:
    """A topic's name, how many partitions follow, and where."""
    (name_bytes,) = struct.unpack_from(">h", frame, at)
    end = at + 2 + name_bytes
    return frame[at + 2 : end], _SIZE.unpack_from(frame, end)[0], end + 4


def _read_aborts(frame: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Offset and producer of each marker of an abort among batches of records."""
    while at + _BATCH_BYTES_MIN <= end:
        offset, batch_bytes = struct.unpack_from(">qi", frame, at)
        (attributes,) = struct.unpack_from(">h", frame, at + 21)
        if attributes & _IS_CONTROL:
            (producer,) = _OFFSET.unpack_from(frame, at + 43)
            # Of the marker's only record: length, attributes, time, offset, key: version, type.
            if frame[at + 61 + 5 : at + 61 + 9] == _ABORT_KEY:
                yield offset, producer
        at += 12 + batch_bytes


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
