"""Window frames: for each row of a partition, the list of the values in its frame.

A partition is a list in the order of OVER. A frame is ``rows``, ``groups`` or ``range`` with the
distances of its first and last row, as text: ``"rows -1 2"``, ``"range -5 inf desc"``. Distances
below 0 are PRECEDING, ``inf`` is UNBOUNDED.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.functions.of_rows.list_calls import entry_of_lists, list_bounds
from planner.expressions.functions.of_rows.lists import as_list, flat, null_mask, rebuilt
from planner.expressions.types import is_list

if TYPE_CHECKING:
    from planner.expressions.nodes import Call, Node

#: Most values in the frames of one batch of partitions.
_VALUES_MAX = 2**26
_TOO_MANY = (
    "the frames of these partitions have {0} values, at most {1} fit: bound the frame, or "
    "partition by more columns"
)
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Frame:
    """The bounds of a frame relative to its row; an infinite distance is UNBOUNDED."""

    unit: str
    first: float
    last: float
    is_descending: bool = False
    #: What EXCLUDE leaves out: ``row``, ``group``, ``ties`` (the group without the row) or nothing.
    excluded: str = ""

    @staticmethod
    def of(text: str) -> Frame:
        """Parse the text of a frame."""
        unit, first, last, *rest = text.split()
        excluded = [word.removeprefix("but-") for word in rest if word.startswith("but-")]
        return Frame(unit, float(first), float(last), "desc" in rest, "".join(excluded))


def _resolve(call: Call) -> Node | None:
    kinds = [value.type for value in call.args]
    if any(kind is None or not is_list(kind) for kind in kinds):
        return None
    assert kinds[0] is not None
    return replace(call, type=pa.list_(pa.list_(kinds[0].value_type)))


def _evaluate(arrays: list[pa.Array], call: Call) -> pa.Array:
    frame = Frame.of(str(call.option("frame")))
    lists = as_list(arrays[0])
    lengths, starts, _ = list_bounds(lists)
    elements, rows = flat(lists)
    at, count = starts[rows], lengths[rows]
    if frame.unit == "rows":
        place = np.arange(len(rows)) - at
        first, last = place + frame.first, place + frame.last
    elif frame.unit == "groups":
        first, last = _of_groups(as_list(arrays[1]), at, count, frame)
    else:
        first, last = _of_distances(as_list(arrays[1]), starts, lengths, frame)
    first = np.maximum(first, 0).astype(np.int64)
    last = np.minimum(last, count - 1).astype(np.int64)
    sizes = np.maximum(last - first + 1, 0)
    total = int(sizes.sum())
    if total > _VALUES_MAX:
        raise pa.ArrowInvalid(_TOO_MANY.format(total, _VALUES_MAX))
    ends = np.cumsum(sizes)
    wanted = np.arange(total) + np.repeat(at + first - (ends - sizes), sizes)
    if frame.excluded:
        owners = np.repeat(np.arange(len(rows)), sizes)
        kept = _kept(as_list(arrays[1]), wanted, owners, frame.excluded)
        wanted = wanted[kept]
        ends = np.cumsum(np.bincount(owners[kept], minlength=len(rows)))
    offsets = pa.array(np.append(0, ends), pa.int32())
    inner = pa.ListArray.from_arrays(offsets, elements.take(pa.array(wanted, pa.int64())))
    return rebuilt(lengths, inner, call, null_mask(lists))


def _kept(keys: pa.Array, wanted: np.ndarray, owners: np.ndarray, excluded: str) -> np.ndarray:
    """Return which of the rows ``wanted`` stay after EXCLUDE; ``owners``: the frame of each."""
    is_other: np.ndarray = wanted != owners
    if excluded == "row":
        return is_other
    values, _ = flat(keys)
    codes = values.dictionary_encode(null_encoding="encode").indices.to_numpy()
    is_apart: np.ndarray = codes[wanted] != codes[owners]
    return is_apart if excluded == "group" else is_apart | ~is_other


def _of_groups(
    keys: pa.Array, at: np.ndarray, count: np.ndarray, frame: Frame
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of each frame's first and last row, counted in groups of peers."""
    texts, rows = flat(keys)
    codes = texts.dictionary_encode(null_encoding="encode").indices.to_numpy()
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (codes[1:] != codes[:-1]) | (rows[1:] != rows[:-1])
    begins = np.flatnonzero(is_new)
    ends = np.append(begins[1:], len(rows)) - 1
    group = np.cumsum(is_new) - 1
    low, high = group[at], group[at + count - 1]
    first, last = group + frame.first, group + frame.last
    from_ = np.clip(first, low, high).astype(np.int64)
    to = np.clip(last, low, high).astype(np.int64)
    is_empty = (first > high) | (last < low)
    return begins[from_] - at, np.where(is_empty, -1, ends[to] - at)


def _of_distances(
    keys: pa.Array, starts: np.ndarray, lengths: np.ndarray, frame: Frame
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of each RANGE frame's first and last row, by distance of sort keys."""
    values, _ = flat(keys)
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    numbers = _numbers(values)
    numbers = -numbers if frame.is_descending else numbers
    first, last = np.zeros(len(values)), np.zeros(len(values))
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        part = slice(start, start + length)
        known = np.flatnonzero(~is_null[part])
        nulls = np.flatnonzero(is_null[part])
        if len(nulls):  # nulls are peers of each other
            first[start + nulls] = 0 if np.isinf(frame.first) else nulls[0]
            last[start + nulls] = length - 1 if np.isinf(frame.last) else nulls[-1]
        if len(known):
            own = numbers[part][known]
            low = known[0] + np.searchsorted(own, _moved(own, frame.first), "left")
            high = known[0] + np.searchsorted(own, _moved(own, frame.last), "right") - 1
            first[start + known] = 0 if np.isinf(frame.first) else low
            last[start + known] = length - 1 if np.isinf(frame.last) else high
    return first, last


def _moved(keys: np.ndarray, distance: float) -> np.ndarray:
    if np.isinf(distance):
        return keys
    exact = int(distance) if keys.dtype.kind == "i" and distance == int(distance) else distance
    moved: np.ndarray = keys + exact
    return moved


def _numbers(values: pa.Array) -> np.ndarray:
    """Return sort keys as numbers; times in microseconds, nulls as 0."""
    kind = values.type
    if pa.types.is_date(kind):
        days = values.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        values = pc.multiply(days, _DAY_US)
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif not pa.types.is_integer(kind):
        values = values.cast(pa.float64())
    else:
        values = values.cast(pa.int64())
    numbers: np.ndarray = values.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


FUNCTIONS = {"list_frames": entry_of_lists("list_frames", _resolve, _evaluate)}
