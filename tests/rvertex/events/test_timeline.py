"""Marks and rows of keys by time, against a full search."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from rvertex.events.timeline import Timeline
from tests.support.budget import examples

SOME = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), max_size=8).map(sorted)


@examples(60)
@given(marks=SOME, rows=SOME)
def test_a_timeline_equals_a_search(
    marks: list[tuple[int, int]], rows: list[tuple[int, int]]
) -> None:
    """Both as (time, code).

    Of marks with equal times, the last precedes a row and the first follows it.
    """
    mark_times, mark_codes = _columns(marks)
    row_times, row_codes = _columns(rows)
    timeline = Timeline(mark_codes, mark_times, row_codes, row_times)
    before = [[m for m, (t, c) in enumerate(marks) if c == code and t <= at] for at, code in rows]
    after = [[m for m, (t, c) in enumerate(marks) if c == code and t > at] for at, code in rows]
    assert timeline.mark_at_or_before().tolist() == [max(found, default=-1) for found in before]
    assert timeline.mark_after().tolist() == [min(found, default=-1) for found in after]

    in_order, numbers, lo, hi = timeline.rows_before_marks()
    assert sorted(in_order.tolist()) == list(range(len(rows)))
    assert sorted(numbers.tolist()) == list(range(len(marks)))
    for mark, low, high in zip(numbers.tolist(), lo.tolist(), hi.tolist(), strict=True):
        at, code = marks[mark]
        expected = [r for r, (t, c) in enumerate(rows) if c == code and t < at]
        assert in_order[low:high].tolist() == expected


def _columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
