"""Entries of a shard's log: claims of many ids in one commit, and notes of delivered rows."""

from __future__ import annotations

from dataclasses import dataclass

import msgpack

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids of one joiner, with their event times in microseconds."""

    token: str
    #: The ids are delivered once the joiner has delivered its items below this seq.
    next_seq: int
    ids: tuple[bytes, ...]
    times_us: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit. It is applied atomically, in this order: floor, claims, deliveries, releases."""

    #: Ids with earlier times are rejected. It is the floor of the process that wrote the entry, us.
    floor_us: int
    claims: tuple[Ids, ...] = ()
    #: Tokens of joiners, each with the seq below which its items are at the destination.
    delivered: tuple[tuple[str, int], ...] = ()
    #: Tokens of joiners that have ended. Others may claim the ids that these have not delivered.
    released: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        claims = [[part.token, part.next_seq, part.ids, part.times_us] for part in self.claims]
        content = [_VERSION, self.floor_us, claims, self.delivered, self.released]
        data: bytes = msgpack.packb(content)
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Entry:
        """Decode the stored form."""
        version, floor_us, claims, delivered, released = msgpack.unpackb(data)
        assert version == _VERSION, f"an entry of version {version}"
        parts = tuple(Ids(token, seq, tuple(ids), tuple(us)) for token, seq, ids, us in claims)
        notes = tuple((token, next_seq) for token, next_seq in delivered)
        return cls(floor_us, parts, notes, tuple(released))

    @property
    def newest_us(self) -> int | None:
        """The greatest time of a claim; None without claims."""
        return max((max(part.times_us) for part in self.claims if part.times_us), default=None)
