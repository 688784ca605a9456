"""``python broker_front.py BROKER_PORT PORT``: a proxy that makes a broker respond as Kafka does.

The broker from PyPI responds to a fetch immediately even if it has no rows. So an idle consumer
fetches 10,000 times a second, and consumer and broker take a processor each. The proxy delays an
empty response until a record is written or the fetch's wait has passed.

The broker also lists all transactions that were ever aborted. So a client hides records that the
same producers commit later. The proxy removes aborts that ended before the fetched rows. Everything
else passes unchanged. Responses of a connection keep the order of its requests.
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
#: The newest version of fetch requests that the proxy can parse; clients are offered no newer one.
FETCH_VERSION_MAX = 11
#: The oldest version of fetch requests whose responses the proxy can parse.
FETCH_VERSION_MIN = 7
_WRITES = (PRODUCE, END_TRANSACTION)
_HEADER = struct.Struct(">hhih")
_SIZE, _OFFSET, _ABORTED = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">qq")
#: The first version of fetch requests with the epoch of each partition's leader.
LEADER_EPOCH_VERSION = 9
_BATCH_BYTES_MIN, _IS_CONTROL, _ABORT_KEY = 61, 0x20, b"\0\0\0\0"


#: (Topic, partition, producer, first offset of the transaction) -> offset of the abort marker.
Aborts: TypeAlias = dict[tuple[bytes, int, int, int], int]


@dataclass(eq=False, slots=True)
class Pending:
    """A request and, once received, its response."""

    frame: bytes
    key: int
    version: int
    #: Set for a fetch that the proxy parses; other responses pass unchanged.
    fetch: Fetch | None = None
    #: An empty response is delayed until then, s on the event loop's clock.
    until_s: float = 0.0
    answer: bytes | None = None
    #: The proxy's count of writes when the request was last sent.
    writes: int = 0
    #: Whether its response was empty: then it is sent again after the next write.
    is_waiting: bool = False


class Front:
    """All connections: a write in one connection wakes waiting fetches of the others."""

    def __init__(self, broker_port: int, port: int) -> None:
        self.broker_port, self.port = broker_port, port
        self.links: set[Link] = set()
        #: The number of writes so far.
        self.writes = 0
        self.aborts: Aborts = {}

    def written(self) -> None:
        """Count a write, and send waiting fetches again."""
        self.writes += 1
        for link in self.links:
            link.resend_waiting()

    async def serve(self) -> None:
        """Serve until the process ends."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ClientSide(self), HOST, self.port)
        await server.serve_forever()


class Frames(asyncio.Protocol):
    """Splits received bytes into messages, each with its size in front."""

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
    """A client's connection to the proxy."""

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
    """The proxy's connection to the broker for one client."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def frame(self, frame: bytes) -> None:
        self._link.response(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.close()


class Link:
    """A client's connection and its broker connection; responses keep the order of requests."""

    def __init__(self, front: Front, client: ClientSide) -> None:
        self._front, self._client = front, client
        self._broker: BrokerSide | None = None
        self._early: list[Pending] = []
        self._sent: deque[Pending] = deque()
        self._due: deque[Pending] = deque()
        self._loop = asyncio.get_running_loop()

    async def open(self) -> None:
        """Connect to the broker; if that fails, the client's connection is closed."""
        try:
            _, self._broker = await self._loop.create_connection(
                lambda: BrokerSide(self), HOST, self._front.broker_port
            )
        except OSError:
            self.close()
            return
        self._front.links.add(self)
        for pending in self._early:
            self._send(pending)
        self._early.clear()

    def close(self) -> None:
        """Close both connections; idempotent."""
        self._front.links.discard(self)
        for side in (self._client, self._broker):
            if side is not None and side.transport is not None:
                side.transport.close()

    def request(self, frame: bytes) -> None:
        """Forward a client's request."""
        key, version, _, name_bytes = _HEADER.unpack_from(frame, 4)
        pending = Pending(frame, key, version)
        if key == FETCH and version >= FETCH_VERSION_MIN:
            pending.fetch = Fetch(frame, version, 4 + _HEADER.size + max(0, name_bytes))
            pending.until_s = self._loop.time() + pending.fetch.wait_ms / 1e3
        self._due.append(pending)
        if self._broker is None:
            self._early.append(pending)
        else:
            self._send(pending)

    def response(self, frame: bytes) -> None:
        """Match a frame of the broker with the oldest request."""
        pending = self._sent.popleft()
        if pending.key in (METADATA, FIND_COORDINATOR):
            frame = frame.replace(_address(self._front.broker_port), _address(self._front.port))
        elif pending.key == API_VERSIONS:
            frame = _with_fetches_that_are_understood(frame)
        elif pending.fetch is not None:
            frame, is_empty = pending.fetch.answer(frame, self._front.aborts)
            if is_empty and pending.until_s > self._loop.time():
                self._wait(pending, frame)
                return
        pending.answer = frame
        self._flush()
        if pending.key in _WRITES:
            self._front.written()

    def _wait(self, pending: Pending, empty: bytes) -> None:
        if pending.writes != self._front.writes:  # rows were written since the fetch was sent
            self._send(pending)
        else:
            pending.is_waiting = True
            self._loop.call_at(pending.until_s, self._give, pending, empty)

    def resend_waiting(self) -> None:
        """Send waiting fetches again, because there may be new rows."""
        for pending in self._due:
            if pending.is_waiting:
                pending.is_waiting = False
                self._send(pending)

    def _give(self, pending: Pending, empty: bytes) -> None:
        """Send the empty response when its wait is over, unless the fetch was sent again."""
        if pending.is_waiting:
            pending.is_waiting, pending.answer = False, empty
            self._flush()

    def _send(self, pending: Pending) -> None:
        pending.writes = self._front.writes
        self._sent.append(pending)
        assert self._broker is not None
        assert self._broker.transport is not None
        self._broker.transport.write(pending.frame)

    def _flush(self) -> None:
        while self._due and self._due[0].answer is not None:
            answer = self._due.popleft().answer
            if self._client.transport is not None and answer is not None:
                self._client.transport.write(answer)


