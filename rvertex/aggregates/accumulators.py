"""Accumulators: one value per group, updated row by row in row order.

Groups are dense codes. An accumulator is an array indexed by code that grows with the groups.
``ufunc.at`` applies rows one after another to the stored values, so the bits of a float sum do not
depend on batch boundaries.

Invariants: (1) the state after a row depends only on the rows so far; (2) the amortised time of an
update is proportional to its rows, never to the number of groups. Exception: the first update after
``save`` copies the arrays, because the saved arrays must not change; (3) ``restore(save())`` is the
identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rstream.items.batch import VS, int64_column
from rvertex.events.arrays import as_one_array, doubles, numbers, one_nan
from rvertex.events.group_arrays import GroupArray

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A column of saved state.
Saved: TypeAlias = "pa.Array | pa.ChunkedArray"


@dataclass(slots=True)
class Rows:
    """Rows and their groups: ``codes`` int64[n], all less than ``groups``.

    ``at`` int64[n] has the row of ``events`` that each code belongs to, since a row may be in many
    groups. None: code i belongs to row i. Dictionary-encoded columns are decoded once for all
    accumulators.
    """

    codes: np.ndarray
    groups: int
    events: pa.RecordBatch
    at: np.ndarray | None = None
    #: bool[groups]: which groups had rows before, if codes have gaps. None: all groups so far had
    #: rows.
    occupied: np.ndarray | None = None
    _columns: dict[str, pa.Array] = field(default_factory=dict)
    _valid: dict[str, tuple[np.ndarray, pa.Array]] = field(default_factory=dict)
    #: A cache: values that one accumulator computed from these rows and another may reuse.
    found: dict[object, object] = field(default_factory=dict)

    def column(self, name: str) -> pa.Array:
        """Return one value per code, dictionaries decoded."""
        if name not in self._columns:
            column = self.events.column(name)
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            self._columns[name] = column if self.at is None else column.take(pa.array(self.at))
        return self._columns[name]

    def valid(self, name: str) -> tuple[np.ndarray, pa.Array]:
        """Return the codes and values of the rows in which the column is not null."""
        if name not in self._valid:
            column = self.column(name)
            codes = self.codes
            if column.null_count:
                codes = codes[column.is_valid().to_numpy(zero_copy_only=False)]
                column = column.drop_null()
            self._valid[name] = codes, column
        return self._valid[name]

    def elements(self, name: str) -> tuple[np.ndarray, pa.Array]:
        """Return the elements of a list column, each with the code of its row."""
        codes, lists = self.valid(name)
        return np.repeat(codes, pc.list_value_length(lists).to_numpy()), lists.flatten()

    def times(self) -> np.ndarray:
        """Return ``_vs`` per code, int64[n]."""
        vs = int64_column(self.events, VS)
        return vs if self.at is None else vs[self.at]


class Accumulator(Protocol):
    """Accumulates one lane (a column of partial results) for all groups."""

    def update(self, rows: Rows) -> None:
        """Add rows to the groups."""

    def columns(self) -> list[pa.Array]:
        """Return the lane's columns, one value per group in code order."""

    def save(self) -> list[Saved]:
        """Return the state by reference, as columns that may differ in length.

        Updates do not change it.
        """

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        """Restore the state that ``save`` returned."""


class CountRows:
    """Count of rows per group."""

    takes_gaps: ClassVar[bool] = True

    def __init__(self) -> None:
        self._counts = GroupArray(np.int64, 0)

    def update(self, rows: Rows) -> None:
        np.add.at(self._counts.writable(rows.groups), rows.codes, 1)

    def columns(self) -> list[pa.Array]:
        return [pa.array(self._counts.shared())]

    def save(self) -> list[Saved]:
        return [*self.columns()]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        self._counts.adopt(numbers(as_one_array(state[0])))


class CountValues(CountRows):
    """Count of non-null values of a column per group."""

    def __init__(self, column: str) -> None:
        super().__init__()
        self._column = column

    def update(self, rows: Rows) -> None:
        column = rows.column(self._column)
        one: int | np.ndarray = 1
        if column.null_count:  # adding zeros is faster than filtering
            one = column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        np.add.at(self._counts.writable(rows.groups), rows.codes, one)


class MergedCounts(CountRows):
    """Sum of the counts of partial rows."""

    def __init__(self, column: str) -> None:
        super().__init__()
        self._column = column

    def update(self, rows: Rows) -> None:
        np.add.at(
            self._counts.writable(rows.groups), rows.codes, numbers(rows.column(self._column))
        )


