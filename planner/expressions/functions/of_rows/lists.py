"""Helpers for list arrays: take lists apart into elements and lengths, and put them together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.nodes import as_array
from planner.expressions.types import entries_type, is_map

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Value


def with_rows(
    evaluate: Callable[[list[pa.Array], Call], pa.Array],
) -> Callable[[Sequence[Value], Call], Value]:
    """Wrap a function of arrays so that it also accepts scalars, which are repeated."""

    def evaluated(values: Sequence[Value], call: Call) -> Value:
        arrays = [value for value in values if not isinstance(value, pa.Scalar)]
        rows = len(arrays[0]) if arrays else 1
        whole = [as_array(value, rows, value.type) for value in values]
        made = evaluate(whole, call)
        return made if arrays else made[0]

    return evaluated


def as_list(array: pa.Array) -> pa.Array:
    """Convert maps to lists of pairs, and lists of a fixed size to lists."""
    kind = array.type
    if is_map(kind):
        return array.cast(entries_type(kind))
    return array.cast(pa.list_(kind.value_field)) if pa.types.is_fixed_size_list(kind) else array


def lengths_of(lists: pa.Array) -> np.ndarray:
    """Return the length of each list; 0 for null."""
    lengths = np.diff(lists.offsets.to_numpy().astype(np.int64))
    return np.where(null_mask(lists), 0, lengths)


def null_mask(array: pa.Array) -> np.ndarray:
    """Return which values are null, bool[n]."""
    is_null: np.ndarray = pc.is_null(array).to_numpy(zero_copy_only=False)
    return is_null


def flat(lists: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the elements of all lists, and the row number of each; a null list has no elements."""
    lengths = lengths_of(lists)
    starts = lists.offsets.to_numpy().astype(np.int64)[:-1]
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return lists.values.take(pa.array(starts[rows] + places)), rows


def rebuilt(
    lengths: np.ndarray, values: pa.Array, call: Call, is_null: np.ndarray | None = None
) -> pa.Array:
    """Build lists with these lengths from consecutive ``values``."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = None if is_null is None else pa.array(is_null)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=call.type, mask=mask)
