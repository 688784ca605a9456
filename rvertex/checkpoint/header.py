"""The header of a checkpoint's manifest, as records.

Headers of other releases can be read: a missing field takes its default, an unknown field is
ignored. So every new field needs a default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class Part:
    """A stored piece: its path below the job's root, its bytes and their digest."""

    path: str
    size_bytes: int
    digest: bytes
    #: CRC-32 of the bytes, which is 5 times faster to check than the digest; None in old manifests.
    crc: int | None = None


class Inline(msgspec.Struct, frozen=True, array_like=True, tag="i"):
    """A piece inside the manifest, by its offset after the header."""

    offset: int
    size_bytes: int


class Stored(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """A piece that is a part."""

    path: str
    size_bytes: int
    digest: bytes
    crc: int | None = None

    @property
    def part(self) -> Part:
        return Part(self.path, self.size_bytes, self.digest, self.crc)


class State(msgspec.Struct):
    """State of an operator: its header and its tables, each as a schema and its pieces."""

    header: dict[Any, Any]
    tables: dict[str, tuple[bytes, list[Inline | Stored]]]


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