class HasValue:
    """Tracks which groups have a value. No array is allocated until a column has a null."""

    def __init__(self) -> None:
        self._groups = 0
        self._flags: GroupArray | None = None

    def mark(self, codes: np.ndarray, rows: Rows) -> None:
        """Mark the groups ``codes``, a part of the codes of ``rows``, as having a value.

        Groups without a row have no value: they are older than the aggregate.
        """
        is_later = not len(rows.codes) and rows.groups > self._groups
        if self._flags is None and (is_later or len(codes) < len(rows.codes)):
            self._flags = GroupArray(np.bool_, False)
            before = True if rows.occupied is None else rows.occupied[: self._groups]
            self._flags.writable(self._groups)[:] = before
        if self._flags is not None:
            self._flags.writable(rows.groups)[codes] = True
        self._groups = rows.groups

    def masked(self, values: np.ndarray) -> pa.Array:
        """Return ``values`` with null for groups that have no value."""
        return pa.array(values, mask=None if self._flags is None else ~self._flags.read())

    def restore(self, column: pa.Array) -> None:
        self._groups, self._flags = len(column), None
        if column.null_count:
            self._flags = GroupArray(np.bool_, False)
            self._flags.adopt(column.is_valid().to_numpy(zero_copy_only=False))


class SumFloat:
    """Sum of doubles in row order; null for a group without values."""

    takes_gaps: ClassVar[bool] = True

    def __init__(self, column: str) -> None:
        self._column = column
        self._fold: np.ufunc = np.add
        self._sums = GroupArray(np.float64, 0.0)
        self._has_value = HasValue()

    def update(self, rows: Rows) -> None:
        codes, column = rows.valid(self._column)
        with np.errstate(all="ignore"):
            self._fold.at(self._sums.writable(rows.groups), codes, doubles(column))
        self._has_value.mark(codes, rows)

    def columns(self) -> list[pa.Array]:
        return [self._has_value.masked(one_nan(self._sums.shared()))]

    def save(self) -> list[Saved]:
        return [self._has_value.masked(self._sums.shared())]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        sums = as_one_array(state[0])
        self._sums.adopt(numbers(sums))
        self._has_value.restore(sums)


class ProductFloat(SumFloat):
    """Product of numbers as doubles, in row order; null for a group without values."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self._fold = np.multiply
        self._sums = GroupArray(np.float64, 1.0)

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        products = as_one_array(state[0])
        self._sums.adopt(numbers(products.fill_null(1.0)))
        self._has_value.restore(products)


class Extreme:
    """Minimum or maximum of numbers, times or booleans; NaN is greater than every number."""

    takes_gaps: ClassVar[bool] = True

    def __init__(self, column: str, kind: pa.DataType, *, is_max: bool) -> None:
        self._column = column
        self._kind = kind
        dtype = _physical(kind)
        self._values = GroupArray(dtype, _identity(dtype, is_max=is_max))
        self._fold = np.maximum if is_max else np.fmin
        self._has_value = HasValue()

    def update(self, rows: Rows) -> None:
        codes, column = rows.valid(self._column)
        with np.errstate(all="ignore"):
            fold_at(self._fold, self._values.writable(rows.groups), codes, numbers(column))
        self._has_value.mark(codes, rows)

    def columns(self) -> list[pa.Array]:
        return [self._typed(one_nan(self._values.shared()))]

    def save(self) -> list[Saved]:
        values = self._values.shared()
        # A code without rows holds a fill value, which a boolean cannot store: save the integers.
        is_boolean = pa.types.is_boolean(self._kind)
        return [self._has_value.masked(values) if is_boolean else self._typed(values)]

    def restore(self, state: Sequence[pa.ChunkedArray]) -> None:
        column = as_one_array(state[0])
        values = numbers(column)
        if column.null_count:
            empty = column.is_null().to_numpy(zero_copy_only=False)
            values = np.where(empty, self._values.fill, values).astype(values.dtype)
        self._values.adopt(values)
        self._has_value.restore(column)

    def _typed(self, values: np.ndarray) -> pa.Array:
        column = self._has_value.masked(values)
        if pa.types.is_boolean(self._kind):
            return column.cast(pa.bool_())
        return column if column.type == self._kind else column.view(self._kind)


def takes_gaps(accumulator: Accumulator) -> bool:
    """Return whether codes without rows cost nothing but space in the accumulator's array."""
    return getattr(accumulator, "takes_gaps", False)


def fold_at(ufunc: np.ufunc, groups: np.ndarray, codes: np.ndarray, values: np.ndarray) -> None:
    """Apply ``ufunc.at``. If all integers belong to one group, use the faster ``ufunc.reduce``."""
    if len(groups) == 1 and len(values) and values.dtype.kind in "iu":
        groups[0] = ufunc(groups[0], ufunc.reduce(values))
    else:
        ufunc.at(groups, codes, values)


def is_numpy_ordered(kind: pa.DataType) -> bool:
    """Return whether :class:`Extreme` supports the type."""
    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return bool(is_number or (types.is_temporal(kind) and not types.is_interval(kind)))


def _physical(kind: pa.DataType) -> np.dtype[Any]:
    if pa.types.is_boolean(kind):
        return np.dtype(np.int8)
    if pa.types.is_temporal(kind):
        return np.dtype(f"i{kind.bit_width // 8}")
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype


def _identity(dtype: np.dtype[Any], *, is_max: bool) -> float | int:
    if dtype.kind == "f":
        return float("-inf") if is_max else float("nan")
    limits = np.iinfo(dtype)
    return int(limits.min if is_max else limits.max)
