"""A receiver accepts the first frames that were sent, each once and in order.

Not covered: two connections that share one end by mistake (see
tests/rstream/transport/test_control.py).
"""

from __future__ import annotations

from hypothesis import given, strategies as st

from rstream.transport.frame_order import InOrder, Numbered


def test_frames_in_order_are_accepted() -> None:
    numbered, order = Numbered(), InOrder()
    for content in (b"a", b"", b"c"):
        assert order.open(numbered.frame(content)) == ("take", content)


def test_a_copy_is_ignored_and_a_gap_breaks_the_connection() -> None:
    order = InOrder()
    verdicts = [order.accept(n) for n in (0, 0, 1, 0, 3, 2, 1, 4)]
    assert verdicts == ["take", "ignore", "take", "ignore", *["broken"] * 4]


def test_a_frame_without_a_number_breaks_the_connection() -> None:
    order = InOrder()
    assert order.open(b"short") == ("broken", b"")
    assert order.accept(0) == "broken"


@given(st.integers(0, 12).flatmap(lambda n: st.lists(st.integers(0, n), max_size=40)))
def test_frames_arriving_in_any_order(numbers: list[int]) -> None:
    """Any duplicates, losses and reordering: a prefix arrives, or it breaks at the first gap."""
    numbered, order = Numbered(), InOrder()
    frames = [numbered.frame(b"%d" % n) for n in range(13)]
    opened = [order.open(frames[n]) for n in numbers]
    taken = [content for verdict, content in opened if verdict == "take"]
    assert taken == [b"%d" % n for n in range(len(taken))]
    gaps = [i for i, n in enumerate(numbers) if n > max(numbers[:i], default=-1) + 1]
    until = gaps[0] if gaps else len(numbers)
    assert all(verdict != "broken" for verdict, _ in opened[:until])
    assert all(verdict == "broken" for verdict, _ in opened[until:])
    assert taken == [b"%d" % n for n in sorted(set(numbers[:until]))]
