"""The journal of a joiner: the rows that each step emits, durable before it claims an id.

A step that a killed process began is repeated from its entry with the same rows, the same token and
the same append number. So each row is claimed once and appended once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgpack
import numpy as np

if TYPE_CHECKING:
    from rvertex.checkpoint.journal import Journal

_VERSION = 1


def _none() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of a joiner. Its arrays are sorted row numbers of the foreign log."""

    #: Identifies the joiner in the registry; chosen when its output is created.
    token: str
    #: The next row of the foreign log.
    next_seq: int
    #: The number of the step's append to the output, which is also the number of its claims.
    append: int
    claim: int
    #: The first row of the primary log that is needed to repeat the step.
    primary_seq: int
    #: Rows that are emitted with their primary row, and rows that are emitted without one.
    joined: np.ndarray = field(default_factory=_none)
    marked: np.ndarray = field(default_factory=_none)
    #: Whether the entry is a record of all waiting rows. If so, it has the next three fields.
    is_record: bool = False
    waiting: np.ndarray = field(default_factory=_none)
    waiting_marked: np.ndarray = field(default_factory=_none)
    #: The first row of the primary log that may still be joined.
    primary_from: int = 0

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        arrays = [self.joined, self.marked, self.waiting, self.waiting_marked]
        data: bytes = msgpack.packb(
            [
                _VERSION,
                self.token,
                self.next_seq,
                self.append,
                self.claim,
                self.primary_seq,
                self.is_record,
                self.primary_from,
                [array.astype("<i8").tobytes() for array in arrays],
            ]
        )
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Step:
        """Decode the stored form."""
        version, token, next_seq, append, claim, primary, is_record, primary_from, arrays = (
            msgpack.unpackb(data)
        )
        assert version == _VERSION, f"a step of version {version}"
        joined, marked, waiting, waiting_marked = (np.frombuffer(a, "<i8") for a in arrays)
        return cls(
            token,
            next_seq,
            append,
            claim,
            primary,
            joined,
            marked,
            is_record,
            waiting,
            waiting_marked,
            primary_from,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Resumed:
    """The state of a joiner after some steps."""

    last: Step
    #: The next rows of the foreign and of the primary log at the last record.
    record_seq: int
    primary_from: int
    #: Numbers of rows that may wait. Some of them were dropped, which the registry shows.
    waiting: np.ndarray
    marked: np.ndarray


def resumed(steps: list[Step]) -> Resumed:
    """Return the state after steps; the first one is a record."""
    record = steps[0]
    assert record.is_record, record
    last = steps[-1]
    read = np.arange(record.next_seq, last.next_seq)
    marked = np.unique(np.concatenate([record.waiting_marked, *(s.marked for s in steps[1:])]))
    joined = np.concatenate([_none(), *(step.joined for step in steps[1:])])
    waiting = np.concatenate([record.waiting, read])
    return Resumed(
        last, record.next_seq, record.primary_from, np.setdiff1d(waiting, joined), marked
    )


class StepLog:
    """Writes the steps of one joiner, numbered from 1, and now and then a record of waiting rows.

    All methods raise OvertakenError and CorruptJournalError as :class:`Journal`.
    """

    def __init__(self, journal: Journal, steps_per_record: int) -> None:
        self._journal, self._steps_per_record = journal, steps_per_record
        #: The number of the last step, and how many steps follow the last record.
        self.number, self._since_record = 0, 0

    def open(self, first: Step) -> Resumed:
        """Return the state that an earlier process has left.

        For a new joiner, start with ``first``.

        The last step is written again. So an earlier process that still runs cannot begin another
        one: its next entry fails, before it claims an id.
        """
        numbers = self._journal.numbers()
        if not numbers:
            self._journal.append(0, first.to_bytes())
            numbers = [0]
        steps = [Step.from_bytes(data) for data in self._journal.read(numbers)]
        self._journal.append(numbers[-1] + 1, steps[-1].to_bytes())
        numbers.append(numbers[-1] + 1)
        steps.append(steps[-1])
        record = max(n for n, step in enumerate(steps) if step.is_record)
        self.number, self._since_record = numbers[-1], len(steps) - 1 - record
        return resumed(steps[record:])

    @property
    def wants_record(self) -> bool:
        """Whether the next step should be a record."""
        return self._since_record + 1 >= self._steps_per_record

    def append(self, step: Step) -> None:
        """Write a step. Entries before a record are deleted."""
        self._journal.append(self.number + 1, step.to_bytes())
        self.number += 1
        self._since_record += 1
        if step.is_record:
            self._since_record = 0
            self._journal.delete_below(self.number)
