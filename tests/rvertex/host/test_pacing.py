"""Pacing: which of the first rows are due, on a manual clock."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.clock import ManualClock
from rstream.items.batch import VS
from rstream.types import INF_TIME
from rvertex.host.pacing import STEP_MAX_US, STEP_US, Pace

SECOND = 1_000_000


def rows(*times: int) -> pa.RecordBatch:
    return pa.record_batch({VS: pa.array(times, pa.int64())})


def test_without_a_pace_rows_leave_at_once() -> None:
    pace = Pace(0.0, ManualClock())
    assert pace.ready_rows(rows(1, 10**15), VS) == 2
    assert pace.ready_rows(rows(), VS) == 0


def test_the_first_row_leaves_at_once_and_the_rest_by_the_clock() -> None:
    clock = ManualClock(77)
    pace = Pace(10.0, clock)
    batch = rows(5 * SECOND, 6 * SECOND, 15 * SECOND, 16 * SECOND)
    assert pace.ready_rows(batch, VS) == 1
    clock.advance(SECOND // 10)
    assert pace.ready_rows(batch, VS) == 2
    clock.advance(SECOND)
    assert pace.ready_rows(batch.slice(2), VS) == 2
    assert pace.ready_rows(rows(17 * SECOND), VS) == 0


def test_a_row_out_of_order_waits_for_earlier_ones() -> None:
    """Rows keep their order of arrival, so an early time behind a late one is not due."""
    clock = ManualClock(1)
    pace = Pace(1.0, clock)
    batch = rows(0, 9 * SECOND, 3 * SECOND, 9 * SECOND + 1)
    assert pace.ready_rows(batch, VS) == 1
    clock.advance(4 * SECOND)
    assert pace.ready_rows(batch, VS) == 1
    clock.advance(5 * SECOND)
    assert pace.ready_rows(batch, VS) == 3


def test_a_restarted_source_catches_up() -> None:
    clock = ManualClock(100 * SECOND)
    pace = Pace(2.0, clock, started_us=90 * SECOND, origin_us=0)
    assert pace.ready_rows(rows(0, 20 * SECOND, 20 * SECOND + 1), VS) == 2


@given(
    times=st.lists(st.integers(0, 10_000), max_size=20),
    steps=st.lists(st.integers(0, 3_000), max_size=20),
    speed=st.sampled_from([0.5, 1.0, 7.0]),
)
def test_every_row_leaves_once_and_in_time(
    times: list[int], steps: list[int], speed: float
) -> None:
    clock = ManualClock(1)
    pace = Pace(speed, clock)
    batch = rows(*times)
    origin = times[0] if times else 0
    for step in [0, *steps, 100_000]:
        clock.advance(step)
        ready = pace.ready_rows(batch, VS)
        assert 0 <= ready <= batch.num_rows
        taken = batch.slice(0, ready)
        assert all(t - origin <= clock.now_us() * speed for t in taken[VS].to_pylist())
        batch = batch.slice(ready)
    assert batch.num_rows == 0


def test_a_negative_speed_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        Pace(-1.0, ManualClock())


def test_a_paced_row_waits_for_its_time() -> None:
    assert Pace(0.0, ManualClock()).wait_s(rows(1), VS) is None
    clock = ManualClock(50)
    pace = Pace(2.0, clock)
    batch = rows(SECOND, SECOND + 100, 5 * SECOND)
    assert pace.wait_s(batch, VS) == 0.0
    assert pace.ready_rows(batch, VS) == 1
    assert pace.wait_s(batch.slice(1), VS) == 50 / SECOND
    clock.advance(50)
    assert pace.ready_rows(batch.slice(1), VS) == 1
    assert pace.wait_s(rows(SECOND + 101), VS) == (STEP_US - 100) / SECOND
    left_us = 2 * SECOND - 50
    assert pace.wait_s(batch.slice(2), VS) == left_us / SECOND
    clock.advance(left_us - 1)
    assert pace.ready_rows(batch.slice(2), VS) == 0
    clock.advance(1)
    assert pace.wait_s(batch.slice(2), VS) == 0.0
    assert pace.ready_rows(batch.slice(2), VS) == 1


def test_rows_leave_in_steps() -> None:
    clock = ManualClock(0)
    pace = Pace(1.0, clock, started_us=-SECOND, origin_us=0)
    batch = rows(*range(0, 2 * SECOND, 100))
    taken = []
    for _ in range(0, 10 * STEP_US, 100):
        ready = pace.ready_rows(batch, VS)
        batch = batch.slice(ready)
        taken.append(ready)
        clock.advance(100)
    assert taken[0] == SECOND // 100 + 1
    step_rows = STEP_US // 100
    assert [n for n in taken[1:] if n] == [1, step_rows - 1, *[step_rows] * 8]


def test_all_sources_have_the_same_steps() -> None:
    clocks = [ManualClock(1_000), ManualClock(1_000 + STEP_US // 3)]
    taken: list[list[int]] = []
    for clock in clocks:
        pace, batch = Pace(1.0, clock, started_us=1, origin_us=0), rows(*range(100_000))
        taken.append([])
        while clock.now_us() < 20 * STEP_US:
            ready = pace.ready_rows(batch, VS)
            batch = batch.slice(ready)
            taken[-1] += [clock.now_us()] * bool(ready)
            clock.advance(max(1, round(pace.wait_s(batch, VS) * SECOND)))
    assert taken[0][2:] == taken[1][2:] == [k * STEP_US for k in range(3, 20)]


@pytest.mark.parametrize(("turn_us", "step_us"), [(50, STEP_US), (200, 1_000), (900, STEP_MAX_US)])
def test_the_length_of_a_step_follows_from_the_turns(turn_us: int, step_us: int) -> None:
    clock = ManualClock(0)
    pace = Pace(1.0, clock, started_us=1, origin_us=0)
    batch, taken_us = rows(*range(1, 2 * SECOND, 50)), []
    while clock.now_us() < SECOND:
        ready = pace.ready_rows(batch, VS)
        batch = batch.slice(ready)
        if ready:
            taken_us.append(clock.now_us())
            clock.advance(turn_us)
            assert pace.wait_s(batch, VS) is not None
        clock.advance(max(1, round(pace.wait_s(batch, VS) * SECOND)))
    late = taken_us[-20:]
    assert [b - a for a, b in itertools.pairwise(late)] == [step_us] * 19


def test_many_due_rows_leave_at_once() -> None:
    pace = Pace(1.0, ManualClock(0), started_us=-SECOND, origin_us=0)
    batch = rows(*range(70_000))
    assert pace.ready_rows(batch, VS) == 70_000


def test_the_end_of_time_is_due_with_the_row_before_it() -> None:
    clock = ManualClock(1)
    pace = Pace(1.0, clock)
    assert pace.ready_rows(rows(0, 9 * SECOND, INF_TIME), VS) == 1
    clock.advance(9 * SECOND)
    assert pace.ready_rows(rows(9 * SECOND, INF_TIME), VS) == 2
    assert pace.ready_rows(rows(INF_TIME), VS) == 1
    assert pace.ready_rows(rows(INF_TIME, INF_TIME, 60 * SECOND, INF_TIME), VS) == 2
    assert pace.wait_s(rows(INF_TIME), VS) == 0.0


def test_the_time_until_the_first_row_is_due() -> None:
    clock = ManualClock(1)
    pace = Pace(2.0, clock)
    assert pace.ready_rows(rows(0), VS) == 1
    assert pace.wait_s(rows(5 * SECOND), VS) == pytest.approx(2.5)
    clock.advance(9 * SECOND)
    assert pace.wait_s(rows(5 * SECOND), VS) == 0.0
    assert Pace(0.0, clock).wait_s(rows(5 * SECOND), VS) is None
