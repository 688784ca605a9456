"""The state of one shard: a fold over its log, so equal at every process that reads the log.

The first claim of an id in the log has it. A later claim of the same joiner (the same token) is a
retry and succeeds too. An id below the floor is refused, since its claim may have been collected.

The floor follows from the log alone: the newest time of a claim less ``keep_us``, in steps of an
eighth of it. Ids are kept per step, so what the floor has passed goes as a whole.

Invariants: (1) verdicts depend on the entries before and in an entry only; (2) an id that is not
refused is kept if it was ever claimed and not released; (3) entries below :meth:`Shard.trimmable`
may be deleted: a process that begins to read behind them gives the same verdicts, since an entry
with the present floor is among the rest. Source: Photon 2.1, 2.3, 3.3.2.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rvertex.registry.entries import Entry, Ids

#: Steps of the floor within ``keep_us``.
STEPS = 8
#: In place of a token: the output is at its destination.
DELIVERED = ""


class Verdict(Enum):
    """What became of a claim."""

    OURS = "ours"
    TAKEN = "taken"
    OLD = "old"


class Shard:
    """Claimed ids with their tokens."""

    def __init__(self, keep_us: int) -> None:
        assert keep_us >= STEPS, keep_us
        self._step_us, self._keep_us = keep_us // STEPS, keep_us
        #: Per step of time: the tokens by id.
        self._held: dict[int, dict[bytes, str]] = {}
        self._newest_us = int(MIN_TIME)
        self.floor_us = int(MIN_TIME)
        #: The last entry with a greater floor than all before it: its number, and its floor.
        self._raised = (-1, int(MIN_TIME))
        #: The number and the newest time of each entry with claims.
        self._entries: deque[tuple[int, int]] = deque()
        self.next_seq = 0

    def verdict(self, id_: bytes, time_us: int, token: str) -> Verdict | None:
        """What a claim would get; None: it would succeed, and must be written to do so."""
        if time_us < self.floor_us:
            return Verdict.OLD
        holder = self._held.get(time_us // self._step_us, {}).get(id_)
        if holder is None:
            return None
        return Verdict.OURS if holder == token else Verdict.TAKEN

    def apply(self, seq: int, entry: Entry) -> list[list[Verdict]]:
        """Take the entry with this number; the verdicts of its claims."""
        assert seq >= self.next_seq, (seq, self.next_seq)
        self.next_seq = seq + 1
        if entry.floor_us > self._raised[1]:
            self._raised = (seq, entry.floor_us)
        self._raise_floor(entry.floor_us)
        verdicts = [self._claim(part) for part in entry.claims]
        for part in entry.delivered:
            for id_, held in self._own(part):
                held[id_] = DELIVERED
        for part in entry.released:
            for id_, held in self._own(part):
                del held[id_]
        newest_us = entry.newest_us
        if newest_us is not None:
            self._entries.append((seq, newest_us))
            self._newest_us = max(self._newest_us, newest_us)
            self._raise_floor((self._newest_us - self._keep_us) // self._step_us * self._step_us)
        return verdicts

    def trimmable(self) -> int:
        """Entries with lower numbers are not needed any more."""
        seq, floor_us = self._raised
        while self._entries and self._entries[0][1] < floor_us and self._entries[0][0] < seq:
            self._entries.popleft()
        return min(seq, self._entries[0][0]) if self._entries else max(seq, 0)

    def undelivered(self) -> Iterator[tuple[bytes, str]]:
        """Ids that were claimed and whose output has not been noted, with their tokens."""
        for held in self._held.values():
            yield from ((id_, token) for id_, token in held.items() if token != DELIVERED)

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def _claim(self, part: Ids) -> list[Verdict]:
        found = []
        for id_, time_us in zip(part.ids, part.times_us, strict=True):
            verdict = self.verdict(id_, time_us, part.token)
            if verdict is None:
                self._held.setdefault(time_us // self._step_us, {})[id_] = part.token
                verdict = Verdict.OURS
            found.append(verdict)
        return found

    def _own(self, part: Ids) -> Iterator[tuple[bytes, dict[bytes, str]]]:
        """The ids that this joiner holds, with where they are."""
        for id_, time_us in zip(part.ids, part.times_us, strict=True):
            held = self._held.get(time_us // self._step_us, {})
            if held.get(id_) == part.token:
                yield id_, held

    def _raise_floor(self, floor_us: int) -> None:
        if floor_us <= self.floor_us:
            return
        self.floor_us = floor_us
        for step in [step for step in self._held if (step + 1) * self._step_us <= floor_us]:
            del self._held[step]
