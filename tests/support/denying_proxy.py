"""A proxy to a Kafka broker in which some answers deny a permission.

The requests reach the broker, but the proxy changes the error code of chosen answers. So the client
library gets the answers of a broker with ACLs, which the broker of the tests lacks.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

#: Keys of requests.
PRODUCE, FIND_COORDINATOR, INIT_PRODUCER_ID = 0, 10, 22
#: Error codes for a missing permission.
NO_TOPIC, NO_GROUP, NO_TRANSACTION = 29, 30, 53
#: From these versions on, headers and texts of answers are compact.
_COMPACT_FROM = {PRODUCE: 9, FIND_COORDINATOR: 3, INIT_PRODUCER_ID: 2}


class DenyingProxy:
    """A proxy to a broker on 127.0.0.1; its answers direct clients back to the proxy."""

    def __init__(self, servers: str) -> None:
        host, _, port = servers.rpartition(":")
        self._broker = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.servers = f"127.0.0.1:{self._listener.getsockname()[1]}"
        #: The error code per key of a denied request.
        self.denied: dict[int, int] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> DenyingProxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:  # until the listener is closed
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._broker)
                asked: dict[int, tuple[int, int]] = {}
                for giver, taker in ((client, broker), (broker, client)):
                    args = (giver, taker, asked, giver is client)
                    threading.Thread(target=self._carry, args=args, daemon=True).start()

    def _carry(
        self,
        giver: socket.socket,
        taker: socket.socket,
        asked: dict[int, tuple[int, int]],
        is_request: bool,
    ) -> None:
        """Forward each frame; ``asked``: key and version by the number of the request."""
        with contextlib.suppress(OSError, EOFError):
            while True:  # until one end is closed
                frame = _read(giver, *struct.unpack(">i", _read(giver, 4)))
                if is_request:
                    key, version, number = struct.unpack(">hhi", frame[:8])
                    asked[number] = key, version
                else:
                    frame = self._answer(frame, *asked.pop(struct.unpack(">i", frame[:4])[0]))
                taker.sendall(struct.pack(">i", len(frame)) + frame)
        for end in (giver, taker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _answer(self, frame: bytes, key: int, version: int) -> bytes:
        """The answer with the proxy's address instead of the broker's; an error if it is denied."""
        theirs, ours = (
            b"127.0.0.1" + struct.pack(">i", int(port))
            for port in (self._broker[1], self.servers.rpartition(":")[2])
        )
        frame = frame.replace(theirs, ours)
        if key not in self.denied:
            return frame
        at = _error_at(frame, key, version)
        return frame[:at] + struct.pack(">h", self.denied[key]) + frame[at + 2 :]


def _error_at(frame: bytes, key: int, version: int) -> int:
    """Return the offset of the error code: after number, times and the first topic's name."""
    is_compact = version >= _COMPACT_FROM[key]
    at = 5 if is_compact else 4
    if key == FIND_COORDINATOR:
        return at + (4 if version >= 1 else 0)
    if key == INIT_PRODUCER_ID:
        return at + 4
    if is_compact:  # lengths are stored plus one, here in one byte
        return at + 1 + 1 + frame[at + 1] - 1 + 1 + 4
    (length,) = struct.unpack(">h", frame[at + 4 : at + 6])
    return at + 4 + 2 + int(length) + 4 + 4


def _read(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = end.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data
