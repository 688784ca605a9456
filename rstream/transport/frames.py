"""Frames on a Unix socket: a kind, two lengths (little-endian), a note, a body.

Invariants: (1) a frame is received completely or not at all; (2) the receiver rejects a frame that
is unexpected or exceeds the limit of its kind before it allocates memory for it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any

import pyarrow as pa

from rstream.errors import OperatingError, error_class

TEXT_BYTES_MAX = 64 << 10
#: Header of a frame: kind, bytes of the note, bytes of the body.
FRAME = struct.Struct("<BIQ")
HELLO, SCHEMA, ITEMS, FAILED, REFUSED = range(5)
#: Largest note and body of a frame, by kind, bytes. For items it is as over Flight, where a row may
#: be large.
BYTES_MAX = {
    HELLO: TEXT_BYTES_MAX,
    SCHEMA: 16 << 20,
    ITEMS: 2 << 30,
    FAILED: TEXT_BYTES_MAX,
    REFUSED: 0,
}


@error_class
class FrameError(OperatingError):
    """An unexpected frame, or one that exceeds the limit of its kind."""

    kind: int
    nbytes: int

    def __str__(self) -> str:
        bytes_max = BYTES_MAX.get(self.kind, 0)
        return (
            f"unexpected frame from a Unix socket: {self.nbytes} bytes of kind "
            f"{self.kind}, at most {bytes_max} bytes are allowed; run the same version on "
            "all hosts, or make rows smaller"
        )


def send(connection: socket.socket, kind: int, note: bytes, body: Any) -> None:
    """Send a frame. Waits for the other end without a time limit."""
    connection.sendall(FRAME.pack(kind, len(note), len(memoryview(body))) + note)
    if len(memoryview(body)):
        connection.sendall(body)


def receive(connection: socket.socket, *due: int) -> tuple[int, bytes, pa.Buffer]:
    """Receive the next frame, of a kind in ``due``. Raises FrameError, or OSError at the end."""
    kind, note_bytes, body_bytes = FRAME.unpack(_exactly(connection, bytearray(FRAME.size)))
    if kind not in due or note_bytes + body_bytes > BYTES_MAX[kind]:
        raise FrameError(kind, note_bytes + body_bytes)
    note = bytes(_exactly(connection, bytearray(note_bytes)))
    body = pa.allocate_buffer(body_bytes)
    _exactly(connection, memoryview(body).cast("B") if body_bytes else bytearray())
    return kind, note, body


def _exactly(connection: socket.socket, into: Any) -> Any:
    view = memoryview(into)
    while view:
        if not (count := connection.recv_into(view, len(view), socket.MSG_WAITALL)):
            raise ConnectionError("the other end has left")
        view = view[count:]
    return into


def end(connection: socket.socket) -> None:
    """End both directions, so that threads which wait at either end continue."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
