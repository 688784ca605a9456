"""Range queries against a scan, for a mix of short and long ranges."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from rvertex.operators.joins.max_tree import MaxTree
from tests.support.budget import examples


@examples(60)
@given(st.integers(1, 200), st.integers(0, 2**16))
def test_above_equals_a_scan(places: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 30, places)
    lo, hi = np.sort(rng.integers(0, places, (2, 12), endpoint=True), axis=0)
    bound = rng.integers(-1, 32, 12)
    tree = MaxTree(values)
    for _ in range(2):
        query, place = tree.above(lo, hi, bound)
        expected = {(i, p) for i in range(12) for p in range(lo[i], hi[i]) if values[p] > bound[i]}
        assert len(query) == len(expected)
        assert set(zip(query.tolist(), place.tolist(), strict=True)) == expected


def test_without_ranges_the_tree_returns_nothing() -> None:
    none = np.empty(0, np.int64)
    query, place = MaxTree(np.array([1, 2])).above(none, none, none)
    assert len(query) == len(place) == 0
