"""Converts decimals to the nearest doubles, and to the whole numbers that Arrow stores.

Arrow 26 multiplies by a power of ten that is rounded to a double, so 19.99 becomes
19.990000000000002.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: Doubles represent all whole numbers up to this one exactly.
_EXACT_MAX = 2**53
#: Doubles represent all powers of ten up to this exponent exactly.
_SCALE_MAX = 22


def nearest_floats(column: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Convert decimals to the nearest floats of type ``kind`` (float64)."""
    kind = pa.float64() if kind is None else kind
    if kind == pa.float64() and pa.types.is_decimal128(column.type):
        scale, (low, high) = column.type.scale, words(column)
        if 0 <= scale <= _SCALE_MAX:
            is_exact = (high == low >> 63) & (low <= _EXACT_MAX) & (low >= -_EXACT_MAX)
            if column.null_count:
                is_exact |= column.is_null().to_numpy(zero_copy_only=False)
            if is_exact.all():
                # Both are exact, so the division rounds only once.
                floats = low.astype(np.float64) / 10.0**scale
                return pa.array(floats, mask=_nulls(column))
    # Through text: slower, but correct for all decimals.
    return column.cast(pa.string()).cast(kind)


def words(column: pa.Array) -> list[np.ndarray]:
    """Return the bits of each decimal as int64 words, low words first; undefined for nulls."""
    width = column.type.bit_width // 64
    if len(column) == 0:
        return [np.empty(0, np.int64)] * width
    table = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, width)
    table = table[column.offset : column.offset + len(column)]
    return [table[:, k] for k in range(width)]


def _nulls(column: pa.Array) -> np.ndarray | None:
    if not column.null_count:
        return None
    mask: np.ndarray = column.is_null().to_numpy(zero_copy_only=False)
    return mask
