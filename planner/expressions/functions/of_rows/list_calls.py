"""Functions that make a list of the elements of lists: reverse, sort, unique, concat, slice.

Elements are moved by their places in the flattened lists, so they keep their type. For ``unique``
null equals null, and NaN equals NaN.
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
from planner.expressions.spark.errors import UnsupportedInBatchError
from planner.expressions.types import is_list, is_text
from rstream.items.json_text import json_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.expressions.nodes import Call, Node


def _resolve_same(call: Call) -> Node | None:
    kind = arg_types(call)[0]
    return replace(call, type=pa.list_(kind.value_type)) if is_list(kind) else None


def _resolve_flat(call: Call) -> Node | None:
    """Of elements that can be compared."""
    kind = arg_types(call)[0]
    return None if is_list(kind) and pa.types.is_nested(kind.value_type) else _resolve_same(call)


def _resolve_concat(call: Call) -> Node | None:
    kinds = arg_types(call)
    if not all(map(is_list, kinds)):
        return None
    found = common_of([kind.value_type for kind in kinds])
    if found is None:
        return None
    return typed(call, pa.list_(found), *(pa.list_(found) for _ in kinds))


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
    """The lengths, and the first and the last place, exclusive, in the flattened elements."""
    lengths = lengths_of(lists)
    ends = np.cumsum(lengths)
    return lengths, ends - lengths, ends


def _moved(lists: pa.Array, order: np.ndarray, lengths: np.ndarray, call: Call) -> pa.Array:
    """Lists of the elements at the places ``order``."""
    values = flat(lists)[0].take(pa.array(order, pa.int64()))
    return rebuilt(lengths, values, call, null_mask(lists))


def _reverse(arrays: list[pa.Array], call: Call) -> pa.Array:
    lists = as_list(arrays[0])
    lengths, starts, ends = list_bounds(lists)
    places = np.arange(lengths.sum())
    order = np.repeat(starts + ends - 1, lengths) - places
    return _moved(lists, order, lengths, call)


def _sort(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Upwards, nulls last, NaN in front of them."""
    lists = as_list(arrays[0])
    elements, rows = flat(lists)
    ranks = np.empty(len(elements), np.int64)
    ranks[pc.array_sort_indices(elements).to_numpy()] = np.arange(len(elements))
    return _moved(lists, np.lexsort((ranks, rows)), lengths_of(lists), call)


def _unique(arrays: list[pa.Array], call: Call) -> pa.Array:
    """The first of equal elements stays."""
    lists = as_list(arrays[0])
    elements, rows = flat(lists)
    codes = elements.dictionary_encode(null_encoding="encode").indices.to_numpy()
    pairs = rows * (int(codes.max(initial=0)) + 1) + codes
    order = np.sort(np.unique(pairs, return_index=True)[1])
    return _moved(lists, order, np.bincount(rows[order], minlength=len(lists)), call)


def _concat(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Null where one of the lists is."""
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
    """Places ``[first, end)``, from 0 on; below 0 from the end of the list."""
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
    """Null lists inside have no elements."""
    lists = as_list(arrays[0])
    inner, rows = flat(lists)
    inner = as_list(inner)
    elements, of_inner = flat(inner)
    lengths = np.bincount(rows[of_inner], minlength=len(lists))
    return rebuilt(lengths, elements, call, null_mask(lists))


def _position(arrays: list[pa.Array], _call: Call) -> pa.Array:
    """Of the first equal element, from 1 on; 0 for none."""
    held, values = arrays
    lists = as_list(held)
    elements, rows = flat(lists)
    same = pc.fill_null(pc.equal(elements, values.take(pa.array(rows))), False)
    hits = np.flatnonzero(same.to_numpy(zero_copy_only=False))[::-1]
    found = np.zeros(len(lists), np.int64)
    _, starts, _ = list_bounds(lists)
    found[rows[hits]] = hits - starts[rows[hits]] + 1
    return pa.array(found, mask=null_mask(lists) | null_mask(values))


def _join(arrays: list[pa.Array], _call: Call) -> pa.Array:
    """Nulls are left out."""
    lists = as_list(arrays[0])
    elements, rows = flat(lists)
    valid = elements.is_valid()
    at = rows[valid.to_numpy(zero_copy_only=False)]
    ends = np.searchsorted(at, np.arange(len(lists) + 1))
    texts = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), elements.filter(valid))
    joined = pc.binary_join(texts, arrays[1])
    return pc.if_else(pa.array(null_mask(lists)), pa.scalar(None, pa.string()), joined)


def _resolve_json(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    return None if pa.types.is_binary(kind) else replace(call, type=pa.string())


def _not_in_batch(call: Call, *_args: str) -> str:
    raise UnsupportedInBatchError(str(call), "Spark has no exact counterpart")


def entry_of_lists(
    name: str,
    resolve: Callable[[Call], Node | None],
    evaluate: Callable[[list[pa.Array], Call], pa.Array],
    spark: str = "",
) -> Function:
    written = spark or _not_in_batch
    return Function(name, resolve, with_rows(evaluate), method(name), spark=written)


FUNCTIONS = {
    "list_reverse": entry_of_lists("list.reverse", _resolve_same, _reverse, "reverse({args})"),
    "list_sort": entry_of_lists("list.sort", _resolve_flat, _sort, "array_sort({args})"),
    "list_unique": entry_of_lists("list.unique", _resolve_flat, _unique, "array_distinct({args})"),
    "list_concat": entry_of_lists("list.concat", _resolve_concat, _concat, "concat({args})"),
    "list_slice": entry_of_lists("list.slice", _resolve_slice, _slice),
    "list_flatten": entry_of_lists("list.flatten", _resolve_flatten, _flatten),
    "list_position": entry_of_lists("list.position", _resolve_position, _position),
    "list_join": entry_of_lists("list.join", _resolve_join, _join, "array_join({args})"),
    "to_json": Function(
        "to_json",
        _resolve_json,
        with_rows(lambda arrays, _call: json_texts(arrays[0])),
        plain_call("to_json"),
        spark=_not_in_batch,
    ),
}


# Functions of the rows of a partition, whose values are lists in the order of the rows.


def _resolve_over(call: Call) -> Node | None:
    """``kind`` and ``n`` are options; behind the list come keys, or a default."""
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
    """Of each row the places of its first and last peer, and the number of its group of peers."""
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
    """``NTILE(n)``: the first tiles have one row more."""
    assert isinstance(n, int)
    size, more = count // n, count % n
    whole = more * (size + 1)
    in_rest = more + (place - whole) // np.maximum(size, 1)
    tile: np.ndarray = np.where(place < whole, place // (size + 1), in_rest) + 1
    return tile


def _shifted(lists: pa.Array, default: list[pa.Array], wanted: np.ndarray, call: Call) -> pa.Array:
    """The elements at other places of the same lists; ``default`` where there is no such place."""
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
    """A list of structs of lists that have the same lengths."""
    assert call.type is not None
    lists = as_list(arrays[0])
    columns = [flat(as_list(array))[0] for array in arrays]
    made = pa.StructArray.from_arrays(columns, fields=list(call.type.value_type))
    return rebuilt(lengths_of(lists), made, call, null_mask(lists))


FUNCTIONS["list_over"] = entry_of_lists("list_over", _resolve_over, _over)
FUNCTIONS["list_zip"] = entry_of_lists("list_zip", _resolve_zip, _zip)
