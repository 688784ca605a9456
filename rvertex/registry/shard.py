"""The state of one shard, computed from its log only, so every reader of the log has the same.

The first claim of an id in the log gets the id. A later claim of the same joiner (the same token)
is a retry and succeeds too, until its output is noted. An id below the floor is refused, since its
claim may have been deleted.

The floor follows from the log alone: the newest time of a claim less ``keep_us``, in steps of an
eighth of it, and never beyond an id whose output is not noted. So a site that crashed with claimed
ids still has them when it restarts, however late. Ids are stored per step, so the floor drops whole
steps.

Invariants: (1) verdicts depend on the entries before and in an entry only; (2) an id that is not
refused is kept if it was ever claimed and not released; (3) entries below :meth:`Shard.trimmable`
may be deleted. A process that starts to read after them reaches the same verdicts for all entries
after the newest floor, which is never deleted. Source: Photon 2.1, 2.3, 3.3.2.
"""

from __future__ import annotations

from collections import Counter, deque
from enum import Enum
from typing import TYPE_CHECKING

from rstream.types import MIN_TIME

if TYPE_CHECKING:
    from rvertex.registry.entries import Entry, Ids

#: The floor rises in steps of ``keep_us`` divided by this number.
STEPS = 8

_Key = tuple[int, bytes]


class Verdict(Enum):
    """The result of a claim."""

    OURS = "ours"
    TAKEN = "taken"
    OLD = "old"


class Shard:
    """The claimed ids, and for undelivered ids the tokens of their joiners."""

    def __init__(self, keep_us: int) -> None:
        assert keep_us >= STEPS, keep_us
        self._step_us, self._keep_us = keep_us // STEPS, keep_us
        #: The ids, by step of time.
        self._held: dict[int, set[bytes]] = {}
        #: Ids whose delivery is not noted yet. In turn: the token of each (step, id); the number of
        #: ids per step; per token, the ids of each claim with the seq below which items must be
        #: delivered.
        self._open: dict[_Key, str] = {}
        self._open_steps: Counter[int] = Counter()
        self._parts: dict[str, deque[tuple[int, list[_Key]]]] = {}
        self._newest_us = int(MIN_TIME)
        self.floor_us = int(MIN_TIME)
        #: The last entry that raised the floor: its number, and the floor.
        self._raised = (-1, int(MIN_TIME))
        #: The number and the newest time of each entry with claims.
        self._entries: deque[tuple[int, int]] = deque()
        self.next_seq = 0

    def verdict(self, id_: bytes, time_us: int, token: str) -> Verdict | None:
        """Return the verdict on a claim; None: it succeeds once it has been written."""
        step = time_us // self._step_us
        holder = self._open.get((step, id_))
        if holder is not None:
            return Verdict.OURS if holder == token else Verdict.TAKEN
        if time_us < self.floor_us:
            return Verdict.OLD
        return Verdict.TAKEN if id_ in self._held.get(step, ()) else None

    def apply(self, seq: int, entry: Entry) -> list[list[Verdict]]:
        """Apply the entry with this number; return the verdicts of its claims."""
        assert seq >= self.next_seq, (seq, self.next_seq)
        self.next_seq = seq + 1
        if entry.floor_us > self._raised[1]:
            self._raised = (seq, entry.floor_us)
        self._raise_floor(entry.floor_us)
        verdicts = [self._claim(part) for part in entry.claims]
        for token, next_seq in entry.delivered:
            self._close(token, next_seq)
        for token in entry.released:
            for step, id_ in self._close(token, None):
                self._held[step].discard(id_)
        newest_us = entry.newest_us
        if newest_us is not None:
            self._entries.append((seq, newest_us))
            self._newest_us = max(self._newest_us, newest_us)
        self._raise_floor(self._due_floor_us() // self._step_us * self._step_us)
        return verdicts

    def trimmable(self) -> int:
        """Return the number of the first entry that is still needed."""
        seq, floor_us = self._raised
        while self._entries and self._entries[0][1] < floor_us and self._entries[0][0] < seq:
            self._entries.popleft()
        return min(seq, self._entries[0][0]) if self._entries else max(seq, 0)

    def undelivered(self) -> dict[bytes, str]:
        """Return ids that were claimed and whose output has not been noted, with their tokens."""
        return {id_: token for (_, id_), token in self._open.items()}

    def has_open(self, token: str, next_seq: int) -> bool:
        """Return whether some delivery of the joiner's items below ``next_seq`` is unrecorded."""
        return any(seq <= next_seq for seq, _ in self._parts.get(token, ()))

    def _due_floor_us(self) -> int:
        floor_us = self._newest_us - self._keep_us
        if not self._open_steps:
            return floor_us
        return min(floor_us, min(self._open_steps) * self._step_us)

    def _claim(self, part: Ids) -> list[Verdict]:
        verdicts, new = [], []
        for id_, time_us in zip(part.ids, part.times_us, strict=True):
            verdict = self.verdict(id_, time_us, part.token)
            if verdict is None:
                step = time_us // self._step_us
                self._held.setdefault(step, set()).add(id_)
                self._open[step, id_] = part.token
                self._open_steps[step] += 1
                new.append((step, id_))
                verdict = Verdict.OURS
            verdicts.append(verdict)
        if new:
            self._parts.setdefault(part.token, deque()).append((part.next_seq, new))
        return verdicts

    def _close(self, token: str, next_seq: int | None) -> list[_Key]:
        """Mark ids of a joiner as delivered: ids below ``next_seq``, or all (None)."""
        closed: list[_Key] = []
        left: deque[tuple[int, list[_Key]]] = deque()
        for seq, keys in self._parts.pop(token, ()):
            if next_seq is not None and seq > next_seq:
                left.append((seq, keys))
                continue
            for key in keys:
                if self._open.pop(key, None) is not None:
                    self._open_steps[key[0]] -= 1
                    closed.append(key)
        if left:
            self._parts[token] = left
        self._open_steps = +self._open_steps
        return closed

    def _raise_floor(self, floor_us: int) -> None:
        if floor_us <= self.floor_us:
            return
        self.floor_us = floor_us
        for step in [step for step in self._held if (step + 1) * self._step_us <= floor_us]:
            for id_ in self._held.pop(step):
                if self._open.pop((step, id_), None) is not None:
                    self._open_steps[step] -= 1
        self._open_steps = +self._open_steps
