"""Keys that are integers or times close together: a key's code is its distance from a base.

So a row finds its group by a subtraction, without an index, and groups are in order of their keys
from the start. Codes have gaps, so that arrays by code are longer than there are keys.

Invariants: (1) the base is fixed, and a key that was accepted once is always accepted: the range
only grows, and its owner lets it grow only while no key has been refused; (2) codes are below
``groups``, which is at most four times the rows so far or ``SPAN_MIN``, and each code is a key
within int64; (3) after ``restore(save())`` the same keys have the same codes. Which keys are
accepted depends on the batch boundaries, so no output may depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.keys.key_range import KeyRange, base_below, greatest_distance
from rvertex.keys.sort_keys import is_packable, typed

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A range of at most this many codes is allowed for any number of rows.
SPAN_MIN = 1 << 12
_SPAN_PER_ROW = 4
#: This fraction of the first keys' width, 1 / 8, is left free below the least key.
_ROOM_BELOW = 8


class OffsetKeys:
    """Keys of one column of type ``kind`` within the range ``keys``."""

    def __init__(self, kind: pa.DataType, keys: KeyRange) -> None:
        self._kind = kind
        self._range = keys
        self._rows = 0
        #: By code: 1 if a row with this key has arrived.
        self._present = GroupArray(np.uint8, 0)

    @property
    def groups(self) -> int:
        """An upper bound (exclusive) of the codes."""
        return self._range.width

    def codes(self, column: pa.Array, *, grows: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the rows whose key is in the range (None: all), and their codes, int64."""
        mask = None
        if column.null_count:
            mask = column.is_valid().to_numpy(zero_copy_only=False)
        at = self._range.distances(numbers(column).astype(np.int64, copy=False))
        self._rows += len(at)
        greatest = greatest_distance(at, mask)
        if greatest >= self._range.width and grows:
            self._grow(greatest + 1)
        if greatest >= self._range.width:
            inside = self._range.holds(at)
            mask = inside if mask is None else mask & inside
        return at if mask is None else at[mask], mask

    def occupied(self) -> np.ndarray:
        """Return which codes have a key, bool[groups at the last :meth:`add`].

        The result is a view: do not keep it.
        """
        return self._present.read().view(bool)

    def add(self, codes: np.ndarray) -> None:
        """Mark these codes as keys."""
        self._present.writable(self._range.width)[codes] = 1

    def first_at(self, value: int) -> int:
        """Return the first code whose key is at or after ``value``.

        The number of codes if there is none.
        """
        return min(max(int(value) - self._range.base, 0), len(self.occupied()))

    def found(self) -> np.ndarray:
        """Return the codes that have a key, increasing."""
        return np.flatnonzero(self.occupied())

    def keys(self, codes: np.ndarray) -> pa.Array:
        """Return the keys of these codes."""
        return typed(self._range.keys(codes), self._kind)

    def save(self) -> dict[str, pa.Table]:
        """Return the base and the keys, by reference."""
        present = pa.table({"present": self._present.shared()})
        return {"base": pa.table({"base": [self._range.base]}), "present": present}

    @classmethod
    def restore(cls, kind: pa.DataType, tables: Mapping[str, pa.Table]) -> OffsetKeys:
        """Rebuild from the tables of :meth:`save`."""
        present = numbers(as_one_array(tables["present"].column(0)))
        made = cls(kind, KeyRange(tables["base"].column(0)[0].as_py(), len(present)))
        made._present.adopt(present)
        # A lower bound: the number of rows is not saved, but each key had at least one
        made._rows = len(made.found())
        return made

    @classmethod
    def beginning(cls, column: pa.Array) -> OffsetKeys | None:
        """Return a range for keys like the values of ``column``.

        None if they are far apart or no integers.
        """
        if len(column) == 0 or not is_packable(column):
            return None
        values = numbers(column)
        low, high = int(values.min()), int(values.max())
        base = base_below(low, (high - low) // _ROOM_BELOW)
        groups = high - base + 1
        if groups > max(_SPAN_PER_ROW * len(values), SPAN_MIN):
            return None
        return cls(column.type, KeyRange(base, groups))

    def _grow(self, groups: int) -> None:
        if groups <= max(_SPAN_PER_ROW * self._rows, SPAN_MIN):
            wider = KeyRange(self._range.base, groups)
            self._range = wider if wider.is_possible else self._range
