"""A volatile rStream returns the right content or a named error, with restarts anywhere.

Uncollected items of the present instance must be in memory or spilled; older items may exist in an
earlier instance's spill. Not covered: races (everything is inline here).
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rstream import (
    ManualClock,
    MemoryBlobs,
    RStream,
    SequenceDiscardedError,
    SequenceLostError,
    StreamReader,
)
from tests.support.budget import examples
from tests.support.content import items, open_inline, small_limits


class VolatileMachine(RuleBasedStateMachine):
    """Consecutive instances of one writer, over one folder."""

    @initialize(tail=st.sampled_from([2500, 6000]), rows=st.integers(5, 60))
    def first(self, tail: int, rows: int) -> None:
        self.store = MemoryBlobs()
        self.clock = ManualClock()
        self.limits = small_limits(tail_bytes_max=tail, segment_rows_max=rows)
        self.open(0)

    def open(self, start_seq: int) -> None:
        self.stream: RStream = open_inline(
            self.store,
            durability="volatile",
            limits=self.limits,
            clock=self.clock,
            start_seq=start_seq,
            verify=True,
        )
        self.end = self.stream.next_seq
        assert self.end >= start_seq
        self.kept_from = start_seq
        self.readers: list[tuple[StreamReader, int]] = []

    @rule(count=st.integers(1, 40))
    def append(self, count: int) -> None:
        if self.stream.has_room():
            assert self.stream.append(items(self.end, self.end + count)) == count
            self.end += count

    @rule(microseconds=st.integers(1, 1_500_000))
    def time_passes(self, microseconds: int) -> None:
        self.clock.advance(microseconds)
        self.stream.has_room()

    @rule(back=st.integers(0, 30), count=st.integers(1, 30))
    def write_again(self, back: int, count: int) -> None:
        seq = max(self.end - back, 0)
        count = min(count, self.end - seq)
        if count:
            assert self.stream.write(seq, items(seq, seq + count)) == 0

    @rule(ahead=st.integers(0, 60))
    def consume(self, ahead: int) -> None:
        self.kept_from = max(self.kept_from, min(self.kept_from + ahead, self.end))
        self.stream.garbage_collect(self.kept_from)

    @rule(back=st.integers(0, 80))
    def crash_and_restart(self, back: int) -> None:
        self.open(max(self.end - back, 0))

    @rule(ahead=st.integers(-30, 10))
    def register(self, ahead: int) -> None:
        seq = max(min(self.kept_from + ahead, self.end + 5), 0)
        try:
            self.readers.append((self.stream.register(seq, ahead=True), seq))
        except SequenceDiscardedError:
            assert seq < self.kept_from

    @precondition(lambda self: bool(self.readers))
    @rule(data=st.data(), items_max=st.integers(1, 50))
    def read(self, data: st.DataObject, items_max: int) -> None:
        at = data.draw(st.integers(0, len(self.readers) - 1))
        reader, seq = self.readers[at]
        try:
            got = reader.read_next(items_max)
        except (SequenceDiscardedError, SequenceLostError):
            assert seq < self.kept_from
            del self.readers[at]
            return
        if got is None:
            assert seq >= self.end
            return
        assert got.first_seq == seq
        assert got.batch.equals(items(seq, got.next_seq))
        self.readers[at] = (reader, got.next_seq)

    @precondition(lambda self: hasattr(self, "stream"))
    @invariant()
    def cursors(self) -> None:
        self.stream.check()
        assert self.stream.next_seq == self.end

    def teardown(self) -> None:
        if not hasattr(self, "stream"):
            return
        reader = self.stream.register(self.kept_from)
        seq = self.kept_from
        while (got := reader.read_next(17)) is not None:
            assert got.batch.equals(items(seq, got.next_seq))
            seq = got.next_seq
        assert seq == self.end


TestVolatile = VolatileMachine.TestCase
TestVolatile.settings = examples(20, stateful_step_count=25)
