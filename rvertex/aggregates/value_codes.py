"""Codes below 2**31 for the distinct values of a column, without nulls.

The code of an integer is its distance from a base, if all values are close together; the base is
far below the first values. That takes no memory, and codes sort as their values do. All other
values get codes from a table, in order of first appearance.

Invariant: equal values have one code, distinct values distinct codes. 0.0 equals -0.0, NaN equals
NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rvertex.events.arrays import as_one_array
from rvertex.keys.key_range import KeyRange, base_below
from rvertex.keys.key_table import KeyTable

if TYPE_CHECKING:
    from rvertex.aggregates.accumulators import Saved

CODE_BITS = 31
_SPAN = 1 << CODE_BITS


class ValueCodes:
    """Maps values of type ``kind`` to codes."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._table = KeyTable([kind])
        self._range: KeyRange | None = None
        #: Whether codes are distances from the base. If not, they come from the table.
        self.is_direct = pa.types.is_signed_integer(kind)

    def of(self, values: pa.Array) -> np.ndarray | None:
        """Return the code of each value, int64[n]; None: a distance does not fit into a code.

        After None, the caller must call :meth:`give_up_distances`, and convert old codes by
        :meth:`again`.
        """
        if not self.is_direct:
            return self._table.codes([values], len(values))
        numbers = values.to_numpy(zero_copy_only=True)
        if not len(numbers):
            return np.empty(0, np.int64)
        low, high = int(numbers.min()), int(numbers.max())
        if self._range is None:
            self._range = KeyRange(base_below(low, _SPAN // 2), _SPAN)
        if not self._range.covers(low, high):
            return None
        codes = numbers.astype(np.int64)
        return self._range.distances(codes, out=codes)

    def give_up_distances(self) -> None:
        """Switch to the table; :meth:`again` converts earlier codes."""
        self.is_direct = False

    def again(self, codes: np.ndarray) -> np.ndarray:
        """Convert codes that were distances to codes of the table."""
        values = self._from_distances(codes.copy())
        return self._table.codes([values], len(values))

    def values(self, codes: np.ndarray) -> pa.Array:
        """Return the values of codes, or of ranks unless :meth:`ranks` returns None.

        Overwrites ``codes``.
        """
        return self._from_distances(codes) if self.is_direct else self._sorted().take(codes)

    def ranks(self) -> np.ndarray | None:
        """Return the rank of each code's value, int64[n]; None: codes sort as their values do."""
        if self.is_direct:
            return None
        order = self._order()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank

    def save(self) -> list[Saved]:
        """Return the state, by reference."""
        base = self._range.base if self._range is not None and self.is_direct else None
        return [self._table.save()["key0"].column(0), pa.array([base], pa.int64())]

    def restore(self, values: pa.ChunkedArray, base: pa.ChunkedArray) -> None:
        """Restore the state that ``save`` returned."""
        table = {"groups": pa.table({"code": pa.nulls(len(values))})}
        self._table.restore({**table, "key0": pa.table({"key": values})})
        saved = as_one_array(base)[0].as_py()
        self._range = None if saved is None else KeyRange(saved, _SPAN)
        self.is_direct = self.is_direct and len(values) == 0

    def _from_distances(self, codes: np.ndarray) -> pa.Array:
        if self._range is not None:
            self._range.keys(codes, out=codes)
        values = pa.array(codes)
        return values if values.type == self._kind else values.cast(self._kind)

    def _sorted(self) -> pa.Array:
        (values,) = self._table.keys()
        return values.take(pa.array(self._order()))

    def _order(self) -> np.ndarray:
        (values,) = self._table.keys()
        return _ascending(values)


def _ascending(values: pa.Array) -> np.ndarray:
    """Return the positions of distinct values in ascending order, int64[n]."""
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    try:
        return pc.sort_indices(values).to_numpy().astype(np.int64)  # type: ignore[no-any-return]
    except pa.ArrowNotImplementedError:  # Arrow cannot sort the type, Python can
        plain = values.to_pylist()
        return np.array(sorted(range(len(plain)), key=plain.__getitem__), np.int64)