class Fetch:
    """A fetch request: its longest wait, and the offsets to read from."""

    def __init__(self, frame: bytes, version: int, at: int) -> None:
        """Parse a request; ``at``: the offset of the request's body in ``frame``."""
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
        """Correct a response to Kafka's form; return it, and whether it has no rows and no error.

        Adds the aborts in the response to ``aborts``.
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
                listed = [_ABORTED.unpack_from(frame, at + 16 * k) for k in range(max(0, aborted))]
                at += 16 * len(listed)
                start, at = at, at + (4 if self._version >= FETCH_VERSION_MAX else 0)
                (row_bytes,) = _SIZE.unpack_from(frame, at)
                at += 4 + max(0, row_bytes)
                where, first = (topic, partition), self._offsets.get((topic, partition), 0)
                left = [t for t in listed if aborts.get((*where, *t), first) >= first]
                kept.append(_SIZE.pack(len(left) if aborted >= 0 else -1))
                kept += [_ABORTED.pack(*t) for t in left]
                kept.append(frame[start:at])
                for offset, producer in _read_aborts(frame, at - max(0, row_bytes), at):
                    begun = [since for p, since in listed if p == producer and since < offset]
                    if begun:
                        aborts.setdefault((*where, producer, max(begun)), offset)
                is_empty = is_empty and not failed and row_bytes <= 0
        body = b"".join(kept)
        return _SIZE.pack(len(body)) + body, is_empty


def _topic(frame: bytes, at: int) -> tuple[bytes, int, int]:
    """Parse a topic: its name, the number of partitions, and the offset of the first one."""
    (name_bytes,) = struct.unpack_from(">h", frame, at)
    end = at + 2 + name_bytes
    return frame[at + 2 : end], _SIZE.unpack_from(frame, end)[0], end + 4


def _read_aborts(frame: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the offset and the producer of each abort marker in batches of records."""
    while at + _BATCH_BYTES_MIN <= end:
        offset, batch_bytes = struct.unpack_from(">qi", frame, at)
        (attributes,) = struct.unpack_from(">h", frame, at + 21)
        if attributes & _IS_CONTROL:
            (producer,) = _OFFSET.unpack_from(frame, at + 43)
            # A marker has one record: length, attributes, time, offset, then the key with version
            # and type.
            if frame[at + 61 + 5 : at + 61 + 9] == _ABORT_KEY:
                yield offset, producer
        at += 12 + batch_bytes


def _address(port: int) -> bytes:
    """Return a broker's address in metadata responses; the encoding is the same in all versions."""
    return HOST.encode() + _SIZE.pack(port)


def _with_fetches_that_are_understood(frame: bytes) -> bytes:
    for newest in range(FETCH_VERSION_MAX + 1, 20):
        offered = struct.pack(">hhh", FETCH, 0, newest)
        frame = frame.replace(offered, struct.pack(">hhh", FETCH, 0, FETCH_VERSION_MAX))
    return frame


if __name__ == "__main__":
    asyncio.run(Front(int(sys.argv[1]), int(sys.argv[2])).serve())
