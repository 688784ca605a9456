"""Lists and maps as Spark SQL. A map lies in an array of structs, as Spark cannot order maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from planner.batch.spark_sql.arithmetic import is_float
from planner.batch.spark_sql.errors import UnsupportedInBatchError
from planner.batch.spark_sql.let_bindings import let, let2
from planner.batch.spark_sql.types import type_name

if TYPE_CHECKING:
    from planner.batch.spark_sql.arithmetic import Writer
    from planner.expressions.nodes import Call


def restored(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as Spark has it, as one of ``kind``."""
    if isinstance(column, pa.ChunkedArray):
        chunks = [restored(chunk, kind) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=kind)
    if not pa.types.is_map(kind):
        return column.cast(kind)
    pairs = pc.list_flatten(column)
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = pc.cumulative_sum(lengths).to_pylist()
    valid = [*column.is_valid().to_pylist(), True]
    offsets = [at if is_valid else None for at, is_valid in zip([0, *ends], valid, strict=True)]
    keys, values = (pc.struct_field(pairs, at) for at in (0, 1))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), keys.cast(kind.key_type), values.cast(kind.item_type)
    ).cast(kind)


def _item(call: Call, held: str, asked: str) -> str:
    kind = call.args[0].type
    assert kind is not None
    if not pa.types.is_map(kind):
        return let2(
            held,
            asked,
            lambda x, p: f"get({x}, try_cast(if({p} < 0, size({x}) + {p}, {p}) as int))",
        )
    if is_float(call.args[1]):
        raise UnsupportedInBatchError(str(call), "a key that is a float may be NaN")
    found = f"filter({held}, entry -> entry.key = {asked})"
    return f"get(transform({found}, entry -> entry.value), 0)"


def _contains(call: Call, held: str, asked: str) -> str:
    def found(x: str, y: str) -> str:
        nan = f"when isnan({y}) then false " if is_float(call.args[1]) else ""
        return (
            f"case when {x} is null or {y} is null then null {nan}"
            f"else coalesce(array_contains({x}, {y}), false) end"
        )

    return let2(held, asked, found)


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
    "list": lambda _call, *args: f"array({', '.join(args)})",
}
