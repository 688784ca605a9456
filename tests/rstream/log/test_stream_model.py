"""RStream against a dictionary, under writes, repeats, flushes, crashes, rewinds and collection.

The model: ``written`` has the final content of each seq, ``durable`` what survives a crash. Cannot
catch: races between threads (everything is inline here), a store that loses acknowledged writes.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rstream import (
    MemoryBlobs,
    RStream,
    SequenceDiscardedError,
    SequenceGapError,
    SequenceNotReadyError,
    StoreError,
    StreamReader,
)
from rstream.store.segment_names import parse_segment_name
from tests.support.budget import examples
from tests.support.content import items, open_inline, small_limits


class Tearing(MemoryBlobs):
    """A crash may interrupt a put: the temporary file stays, the blob does not appear."""

    def __init__(self) -> None:
        super().__init__()
        self.is_tearing = False

    def put(self, path: str, data: object) -> None:
        if self.is_tearing:
            self.blobs[f"{path}.1.1.tmp"] = bytes(data)[:10]  # type: ignore[call-overload]
            raise StoreError(path, "torn")
        super().put(path, data)


class StreamMachine(RuleBasedStateMachine):
    """One store, one writer at a time (sometimes a lagging replica), several readers."""

    @initialize(
        durability=st.sampled_from(["async", "sync"]),
        rows=st.integers(3, 20),
        tail=st.sampled_from([1500, 10**6]),
    )
    def open(self, durability: str, rows: int, tail: int) -> None:
        self.store = Tearing()
        self.options = {
            "durability": durability,
            "limits": small_limits(segment_rows_max=rows, tail_bytes_max=tail),
            "verify": True,
        }
        self.end = 0
        self.mark = 0
        self.replica_end = 0
        self.readers: list[tuple[StreamReader, int]] = []
        self.stream: RStream = open_inline(self.store, **self.options)

    @rule(count=st.integers(1, 40))
    def append(self, count: int) -> None:
        assert self.stream.append(items(self.end, self.end + count)) == count
        self.end += count

    @rule(back=st.integers(1, 60), count=st.integers(1, 60))
    def write_again(self, back: int, count: int) -> None:
        seq = max(self.end - back, 0)
        new = max(seq + count - self.end, 0)
        before = self.stream.duplicates
        assert self.stream.write(seq, items(seq, seq + count)) == new
        assert self.stream.duplicates == before + count - new
        self.end += new

    @rule(gap=st.integers(1, 5))
    def write_with_a_gap(self, gap: int) -> None:
        with pytest.raises(SequenceGapError):
            self.stream.write(self.end + gap, items(self.end + gap, self.end + gap + 1))

    @rule()
    def flush(self) -> None:
        assert self.stream.flush() == self.end

    @rule()
    def a_put_is_torn(self) -> None:
        self.store.is_tearing = True
        try:
            self.stream.append(items(self.end, self.end + 25))
            self.end += 25
            self.stream.flush()
        except StoreError:
            assert self.stream.next_seq == self.end
        self.store.is_tearing = False

    @rule(back=st.integers(0, 30))
    def crash_and_reopen(self, back: int) -> None:
        durable = max(self.stream.durable_seq, self.replica_end)
        start = max(durable - back, 0)
        self.stream = open_inline(self.store, start_seq=start, **self.options)
        assert self.stream.next_seq == durable
        assert not self.store.temporaries()
        self.end = durable
        self.readers = []

    @rule(rows=st.integers(2, 30))
    def a_replica_writes_the_same(self, rows: int) -> None:
        options = {**self.options, "limits": small_limits(segment_rows_max=rows)}
        replica = open_inline(self.store, **options)
        if replica.next_seq < self.end:
            replica.append(items(replica.next_seq, self.end))
            replica.flush()
            self.replica_end = self.end

    @rule(data=st.data())
    def register(self, data: st.DataObject) -> None:
        seq = data.draw(st.integers(0, self.end + 2))
        if seq < self.mark:
            with pytest.raises(SequenceDiscardedError):
                self.stream.register(seq)
        elif seq > self.end:
            with pytest.raises(SequenceNotReadyError):
                self.stream.register(seq)
        else:
            self.readers.append((self.stream.register(seq), seq))

    @precondition(lambda self: bool(self.readers))
    @rule(data=st.data(), items_max=st.integers(1, 50))
    def read(self, data: st.DataObject, items_max: int) -> None:
        at = data.draw(st.integers(0, len(self.readers) - 1))
        reader, seq = self.readers[at]
        if seq < self.mark:
            try:
                got = reader.read_next(items_max)
            except SequenceDiscardedError:
                del self.readers[at]
                return
        else:
            got = reader.read_next(items_max)
        if got is None:
            assert seq == self.end
            return
        assert got.first_seq == seq
        assert got.batch.num_rows <= items_max
        assert got.batch.equals(items(seq, got.next_seq))
        self.readers[at] = (reader, got.next_seq)

    @rule(ahead=st.integers(0, 40), data=st.data())
    def collect(self, ahead: int, data: st.DataObject) -> None:
        segments = [seqs for name in self.store.list() if (seqs := parse_segment_name(name))]
        if segments and ahead % 2:
            edge = data.draw(st.sampled_from(segments)).hi + data.draw(st.integers(-1, 1))
            ahead = max(edge - self.mark, 0)
        self.stream.garbage_collect(self.mark + ahead)
        self.mark = max(self.mark, min(self.mark + ahead, self.end))
        assert self.stream.first_seq == self.mark

    @precondition(lambda self: hasattr(self, "stream"))
    @invariant()
    def cursors(self) -> None:
        stream = self.stream
        stream.check()
        self.mark = stream.first_seq
        assert stream.next_seq == self.end
        assert stream.first_seq <= self.end
        assert stream.tail_first_seq <= stream.durable_seq <= stream.next_seq

    @precondition(lambda self: hasattr(self, "stream"))
    @invariant()
    def what_is_durable_and_needed_is_in_the_store(self) -> None:
        ranges = [seqs for name in self.store.list() if (seqs := parse_segment_name(name))]
        held = {seq for seqs in ranges for seq in range(seqs.lo, seqs.hi)}
        assert held.issuperset(range(self.stream.first_seq, self.stream.durable_seq))

    def teardown(self) -> None:
        if not hasattr(self, "stream"):
            return
        reader = self.stream.register(self.mark)
        seq = self.mark
        while (got := reader.read_next(17)) is not None:
            assert got.batch.equals(items(seq, got.next_seq))
            seq = got.next_seq
        assert seq == self.end


TestStream = StreamMachine.TestCase
TestStream.settings = examples(20, stateful_step_count=25)
