"""Lists and maps as Spark SQL. A map is an array of structs, as Spark cannot order maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.spark.arithmetic import is_float
from planner.expressions.spark.casts import cast
from planner.expressions.spark.let_bindings import let, let2
from planner.expressions.spark.types import type_name
from planner.expressions.types import is_list

if TYPE_CHECKING:
    from planner.expressions.nodes import Call, Node
    from planner.expressions.spark.arithmetic import Writer


def restored(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert a column from Spark's form to type ``kind``."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [restored(chunk, kind) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=kind)
    if not _holds(kind):
        return column.cast(kind)
    if pa.types.is_struct(kind):
        parts = [restored(pc.struct_field(column, at), f.type) for at, f in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    elements = pc.list_flatten(column)
    if pa.types.is_fixed_size_list(kind):
        return _of_fixed_size(restored(elements, kind.value_type), lengths, kind)
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    if not pa.types.is_map(kind):
        lists = pa.ListArray.from_arrays(
            ends, restored(elements, kind.value_type), mask=column.is_null()
        )
        return lists.cast(kind)
    keys = restored(pc.struct_field(elements, 0), kind.key_type)
    values = restored(pc.struct_field(elements, 1), kind.item_type)
    none = np.append(column.is_null().to_numpy(zero_copy_only=False), False)
    offsets = pa.array(ends.to_numpy(), mask=none)
    return pa.MapArray.from_arrays(offsets, keys, values).cast(kind)


def _holds(kind: pa.DataType) -> bool:
    """Return whether the type contains a map, or a list of a fixed size.

    Arrow cannot cast to a map. Its cast to lists of a fixed size reads invalid memory if no list
    has an element, so both are converted here.
    """
    types = pa.types
    if types.is_map(kind) or types.is_fixed_size_list(kind):
        return True
    if is_list(kind):
        return _holds(kind.value_type)
    return types.is_struct(kind) and any(_holds(f.type) for f in kind)


def _of_fixed_size(values: pa.Array, lengths: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return lists of these lengths; a list of another length is null."""
    size = kind.list_size
    starts = np.cumsum(lengths) - lengths
    places = (starts[:, None] + np.arange(size)).ravel()
    none = lengths != size
    taken = values.take(pa.array(places, mask=np.repeat(none, size)))
    return pa.FixedSizeListArray.from_arrays(taken, type=kind, mask=pa.array(none))


def _item(call: Call, container: str, key_or_index: str) -> str:
    kind = call.args[0].type
    assert kind is not None
    if not pa.types.is_map(kind):
        return let2(
            container,
            key_or_index,
            lambda x, p: f"get({x}, try_cast(if({p} < 0, size({x}) + {p}, {p}) as int))",
        )
    key = cast("entry.key", kind.key_type, _type_of(call.args[1]), str(call))
    # a NaN key matches nothing here, but Spark treats NaN as equal to NaN
    not_nan = f" and not isnan({key})" if is_float(call.args[1]) else ""
    entries = f"filter({container}, entry -> {key} = {key_or_index}{not_nan})"
    return f"get(transform({entries}, entry -> entry.value), 0)"


def _type_of(node: Node) -> pa.DataType:
    assert node.type is not None, node
    return node.type


def _contains(call: Call, values: str, value: str) -> str:
    alike = pa.list_(_type_of(call.args[1]))
    values = cast(values, _type_of(call.args[0]), alike, str(call))

    def found(x: str, y: str) -> str:
        nan = f"when isnan({y}) then false " if is_float(call.args[1]) else ""
        return (
            f"case when {x} is null or {y} is null then null {nan}"
            f"else coalesce(array_contains({x}, {y}), false) end"
        )

    return let2(values, value, found)


def _at_least_one(call: Call, a: str) -> str:
    assert call.type is not None
    none = f"array(cast(null as {type_name(call.type.value_type)}))"
    return let(a, lambda x: f"if({x} is null or size({x}) = 0, {none}, {x})")


_PAIR = "named_struct('position', cast(place as bigint), 'element', element)"

WRITERS: dict[str, Writer] = {
    "item": _item,
    "size": lambda _call, a: let(a, lambda x: f"if({x} is null, null, cast(size({x}) as bigint))"),
    "list_contains": _contains,
    "map_keys": lambda _call, a: f"transform({a}, entry -> entry.key)",
    "map_values": lambda _call, a: f"transform({a}, entry -> entry.value)",
    "entries": lambda _call, a: a,
    "enumerated": lambda _call, a: f"transform({a}, (element, place) -> {_PAIR})",
    "at_least_one": _at_least_one,
    "map": lambda _call, keys, values: f"map_from_arrays({keys}, {values})",
    "list": lambda _call, *args: f"array({', '.join(args)})",
}
