"""Producers of a log: which number each gave last, so that a repeat is not appended twice.

The numbers of a producer are dense from 0. A higher epoch of the same producer goes on with them
and fences the lower ones. The table is a function of the log's commits: it changes in memory only
after the commit that says so is durable.

Invariants: (1) each (producer, number) is noted once, in order; (2) epochs never decrease; (3) the
table has at most ``producers_max`` producers. Pure: does no I/O, reads no clock.
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

#: Of so many numbers, the newest ones, a repeat is told where its rows are.
ACKS_KEPT = 5


@dataclass(frozen=True, slots=True)
class Ack:
    """Rows that are durable, ``first_seq`` to ``last_seq``, both inclusive."""

    #: None: a repeat of a number so old that only its being there is known.
    first_seq: int | None
    last_seq: int | None
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class ProducerPosition:
    """Where a producer goes on."""

    producer: str
    epoch: int
    next_number: int


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit says of a producer; ``number`` None: its epoch alone."""

    producer: str
    epoch: int
    number: int | None = None
    first_seq: int = 0
    last_seq: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one producer."""

    epoch: int = 0
    #: -1: it has given none.
    number: int = -1
    #: When it was heard last, us.
    time_us: int = 0
    #: (number, first seq, last seq) of the newest numbers, in order.
    acks: tuple[tuple[int, int, int], ...] = ()

    def ack(self, number: int) -> Ack:
        """The answer to a repeat of ``number``."""
        assert number <= self.number, (number, self.number)
        for mine, first_seq, last_seq in self.acks:
            if mine == number:
                return Ack(first_seq, last_seq, is_repeat=True)
        return Ack(None, None, is_repeat=True)

    def after(self, change: Change, time_us: int) -> Known:
        """The same producer after a commit at ``time_us``."""
        assert change.epoch >= self.epoch, (change, self)
        if change.number is None:
            return replace(self, epoch=change.epoch, time_us=time_us)
        assert change.number == self.number + 1, (change, self)
        mine = (change.number, change.first_seq, change.last_seq)
        return Known(change.epoch, change.number, time_us, (*self.acks, mine)[-ACKS_KEPT:])


class ProducerTable:
    """What is known of all producers of a log."""

    def __init__(self, known: dict[str, Known] | None = None) -> None:
        self._known = known or {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, producer: str) -> Known | None:
        return self._known.get(producer)

    def apply(self, changes: Iterable[Change], time_us: int) -> None:
        """Take over what a durable commit says."""
        for change in changes:
            before = self._known.get(change.producer, Known())
            self._known[change.producer] = before.after(change, time_us)

    def forget_before(self, time_us: int) -> None:
        """Forget the producers that were last heard before ``time_us``."""
        self._known = {p: known for p, known in self._known.items() if known.time_us >= time_us}

    def pack(self) -> list[Any]:
        """For msgpack."""
        return [[p, k.epoch, k.number, k.time_us, k.acks] for p, k in self._known.items()]

    @classmethod
    def unpack(cls, packed: list[Any]) -> ProducerTable:
        """What :meth:`pack` gave."""
        known = {
            str(p): Known(int(epoch), int(number), int(time_us), tuple(map(tuple, acks)))
            for p, epoch, number, time_us, acks, *_ in packed
        }
        return cls(known)


class StagedChanges:
    """The changes of a commit that is being made, on top of the table; dropped if it fails."""

    def __init__(self, log: str, table: ProducerTable, producers_max: int) -> None:
        self._log, self._table, self._producers_max = log, table, producers_max
        self._known: dict[str, Known] = {}
        self._new = 0
        self.changes: list[Change] = []

    def check(self, producer: str, epoch: int, number: int) -> Ack | None:
        """The answer to a repeat; None: it is the next number.

        Raises:
            ProducerFencedError, ProducerGapError, UnknownProducerError, TooManyProducersError.
        """
        known = self._at(producer, epoch)
        if number <= known.number:
            if epoch > known.epoch:  # from here on the one before is refused
                self._stage(Change(producer, epoch))
            return known.ack(number)
        if number > known.number + 1:
            if self._get(producer) is None:
                raise UnknownProducerError(self._log, producer, number)
            raise ProducerGapError(self._log, producer, number, known.number + 1)
        return None

    def note(self, change: Change) -> None:
        """The commit has this number."""
        self._stage(change)

    def open(self, producer: str, epoch: int | None) -> ProducerPosition:
        """Fence the lower epochs of a producer; ``epoch`` None: one more than the newest.

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
