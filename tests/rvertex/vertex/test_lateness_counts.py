"""Counts of lateness against the rows themselves."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from rstream.types import INF_TIME
from rvertex.vertex.lateness_counts import LatenessCounts

a_lateness = st.integers(0, 200) | st.integers(0, 10**9) | st.integers(0, INF_TIME - 1)
many = st.lists(a_lateness, max_size=40)


def counts(late_us: list[int]) -> LatenessCounts:
    return LatenessCounts().adding(np.array(late_us, np.int64))


@given(many, st.integers(0, 41))
def test_a_delay_keeps_the_stated_share_and_is_hardly_longer_than_needed(
    late_us: list[int], late_max: int
) -> None:
    delay_us = counts(late_us).delay_for(late_max)
    assert sum(late > delay_us for late in late_us) <= late_max
    least = sorted([0, *late_us])[max(0, len(late_us) - late_max)]
    assert least <= delay_us <= least + least // 32
    assert counts(late_us).max_us == max(late_us, default=0)
    assert counts(late_us).delay_for(0) == max(late_us, default=0)


@given(many, many, many)
def test_counts_do_not_depend_on_batch_boundaries_or_serialisation(
    first: list[int], second: list[int], third: list[int]
) -> None:
    whole = counts([*first, *second, *third])
    again = LatenessCounts.from_bytes(counts(first).to_bytes())
    again = again.adding(np.array(second, np.int64)).merged(counts(third))
    assert again.to_bytes() == whole.to_bytes()
    assert (counts([]).to_bytes(), counts([0]).to_bytes()) == (b"", b"")
