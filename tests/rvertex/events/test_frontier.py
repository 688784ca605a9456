"""The frontier computed in blocks of rows equals that computed row by row.

Not covered: how a source uses it (test_reorder.py, whose batches are shorter than a block).
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from rstream.types import MIN_TIME
from rvertex.events.frontier import Advance, advance
from tests.support.budget import examples


def row_by_row(vs: np.ndarray, max_vs: int, delay_us: int, every_us: int) -> Advance | None:
    times: list[int] = []
    for time in vs.tolist():
        if time < max_vs - delay_us:
            return None
        max_vs = max(max_vs, time)
        times.append((max_vs - delay_us) // every_us * every_us)
    return Advance(max_vs, np.array(times, np.int64))


@examples(200)
@given(
    rows=st.integers(1, 400),
    seed=st.integers(0, 2**32 - 1),
    speed=st.sampled_from([0, 1, 50]),
    disorder=st.sampled_from([0, 5, 60]),
    delay_us=st.sampled_from([0, 5, 58, 60]),
    every_us=st.sampled_from([1, 100, 100_000]),
    max_vs=st.integers(-30, 30),
)
def test_blocks_have_the_same_result_as_rows(
    rows: int, seed: int, speed: int, disorder: int, delay_us: int, every_us: int, max_vs: int
) -> None:
    rng = np.random.default_rng(seed)
    vs = np.arange(rows) * speed + rng.integers(0, disorder + 1, rows)
    found = advance(vs, max_vs, delay_us=delay_us, every_us=every_us)
    wanted = row_by_row(vs, max_vs, delay_us, every_us)
    assert (found is None) == (wanted is None)
    if found is None or wanted is None:
        return
    assert found.max_vs == wanted.max_vs
    assert (np.diff(found.grid_times) >= 0).all()
    known = (max_vs - delay_us) // every_us * every_us
    assert {known, *found.grid_times.tolist()} == {known, *wanted.grid_times.tolist()}


def test_at_the_start_of_the_time_axis_each_row_is_checked() -> None:
    assert advance(np.array([5]), MIN_TIME, delay_us=0, every_us=1) is None
    assert advance(np.array([5]), MIN_TIME + 9, delay_us=9, every_us=1) is None
    assert advance(np.array([5]), MIN_TIME + 10, delay_us=9, every_us=1) is not None


def test_a_row_at_the_start_of_the_time_axis_is_late() -> None:
    vs = np.full(200, 7, np.int64)
    vs[130] = MIN_TIME
    assert advance(vs, 2**62, delay_us=0, every_us=1_000) is None
