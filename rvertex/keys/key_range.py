"""Direct addressing: a key that lies in a range of integers is known by its distance from the base.

So a row finds its place by a subtraction, without a hash or an index. How wide a range may become,
and whether it moves, is for its owner to say: an index grows it both ways, groups only upwards,
codes of values never.

Distances are differences modulo 2**64. Seen without sign, the distance of a key below the base is
at least 2**63 less the base, so it is outside of any range that ends within int64.
"""

from __future__ import annotations

import numpy as np

_LEAST, _ABOVE = -(2**63), 2**63


class KeyRange:
    """The int64 keys ``[base, base + width)``; never changed."""

    __slots__ = ("_first", "_places", "base", "width")

    def __init__(self, base: int, width: int) -> None:
        self.base = base
        self.width = width
        self._first = np.int64(base)
        self._places = np.uint64(width)

    @property
    def is_possible(self) -> bool:
        """Whether the last key is within int64."""
        return self.base + self.width <= _ABOVE

    def covers(self, low: int, high: int) -> bool:
        """Whether both are keys of the range, and so all between them."""
        return self.base <= low and high < self.base + self.width

    def distances(self, keys: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The distance of each of ``keys`` int64[n]; may be ``keys`` itself, as may ``out``."""
        return np.subtract(keys, self._first, out=out) if self.base else keys

    def holds(self, distances: np.ndarray) -> np.ndarray:
        """Which of these, int64[n], are of keys of the range: bool[n]."""
        mask: np.ndarray = distances.view(np.uint64) < self._places
        return mask

    def keys(self, distances: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The key at each distance, int64[n]; ``out`` may be ``distances`` itself."""
        keys: np.ndarray = np.add(distances, self._first, out=out)
        return keys


def base_below(low: int, room: int) -> int:
    """A base that leaves ``room`` keys below ``low``, or as many as int64 has."""
    return max(low - room, _LEAST)


def greatest_distance(distances: np.ndarray, mask: np.ndarray | None) -> int:
    """The greatest of these, seen without sign, or of those in ``mask``; 0 if there are none."""
    far = distances.view(np.uint64)
    return int(far.max(initial=0) if mask is None else far.max(initial=0, where=mask))
