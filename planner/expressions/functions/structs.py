"""Structs: made of values, and their fields."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.functions.signature import arg_types, method, plain_call
from planner.expressions.nodes import Function, as_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Node, Value


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
    at = kind.get_field_index(str(call.option("name")))
    return None if at < 0 else replace(call, type=kind.field(at).type)


def _field(values: Sequence[Value], call: Call) -> Value:
    (value,) = values
    at = value.type.get_field_index(call.option("name"))
    if isinstance(value, pa.Scalar):
        found = value.as_py()
        name = value.type.field(at).name
        return pa.scalar(None if found is None else found[name], call.type)
    return pc.struct_field(value, at)


FUNCTIONS = {
    "struct": Function("struct", _resolve_struct, _struct, plain_call("struct")),
    "field": Function("field", _resolve_field, _field, method("field", "name")),
}
