"""One shard as this process reads it: its log is read, and claims are committed to it.

Claims that wait for the shard while another thread writes are then committed together, in one
entry.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rvertex.registry.entries import Entry, Ids
from rvertex.registry.errors import RegistryAwayError, RegistryLostError
from rvertex.registry.shard import Shard, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.registry.protocol import ClaimLog

_US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True)
class RegistryLimits:
    """The limits of a registry; all sites must have the same."""

    #: Ids older than this are rejected and deleted.
    keep_us: int = 3 * 86_400 * _US_PER_S
    #: A new number of shards is valid from twice this time after the change on, us.
    margin_us: int = 3_600 * _US_PER_S
    #: Largest difference between the clocks of two sites, us.
    skew_us: int = 60 * _US_PER_S
    #: Most ids per entry.
    entry_ids_max: int = 8192
    #: Number of attempts of an append before the caller gets the error.
    tries: int = 3

    def __post_init__(self) -> None:
        assert 2 * self.skew_us < self.margin_us, "a change of shards begins after all have read it"
        assert min(self.entry_ids_max, self.tries) > 0, self


@dataclass(frozen=True, eq=False, slots=True)
class Claim:
    """The ids of one call in one shard, and their verdicts so far; None: not decided yet."""

    token: str
    next_seq: int
    ids: list[bytes]
    times_us: list[int]
    verdicts: list[Verdict | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.verdicts.extend([None] * len(self.ids))

    def undecided(self, most: int) -> Ids:
        """Return at most ``most`` ids without a verdict."""
        left = [n for n, verdict in enumerate(self.verdicts) if verdict is None][:most]
        return Ids(
            self.token,
            self.next_seq,
            tuple(self.ids[n] for n in left),
            tuple(self.times_us[n] for n in left),
        )


class OpenShard:
    """See the module. Thread-safe."""

    def __init__(self, log: ClaimLog, name: str, number: int, limits: RegistryLimits) -> None:
        """Read the shard's log. ``name`` is the registry's name, for messages."""
        self._log, self._name, self._number, self._limits = log, name, number, limits
        self._shard = Shard(limits.keep_us)
        self._lock = threading.Lock()
        #: Claims of calls that wait for the lock, to be committed together.
        self.waiting: list[Claim] = []
        #: By token: the joiner's items below this seq are delivered, but no entry records that yet.
        self._delivered: dict[str, int] = {}
        self._trimmed_seq = 0

    def look_up(self, claim: Claim) -> None:
        """Add the verdicts on ids that are claimed or too old. Writes nothing."""
        with self._lock:
            self._read(None)
            self._add_verdicts(claim)

    def decide(self, claim: Claim) -> None:
        """Commit the claim, together with all other claims that wait for the shard."""
        self.waiting.append(claim)
        with self._lock:
            if None not in claim.verdicts:  # another thread has committed the claim
                return
            batch = list(dict.fromkeys([claim, *self.waiting]))
            self.waiting = []
            self._read(None)
            for one in batch:
                self._add_verdicts(one)
            # Ends: each write decides some ids
            while batch := [one for one in batch if None in one.verdicts]:
                self._write(batch)
            self._trim()

    def note_delivered(self, token: str, next_seq: int) -> None:
        """Remember that the joiner's items below ``next_seq`` are delivered. Writes nothing yet."""
        with self._lock:
            self._delivered[token] = next_seq

    def flush(self) -> None:
        """Write the deliveries that no entry contains yet."""
        with self._lock:
            notes = self._delivered.items()
            if any(self._shard.has_open(token, next_seq) for token, next_seq in notes):
                self._write(())

    def follow(self) -> None:
        """Read the log to its end."""
        with self._lock:
            self._read(None)

    def undelivered(self) -> dict[bytes, str]:
        """Return the claimed ids without a delivery, with their joiners' tokens."""
        with self._lock:
            return self._shard.undelivered()

    def release(self, token: str) -> None:
        """Release the undelivered ids of a joiner."""
        with self._lock:
            self._read(self._append(Entry(self._shard.floor_us, released=(token,))))

    def _write(self, batch: Sequence[Claim]) -> None:
        """Append one entry, and read the log up to it."""
        left, claims = self._limits.entry_ids_max, []
        for one in batch:
            claims.append(one.undecided(left))
            left -= len(claims[-1].ids)
            if left == 0:
                break
        delivered = tuple(sorted(self._delivered.items()))
        seq = self._append(Entry(self._shard.floor_us, tuple(claims), delivered))
        if seq < self._shard.next_seq:
            reason = f"the log of shard {self._number} starts again at entry {seq}"
            raise RegistryLostError(self._name, reason)
        self._read(seq, batch)
        for token, next_seq in delivered:
            if self._delivered.get(token) == next_seq:
                del self._delivered[token]

    def _append(self, entry: Entry) -> int:
        data = entry.to_bytes()
        for _ in range(self._limits.tries - 1):
            try:
                return self._log.append(self._number, data)
            except RegistryAwayError:
                continue
        return self._log.append(self._number, data)

    def _read(self, last_seq: int | None, batch: Sequence[Claim] = ()) -> None:
        """Apply the entries up to ``last_seq``, or all entries.

        The first verdict on a claim is final.
        """
        rows = {(one.token, id_): (one, n) for one in batch for n, id_ in enumerate(one.ids)}
        shard = self._shard
        is_at_end = False
        while not is_at_end:  # ends with the log or at ``last_seq``, or reading fails
            entries = self._log.read(self._number, shard.next_seq, last_seq)
            for seq, data in entries:
                entry = Entry.from_bytes(data)
                for part, verdicts in zip(entry.claims, shard.apply(seq, entry), strict=True):
                    for id_, verdict in zip(part.ids, verdicts, strict=True):
                        one, n = rows.get((part.token, id_), (None, 0))
                        if one is not None and one.verdicts[n] is None:
                            one.verdicts[n] = verdict
            is_at_end = not entries if last_seq is None else shard.next_seq > last_seq

    def _add_verdicts(self, claim: Claim) -> None:
        for n, (id_, time_us) in enumerate(zip(claim.ids, claim.times_us, strict=True)):
            if claim.verdicts[n] is None:
                claim.verdicts[n] = self._shard.verdict(id_, time_us, claim.token)

    def _trim(self) -> None:
        """Delete entries that no process needs, once for each step of the floor."""
        below = self._shard.trimmable()
        if below > self._trimmed_seq:
            self._log.trim(self._number, below)
            self._trimmed_seq = below
