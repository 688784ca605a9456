"""Cube roots: the nearest double on every processor, compared with integer arithmetic.

Not covered: a kernel whose estimate is wrong by more than a few last bits.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from planner.expressions.functions.doubles import cube_root

KERNEL = np.cbrt
FINITE = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != 0)


def is_nearest(root: float, number: float) -> bool:
    """Whether the true root is closer to ``root`` than to either neighbouring double."""
    number, root = abs(number), abs(root)
    low, high = (Fraction(math.nextafter(root, to)) for to in (0.0, math.inf))
    below, above = (Fraction(root) + low) / 2, (Fraction(root) + high) / 2
    return below**3 <= Fraction(number) <= above**3


@given(FINITE)
def test_the_root_is_the_nearest_double(number: float) -> None:
    (root,) = cube_root(np.array([number])).tolist()
    assert is_nearest(root, number)
    assert math.copysign(1, root) == math.copysign(1, number)


@pytest.mark.parametrize("bits", [-2, -1, 1, 2])
@given(FINITE)
def test_an_inaccurate_kernel_changes_nothing(bits: int, number: float) -> None:
    def off(numbers: np.ndarray) -> np.ndarray:
        return np.array([x + bits * math.ulp(x) for x in KERNEL(numbers)])

    expected = cube_root(np.array([number])).tolist()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(np, "cbrt", off)
        assert cube_root(np.array([number])).tolist() == expected


def test_roots_of_cubes_are_whole() -> None:
    roots = np.arange(-2000.0, 2001.0)
    assert cube_root(roots**3).tolist() == roots.tolist()


def test_infinities_and_nan_are_unchanged() -> None:
    numbers = [0.0, -0.0, math.inf, -math.inf, math.nan]
    assert repr(cube_root(np.array(numbers)).tolist()) == repr(numbers)
    assert cube_root(np.array([])).tolist() == []


@pytest.mark.parametrize("number", [5e-324, 2.0**-1022, 1.7976931348623157e308, 0.125, 1.0])
def test_the_cube_root_of_an_edge_value_is_the_nearest_double(number: float) -> None:
    assert is_nearest(cube_root(np.array([number]))[0], number)
