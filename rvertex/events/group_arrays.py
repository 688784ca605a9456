"""Arrays indexed by group code: growing, shared with snapshots by reference, copied on write.

Invariants: (1) arrays that ``shared`` or ``values`` returned never change; (2) growth is amortised:
the time of a call is proportional to its codes, not to the number of groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_CAPACITY_MIN = 64
_GARBAGE_ROWS_MIN = 1 << 16
#: If all rows are at most this many times the selected rows, the chunks are read as a whole.
_DENSE = 16


class GroupArray:
    """A dense array of fixed-width values with ``fill`` for groups that were never written."""

    def __init__(self, dtype: DTypeLike, fill: Any) -> None:
        self.fill = fill
        self._values = np.empty(0, dtype)
        self._count = 0
        self._is_shared = False

    def __len__(self) -> int:
        return self._count

    def writable(self, groups: int) -> np.ndarray:
        """Return the values of ``groups`` groups (never fewer than before), to change in place."""
        assert groups >= self._count, (groups, self._count)
        count = self._count
        if groups > len(self._values) or self._is_shared:
            capacity = len(self._values)
            if groups > capacity:
                capacity = max(groups, 2 * capacity, _CAPACITY_MIN)
            grown = np.empty(capacity, self._values.dtype)
            grown[:count] = self._values[:count]
            self._values, self._is_shared = grown, False
        # Fill only these: memory that is not touched is not allocated
        self._values[count:groups] = self.fill
        self._count = groups
        return self._values[:groups]

    def read(self) -> np.ndarray:
        """Return the present values, valid until the next write."""
        return self._values[: self._count]

    def shared(self) -> np.ndarray:
        """Return the present values, by reference; the next write copies them first."""
        self._is_shared = True
        return self._values[: self._count]

    def adopt(self, values: np.ndarray) -> None:
        """Replace the values by an array that others may use: the next write copies it first."""
        assert values.dtype == self._values.dtype, (values.dtype, self._values.dtype)
        self._values, self._count, self._is_shared = values, len(values), True


class ArrowStore:
    """Stores one value of any Arrow type per group: rows in chunks, and the row of each group.

    Overwritten values stay in the chunks until they are as many as the groups; then the chunks are
    rewritten. New chunks are merged like the digits of a binary counter.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._chunks: list[pa.Array] = []
        self._rows = 0
        #: Row of each group's value in the concatenated chunks; -1 for a group without one.
        self._at = GroupArray(np.int64, -1)

    def __len__(self) -> int:
        return len(self._at)

    def grow(self, groups: int) -> int:
        """Make room for ``groups`` groups; return the previous number."""
        known = len(self._at)
        if groups > known:
            self._at.writable(groups)
        return known

    def lacks(self, codes: np.ndarray) -> np.ndarray:
        """Return which of these groups have no value."""
        is_missing: np.ndarray = self._at.read()[codes] < 0
        return is_missing

    def put(self, codes: np.ndarray, values: pa.Array) -> None:
        """Replace the values of ``codes`` (no code twice)."""
        assert values.type == self._kind, (values.type, self._kind)
        at = self._at.writable(len(self._at))
        at[codes] = np.arange(self._rows, self._rows + len(codes))
        self._rows += len(codes)
        self._chunks.append(values)
        while len(self._chunks) > 1 and len(self._chunks[-2]) <= 2 * len(self._chunks[-1]):
            tail = pa.concat_arrays(self._chunks[-2:])
            self._chunks[-2:] = [tail]
        if self._rows > max(2 * len(self._at), _GARBAGE_ROWS_MIN):
            self.adopt(self.values())

    def values(self, codes: np.ndarray | None = None) -> pa.Array:
        """Return the values of ``codes``, or of all groups in code order; null without a value."""
        at = self._at.read() if codes is None else self._at.read()[codes]
        if not self._chunks:
            return pa.nulls(len(at), self._kind)
        if self._rows <= _DENSE * len(at):
            missing = at < 0
            rows = pa.array(at, mask=missing) if missing.any() else pa.array(at)
            taken = pa.chunked_array(self._chunks).take(rows)
            return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken
        return self._few(at)

    def save(self) -> list[pa.Array | pa.ChunkedArray]:
        """Return the chunks, and the row of each group's value in them, by reference."""
        return [pa.chunked_array(self._chunks, self._kind), pa.array(self._at.shared())]

    def restore(self, chunks: pa.ChunkedArray, at: np.ndarray) -> None:
        """Restore what ``save`` returned."""
        self._chunks, self._rows = list(chunks.chunks), len(chunks)
        self._at.adopt(at)

    def adopt(self, values: pa.Array) -> None:
        """Replace all values: one per group, in code order."""
        self._chunks, self._rows = [values], len(values)
        self._at.adopt(np.arange(len(values)))

    def _few(self, at: np.ndarray) -> pa.Array:
        """Return the values in rows ``at``; null for negative rows.

        Used for few rows, because Arrow's take of a chunked array costs time in all chunks.
        """
        starts = np.cumsum([0, *(len(chunk) for chunk in self._chunks)])
        chunk = np.searchsorted(starts, at, side="right") - 1
        order = np.argsort(chunk, kind="stable")
        bounds = np.searchsorted(chunk[order], np.arange(-1, len(self._chunks) + 1))
        parts = [pa.nulls(int(bounds[1]), self._kind)]
        for i, values in enumerate(self._chunks):
            wanted = order[bounds[i + 1] : bounds[i + 2]]
            if len(wanted):
                parts.append(values.take(pa.array(at[wanted] - starts[i])))
        place = np.empty(len(at), np.int64)
        place[order] = np.arange(len(at))
        return pa.concat_arrays(parts).take(pa.array(place))
