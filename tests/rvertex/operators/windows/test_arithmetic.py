"""Window arithmetic against the definition with unbounded integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import InvalidWindowError
from rvertex.events.run import growing
from rvertex.operators.windows.arithmetic import Windows, floor_divided
from tests.support.naive import output_ctis

lengths = st.one_of(st.integers(1, 12), st.integers(1, 2**63 - 1), st.just(2**63 - 1))
instants = st.one_of(
    st.integers(-40, 40),
    st.integers(MIN_TIME, INF_TIME - 1),
    st.integers(MIN_TIME, MIN_TIME + 20),
    st.integers(INF_TIME - 20, INF_TIME - 1),
)


@given(size=lengths, every=lengths, vs=instants, duration=lengths)
def test_an_event_is_in_the_windows_it_overlaps(
    size: int, every: int, vs: int, duration: int
) -> None:
    windows = Windows(size, every)
    ve = min(vs + duration, INF_TIME)
    first = int(windows.first_window(np.array([vs]))[0])
    last = int(windows.last_window(np.array([ve]))[0])

    def exists(k: int) -> bool:
        return k * every >= MIN_TIME and k * every + size <= INF_TIME

    def overlaps(k: int) -> bool:
        return exists(k) and k * every < ve and vs < k * every + size

    if first <= last:
        assert overlaps(first)
        assert overlaps(last)
    assert not overlaps(first - 1)
    assert not overlaps(last + 1)
    if first > last:
        assert not overlaps(first)
        assert not overlaps(last)


@given(size=lengths, every=lengths, at=st.lists(instants, min_size=1, max_size=5))
def test_times_that_are_in_any_window(size: int, every: int, at: list[int]) -> None:
    windows, times = Windows(size, every), np.array(at, np.int64)
    inside = windows.holds(times, min(at), max(at))
    expected = windows.first_window(times) <= windows.last_window(times + 1)
    assert expected.tolist() == ([True] * len(at) if inside is None else inside.tolist())


@given(size=lengths, every=lengths, at=st.lists(instants, max_size=5))
def test_output_ctis_equal_the_naive_ones(size: int, every: int, at: list[int]) -> None:
    ctis = np.array([*sorted(at), INF_TIME], np.int64)
    windows = Windows(size, every)
    out = growing(windows.earliest_open(ctis), None)
    assert out.tolist() == output_ctis(ctis.tolist(), size=size, every=every)


@given(times=st.lists(st.integers(0, 5)).map(sorted), last=st.none() | st.integers(0, 5))
def test_growing_times_are_sorted_distinct_and_after_the_last(
    times: list[int], last: int | None
) -> None:
    expected = sorted({t for t in times if last is None or t > last})
    assert growing(np.array(times, np.int64), last).tolist() == expected


def test_the_pane_of_a_window_divides_size_and_period() -> None:
    assert Windows(10, 4).pane == Windows(2, 2)
    assert Windows(7, 3).pane == Windows(1, 1)


@pytest.mark.parametrize(("size", "every"), [(0, 1), (1, 0), (-5, 1), (2**63, 1)])
def test_invalid_windows_are_rejected(size: int, every: int) -> None:
    with pytest.raises(InvalidWindowError, match="at least 1 microsecond"):
        Windows(size, every)


def test_quotients_of_sorted_times_equal_a_division_of_each() -> None:
    random = np.random.default_rng(5)
    for step, unit in ((3, 1_000), (40, 7), (1, 10**6), (10**6, 1_000), (2, 3)):
        times = np.cumsum(random.integers(0, step, 700)) - 50_000
        assert floor_divided(times, unit).tolist() == (times // unit).tolist()
    assert floor_divided(np.empty(0, np.int64), 5).tolist() == []
