"""Functions of lists, maps and structs: elements, sizes, construction, and lists for explode.

A map is a list of pairs; if a key occurs twice, the first pair is used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.errors import InvalidPlanError
from planner.expressions.entries.signature import (
    arg_types,
    common_of,
    method,
    plain_call,
    typed,
    with_literals_adapted,
)
from planner.expressions.functions.casting import convert
from planner.expressions.functions.of_rows.lists import (
    as_list,
    flat,
    lengths_of,
    null_mask,
    rebuilt,
    with_rows,
)
from planner.expressions.nodes import Column, Function, as_array, cast_to
from planner.expressions.types import entries_type, is_list, is_map, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Node, Value

POSITION, ELEMENT = "position", "element"


def _compared(call: Call, kind: pa.DataType, result: pa.DataType) -> Node | None:
    """Set the types of a lookup in keys or elements of type ``kind`` with this result type.

    The key to look up, and the keys, are converted to the type in which ``==`` compares them. So
    1.5 matches neither of the keys 1 and 2.
    """
    if pa.types.is_nested(kind):
        return None
    pair = with_literals_adapted(replace(call, args=(Column("", plain(kind)), call.args[1])))
    common = common_of(arg_types(pair))
    if common is None:
        return None
    return replace(call, args=(call.args[0], cast_to(pair.args[1], common)), type=result)


def _resolve_item(call: Call) -> Node | None:
    kind, key = arg_types(call)
    if is_map(kind):
        return _compared(call, kind.key_type, kind.item_type)
    if not is_list(kind) or not (pa.types.is_integer(key) or pa.types.is_null(key)):
        return None
    return replace(
        call, args=(call.args[0], cast_to(call.args[1], pa.int64())), type=kind.value_type
    )


def _item(arrays: list[pa.Array], _call: Call) -> pa.Array:
    """Return an element: of a list by index (negative from its end), of a map by key; or null."""
    containers, keys_or_indices = arrays
    lists = as_list(containers)
    if is_map(containers.type):
        return _value_of_key(lists, keys_or_indices)
    lengths = lengths_of(lists)
    place = keys_or_indices.fill_null(0).to_numpy()
    place = np.where(place < 0, place + lengths, place)
    missing = (place < 0) | (place >= lengths) | null_mask(keys_or_indices)
    starts = lists.offsets.to_numpy().astype(np.int64)[:-1]
    return lists.values.take(pa.array(np.where(missing, 0, starts + place), mask=missing))


def _value_of_key(lists: pa.Array, wanted_keys: pa.Array) -> pa.Array:
    pairs, rows = flat(lists)
    keys = convert(pc.struct_field(pairs, 0), wanted_keys.type)
    matches = pc.fill_null(pc.equal(keys, wanted_keys.take(pa.array(rows))), False)
    hits = np.flatnonzero(matches.to_numpy(zero_copy_only=False))[::-1]
    at = np.full(len(lists), -1, np.int64)
    at[rows[hits]] = hits  # hits are in reverse order, so the first of equal keys wins
    return pc.struct_field(pairs, 1).take(pa.array(np.where(at < 0, 0, at), mask=at < 0))


def _resolve_size(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    return replace(call, type=pa.int64()) if is_list(kind) or is_map(kind) else None


def _size(arrays: list[pa.Array], _call: Call) -> pa.Array:
    lists = as_list(arrays[0])
    return pa.array(lengths_of(lists), mask=null_mask(lists))


def _resolve_contains(call: Call) -> Node | None:
    kind, _ = arg_types(call)
    return _compared(call, kind.value_type, pa.bool_()) if is_list(kind) else None


def _contains(arrays: list[pa.Array], _call: Call) -> pa.Array:
    """Return whether a list has a value; null if either is null. Null elements match nothing."""
    column, values = arrays
    lists = as_list(column)
    elements, rows = flat(lists)
    same = pc.equal(convert(elements, values.type), values.take(pa.array(rows)))
    matches = pc.fill_null(same, False)
    contains = np.zeros(len(lists), bool)
    contains[rows[matches.to_numpy(zero_copy_only=False)]] = True
    return pa.array(contains, mask=null_mask(lists) | null_mask(values))


def _resolve_entries(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    return replace(call, type=entries_type(kind)) if is_map(kind) else None


def _resolve_part(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    if not is_map(kind):
        return None
    is_keys = call.function == "map_keys"
    return replace(call, type=pa.list_(kind.key_type if is_keys else kind.item_type))


def _part(arrays: list[pa.Array], call: Call) -> pa.Array:
    lists = as_list(arrays[0])
    values = pc.struct_field(flat(lists)[0], 0 if call.function == "map_keys" else 1)
    return rebuilt(lengths_of(lists), values, call, null_mask(lists))


def _resolve_enumerated(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    if not is_list(kind):
        return None
    pair = pa.struct([(POSITION, pa.int64()), (ELEMENT, kind.value_type)])
    return replace(call, type=pa.list_(pair))


def _enumerated(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Return each element with its index, from 0."""
    assert call.type is not None
    lists = as_list(arrays[0])
    lengths = lengths_of(lists)
    starts = np.cumsum(lengths) - lengths
    places = pa.array(np.arange(lengths.sum()) - np.repeat(starts, lengths), pa.int64())
    fields = list(call.type.value_type)
    pairs = pa.StructArray.from_arrays([places, flat(lists)[0]], fields=fields)
    return rebuilt(lengths, pairs, call, null_mask(lists))


