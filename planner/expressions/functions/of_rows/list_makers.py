"""Functions that make a list of numbers in steps, or a map of a list of pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.entries.signature import arg_types, plain_call, typed
from planner.expressions.functions.of_rows.lists import (
    as_list,
    flat,
    lengths_of,
    null_mask,
    rebuilt,
    with_rows,
)
from planner.expressions.nodes import Function
from planner.expressions.spark.errors import not_in_batch
from planner.expressions.types import is_list

if TYPE_CHECKING:
    from planner.expressions.nodes import Call, Node

_INTEGER = pa.int64()
#: The most elements of a list that is made here, and of all lists of one batch.
ELEMENTS_MAX, BATCH_MAX = 1_000_000, 1 << 26


def _resolve_sequence(call: Call) -> Node | None:
    kinds = arg_types(call)
    if not all(pa.types.is_integer(kind) or pa.types.is_null(kind) for kind in kinds):
        return None
    return typed(call, pa.list_(_INTEGER), *[_INTEGER] * len(kinds))


def _sequence(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Return the numbers from ``first`` to ``last``, inclusive; none if the steps lead away.

    Raises:
        pa.ArrowInvalid: a step is 0, or a list has more than ``ELEMENTS_MAX`` elements.
    """
    is_null = np.logical_or.reduce([null_mask(array) for array in arrays])
    first, last, step = (array.fill_null(1).to_numpy() for array in arrays)
    if (step[~is_null] == 0).any():
        raise pa.ArrowInvalid("the step of a sequence is 0")
    exact = [int(a) - int(b) for a, b in zip(last, first, strict=True)]
    steps = np.where(step == 0, 1, step).tolist()
    counts = [
        0 if none else max(0, apart // by + 1)
        for apart, by, none in zip(exact, steps, is_null, strict=True)
    ]
    if max(counts, default=0) > ELEMENTS_MAX or sum(counts) > BATCH_MAX:
        raise pa.ArrowInvalid(f"a sequence has more than {ELEMENTS_MAX:,} elements")
    lengths = np.array(counts, np.int64)
    places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    values = np.repeat(first, lengths) + places * np.repeat(step, lengths)
    return rebuilt(lengths, pa.array(values, _INTEGER), call, is_null)


def _resolve_map(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    if not is_list(kind) or not pa.types.is_struct(kind.value_type):
        return None
    if kind.value_type.num_fields != 2 or pa.types.is_nested(kind.value_type.field(0).type):
        return None
    return replace(call, type=pa.map_(*(kind.value_type.field(at).type for at in (0, 1))))


def _map(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Make a map of a list of pairs; a repeated key has its last value, at its first position.

    Raises:
        pa.ArrowInvalid: a key is null.
    """
    lists = as_list(arrays[0])
    pairs, rows = flat(lists)
    keys, items = (pc.struct_field(pairs, at) for at in (0, 1))
    if keys.null_count:
        raise pa.ArrowInvalid("a key of a map is null")
    codes = keys.dictionary_encode().indices.to_numpy()
    named = rows * (int(codes.max(initial=0)) + 1) + codes
    distinct, firsts = np.unique(named, return_index=True)
    lasts = len(named) - 1 - np.unique(named[::-1], return_index=True)[1]
    order = np.argsort(firsts)
    firsts, lasts = firsts[order], lasts[order]
    lengths = (
        np.bincount(rows[firsts], minlength=len(lists)) if len(distinct) else lengths_of(lists)
    )
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    made = pa.MapArray.from_arrays(offsets, keys.take(firsts), items.take(lasts))
    mask = pa.array(null_mask(lists))
    return pc.if_else(mask, pa.scalar(None, call.type), made.cast(call.type))


FUNCTIONS = {
    "sequence": Function(
        "sequence",
        _resolve_sequence,
        with_rows(_sequence),
        plain_call("sequence"),
        may_fail=True,
        spark=not_in_batch,
    ),
    "map_from_entries": Function(
        "map_from_entries",
        _resolve_map,
        with_rows(_map),
        plain_call("map_from_entries"),
        may_fail=True,
        spark=not_in_batch,
    ),
}
