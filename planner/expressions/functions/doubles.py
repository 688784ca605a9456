"""Functions of doubles with the same bits on every processor: rounding to places, cube roots.

Numbers are rounded as in DuckDB: scaled, rounded and scaled back. Arrow's kernel is not used, for
two reasons. It returns a value unchanged if its scaled form is whole, so 1.1 + 2.2 rounded to two
places stays 3.3000000000000003. And its powers of ten are inexact from 10**11 on.

The cube roots of the C library and of numpy's vector kernels are not always the nearest double, and
differ: one returns 3.0000000000000004 for 27. The processor decides which of them runs, but a
vertex that is recomputed on another machine must have the same result. So their result is only the
start of a Newton step, whose residual is computed in twice the precision (Dekker 1971, "A
floating-point technique for extending the available precision").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

#: Doubles of at least this magnitude have no fraction.
_WHOLE_FROM = 2.0**52
#: The exponent of the greatest power of ten in a double.
POWERS_MAX = 308
#: Factor that splits the 53 bits of a double into two halves, whose products are exact.
_SPLITTER = 2.0**27 + 1.0


def rounded_float(value: pa.Array | pa.Scalar, digits: int, *, toward_zero: bool) -> pa.Array:
    """Round ``value`` (float64) to ``digits`` places, halves away from zero, or ``toward_zero``.

    Raises:
        pa.ArrowInvalid: the rounded value overflows.
    """
    if isinstance(value, pa.Scalar):
        return rounded_float(pa.repeat(value, 1), digits, toward_zero=toward_zero)[0]
    numbers = value.to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        made = _rounded(numbers, digits, toward_zero=toward_zero)
    if np.isinf(made[np.isfinite(numbers)]).any():
        raise pa.ArrowInvalid("overflow occurred during rounding")
    return pa.array(made, pa.float64(), mask=value.is_null().to_numpy(zero_copy_only=False))


def _rounded(numbers: np.ndarray, digits: int, *, toward_zero: bool) -> np.ndarray:
    if digits > POWERS_MAX:
        return numbers
    if digits < -POWERS_MAX:
        return np.where(np.isfinite(numbers), np.copysign(0.0, numbers), numbers)
    power = float(f"1e{abs(digits)}")
    scaled = numbers * power if digits >= 0 else numbers / power
    size = np.abs(scaled)
    whole = np.floor(size)
    if not toward_zero:
        whole += size - whole >= 0.5
    signed = np.copysign(whole, scaled)
    back = signed / power if digits >= 0 else signed * power
    return np.where(size < _WHOLE_FROM, back, numbers)


def cube_root(numbers: Doubles) -> Doubles:
    """Return the cube root of each number, as the nearest double; 0, inf and NaN unchanged."""
    has_digits = np.isfinite(numbers) & (numbers != 0)
    mantissas, exponents = np.frexp(np.where(has_digits, numbers, 1.0))
    thirds = -(-exponents // 3)  # rounded up, so that the scaled numbers are between 1/8 and 1
    scaled = np.ldexp(mantissas, exponents - 3 * thirds)
    guess = np.cbrt(scaled)
    square, square_rest = _product(guess, guess)
    cube, cube_rest = _product(square, guess)
    residual = (scaled - cube) - (cube_rest + square_rest * guess)
    roots = np.ldexp(guess + residual / (3.0 * square), thirds)
    return np.where(has_digits, roots, numbers)


def _product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return the rounded product, and its rounding error."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    rest = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, rest


def _halves(a: Doubles) -> tuple[Doubles, Doubles]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high
