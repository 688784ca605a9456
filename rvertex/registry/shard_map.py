"""How many shards a registry has at which time of an id, so that the number may grow meanwhile.

An id belongs to the shard ``hash(id) mod count(time of the id)``, so sites that read different
versions of the map must agree on the count of any id that they claim. A change therefore begins in
the future, ``margin_us`` after the clock of the process that makes it, and a process uses a map it
has read only for ids below :meth:`ShardMap.known_until`.

Invariants: (1) a map only gets changes that begin after all others; (2) if no two clocks differ by
more than ``skew_us``, a change begins at or after ``known_until`` of every map read before it.
Source: Photon 2.2.2.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass

import msgpack

from rstream.types import MIN_TIME

_HASH_BYTES = 8
SHARDS_MAX = 4096


@dataclass(frozen=True, slots=True)
class ShardMap:
    """``counts[i]`` shards for ids from ``starts_us[i]`` on, up to the next start."""

    starts_us: tuple[int, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        assert len(self.starts_us) == len(self.counts) > 0, self
        assert list(self.starts_us) == sorted(set(self.starts_us)), self

    @classmethod
    def of(cls, shards: int) -> ShardMap:
        """The first map of a registry."""
        return cls((MIN_TIME,), (shards,))

    def shard_of(self, id_: bytes, time_us: int) -> int:
        """The shard of an id with this time."""
        count = self.counts[bisect_right(self.starts_us, time_us) - 1]
        digest = hashlib.blake2b(id_, digest_size=_HASH_BYTES).digest()
        return int.from_bytes(digest, "little") % count

    def changed(self, shards: int, now_us: int, margin_us: int) -> ShardMap | None:
        """The map with another number of shards from ``now_us + margin_us`` on.

        None: a later change is planned already.
        """
        start = now_us + margin_us
        if start <= self.starts_us[-1]:
            return None
        return ShardMap((*self.starts_us, start), (*self.counts, shards))

    def to_bytes(self) -> bytes:
        """Stored form."""
        data: bytes = msgpack.packb([1, self.starts_us, self.counts])
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> ShardMap:
        """Read the stored form."""
        version, starts, counts = msgpack.unpackb(data)
        assert version == 1, f"a shard map of version {version}"
        return cls(tuple(starts), tuple(counts))


def known_until_us(read_us: int, margin_us: int, skew_us: int) -> int:
    """Ids below this time have the shards of a map that was read at ``read_us``."""
    return read_us + margin_us - skew_us
