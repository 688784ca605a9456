"""Estimates the age of a stream's items from a few observations of its end."""

from __future__ import annotations

from hypothesis import given, strategies as st

from jobmanager.delivery.ages import POINTS_MAX, Ages

RETENTION_US = 3_200
LOOKS = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 50)), max_size=200)


@given(LOOKS)
def test_items_are_deleted_after_their_retention_and_not_before(
    looks: list[tuple[int, int]],
) -> None:
    ages, now_us, end = Ages(), 0, 0
    seen: list[tuple[int, int]] = []
    for waited_us, more in looks:
        now_us, end = now_us + waited_us, end + more
        ages.note(now_us, end, RETENTION_US)
        seen.append((now_us, end))
        mark, cutoff_us = ages.mark(now_us - RETENTION_US), now_us - RETENTION_US
        assert mark <= max((seq for at, seq in seen if at <= cutoff_us), default=0)
        late_us = cutoff_us - RETENTION_US // 8 - 400  # a part of the retention, and one check
        assert mark >= max((seq for at, seq in seen if at <= late_us), default=0)
        assert len(ages.points) <= POINTS_MAX
        assert ages.points == sorted(set(ages.points))


def test_a_clock_that_was_set_back_extends_the_retention() -> None:
    ages = Ages([(1_000, 5), (9_000, 7)])
    ages.note(2_000, 9, RETENTION_US)
    assert ages.mark(8_000) >= 7
    assert all(at <= 2_000 for at, _ in ages.points)
    assert ages.mark(1_999) == 5


def test_items_written_again_after_a_loss_count_as_new() -> None:
    """After a loss, the durable end of a stream is lower than before."""
    ages = Ages([(1_000, 5), (2_000, 9)])
    ages.note(2_100, 6, RETENTION_US)
    ages.note(2_200, 12, RETENTION_US)
    assert ages.mark(2_150) <= 6, "9 to 11 came after that"


def test_the_age_of_kept_items_is_known() -> None:
    ages = Ages([(1_000, 5), (9_000, 7)])
    assert ages.since_us(5) == ages.since_us(6) == 1_000
    assert ages.since_us(8) == 9_000
    assert ages.since_us(2) is None
    assert [ages.mark(at) for at in (999, 1_000, 8_999, 9_000)] == [0, 5, 5, 7]
