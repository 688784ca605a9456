"""The header of a checkpoint's manifest, as records.

Headers of other releases can be read: a missing field takes its default, an unknown field is
ignored. So every new field needs a default.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Any, NoReturn

import msgspec
import numpy as np
import pyarrow as pa

from rvertex.checkpoint.chunks import encode_into
from rvertex.errors import CorruptCheckpointError

CHECKSUM_BYTES = 16
#: Bytes of a block of a part. There is a CRC-32 per block, so that a reader of a few rows verifies
#: few bytes.
BLOCK_BYTES = 1 << 13
_CRC = np.dtype("<u4")


class Part(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """A piece stored in a separate file: its path below the root, its bytes and their digest."""

    path: str
    size_bytes: int
    digest: bytes
    #: CRC-32 of the bytes, which is 5 times faster to check than the digest. None: the part has
    #: blocks, or the manifest is old.
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
        sums = len(head), zlib.crc32(head), BLOCK_BYTES, zlib.crc32(crcs)
        return cls(path, data.size, digest, None, *sums)

    def require(self, data: bytes | pa.Buffer, checkpoint: str) -> None:
        """Raise CorruptCheckpointError unless these are the part's bytes."""
        if self.block_bytes:
            crcs = self.block_crcs(data, checkpoint)
            values = memoryview(data)[: -len(crcs) * _CRC.itemsize]
            is_same = _block_crcs(values, self.block_bytes) == crcs
        elif self.crc is None:
            is_same = checksum(data) == self.digest
        else:
            is_same = zlib.crc32(data) == self.crc
        self._require(data, checkpoint, is_same)

    def require_head(self, data: pa.Buffer, checkpoint: str) -> None:
        """Check the bytes before the values, which give the positions of the values."""
        head = memoryview(data)[: self.head_bytes]
        self._require(data, checkpoint, zlib.crc32(head) == self.head_crc)

    def block_crcs(self, data: bytes | pa.Buffer, checkpoint: str) -> list[int]:
        """Return the stored CRC-32 of each block, after a check of their list."""
        crcs = memoryview(data)[len(data) - _list_bytes(len(data), self.block_bytes) :]
        self._require(data, checkpoint, zlib.crc32(crcs) == self.list_crc)
        stored: list[int] = np.frombuffer(crcs, _CRC).tolist()
        return stored

    def _require(self, data: bytes | pa.Buffer, checkpoint: str, is_same: bool) -> None:
        """Raise unless the bytes have the right size and ``is_same``."""
        if len(data) != self.size_bytes or not is_same:
            self.refuse(checkpoint)

    def refuse(self, checkpoint: str) -> NoReturn:
        """Raise the error of a damaged part."""
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


class MappedPart:
    """Checks the bytes of a mapped part, a block at a time or all together."""

    __slots__ = ("_checkpoint", "_crcs", "_data", "_part", "_view", "block_bytes")

    def __init__(self, part: Part, data: pa.Buffer, checkpoint: str) -> None:
        self._part, self._data, self._checkpoint = part, data, checkpoint
        #: After the first check of a block: the bytes without the list, and CRC-32 of each block.
        self._view = memoryview(data)
        self._crcs: list[int] = []
        self.block_bytes = part.block_bytes or part.size_bytes

    def check(self, number: int | None) -> None:
        """Check one block (None: all bytes). Raises as :meth:`Part.require`."""
        part, size = self._part, self.block_bytes
        if number is None or not part.block_bytes:
            part.require(self._data, self._checkpoint)
            return
        if not self._crcs:
            crcs = part.block_crcs(self._data, self._checkpoint)
            self._view = memoryview(self._data)[: -len(crcs) * _CRC.itemsize]
            self._crcs = crcs  # last, since two threads may check the part
        if number >= len(self._crcs):
            return  # the rest of the list
        block = self._view[number * size : (number + 1) * size]
        if zlib.crc32(block) != self._crcs[number]:
            part.refuse(self._checkpoint)


def with_block_crcs(batch: pa.RecordBatch, size: int) -> pa.Buffer:
    """Return the IPC stream of a batch, of ``size`` bytes, and then the CRC-32 of each block."""
    blocks = -(-size // BLOCK_BYTES)
    buffer = pa.allocate_buffer(size + blocks * _CRC.itemsize)
    encode_into(buffer, batch)
    view = memoryview(buffer).cast("B")
    view[size:] = np.array(_block_crcs(view[:size], BLOCK_BYTES), _CRC).tobytes()
    return buffer


def _block_crcs(view: memoryview, size: int) -> list[int]:
    return [zlib.crc32(view[at : at + size]) for at in range(0, len(view), size)]


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
