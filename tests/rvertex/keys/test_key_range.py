"""Direct addressing against unbounded integers; the classes that use it have their own tests."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from rvertex.keys.key_range import KeyRange, base_below, greatest_distance

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)


@given(base=INT64, width=st.integers(0, 2**40), keys=st.lists(INT64, min_size=1))
def test_distances_equal_those_of_python_integers(base: int, width: int, keys: list[int]) -> None:
    span = KeyRange(base, min(width, 2**63 - base))
    assert span.is_possible
    distances = span.distances(np.array(keys, np.int64))
    is_inside = [base <= key < base + span.width for key in keys]
    assert span.holds(distances).tolist() == is_inside
    assert span.covers(min(keys), max(keys)) == all(is_inside)
    assert span.keys(distances).tolist() == keys
    mask = np.array(is_inside)
    assert greatest_distance(distances, mask) == max(
        (key - base for key in keys if base <= key < base + span.width), default=0
    )
    assert (greatest_distance(distances, None) >= span.width) == (not all(is_inside))


def test_the_base_of_a_range_is_within_int64() -> None:
    assert base_below(10, 3) == 7
    assert base_below(-(2**63) + 1, 5) == -(2**63)
    assert not KeyRange(2**63 - 4, 5).is_possible
