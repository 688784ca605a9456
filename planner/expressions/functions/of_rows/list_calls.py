"""Functions from lists to lists: reverse, sort, unique, concat, slice and others.

They select elements by their positions in the flattened lists, so elements keep their type. For
``unique`` null equals null, and NaN equals NaN.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.entries.signature import arg_types, common_of, method, plain_call, typed
from planner.expressions.functions.of_rows.lists import (
    as_list,
    flat,
    lengths_of,
    null_mask,
    rebuilt,
    with_rows,
)
from planner.expressions.nodes import Function, cast_to
from planner.expressions.spark.errors import not_in_batch
from planner.expressions.spark.let_bindings import let, let2
from planner.expressions.types import is_list, is_text
from rstream.items.json_text import json_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.expressions.nodes import Call, Node


def _resolve_same(call: Call) -> Node | None:
    kind = arg_types(call)[0]
    return replace(call, type=pa.list_(kind.value_type)) if is_list(kind) else None


def _resolve_flat(call: Call) -> Node | None:
    """Set the types of a function of a list, whose elements must be comparable."""
    kind = arg_types(call)[0]
    return None if is_list(kind) and pa.types.is_nested(kind.value_type) else _resolve_same(call)


def _resolve_concat(call: Call) -> Node | None:
    kinds = arg_types(call)
    if not all(map(is_list, kinds)):
        return None
    common = common_of([kind.value_type for kind in kinds])
    if common is None:
        return None
    return typed(call, pa.list_(common), *(pa.list_(common) for _ in kinds))


def _resolve_slice(call: Call) -> Node | None:
    kind, *bounds = arg_types(call)
    if not is_list(kind) or not all(map(_is_place, bounds)):
        return None
    args = (call.args[0], *(cast_to(arg, pa.int64()) for arg in call.args[1:]))
    return replace(call, args=args, type=pa.list_(kind.value_type))


def _is_place(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


def _resolve_flatten(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    if not is_list(kind) or not is_list(kind.value_type):
        return None
    return replace(call, type=pa.list_(kind.value_type.value_type))


def _resolve_position(call: Call) -> Node | None:
    kind, value = arg_types(call)
    if not is_list(kind) or pa.types.is_nested(kind.value_type):
        return None
    common = common_of([kind.value_type, value])
    return None if common is None else typed(call, pa.int64(), pa.list_(common), common)


def _resolve_join(call: Call) -> Node | None:
    kind, separator = arg_types(call)
    if not is_list(kind) or not is_text(kind.value_type) or not is_text(separator):
        return None
    return typed(call, pa.string(), pa.list_(pa.string()), pa.string())


def list_bounds(lists: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return length, first position and end position of each list in the flattened elements."""
    lengths = lengths_of(lists)
    ends = np.cumsum(lengths)
    return lengths, ends - lengths, ends


def _moved(lists: pa.Array, order: np.ndarray, lengths: np.ndarray, call: Call) -> pa.Array:
    """Build lists with these lengths from the elements at positions ``order``."""
    values = flat(lists)[0].take(pa.array(order, pa.int64()))
    return rebuilt(lengths, values, call, null_mask(lists))


def _reverse(arrays: list[pa.Array], call: Call) -> pa.Array:
    lists = as_list(arrays[0])
    lengths, starts, ends = list_bounds(lists)
    places = np.arange(lengths.sum())
    order = np.repeat(starts + ends - 1, lengths) - places
    return _moved(lists, order, lengths, call)