def _resolve_at_least_one(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    return replace(call, type=pa.list_(kind.value_type)) if is_list(kind) else None


def _at_least_one(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Replace empty and null lists by a list of one null."""
    lists = as_list(arrays[0])
    lengths = lengths_of(lists)
    made = np.maximum(lengths, 1)
    ends = np.cumsum(made)
    is_added = np.zeros(made.sum(), bool)
    is_added[ends[lengths == 0] - 1] = True
    at = np.cumsum(~is_added) - 1
    values = flat(lists)[0].take(pa.array(np.where(is_added, 0, at), mask=is_added))
    return rebuilt(made, values, call)


def _resolve_list(call: Call) -> Node | None:
    if not call.args:
        return None
    call = with_literals_adapted(call)
    types = arg_types(call)
    common = types[0] if all(kind.equals(types[0]) for kind in types) else common_of(types)
    if common is None or pa.types.is_null(common):
        return None
    return typed(call, pa.list_(common), *(common for _ in types))


def _list(arrays: list[pa.Array], call: Call) -> pa.Array:
    count, rows = len(arrays), len(arrays[0])
    order = np.arange(count * rows).reshape(count, rows).T.ravel()
    values = pa.concat_arrays(arrays).take(pa.array(order))
    return rebuilt(np.full(rows, count), values, call)


def _names(call: Call) -> tuple[str, ...]:
    names = call.option("names")
    assert isinstance(names, tuple), call
    return tuple(str(name) for name in names)


def _resolve_struct(call: Call) -> Node | None:
    types = arg_types(call)
    if not types or any(pa.types.is_null(kind) for kind in types):
        return None
    return replace(call, type=pa.struct(list(zip(_names(call), types, strict=True))))


def _struct(values: Sequence[Value], call: Call) -> Value:
    assert call.type is not None
    arrays = [v for v in values if not isinstance(v, pa.Scalar)]
    rows = len(arrays[0]) if arrays else 1
    columns = [
        as_array(value, rows, field.type) for value, field in zip(values, call.type, strict=True)
    ]
    made = pa.StructArray.from_arrays(columns, fields=list(call.type))
    return made if arrays else made[0]


def _resolve_field(call: Call) -> Node | None:
    kind = call.args[0].type
    if kind is None or not pa.types.is_struct(kind):
        return None
    name = str(call.option("name"))
    at = kind.get_field_index(name)
    if at < 0:
        fields = ", ".join(field.name for field in kind)
        raise InvalidPlanError(f"{call.args[0]} has no field {name!r}; the fields are: {fields}")
    return replace(call, type=kind.field(at).type)


def _field(values: Sequence[Value], call: Call) -> Value:
    (value,) = values
    at = value.type.get_field_index(call.option("name"))
    if isinstance(value, pa.Scalar):
        struct = value.as_py()
        name = value.type.field(at).name
        return pa.scalar(None if struct is None else struct[name], call.type)
    return pc.struct_field(value, at)


def _resolve_map(call: Call) -> Node | None:
    keys, values = arg_types(call)
    if not is_list(keys) or not is_list(values) or pa.types.is_nested(keys.value_type):
        return None
    return replace(call, type=pa.map_(keys.value_type, values.value_type))


def _map(arrays: list[pa.Array], call: Call) -> pa.Array:
    """Build a map from a list of keys and a list of values; null if either list is null.

    Raises:
        pa.ArrowInvalid: a key is null or occurs twice, or the lists differ in length.
    """
    keys, values = (as_list(array) for array in arrays)
    is_null = null_mask(keys) | null_mask(values)
    mask = pa.array(is_null)
    keys, values = (pc.if_else(mask, pa.scalar(None, part.type), part) for part in (keys, values))
    lengths = lengths_of(keys)
    if (lengths != lengths_of(values)).any():
        raise pa.ArrowInvalid("a map needs as many values as keys")
    (names, rows), (items, _) = flat(keys), flat(values)
    pairs = pa.table({"row": rows, "key": names})
    if names.null_count or pairs.group_by(["row", "key"]).aggregate([]).num_rows < len(rows):
        raise pa.ArrowInvalid("a key of a map is null or repeated")
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    made = pa.MapArray.from_arrays(offsets, names, items)
    return pc.if_else(mask, pa.scalar(None, call.type), made.cast(call.type))


FUNCTIONS = {
    "map": Function("map", _resolve_map, with_rows(_map), plain_call("map_of"), may_fail=True),
    "struct": Function("struct", _resolve_struct, _struct, plain_call("struct")),
    "field": Function("field", _resolve_field, _field, method("field", "name")),
    "item": Function("item", _resolve_item, with_rows(_item), method("item")),
    "size": Function("size", _resolve_size, with_rows(_size), method("size")),
    "list_contains": Function(
        "list.contains", _resolve_contains, with_rows(_contains), method("list.contains")
    ),
    "map_keys": Function("map.keys", _resolve_part, with_rows(_part), method("map.keys")),
    "map_values": Function("map.values", _resolve_part, with_rows(_part), method("map.values")),
    "entries": Function(
        "map.entries",
        _resolve_entries,
        with_rows(lambda arrays, _call: as_list(arrays[0])),
        method("map.entries"),
    ),
    "enumerated": Function(
        "enumerated", _resolve_enumerated, with_rows(_enumerated), plain_call("enumerated")
    ),
    "at_least_one": Function(
        "at_least_one", _resolve_at_least_one, with_rows(_at_least_one), plain_call("at_least_one")
    ),
    "list": Function("list", _resolve_list, with_rows(_list), plain_call("list_of")),
}
