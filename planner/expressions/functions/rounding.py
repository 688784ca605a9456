"""Floats rounded to so many places: scaled, rounded and scaled back, as DuckDB does.

Arrow's own kernel is not asked: it leaves a value alone whose scaled form is whole, so that
1.1 + 2.2 rounded to two places stays 3.3000000000000003, and its powers of ten from the eleventh on
are off.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: A double from here on is whole.
_WHOLE_FROM = 2.0**52
#: 10**308 is the greatest power of ten in a double.
POWERS_MAX = 308


def rounded_float(value: pa.Array | pa.Scalar, digits: int, *, toward_zero: bool) -> pa.Array:
    """``value`` (float64) with ``digits`` after the point, halves away from zero unless cut.

    Raises:
        pa.ArrowInvalid: what is rounded up has no room.
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
