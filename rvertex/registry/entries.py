"""Entries of a shard's log: claims of many ids in one commit, and notes that outputs are there."""

from __future__ import annotations

from dataclasses import dataclass

import msgpack

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids of one joiner, with their event times in microseconds."""

    token: str
    ids: tuple[bytes, ...]
    times_us: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit. It counts as a whole and in this order: floor, claims, outputs, releases."""

    #: Ids below are refused; the floor of the process that wrote the entry.
    floor_us: int
    claims: tuple[Ids, ...] = ()
    #: The outputs of these ids are at their destination: tokens are not needed any more.
    delivered: tuple[Ids, ...] = ()
    #: The joiner is gone and has not delivered them: another one may claim them.
    released: tuple[Ids, ...] = ()

    def to_bytes(self) -> bytes:
        """Stored form."""
        kinds = [_packed(kind) for kind in (self.claims, self.delivered, self.released)]
        data: bytes = msgpack.packb([_VERSION, self.floor_us, *kinds])
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Entry:
        """Read the stored form."""
        version, floor_us, *kinds = msgpack.unpackb(data)
        assert version == _VERSION, f"an entry of version {version}"
        return cls(floor_us, *(tuple(_ids(part) for part in kind) for kind in kinds))

    @property
    def newest_us(self) -> int | None:
        """The greatest time of a claim; None without claims."""
        return max((max(part.times_us) for part in self.claims if part.times_us), default=None)


def _packed(parts: tuple[Ids, ...]) -> list[list[object]]:
    return [[part.token, part.ids, part.times_us] for part in parts]


def _ids(part: list[object]) -> Ids:
    token, ids, times_us = part
    assert isinstance(token, str)
    assert isinstance(ids, list)
    assert isinstance(times_us, list)
    return Ids(token, tuple(ids), tuple(times_us))
