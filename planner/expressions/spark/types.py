"""Types of Spark columns for Arrow values, and types and literals in Spark SQL.

Times and durations are integers in their own unit, as everywhere inside a vertex;
``timestamp_micros`` converts them for functions of Spark's calendar. Unsigned integers become the
next larger signed type, dictionaries are decoded. Arrow's ``cast`` converts both ways without loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from planner.expressions.spark.errors import UnsupportedInBatchError
from planner.expressions.types import is_list

if TYPE_CHECKING:
    from planner.expressions.nodes import Literal

DECIMAL_DIGITS_MAX = 38
#: The least integer, which has no negative.
INT64_MIN = -(2**63)

_SAME = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.null()),
)
_OTHER: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.date32(): pa.int32(),
}
_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.null(): "void",
}


def physical(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type of the Spark column for values of ``kind``.

    Raises:
        UnsupportedInBatchError: Spark has no such type.
    """
    types = pa.types
    if kind in _SAME:
        return kind
    if kind in _OTHER:
        return _OTHER[kind]
    if types.is_dictionary(kind):
        return physical(kind.value_type)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= DECIMAL_DIGITS_MAX:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_map(kind):
        key, value = physical(kind.key_type), physical(kind.item_type)
        return pa.list_(pa.struct([("key", key), ("value", value)]))
    if is_list(kind):
        return pa.list_(physical(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(f.name, physical(f.type)) for f in kind])
    raise UnsupportedInBatchError(f"a column of type {kind}", "Spark has no such type")


def type_name(kind: pa.DataType) -> str:
    """Return Spark's name of :func:`physical`."""
    stored = physical(kind)
    if stored in _NAMES:
        return _NAMES[stored]
    if pa.types.is_decimal(stored):
        return f"decimal({stored.precision}, {stored.scale})"
    if pa.types.is_list(stored):
        return f"array<{type_name(stored.value_type)}>"
    assert pa.types.is_struct(stored), stored
    return "struct<" + ", ".join(f"{ident(f.name)}: {type_name(f.type)}" for f in stored) + ">"


def ident(name: str) -> str:
    """Return a name in back quotes."""
    return "`" + name.replace("`", "``") + "`"


class SparkText(str):
    """The value of an option as SQL, because it is a column."""

    __slots__ = ()


def text(value: str) -> str:
    """Return a string literal; SQL is returned unchanged."""
    if isinstance(value, SparkText):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def integer(value: int) -> str:
    """Return a bigint literal; in parentheses if negative, to avoid ``--``."""
    return f"{value}L" if value >= 0 else f"({value}L)"


def literal(node: Literal) -> str:
    """Return a literal of its node's type."""
    assert node.type is not None, node
    name = type_name(node.type)
    if node.literal is None:
        return f"cast(null as {name})"
    stored = physical(node.type)
    value = pa.scalar(node.literal, node.type).cast(stored).as_py()
    if pa.types.is_boolean(stored):
        return "true" if value else "false"
    if stored == pa.int64():
        return integer(value)
    if pa.types.is_string(stored):
        return text(value)
    if pa.types.is_binary(stored):
        return f"X'{value.hex()}'"
    return f"cast({text(str(value))} as {name})"
