"""An array indexed by key code that grows on demand. Codes that were not set have ``fill``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_CAPACITY_MIN = 1 << 10


class CodeMap:
    """Codes -> integers of ``dtype``. Codes are small, see :mod:`rvertex.keys.key_index`."""

    def __init__(self, dtype: DTypeLike, fill: int) -> None:
        self._fill = fill
        self._values = np.full(_CAPACITY_MIN, fill, dtype)

    def get(self, codes: np.ndarray) -> np.ndarray:
        """Return the values of ``codes`` int64[n]; no code is negative."""
        # Clip, because a get does not grow the array
        values = self._values.take(codes, mode="clip")
        values[codes >= len(self._values)] = self._fill
        return values

    def put(self, codes: np.ndarray, values: np.ndarray) -> None:
        """Set the values of ``codes``; for a repeated code the last value wins."""
        self._cover(codes)
        self._values[codes] = values

    def clear(self, codes: np.ndarray) -> None:
        """Reset ``codes`` to ``fill``; the time is proportional to their number."""
        self._values[codes] = self._fill

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return int(self._values.nbytes)

    def _cover(self, codes: np.ndarray) -> None:
        size = int(codes.max(initial=-1)) + 1
        if size > len(self._values):
            grown = np.full(max(size, 2 * len(self._values)), self._fill, self._values.dtype)
            grown[: len(self._values)] = self._values
            self._values = grown
