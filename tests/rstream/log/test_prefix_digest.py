"""The digest of a prefix that grows, shrinks and is collected equals that of its items."""

from __future__ import annotations

from functools import cache

from hypothesis import example, given, strategies as st

from rstream import MemoryBlobs, StreamDigest
from rstream.log.prefix_digest import PrefixDigest
from tests.support.budget import examples
from tests.support.content import items, open_inline

ROWS = 48
STEPS = st.one_of(
    st.tuples(st.just("reach"), st.integers(0, ROWS + 2)),
    st.tuples(st.just("collect"), st.integers(0, ROWS)),
    st.tuples(st.just("write"), st.integers(1, 20)),
)


@cache
def expected(seq: int) -> StreamDigest:
    digest = StreamDigest()
    digest.update(0, items(0, seq))
    return digest


@examples(25)
@given(st.lists(STEPS, max_size=12))
@example([("write", 17), ("reach", 1), ("collect", 16), ("reach", 0)])
def test_the_digest_of_a_prefix_is_that_of_its_items(steps: list[tuple[str, int]]) -> None:
    store, collected = MemoryBlobs(), 0
    stream = open_inline(store, keeps_digest=True)
    past = PrefixDigest(store)
    for step, number in steps:
        if step == "write" and (end := min(stream.next_seq + number, ROWS)) > stream.next_seq:
            stream.append(items(stream.next_seq, end))
            stream.flush()
        elif step == "collect":
            stream.garbage_collect(number)
            collected = stream.first_seq
        elif step == "reach":
            was_there = past.seq == number  # then it reads nothing
            is_there = past.reach(number)
            assert was_there or past.seq == max(min(number, stream.next_seq), collected)
            assert is_there == (past.seq == number)
            assert past.digest == expected(past.seq)


def test_a_shorter_prefix_is_computed_from_the_start() -> None:
    """The digest starts again if a destination reports a lower position than before."""
    store = MemoryBlobs()
    stream = open_inline(store)
    stream.write(0, items(0, ROWS))
    stream.close()
    past = PrefixDigest(store)
    for seq in range(ROWS, -1, -5):
        for reached in (ROWS, seq):
            assert past.reach(reached)
            assert (past.seq, past.digest) == (reached, expected(reached))
