"""Claims ids for joiners at several sites: each id is granted to one of them.

A claim is an entry in the log of the id's shard. Its result follows from the log
(:mod:`rvertex.registry.shard`), so no server is needed: each process reads the logs
(:mod:`rvertex.registry.open_shard`).

An append whose reply was lost is repeated with the same token. The first copy in the log decides,
and at the second one the joiner already has the id.

Ids are looked up before they are claimed. So a site that lags behind writes nothing for ids that
another site has, and catches up at the speed of reading.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from rstream.errors import StreamEngineError
from rvertex.registry.errors import (
    RegistryAwayError,
    RegistryChangeError,
    RegistryLostError,
    RegistryTimeError,
)
from rvertex.registry.open_shard import Claim, OpenShard, RegistryLimits
from rvertex.registry.shard_map import SHARDS_MAX, ShardMap, Use

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from rstream.clock import Clock
    from rvertex.registry.protocol import ClaimLog
    from rvertex.registry.shard import Verdict

_US_PER_S = 1_000_000


class IdRegistry:
    """See the module. Thread-safe. One per process and registry, so that threads share commits."""

    def __init__(
        self,
        log: ClaimLog,
        clock: Clock,
        name: str,
        limits: RegistryLimits,
        *,
        shards: int = 1,
        pool: Executor | None = None,
    ) -> None:
        """Open the registry ``name``. ``shards``: their number if the registry is new.

        ``pool``: threads that read shards in parallel.
        """
        self._for_each = map if pool is None else pool.map
        self._log, self._clock, self._name = log, clock, name
        self._limits, self._shards, self._lock = limits, shards, threading.Lock()
        self._open: dict[int, OpenShard] = {}
        self._map: ShardMap | None = None
        self._known_until_us = 0

    @property
    def ahead_max_us(self) -> int:
        """How far the time of an id may be ahead of the clock."""
        return self._limits.margin_us - self._limits.skew_us

    def claim(
        self, token: str, ids: Sequence[bytes], times_us: Sequence[int], next_seq: int
    ) -> list[Verdict]:
        """Claim ids for a joiner; return each id's verdict. A repeated call returns the same.

        The ids are delivered once the joiner has delivered its items below ``next_seq``.

        Raises:
            RegistryAwayError: the result is unknown; call again with the same token.
            RegistryTimeError: a time is too far ahead of the clock.
        """
        verdicts = self._by_shard(token, ids, times_us, next_seq, OpenShard.decide)
        decided = [verdict for verdict in verdicts if verdict is not None]
        assert len(decided) == len(ids)
        return decided

    def look_up(
        self, token: str, ids: Sequence[bytes], times_us: Sequence[int]
    ) -> list[Verdict | None]:
        """Return the verdicts of ids that are claimed or too old; None: a claim would succeed.

        It writes nothing. An id is ``OURS`` from its claim until its delivery is recorded.

        Raises:
            RegistryAwayError, RegistryTimeError: as :meth:`claim`.
        """
        return self._by_shard(token, ids, times_us, 0, OpenShard.look_up)

    def _by_shard(
        self,
        token: str,
        ids: Sequence[bytes],
        times_us: Sequence[int],
        next_seq: int,
        act: Callable[[OpenShard, Claim], None],
    ) -> list[Verdict | None]:
        shard_map = self._map_for(max(times_us, default=0))
        rows: dict[int, list[int]] = {}
        for row, (id_, time_us) in enumerate(zip(ids, times_us, strict=True)):
            rows.setdefault(shard_map.shard_of(id_, time_us), []).append(row)
        verdicts: list[Verdict | None] = [None] * len(ids)
        claims = {}
        for number, some in sorted(rows.items()):
            times = [times_us[n] for n in some]
            claims[number] = Claim(token, next_seq, [ids[n] for n in some], times)
        shards = [self._opened(number) for number in claims]

        def attempt(shard: OpenShard, claim: Claim) -> StreamEngineError | None:
            try:
                act(shard, claim)
            except StreamEngineError as error:
                return error
            return None

        # Wait for all threads, so that none of them still writes after the call.
        for error in list(self._for_each(attempt, shards, claims.values())):
            if error is not None:
                raise error
        for number, claim in claims.items():
            for row, verdict in zip(rows[number], claim.verdicts, strict=True):
                verdicts[row] = verdict
        return verdicts

    def delivered(self, token: str, next_seq: int) -> None:
        """Record that the joiner's items below ``next_seq`` are delivered. Writes nothing yet."""
        for shard in list(self._open.values()):
            shard.note_delivered(token, next_seq)

    def flush(self) -> None:
        """Write the recorded deliveries that no entry contains yet."""
        for _, shard in sorted(self._open.items()):
            shard.flush()

    def create(self) -> None:
        """Create the registry, if it does not exist."""
        if self._log.read_map() is None:
            self._stored_map()

    def use_for(self, answer: str) -> None:
        """Record which rows the registry is for, if this is the first site; otherwise compare.

        Raises:
            RegistryUseError: another site opened it for other rows, or with another ``keep_us``.
        """
        use = Use(answer, self._limits.keep_us)
        while True:  # ends when no other process changes the map between read and write
            # a proposed map has no ``use`` either, so keep it
            version, current = self._load_map()
            if current.use is not None:
                current.use.compare(self._name, use)
                return
            if self._log.write_map(replace(current, use=use).to_bytes(), version):
                return

    def reset_use(self) -> None:
        """Delete the record of which rows the registry is for; the next site sets it.

        Stop all sites first.
        """
        version, current = self._stored_map()
        if not self._log.write_map(replace(current, use=None).to_bytes(), version):
            raise RegistryChangeError(self._name, "another process is changing it")

    def resume(self, token: str, next_seq: int, *, has_claimed: bool = False) -> None:
        """Record deliveries that an earlier instance of the joiner could not record.

        ``has_claimed``: whether the joiner has claimed ids, so that the registry must exist.

        Raises:
            RegistryLostError: the registry does not exist.
        """
        if has_claimed and self._log.read_map() is None:
            raise RegistryLostError(
                self._name, f"its streams are empty, although {token} has claimed ids in it"
            )
        for shard in self._followed():
            shard.note_delivered(token, next_seq)
        self.flush()

    def undelivered(self) -> dict[bytes, str]:
        """Return claimed ids that are not recorded as delivered, with their joiners' tokens."""
        tokens: dict[bytes, str] = {}
        for shard in self._followed():
            tokens.update(shard.undelivered())
        return tokens

    def release(self, token: str, next_seq: int) -> None:
        """Release the ids that a joiner has claimed and not delivered. The joiner must have ended.

        The destination has the joiner's items below ``next_seq``, so their ids stay claimed.
        """
        self.resume(token, next_seq)
        for shard in self._followed():
            shard.release(token)

    def _followed(self) -> list[OpenShard]:
        """Return all shards, with their logs read to the end."""
        shards = [self._opened(number) for number in range(max(self._map_for(0).counts))]
        for shard in shards:
            shard.follow()
        return shards

    def change_shards(self, shards: int) -> int:
        """Change the number of shards from a near future time on; return that time, us.

        Raises:
            RegistryAwayError: the change failed, or may have failed.
        """
        if not 0 < shards <= SHARDS_MAX:
            raise RegistryChangeError(self._name, f"1 to {SHARDS_MAX} shards, not {shards}")
        version, current = self._stored_map()
        now_us, margin_us = self._clock.now_us(), self._limits.margin_us
        proposed = current.proposed(shards, now_us, margin_us)
        if proposed is None:
            raise RegistryChangeError(self._name, "an earlier change has not started yet")
        if not self._log.write_map(proposed.to_bytes(), version):
            raise RegistryChangeError(self._name, "another process is changing it")
        if self._clock.now_us() > now_us + margin_us:
            self._stored_map()
            raise RegistryAwayError(self._name, "writing the shard map took too long")
        while True:  # ends: only ``use_for`` can write the same proposal again, and only once
            version, stored = self._load_map()
            if replace(stored, use=proposed.use) != proposed:
                raise RegistryChangeError(self._name, "another process is changing it")
            if self._log.write_map(stored.confirmed().to_bytes(), version):
                break
        return proposed.starts_us[-1]

    def _stored_map(self) -> tuple[int, ShardMap]:
        """Return the map and its version. Withdraw a proposed change first."""
        while True:  # ends when no other process changes the map between read and write
            version, shard_map = self._load_map()
            if shard_map.is_confirmed:
                return version, shard_map
            self._log.write_map(shard_map.withdrawn().to_bytes(), version)

    def _load_map(self) -> tuple[int, ShardMap]:
        """Return the map and its version. Create the map if there is none."""
        while (stored := self._log.read_map()) is None:  # ends when some process has created it
            self._log.write_map(ShardMap.of(self._shards).to_bytes(), None)
        return stored[0], ShardMap.from_bytes(stored[1])

    def _map_for(self, time_us: int) -> ShardMap:
        """Return a map that is valid for ids up to this time."""
        with self._lock:
            if self._map is None or time_us >= self._known_until_us:
                self._read_map()
            if time_us >= self._known_until_us:  # the process that proposed the change has crashed
                read_us = self._clock.now_us()
                self._stored_map()
                self._read_map()
                if time_us >= self._known_until_us:
                    limits = self._limits
                    ahead_us = limits.margin_us - limits.skew_us
                    raise RegistryTimeError(
                        self._name, (time_us - read_us) / _US_PER_S, ahead_us / _US_PER_S
                    )
            assert self._map is not None
            return self._map

    def _read_map(self) -> None:
        read_us, limits = self._clock.now_us(), self._limits
        stored = self._log.read_map()
        shard_map = ShardMap.from_bytes(stored[1]) if stored else self._stored_map()[1]
        self._known_until_us = shard_map.known_until_us(read_us, limits.margin_us, limits.skew_us)
        self._map = shard_map

    def _opened(self, number: int) -> OpenShard:
        with self._lock:
            if number not in self._open:
                self._open[number] = OpenShard(self._log, self._name, number, self._limits)
            return self._open[number]
