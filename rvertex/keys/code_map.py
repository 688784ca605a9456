"""int64 values by key code, for every code there will ever be: unset ones have a default."""

from __future__ import annotations

import numpy as np


class PerCode:
    """Codes -> int64. Codes are small and dense, see :mod:`rvertex.keys.key_index`."""

    def __init__(self, default: int) -> None:
        self._default = default
        self._values = np.full(1 << 10, default, np.int64)

    def get(self, codes: np.ndarray) -> np.ndarray:
        """The values of ``codes`` int64[n], none negative."""
        self._cover(codes)
        return self._values.take(codes)

    def put(self, codes: np.ndarray, values: np.ndarray) -> None:
        """Set them; of a repeated code the last value stays."""
        self._cover(codes)
        self._values[codes] = values

    def _cover(self, codes: np.ndarray) -> None:
        size = int(codes.max(initial=-1)) + 1
        if size > len(self._values):
            grown = np.full(max(size, 2 * len(self._values)), self._default, np.int64)
            grown[: len(self._values)] = self._values
            self._values = grown


_FREE = -1


class CodeMap:
    """Codes -> small integers, -1 where none; clearing costs time in what was set."""

    def __init__(self) -> None:
        self._values = np.full(1 << 10, _FREE, np.int32)

    def put(self, codes: np.ndarray, values: np.ndarray) -> None:
        self._cover(codes)
        self._values[codes] = values

    def get(self, codes: np.ndarray) -> np.ndarray:
        self._cover(codes)
        return self._values.take(codes)

    def clear(self, codes: np.ndarray) -> None:
        self._values[codes] = _FREE

    def _cover(self, codes: np.ndarray) -> None:
        size = int(codes.max(initial=-1)) + 1
        if size > len(self._values):
            grown = np.full(max(size, 2 * len(self._values)), _FREE, np.int32)
            grown[: len(self._values)] = self._values
            self._values = grown
