"""The volatile tail: cursors, reading across batches, cuts, bytes, freeing."""

from __future__ import annotations

from hypothesis import given, strategies as st

from rstream.log.tail import BATCH_OVERHEAD_BYTES, JOIN_ROWS_MAX, VolatileTail
from tests.support.content import items


def tail_of(*sizes: int, first_seq: int = 0) -> VolatileTail:
    tail = VolatileTail(first_seq)
    for size in sizes:
        tail.append(items(tail.next_seq, tail.next_seq + size))
        tail.check()
    return tail


def test_small_batches_are_joined_and_large_ones_shared() -> None:
    tail = tail_of(3, 4, 5)
    got = tail.read(1, 1000)
    assert got is not None
    assert (got.first_seq, got.next_seq) == (1, 12)
    assert got.batch.equals(items(1, 12))
    large = tail_of(2, JOIN_ROWS_MAX + 5)
    got = large.read(2, 10**6)
    assert got is not None
    assert got.batch.num_rows == JOIN_ROWS_MAX + 5
    again = large.read(2, 10**6)
    assert again is not None
    assert got.batch.column(1).buffers()[1].address == again.batch.column(1).buffers()[1].address
    assert large.read(large.next_seq, 1) is None


def test_a_cut_is_limited_by_rows_and_bytes() -> None:
    tail = tail_of(10, 10, 10)
    cut = tail.cut(12, 10**9)
    assert cut is not None
    assert (cut.first_seq, cut.next_seq, tail.flushing_seq) == (0, 12, 12)
    cut = tail.cut(1000, 1)
    assert cut is not None
    assert (cut.first_seq, cut.next_seq) == (12, 13)
    cut = tail.cut(1000, 10**9)
    assert cut is not None
    assert (cut.first_seq, cut.next_seq) == (13, 30)
    assert tail.cut(1000, 10**9) is None
    assert tail.unflushed_bytes == 0
    tail.abandon_flush()
    assert tail.flushing_seq == 0
    assert tail.unflushed_bytes > 0
    tail.check()


def test_a_batch_with_a_digest_is_not_split_if_the_cut_is_half_full() -> None:
    tail = VolatileTail(0)
    for size in (5, 4, 4, 30):
        tail.append(items(tail.next_seq, tail.next_seq + size), bytes([size]))
    cuts = [tail.cut(12, 10**9) for _ in range(5)]
    found = [(cut.first_seq, cut.next_seq, cut.digests) for cut in cuts if cut is not None]
    assert found[0] == (0, 9, (b"\x05", b"\x04"))
    assert found[1] == (9, 21, (b"\x04", b""))
    assert [(lo, hi) for lo, hi, _ in found[2:]] == [(21, 33), (33, 43)]
    tail.check()


def test_only_durable_items_are_freed() -> None:
    tail = tail_of(10, 10, 10)
    tail.drop_below(15)
    assert tail.first_seq == 0
    tail.mark_durable(17)
    tail.drop_below(15)
    assert tail.first_seq == 15
    tail.drop_until(0)
    assert tail.first_seq == 15, "the second batch is only durable in part"
    tail.mark_durable(20)
    tail.drop_until(0)
    assert tail.first_seq == 20
    tail.check()


def test_slices_of_one_batch_count_once() -> None:
    whole = items(0, 1000)
    tail = VolatileTail(0)
    for lo in range(0, 1000, 100):
        tail.append(whole.slice(lo, 100))
    assert tail.bytes - 10 * BATCH_OVERHEAD_BYTES <= whole.nbytes * 1.05


@given(st.lists(st.tuples(st.sampled_from("awcfdu"), st.integers(1, 30)), max_size=40))
def test_any_sequence_of_calls_keeps_the_invariants(calls: list[tuple[str, int]]) -> None:
    tail = VolatileTail(5)
    for what, n in calls:
        if what in "aw":
            tail.append(items(tail.next_seq, tail.next_seq + n))
        elif what == "c":
            tail.cut(n, 10**9 if n % 2 else 200)
        elif what == "f":
            tail.mark_durable(tail.flushing_seq) if n % 3 else tail.abandon_flush()
        elif what == "d":
            tail.drop_below(min(tail.first_seq + n, tail.next_seq))
        else:
            tail.drop_until(n * 100)
        tail.check()
        assert tail.unflushed_bytes >= 0
        for seq in range(tail.first_seq, tail.next_seq):
            got = tail.read(seq, 7)
            assert got is not None
            assert got.batch.equals(items(seq, got.next_seq))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 50))
def test_the_bytes_after_dropping_are_those_of_the_rest(sizes: list[int], seq: int) -> None:
    """The tail behaves as if it had started there."""
    tail = tail_of(*sizes)
    tail.cut(1000, 10**9)
    tail.mark_durable(tail.next_seq)
    tail.drop_below(min(seq, tail.next_seq))
    tail.check()
    left = VolatileTail(tail.first_seq)
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    for end in ends:
        if end > left.next_seq:
            left.append(items(left.next_seq, end))
    assert abs(tail.bytes - left.bytes) < BATCH_OVERHEAD_BYTES, "but for bits of nulls"