def _sort(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Sort ascending: numbers, NaN, nulls."""
    lists = as_list(arrays[0])
    elements, rows = flat(lists)
    ranks = np.empty(len(elements), np.int64)
    ranks[pc.array_sort_indices(elements).to_numpy()] = np.arange(len(elements))
    return _moved(lists, np.lexsort((ranks, rows)), lengths_of(lists), call)


def _unique(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Keep the first of equal elements."""
    lists = as_list(arrays[0])
    elements, rows = flat(lists)
    codes = elements.dictionary_encode(null_encoding="encode").indices.to_numpy()
    pairs = rows * (int(codes.max(initial=0)) + 1) + codes
    order = np.sort(np.unique(pairs, return_index=True)[1])
    return _moved(lists, order, np.bincount(rows[order], minlength=len(lists)), call)


def _concat(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Concatenate lists; null if any of them is null."""
    lists = [as_list(array) for array in arrays]
    lengths = [lengths_of(one) for one in lists]
    is_null = np.logical_or.reduce([null_mask(one) for one in lists])
    parts = [flat(one) for one in lists]
    rows = np.concatenate([rows for _, rows in parts])
    kept = np.argsort(rows, kind="stable")
    kept = kept[~is_null[rows[kept]]]
    values = pa.concat_arrays([elements for elements, _ in parts]).take(pa.array(kept))
    return rebuilt(np.where(is_null, 0, sum(lengths)), values, call, is_null)


def _slice(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Return elements ``[first, end)`` from 0; negative positions count from the list's end."""
    lists = as_list(arrays[0])
    lengths, starts, _ = list_bounds(lists)
    given = [array.fill_null(0).to_numpy() for array in arrays[1:]]
    first, end = (np.clip(np.where(at < 0, at + lengths, at), 0, lengths) for at in given)
    counts = np.maximum(end - first, 0)
    is_null = np.logical_or.reduce([null_mask(array) for array in (lists, *arrays[1:])])
    counts = np.where(is_null, 0, counts)
    begins = np.cumsum(counts) - counts
    order = np.repeat(starts + first - begins, counts) + np.arange(counts.sum())
    values = flat(lists)[0].take(pa.array(order, pa.int64()))
    return rebuilt(counts, values, call, is_null)


def _flatten(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Flatten lists of lists; inner null lists have no elements."""
    lists = as_list(arrays[0])
    inner, rows = flat(lists)
    inner = as_list(inner)
    elements, of_inner = flat(inner)
    lengths = np.bincount(rows[of_inner], minlength=len(lists))
    return rebuilt(lengths, elements, call, null_mask(lists))


def _position(arrays: list[pa.Array], _call: Call) -> pa.Array:
    """Return the position of the first equal element, from 1; 0 if there is none."""
    held, values = arrays
    lists = as_list(held)
    elements, rows = flat(lists)
    same = pc.fill_null(pc.equal(elements, values.take(pa.array(rows))), False)
    hits = np.flatnonzero(same.to_numpy(zero_copy_only=False))[::-1]
    positions = np.zeros(len(lists), np.int64)
    _, starts, _ = list_bounds(lists)
    positions[rows[hits]] = hits - starts[rows[hits]] + 1
    return pa.array(positions, mask=null_mask(lists) | null_mask(values))


def _join(arrays: list[pa.Array], _call: Call) -> pa.Array:
    """Join texts, skipping nulls."""
    lists = as_list(arrays[0])
    elements, rows = flat(lists)
    valid = elements.is_valid()
    at = rows[valid.to_numpy(zero_copy_only=False)]
    ends = np.searchsorted(at, np.arange(len(lists) + 1))
    texts = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), elements.filter(valid))
    joined = pc.binary_join(texts, arrays[1])
    return pc.if_else(pa.array(null_mask(lists)), pa.scalar(None, pa.string()), joined)


def _spark_slice(_call: Call, items: str, first: str, last: str) -> str:
    """Return a slice in SQL whose start is within the list: Spark counts from 1, not below."""

    def place(x: str, at: str) -> str:
        inside = f"greatest(if({at} < 0, size({x}) + {at}, {at}), 0)"
        return f"cast(least({inside}, size({x})) as int)"

    def sliced(x: str, begin: str, end: str) -> str:
        count = f"greatest({place(x, end)} - {place(x, begin)}, 0)"
        made = f"slice({x}, {place(x, begin)} + 1, {count})"
        return f"if({x} is null or {begin} is null or {end} is null, null, {made})"

    return let(items, lambda x: let2(first, last, lambda begin, end: sliced(x, begin, end)))


def _spark_position(call: Call, items: str, value: str) -> str:
    if pa.types.is_floating(arg_types(call)[1]):
        return not_in_batch(call)  # not possible in Spark, which treats NaN as equal to NaN
    return f"array_position({items}, {value})"


def _resolve_json(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    return None if pa.types.is_binary(kind) else replace(call, type=pa.string())


def entry_of_lists(
    name: str,
    resolve: Callable[[Call], Node | None],
    evaluate: Callable[[list[pa.Array], Call], pa.Array],
    spark: str | Callable[..., str] = not_in_batch,
) -> Function:
    return Function(name, resolve, with_rows(evaluate), method(name), spark=spark)


FUNCTIONS = {
    "list_reverse": entry_of_lists("list.reverse", _resolve_same, _reverse, "reverse({args})"),
    "list_sort": entry_of_lists("list.sort", _resolve_flat, _sort, "array_sort({args})"),
    "list_unique": entry_of_lists("list.unique", _resolve_flat, _unique, "array_distinct({args})"),
    "list_concat": entry_of_lists("list.concat", _resolve_concat, _concat, "concat({args})"),
    "list_slice": entry_of_lists("list.slice", _resolve_slice, _slice, _spark_slice),
    "list_flatten": entry_of_lists(
        "list.flatten", _resolve_flatten, _flatten, "flatten(filter({0}, e -> e is not null))"
    ),
    "list_position": entry_of_lists("list.position", _resolve_position, _position, _spark_position),
    "list_join": entry_of_lists("list.join", _resolve_join, _join, "array_join({args})"),
    "to_json": Function(
        "to_json",
        _resolve_json,
        with_rows(lambda arrays, _call: json_texts(arrays[0], maps_as_objects=True)),
        plain_call("to_json"),
        spark=not_in_batch,
    ),
}


# Window functions: a partition is a list of its rows' values, and so is the result.


def _resolve_over(call: Call) -> Node | None:
    """Type a window function. Options: ``kind``, ``n``. Args: the list, then keys or a default."""
    values, *others = call.args
    assert values.type is not None
    if not is_list(values.type):
        return None
    kind, element = call.option("kind"), values.type.value_type
    if kind in ("lead", "lag"):
        default = cast_to(others[0], element) if others else None
        args = (values,) if default is None else (values, default)
        return replace(call, args=args, type=pa.list_(element))
    if kind in ("nth", "last"):
        return replace(call, type=pa.list_(element))
    result = pa.float64() if kind in ("percent_rank", "cume_dist") else pa.int64()
    return replace(call, type=pa.list_(result))


def _over(arrays: list[pa.Array], call: Call) -> pa.Array:
    lists = as_list(arrays[0])
    lengths, starts, _ = list_bounds(lists)
    rows = flat(lists)[1]
    place, count = np.arange(len(rows)) - starts[rows], lengths[rows]
    kind, n = call.option("kind"), call.option("n")
    if kind in ("lead", "lag"):
        assert isinstance(n, int)
        return _shifted(lists, arrays[1:], place + (n if kind == "lead" else -n), call)
    if kind in ("nth", "last"):
        last = _peers(as_list(arrays[1]))[1]
        wanted = last if n is None else np.full(len(rows), n - 1)
        return _shifted(lists, [], np.where(wanted <= last, wanted, -1), call)
    first, last, number = _peers(lists)
    values: dict[str, Callable[[], np.ndarray]] = {
        "row_number": lambda: place + 1,
        "rank": lambda: first + 1,
        "dense_rank": lambda: number + 1,
        "percent_rank": lambda: first / np.maximum(count - 1, 1),
        "cume_dist": lambda: (last + 1) / count,
        "ntile": lambda: _tiles(place, count, n),
    }
    assert isinstance(kind, str)
    return rebuilt(lengths, pa.array(values[kind]()), call, null_mask(lists))


def _peers(lists: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return per row the positions of its first and last peer, and the number of its group."""
    elements, rows = flat(lists)
    _, starts, _ = list_bounds(lists)
    codes = elements.dictionary_encode(null_encoding="encode").indices.to_numpy()
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (codes[1:] != codes[:-1]) | (rows[1:] != rows[:-1])
    begins = np.flatnonzero(is_new)
    group = np.cumsum(is_new) - 1
    ends = np.append(begins[1:], len(rows)) - 1
    at = starts[rows]
    return begins[group] - at, ends[group] - at, group - group[at] if len(rows) else group


def _tiles(place: np.ndarray, count: np.ndarray, n: object) -> np.ndarray:
    """Return the tile of each row for ``NTILE(n)``; the first tiles take the remaining rows."""
    assert isinstance(n, int)
    size, more = count // n, count % n
    whole = more * (size + 1)
    in_rest = more + (place - whole) // np.maximum(size, 1)
    tile: np.ndarray = np.where(place < whole, place // (size + 1), in_rest) + 1
    return tile


def _shifted(lists: pa.Array, default: list[pa.Array], wanted: np.ndarray, call: Call) -> pa.Array:
    """Return the elements at positions ``wanted`` of their lists; ``default`` outside of a list."""
    lengths, starts, _ = list_bounds(lists)
    elements, rows = flat(lists)
    is_there = (wanted >= 0) & (wanted < lengths[rows])
    at = pa.array(np.where(is_there, starts[rows] + wanted, 0), mask=~is_there)
    values = elements.take(at)
    if default:
        values = pc.if_else(pa.array(is_there), values, default[0].take(pa.array(rows)))
    return rebuilt(lengths, values, call, null_mask(lists))


def _resolve_zip(call: Call) -> Node | None:
    kinds = arg_types(call)
    if not all(map(is_list, kinds)):
        return None
    fields = [(f"f{k}", kind.value_type) for k, kind in enumerate(kinds)]
    return replace(call, type=pa.list_(pa.struct(fields)))


def _zip(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Zip lists to a list of structs; shorter lists are filled with nulls."""
    assert call.type is not None
    lists = [as_list(array) for array in arrays]
    sizes = [lengths_of(one) for one in lists]
    is_null = np.logical_or.reduce([null_mask(one) for one in lists])
    lengths = np.where(is_null, 0, np.maximum.reduce(sizes))
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    columns = []
    for one, size in zip(lists, sizes, strict=True):
        starts = (np.cumsum(size) - size)[rows]
        is_there = places < size[rows]
        at = pa.array(np.where(is_there, starts + places, 0), mask=~is_there)
        columns.append(flat(one)[0].take(at))
    made = pa.StructArray.from_arrays(columns, fields=list(call.type.value_type))
    return rebuilt(lengths, made, call, is_null)


FUNCTIONS["list_over"] = entry_of_lists("list_over", _resolve_over, _over)
FUNCTIONS["list_zip"] = entry_of_lists("list_zip", _resolve_zip, _zip)
