"""Counts and integer sums per key, from which the rows that end are subtracted.

Sums are exact at any size: a value is split into ``high * 2**32 + low``, and both halves are summed
separately, with sign + for a birth and - for a death. So the stored sum of a key is exact after any
births and deaths, and no other row of the key is read. Sums of doubles would not be exact, so they
are computed elsewhere.

Invariant: a step takes time in its rows, even if all rows have one key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rstream.items.dictionaries import plain_array, plain_type
from rvertex.aggregates.spec import lanes_of
from rvertex.events.arrays import as_one_array, numbers
from rvertex.events.group_arrays import GroupArray
from rvertex.events.group_scan import group_start, heads_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rvertex.aggregates.function import Lane
    from rvertex.aggregates.spec import AggregateSpec

_HALF = np.int64(32)
_MASK = np.int64(2**32 - 1)
_FUNCTIONS = ("count", "sum", "mean")


def can_be_signed(aggregates: Sequence[AggregateSpec], payload: pa.Schema) -> bool:
    """Return whether all aggregates are counts, or sums and means of integers that int64 holds."""
    return all(
        a.function == "count" or (a.function in _FUNCTIONS and _is_whole(payload, a.column))
        for a in aggregates
    )


def _is_whole(payload: pa.Schema, column: str | None) -> bool:
    """Return whether the column is an integer that int64 holds."""
    kind = plain_type(payload.field(column).type)
    return bool(pa.types.is_integer(kind) and kind != pa.uint64())


class SignedSums:
    """The lanes of ``aggregates`` per key code, over rows of ``payload``."""

    def __init__(self, aggregates: Sequence[AggregateSpec], payload: pa.Schema) -> None:
        self._lanes: tuple[Lane, ...] = lanes_of(aggregates, payload)
        summed = [lane.only_column for lane in self._lanes if lane.kind.name == "sum"]
        counted = [lane.column for lane in self._lanes if lane.kind.name == "count"]
        self._summed = tuple(dict.fromkeys(summed))
        #: Columns whose values are counted; None: counts rows.
        self._counted = tuple(dict.fromkeys([None, *counted, *summed]))
        count = len(self._counted) + 2 * len(self._summed)
        self._carried = [GroupArray(np.int64, 0) for _ in range(count)]

    def after(
        self,
        births: pa.RecordBatch,
        deaths: pa.RecordBatch,
        step: np.ndarray,
        codes: np.ndarray,
        keys: int,
    ) -> tuple[list[pa.Array], np.ndarray]:
        """Return the lane columns after each step, and the number of live rows of its key then.

        ``step`` int64[births + deaths]: the step of each row. ``codes`` int64[m]: the key of each
        step, sorted; the steps of a key are in order of time.
        """
        sign = np.repeat(np.array([1, -1]), [births.num_rows, deaths.num_rows])
        parts = [
            sign if name is None else sign * _valid(births, deaths, name) for name in self._counted
        ]
        for name in self._summed:
            values = _values(births, deaths, name)
            parts += [sign * (values & _MASK), sign * (values >> _HALF)]
        pairs = zip(self._carried, parts, strict=True)
        totals = [_running(carried, part, step, codes, keys) for carried, part in pairs]
        counts = dict(zip(self._counted, totals, strict=False))
        halves = totals[len(self._counted) :]
        sums = dict(zip(self._summed, zip(halves[::2], halves[1::2], strict=True), strict=True))
        columns: list[pa.Array] = []
        for lane in self._lanes:
            if lane.kind.name == "count":
                columns.append(pa.array(counts[lane.column]))
            else:
                column = lane.only_column
                columns += _lane(*sums[column], counts[column])
        return columns, counts[None]

    def keep(self, codes: np.ndarray) -> None:
        """Renumber key ``codes[i]`` to i and drop all other keys."""
        for array in self._carried:
            array.adopt(array.read()[codes])

    def save(self) -> dict[str, pa.Table]:
        """Return the stored sums, by reference."""
        arrays = [array.shared() for array in self._carried]
        return {"carried": pa.table({f"c{i}": values for i, values in enumerate(arrays)})}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Restore the state that ``save`` returned."""
        for array, column in zip(self._carried, tables["carried"].columns, strict=True):
            array.adopt(numbers(as_one_array(column)))


def _column(births: pa.RecordBatch, deaths: pa.RecordBatch, name: str) -> pa.Array:
    return pa.concat_arrays([plain_array(rows.column(name)) for rows in (births, deaths)])


def _valid(births: pa.RecordBatch, deaths: pa.RecordBatch, name: str) -> np.ndarray:
    """Return 1 for each value and 0 for each null, first of ``births`` and then of ``deaths``."""
    valid = _column(births, deaths, name).is_valid()
    return valid.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def _values(births: pa.RecordBatch, deaths: pa.RecordBatch, name: str) -> np.ndarray:
    column = _column(births, deaths, name).cast(pa.int64()).fill_null(0)
    return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _running(
    carried: GroupArray, part: np.ndarray, step: np.ndarray, codes: np.ndarray, keys: int
) -> np.ndarray:
    """Return the sums after each step, and store the last sum of each key in ``carried``."""
    added = np.zeros(len(codes), np.int64)
    np.add.at(added, step, part)
    before = carried.writable(keys)
    heads = heads_of(codes)
    total = np.cumsum(added)
    first = group_start(heads)
    total = np.asarray(total - total[first] + added[first] + before[codes])
    last = np.append(heads[1:], True)
    before[codes[last]] = total[last]
    return total


def _lane(low: np.ndarray, high: np.ndarray, count: np.ndarray) -> list[pa.Array]:
    """Return the values and carries of exact sums, null if there is no value."""
    high = high + (low >> _HALF)
    low = low & _MASK
    carry = (high + np.int64(2**31)) >> _HALF
    value = ((high - (carry << _HALF)) << _HALF) | low
    return [pa.array(value, mask=count == 0), pa.array(carry)]
