"""Replicas of one writer in one folder: the first to flush writes, the others use its files.

The model is the content as a function of seq. Each replica appends, flushes, crashes and restarts
at a random seq. Readers of the folder and of each replica must get this content from any start.
Not covered: races between threads (everything is inline here).
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rstream import (
    MemoryBlobs,
    RStream,
    SequenceConflictError,
    StoreError,
    open_reader,
    read_events,
)
from rstream.items.batch import only_events
from rstream.store.segment_names import parse_segment_name
from tests.rstream.log.test_stream_model import Tearing
from tests.support.budget import examples
from tests.support.content import items, open_inline, read_all, rows_of, small_limits


class Replicas(RuleBasedStateMachine):
    """Three instances of one writer, started and lost at any time."""

    @initialize(rows=st.lists(st.integers(3, 20), min_size=3, max_size=3))
    def open(self, rows: list[int]) -> None:
        self.store = Tearing()
        self.limits = [small_limits(segment_rows_max=n, tail_bytes_max=4000) for n in rows]
        self.replicas: list[RStream] = [self._open(k, 0) for k in range(3)]
        self.starts = [0, 0, 0]

    def _open(self, k: int, start: int) -> RStream:
        return open_inline(
            self.store, shared=True, verify=True, start_seq=start, limits=self.limits[k]
        )

    def _durable(self) -> int:
        return open_reader(self.store, 0).durable_seq

    @rule(k=st.integers(0, 2), count=st.integers(1, 40))
    def append(self, k: int, count: int) -> None:
        replica = self.replicas[k]
        replica.append(items(replica.next_seq, replica.next_seq + count))

    @rule(k=st.integers(0, 2))
    def flush(self, k: int) -> None:
        replica = self.replicas[k]
        replica.flush()
        assert replica.durable_seq == replica.next_seq <= self._durable()

    @rule(k=st.integers(0, 2))
    def flush_what_another_has(self, k: int) -> None:
        """Nothing is written, and all memory is freed."""
        replica, ahead = self.replicas[k], max(self.replicas, key=lambda r: r.next_seq)
        if ahead.next_seq == replica.next_seq:
            return
        ahead.flush()
        before = self.store.list()
        replica.append(items(replica.next_seq, ahead.next_seq))
        replica.flush()
        assert [n for n in self.store.list() if n not in before] == []
        assert replica.tail_bytes == 0 or replica.durable_seq == replica.next_seq

    @rule(k=st.integers(0, 2))
    def a_put_is_torn(self, k: int) -> None:
        replica = self.replicas[k]
        self.store.is_tearing = True
        try:
            replica.append(items(replica.next_seq, replica.next_seq + 25))
            replica.flush()
        except StoreError:
            pass
        self.store.is_tearing = False

    @rule(k=st.integers(0, 2), back=st.integers(0, 50))
    def crash(self, k: int, back: int) -> None:
        """It restarts from a checkpoint; repeated items are dropped if they are durable."""
        durable = self._durable()
        start = max(durable - back, 0)
        self.replicas[k] = replica = self._open(k, start)
        assert replica.next_seq == durable
        assert replica.write(start, items(start, durable + 5)) == 5

    @rule(k=st.integers(0, 2), data=st.data())
    def read(self, k: int, data: st.DataObject) -> None:
        replica = self.replicas[k]
        seq = data.draw(st.integers(0, replica.next_seq))
        got = rows_of(read_all(replica.register(seq), 7))
        assert seq + len(got) >= replica.next_seq, "others may have made more durable"
        assert got == items(seq, seq + len(got)).to_pylist()

    @rule(data=st.data())
    def read_the_folder(self, data: st.DataObject) -> None:
        end = self._durable()
        seq = data.draw(st.integers(0, end))
        assert rows_of(read_all(open_reader(self.store, seq))) == items(seq, end).to_pylist()

    @invariant()
    def sound(self) -> None:
        for replica in getattr(self, "replicas", []):
            replica.check()


TestReplicas = Replicas.TestCase
TestReplicas.settings = examples(10, stateful_step_count=25)


def segments(store: MemoryBlobs) -> list[tuple[int, int]]:
    found = (parse_segment_name(name) for name in store.list())
    return [(s.lo, s.hi) for s in found if s is not None]


def test_items_that_another_writer_made_durable_are_not_written_again() -> None:
    store = MemoryBlobs()
    one, two = (open_inline(store, shared=True) for _ in range(2))
    one.append(items(0, 10))
    two.append(items(0, 14))
    one.flush()
    assert segments(store) == [(0, 10)]
    two.flush()
    assert segments(store) == [(0, 10), (10, 14)]
    one.append(items(10, 12))
    one.flush()
    assert segments(store) == [(0, 10), (10, 14)]
    assert one.tail_bytes == two.tail_bytes == 0
    assert read_events(store).to_pylist() == only_events(items(0, 14)).to_pylist()


def test_replicas_with_different_items_are_detected() -> None:
    store = MemoryBlobs()
    one, two = (open_inline(store, shared=True, verify=True) for _ in range(2))
    one.append(items(0, 10))
    one.flush()
    two.append(items(0, 5))
    two.append(items(5, 12, salt=1))
    with pytest.raises(SequenceConflictError) as caught:
        two.flush()
    assert caught.value.seq == 5
    assert segments(store) == [(0, 10)]
