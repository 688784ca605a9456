"""The header of a checkpoint's manifest, as records.

Headers of other releases can be read: a missing field takes its default, an unknown field is
ignored. So every new field needs a default.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from rvertex.errors import CorruptCheckpointError

CHECKSUM_BYTES = 16
#: Bytes of a block of a part. There is a CRC-32 per block, so that a reader of a few rows verifies
#: few bytes.
BLOCK_BYTES = 1 << 15
_CRC = np.dtype("<u4")


class Part(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """A piece stored in a separate file: its path below the root, its bytes and their digest."""

    path: str
    size_bytes: int
    digest: bytes
    #: CRC-32 of the bytes, which is 5 times faster to check than the digest; None in old manifests.
    crc: int | None = None
    #: Bytes before the values of the piece, and their CRC-32; 0 in older manifests.
    head_bytes: int = 0
    head_crc: int = 0
    #: Bytes of a block, and CRC-32 of the list of the blocks' CRC-32s, which is at the end of the
    #: part; 0 in older manifests, whose parts have no list.
    block_bytes: int = 0
    list_crc: int = 0

    @classmethod
    def of(cls, path: str, data: pa.Buffer, digest: bytes) -> Part:
        """Describe a part with these bytes, from :func:`with_block_crcs`."""
        head, view = _head(data), memoryview(data)
        crcs = view[len(view) - _list_bytes(len(view), BLOCK_BYTES) :]
        sums = zlib.crc32(data), len(head), zlib.crc32(head), BLOCK_BYTES, zlib.crc32(crcs)
        return cls(path, data.size, digest, *sums)

    def require(self, data: bytes | pa.Buffer, checkpoint: str) -> None:
        """Raise CorruptCheckpointError unless these are the part's bytes."""
        if self.crc is None:
            is_same = checksum(data) == self.digest
        else:
            is_same = zlib.crc32(data) == self.crc
        self._require(data, checkpoint, is_same)

    def require_head(self, data: pa.Buffer, checkpoint: str) -> None:
        """Check the bytes before the values, which give the positions of the values."""
        head = memoryview(data)[: self.head_bytes]
        self._require(data, checkpoint, zlib.crc32(head) == self.head_crc)

    def require_block(self, number: int, data: pa.Buffer, checkpoint: str) -> None:
        """Check one block; without a list of blocks, all bytes."""
        size = self.block_bytes
        if not size:
            self.require(data, checkpoint)
            return
        view = memoryview(data)
        start = len(view) - _list_bytes(len(view), size)
        is_same = zlib.crc32(view[start:]) == self.list_crc
        if is_same and number * size < start:  # otherwise the block is part of the list
            block = view[number * size : min((number + 1) * size, start)]
            is_same = zlib.crc32(block) == np.frombuffer(view[start:], _CRC)[number]
        self._require(data, checkpoint, is_same)

    def _require(self, data: bytes | pa.Buffer, checkpoint: str, is_same: bool) -> None:
        if len(data) != self.size_bytes or not is_same:
            reason = f"the checksum of its part {self.path} does not match"
            raise CorruptCheckpointError(checkpoint, reason)


def _head(data: pa.Buffer) -> memoryview:
    """Return the bytes of a stored piece before its values; empty if it has dictionaries."""
    messages = pa.ipc.MessageReader.open_stream(data)
    messages.read_next_message()  # the schema
    message = messages.read_next_message()
    body = message.body
    if message.type != "record batch" or not body.size:
        return memoryview(b"")
    return memoryview(data)[: body.address - data.address]


def with_block_crcs(data: pa.Buffer) -> pa.Buffer:
    """Return the bytes of an IPC stream, and after its end the CRC-32 of each block."""
    view = memoryview(data)
    starts = range(0, len(view), BLOCK_BYTES)
    crcs = np.array([zlib.crc32(view[at : at + BLOCK_BYTES]) for at in starts], _CRC)
    return pa.py_buffer(b"".join([view, crcs.tobytes()]))


def _list_bytes(size: int, block: int) -> int:
    """Return the bytes of the list at the end of a part of ``size`` bytes."""
    return -(-size // (block + _CRC.itemsize)) * _CRC.itemsize


def checksum(data: bytes | memoryview | pa.Buffer) -> bytes:
    """Return the digest of a manifest or a part."""
    return hashlib.blake2b(data, digest_size=CHECKSUM_BYTES).digest()


class Inline(msgspec.Struct, frozen=True, array_like=True, tag="i"):
    """A piece inside the manifest, by its offset after the header."""

    offset: int
    size_bytes: int


class State(msgspec.Struct):
    """State of an operator: its header and its tables, each as a schema and its pieces."""

    header: dict[Any, Any]
    tables: dict[str, tuple[bytes, list[Inline | Part]]]


class Replay(msgspec.Struct):
    """The start of a replay, and the scalar state of the input side at that point."""

    inputs: tuple[int, ...]
    header: dict[Any, Any]


class Header(msgspec.Struct):
    """The header of a manifest. A field that is added has a default."""

    vertex: str
    state_schema: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    digests: tuple[bytes, ...]
    states: list[State]
    events_in: int = 0
    events_out: int = 0
    is_final: bool = False
    replay_from: Replay | None = None


ENCODER, DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Header)
