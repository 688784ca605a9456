"""Direct addressing: a key in a range of integers is identified by its distance from the base.

So a row's code is one subtraction, without a hash or an index. The owner decides how wide a range
becomes and whether its base moves: an index grows its range in both directions, groups only
upwards, value codes never.

Distances are differences modulo 2**64. As an unsigned number, the distance of a key below the base
is at least 2**63 minus the base. So it is outside of every range that ends within int64.
"""

from __future__ import annotations

import numpy as np

_LEAST, _ABOVE = -(2**63), 2**63


class KeyRange:
    """The int64 keys ``[base, base + width)``; immutable."""

    __slots__ = ("_first", "_places", "base", "width")

    def __init__(self, base: int, width: int) -> None:
        self.base = base
        self.width = width
        self._first = np.int64(base)
        self._places = np.uint64(width)

    @property
    def is_possible(self) -> bool:
        """Whether the last key of the range is within int64."""
        return self.base + self.width <= _ABOVE

    def covers(self, low: int, high: int) -> bool:
        """Return whether the range contains all keys from ``low`` to ``high``."""
        return self.base <= low and high < self.base + self.width

    def distances(self, keys: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return each key's distance from the base, int64[n]; ``out`` may be ``keys`` itself."""
        return np.subtract(keys, self._first, out=out) if self.base else keys

    def holds(self, distances: np.ndarray) -> np.ndarray:
        """Return whether each distance, int64[n], belongs to a key of the range: bool[n]."""
        mask: np.ndarray = distances.view(np.uint64) < self._places
        return mask

    def keys(self, distances: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the key at each distance, int64[n]; ``out`` may be ``distances`` itself."""
        keys: np.ndarray = np.add(distances, self._first, out=out)
        return keys


def base_below(low: int, room: int) -> int:
    """Return a base that leaves ``room`` keys below ``low``, or as many as int64 has."""
    return max(low - room, _LEAST)


def greatest_distance(distances: np.ndarray, mask: np.ndarray | None) -> int:
    """Return the greatest distance, unsigned, in ``mask`` or of all; 0 if there is none."""
    far = distances.view(np.uint64)
    return int(far.max(initial=0) if mask is None else far.max(initial=0, where=mask))
