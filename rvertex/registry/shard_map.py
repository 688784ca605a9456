"""The number of shards of a registry by the time of ids, so that it can grow during use.

An id belongs to the shard ``hash(id) mod count(time of the id)``, so sites that have read different
versions of the map must agree on the count of any id that they claim. A process uses a map only for
ids below its :meth:`ShardMap.known_until_us`. A change is proposed with a start two margins ahead,
and confirmed if the proposal was stored within one margin. No id with a time at or after the start
of a proposal is claimed until the proposal is confirmed or withdrawn.

Invariants: (1) changes begin one after another; (2) if no two clocks differ by more than
``skew_us``, a change that is confirmed begins at or after the end of every map read before it was
proposed: such a map was read at most ``skew_us`` after the proposal was stored, by its clock.
Source: Photon 2.2.2; differs: there a change counts from its writing, however long that takes.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass, replace

import msgpack

from rstream.errors import UsageError
from rstream.types import MIN_TIME
from rvertex.registry.errors import RegistryUseError

_VERSION = 2
_US_PER_HOUR = 3_600_000_000
_HASH_BYTES = 8
SHARDS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Use:
    """The purpose for which the first site opened the registry. All sites must have the same."""

    #: The name of the rows whose ids are claimed.
    answer: str
    keep_us: int

    def compare(self, registry: str, other: Use) -> None:
        """Raise RegistryUseError if another site has opened the registry for another purpose."""
        if self.answer != other.answer:
            raise RegistryUseError(registry, "answer", self.answer, other.answer)
        if self.keep_us != other.keep_us:
            hours = (f"{use.keep_us / _US_PER_HOUR:g} h" for use in (self, other))
            raise RegistryUseError(registry, "keep", *hours)


@dataclass(frozen=True, slots=True)
class ShardMap:
    """There are ``counts[i]`` shards for ids from ``starts_us[i]`` on, up to the next start."""

    starts_us: tuple[int, ...]
    counts: tuple[int, ...]
    #: Whether the last change of the number of shards is confirmed.
    is_confirmed: bool = True
    #: Stored with the map, because the map is the only value of the registry that can be replaced.
    use: Use | None = None

    def __post_init__(self) -> None:
        assert len(self.starts_us) == len(self.counts) > 0, self
        assert list(self.starts_us) == sorted(set(self.starts_us)), self

    @classmethod
    def of(cls, shards: int) -> ShardMap:
        """Return the first map of a registry."""
        return cls((MIN_TIME,), (shards,))

    def shard_of(self, id_: bytes, time_us: int) -> int:
        """Return the shard of an id with this time."""
        count = self.counts[bisect_right(self.starts_us, time_us) - 1]
        digest = hashlib.blake2b(id_, digest_size=_HASH_BYTES).digest()
        return int.from_bytes(digest, "little") % count

    def proposed(self, shards: int, now_us: int, margin_us: int) -> ShardMap | None:
        """Return the map with a proposal of another number of shards, two margins ahead.

        Returns None if another change is already planned.
        """
        assert self.is_confirmed, self
        start = now_us + 2 * margin_us
        if start <= self.starts_us[-1]:
            return None
        starts_us, counts = (*self.starts_us, start), (*self.counts, shards)
        return replace(self, starts_us=starts_us, counts=counts, is_confirmed=False)

    def confirmed(self) -> ShardMap:
        """Return the map in which the proposal is a confirmed change."""
        return replace(self, is_confirmed=True)

    def withdrawn(self) -> ShardMap:
        """Return the map without its proposal."""
        assert not self.is_confirmed, self
        starts_us, counts = self.starts_us[:-1], self.counts[:-1]
        return replace(self, starts_us=starts_us, counts=counts, is_confirmed=True)

    def known_until_us(self, read_us: int, margin_us: int, skew_us: int) -> int:
        """Return the time below which all ids have the shards of this map, us.

        The map was read at ``read_us``.
        """
        until_us = read_us + margin_us - skew_us
        return until_us if self.is_confirmed else min(until_us, self.starts_us[-1])

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        use = None if self.use is None else [self.use.answer, self.use.keep_us]
        content = [_VERSION, self.starts_us, self.counts, self.is_confirmed, use]
        data: bytes = msgpack.packb(content)
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> ShardMap:
        """Decode the stored form.

        Version 1 has no ``use``, so the next site that opens it stores one.

        Raises:
            UsageError: a newer release has written it.
        """
        version, *fields = msgpack.unpackb(data)
        if version > _VERSION:
            raise UsageError(
                f"the registry's shard map has version {version}, and this release reads versions "
                f"up to {_VERSION}; install the release of the other sites here"
            )
        starts, counts, is_confirmed, use = fields if version == _VERSION else (*fields, None)
        return cls(tuple(starts), tuple(counts), is_confirmed, None if use is None else Use(*use))
