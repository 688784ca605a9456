"""Random appends, repeats, gaps, epochs, cuts, crashes and restarts, against a tiny model.

Law: the log has each acknowledged (producer, number) exactly once, in order. Not covered: two
processes at one time (tests/rstream/intake/test_crash_at_every_call.py).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from rstream import ManualClock, MemoryBlobs
from rstream.errors import ProducerFencedError, ProducerGapError, UnknownProducerError
from rstream.intake.producers import ACKS_KEPT, Ack, ProducerPosition
from rstream.intake.writer import Append, LogWriter
from tests.support.crashing_store import CrashingBlobs, DiedError, Life
from tests.support.pushed import LIMITS, SCHEMA, Ledger, append, parquet_rows, write_pending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rstream.intake.writer import Result

PRODUCERS = st.sampled_from(["a", "b", "c"])
#: The number of an append relative to the next one, and its epoch.
ASKED = st.tuples(PRODUCERS, st.integers(-ACKS_KEPT - 2, 2), st.integers(0, 2))
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(ASKED, min_size=1, max_size=5)),
    st.tuples(st.just("die"), st.tuples(st.integers(0, 12), st.sampled_from(["before", "after"]))),
    st.tuples(st.just("open"), st.tuples(PRODUCERS, st.one_of(st.none(), st.integers(0, 3)))),
    st.tuples(st.just("cut"), st.none()),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("clock"), st.integers(-(10**7), 10**7)),
)


class AnyClock(ManualClock):
    """A clock that may also be set back."""

    def set_by(self, microseconds: int) -> None:
        self._now_us += microseconds


class Machine:
    """A log, its model, and the current writer."""

    def __init__(self) -> None:
        self.store, self.ledger, self.clock = MemoryBlobs(), Ledger(), AnyClock(10**9)
        self.next: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self.life = Life()
        self.open()

    def open(self, at: int | None = None, how: str = "before") -> None:
        self.life = Life(at, how)
        store = CrashingBlobs(self.store, self.life)
        self.writer = LogWriter(store, SCHEMA, limits=LIMITS, clock=self.clock)

    def step(self, name: str, given: object) -> None:
        """Do one step; if the writer dies in it, start a successor."""
        try:
            getattr(self, f"do_{name}")(given)
            write_pending(self.writer)
        except DiedError:
            self.open()
            self.learn()

    def learn(self) -> None:
        """After a crash, read from the log which pending appends it has."""
        for producer in "abc":
            position = self.writer.position(producer)
            if position is not None:
                assert position.next_number - self.next.get(producer, 0) in range(6)
                assert position.epoch >= self.epochs.get(producer, 0)
                self.next[producer] = position.next_number
                self.epochs[producer] = position.epoch
            else:
                assert producer not in self.next

    def do_append(self, asked: Sequence[tuple[str, int, int]]) -> None:
        appends = [append(p, max(0, self.next.get(p, 0) + more), e) for p, more, e in asked]
        results = self.writer.commit(appends)
        for one, result in zip(appends, results, strict=True):
            self.expect(one, result)

    def expect(self, one: Append, result: Result) -> None:
        producer, epoch = str(one.producer), int(one.epoch or 0)
        following, newest = self.next.get(producer, 0), self.epochs.get(producer, 0)
        if producer in self.next and epoch < newest:
            assert isinstance(result, ProducerFencedError)
        elif one.number > following:
            is_known = producer in self.next
            assert isinstance(result, ProducerGapError if is_known else UnknownProducerError)
        else:
            assert isinstance(result, Ack)
            assert result.is_repeat == (one.number < following)
            assert (result.first_seq is None) == (one.number < following - ACKS_KEPT)
            self.ledger.note(producer, one.number, result)
            self.next[producer] = max(following, one.number + 1)
            self.epochs[producer] = epoch

    def do_open(self, given: tuple[str, int | None]) -> None:
        producer, epoch = given
        (result,) = self.writer.commit([Append(None, producer, epoch)])
        newest = self.epochs.get(producer, -1)
        if epoch is not None and epoch < newest:
            assert isinstance(result, ProducerFencedError)
            return
        epoch = newest + 1 if epoch is None else epoch
        self.next.setdefault(producer, 0)
        self.epochs[producer] = epoch
        assert result == ProducerPosition(producer, epoch, self.next[producer])

    def do_die(self, given: tuple[int, str]) -> None:
        at, how = given
        self.open(at, how)

    def do_restart(self, _: None) -> None:
        self.open()

    def do_cut(self, _: None) -> None:
        self.writer.commit([], is_cut=True)

    def do_clock(self, microseconds: int) -> None:
        self.clock.set_by(microseconds)


@given(st.lists(STEPS, max_size=25))
def test_each_number_is_stored_once_and_in_order(steps: list[tuple[str, object]]) -> None:
    machine = Machine()
    for name, given_ in steps:
        machine.step(name, given_)
    with contextlib.suppress(DiedError):
        machine.writer.commit([])
    machine.open()
    machine.learn()
    machine.ledger.check(machine.store)
    machine.writer.commit([], is_cut=True)
    write_pending(machine.writer)
    found = machine.ledger.check(machine.store)
    for producer, following in machine.next.items():
        assert {n for p, n, _ in found if p == producer} == set(range(following))
    assert parquet_rows(machine.store) == found
