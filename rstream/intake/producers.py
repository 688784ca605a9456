"""The producers of a log and the last number of each, so that a repeat is not appended twice.

A producer numbers its appends densely from 0. A higher epoch of the same producer continues the
numbers and fences the lower epochs. The table is a function of the log's commits: a change is
applied in memory only after its commit is durable.

Invariants: (1) each (producer, number) is recorded once, in order; (2) epochs never decrease; (3)
the table has at most ``producers_max`` producers. Pure: does no I/O, reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rstream.errors import (
    ProducerFencedError,
    ProducerGapError,
    TooManyProducersError,
    UnknownProducerError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Number of newest appends per producer whose seqs are kept, to answer a repeat with them.
ACKS_KEPT = 5


@dataclass(frozen=True, slots=True)
class Ack:
    """Acknowledges rows that are durable: ``first_seq`` to ``last_seq``, both inclusive."""

    #: None if the append is a repeat whose seqs are no longer kept.
    first_seq: int | None
    last_seq: int | None
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class ProducerPosition:
    """The epoch and next number of a producer."""

    producer: str
    epoch: int
    next_number: int


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a producer by a commit. ``number`` None: only a new epoch."""

    producer: str
    epoch: int
    number: int | None = None
    first_seq: int = 0
    last_seq: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """The state of one producer."""

    epoch: int = 0
    #: The producer's last number; -1: it has appended no rows.
    number: int = -1
    #: When the producer last appended, us.
    time_us: int = 0
    #: (number, first seq, last seq) of the newest numbers, in order.
    acks: tuple[tuple[int, int, int], ...] = ()

    def ack(self, number: int) -> Ack:
        """Return the Ack for a repeat of ``number``."""
        assert number <= self.number, (number, self.number)
        for acked, first_seq, last_seq in self.acks:
            if acked == number:
                return Ack(first_seq, last_seq, is_repeat=True)
        return Ack(None, None, is_repeat=True)

    def after(self, change: Change, time_us: int) -> Known:
        """Return the state after a commit at ``time_us``."""
        assert change.epoch >= self.epoch, (change, self)
        if change.number is None:
            return replace(self, epoch=change.epoch, time_us=time_us)
        assert change.number == self.number + 1, (change, self)
        ack = (change.number, change.first_seq, change.last_seq)
        return Known(change.epoch, change.number, time_us, (*self.acks, ack)[-ACKS_KEPT:])


class ProducerTable:
    """The states of all producers of a log."""

    def __init__(self, known: dict[str, Known] | None = None) -> None:
        self._known = known or {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, producer: str) -> Known | None:
        return self._known.get(producer)

    def apply(self, changes: Iterable[Change], time_us: int) -> None:
        """Apply the changes of a durable commit."""
        for change in changes:
            before = self._known.get(change.producer, Known())
            self._known[change.producer] = before.after(change, time_us)

    def forget_before(self, time_us: int) -> None:
        """Remove the producers that last appended before ``time_us``."""
        self._known = {p: known for p, known in self._known.items() if known.time_us >= time_us}

    def pack(self) -> list[Any]:
        """Encode for msgpack."""
        return [[p, k.epoch, k.number, k.time_us, k.acks] for p, k in self._known.items()]

    @classmethod
    def unpack(cls, packed: list[Any]) -> ProducerTable:
        """Decode the result of :meth:`pack`."""
        known = {
            str(p): Known(int(epoch), int(number), int(time_us), tuple(map(tuple, acks)))
            for p, epoch, number, time_us, acks, *_ in packed
        }
        return cls(known)


class StagedChanges:
    """Changes of a commit in preparation, on top of the table. They are discarded if it fails."""

    def __init__(self, log: str, table: ProducerTable, producers_max: int) -> None:
        self._log, self._table, self._producers_max = log, table, producers_max
        self._known: dict[str, Known] = {}
        self._new = 0
        self.changes: list[Change] = []

    def check(self, producer: str, epoch: int, number: int) -> Ack | None:
        """Return the Ack of a repeat; None if it is the next number.

        Raises:
            ProducerFencedError, ProducerGapError, UnknownProducerError, TooManyProducersError.
        """
        known = self._at(producer, epoch)
        if number <= known.number:
            if epoch > known.epoch:  # this commit fences the previous epoch
                self._stage(Change(producer, epoch))
            return known.ack(number)
        if number > known.number + 1:
            if self._get(producer) is None:
                raise UnknownProducerError(self._log, producer, number)
            raise ProducerGapError(self._log, producer, number, known.number + 1)
        return None

    def note(self, change: Change) -> None:
        """Record a number that the commit contains."""
        self._stage(change)

    def open(self, producer: str, epoch: int | None) -> ProducerPosition:
        """Fence the lower epochs of a producer. ``epoch`` None: one more than the newest epoch.

        Raises:
            ProducerFencedError, TooManyProducersError.
        """
        before = self._get(producer)
        epoch = epoch if epoch is not None else 0 if before is None else before.epoch + 1
        known = self._at(producer, epoch)
        if before is None or epoch > known.epoch:
            self._stage(Change(producer, epoch))
        return ProducerPosition(producer, epoch, known.number + 1)

    def _get(self, producer: str) -> Known | None:
        return self._known.get(producer) or self._table.get(producer)

    def _at(self, producer: str, epoch: int) -> Known:
        known = self._get(producer)
        if known is None:
            if len(self._table) + self._new >= self._producers_max:
                raise TooManyProducersError(self._log, self._producers_max)
            return Known()
        if epoch < known.epoch:
            raise ProducerFencedError(self._log, producer, epoch, known.epoch)
        return known

    def _stage(self, change: Change) -> None:
        self._new += self._get(change.producer) is None
        before = self._get(change.producer) or Known()
        self._known[change.producer] = before.after(change, 0)
        self.changes.append(change)
