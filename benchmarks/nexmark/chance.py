"""Random numbers of events: the k-th draw of event n is a hash of (seed, n, k).

So any range of events can be generated alone, in any order, on any machine.
"""

from __future__ import annotations

import numpy as np

from rstream.items.hashing import fmix

SEED = 20_260_101
_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)
_DRAWS = np.uint64(16)
_HIGH_HALF = np.uint64(32)


def draws(event: np.ndarray, k: int) -> np.ndarray:
    """Return the k-th draw of each event, uint64 (splitmix64)."""
    assert 0 <= k < int(_DRAWS), k
    x = event.astype(np.uint64)
    x *= _DRAWS
    x += np.uint64(SEED * int(_DRAWS) + k)
    x *= _GOLDEN
    return fmix(x)


def below(draw: np.ndarray, bound: int | np.ndarray) -> np.ndarray:
    """Return whole numbers in ``[0, bound)``, from the upper 32 bits of a draw."""
    high = draw >> _HIGH_HALF
    high *= np.uint64(bound) if isinstance(bound, int) else bound.astype(np.uint64)
    high >>= _HIGH_HALF
    return high.view(np.int64)


def low_below(draw: np.ndarray, bound: int) -> np.ndarray:
    """Return whole numbers in ``[0, bound)``, from the lower 32 bits of a draw."""
    low = draw & np.uint64(0xFFFF_FFFF)
    low *= np.uint64(bound)
    low >>= _HIGH_HALF
    return low.view(np.int64)


def prices(draw: np.ndarray) -> np.ndarray:
    """Return log-uniform numbers in 100 .. 100,000,000."""
    unit = (draw >> np.uint64(11)).astype(np.float64)
    unit *= 6 * np.log(10) / 2**53
    np.exp(unit, out=unit)
    unit *= 100
    return np.rint(unit, out=unit).astype(np.int64)
