"""The stable sort order against numpy's, for few and many runs, narrow and full-width values."""

from __future__ import annotations

import numpy as np
import pytest

from rvertex.events.ordering import stable_order


@pytest.mark.parametrize("low", [-(2**63), -5, 2**62])
@pytest.mark.parametrize("span", [3, 1_000, 2**40, 2**62])
@pytest.mark.parametrize("runs", [2, 5, 300])
def test_the_order_is_stable(low: int, span: int, runs: int) -> None:
    rng = np.random.default_rng(runs)
    parts = [np.sort(rng.integers(0, span, 4, endpoint=True)) for _ in range(runs)]
    values = np.concatenate(parts) + low
    order = stable_order(values)
    assert order is not None
    assert np.array_equal(order, np.argsort(values, kind="stable"))


def test_values_at_both_limits_of_int64() -> None:
    values = np.array([2**63 - 1, -(2**63)] * 20)
    order = stable_order(values)
    assert order is not None
    assert order.tolist() == [*range(1, 40, 2), *range(0, 40, 2)]


def test_sorted_values_are_not_sorted_again() -> None:
    assert stable_order(np.array([1, 1, 2])) is None
    assert stable_order(np.empty(0, np.int64)) is None
