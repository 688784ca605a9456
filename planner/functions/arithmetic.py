"""Arithmetic. Integers are int64 and wrap on overflow; ``/`` always gives a float.

``//`` floors and ``%`` takes the divisor's sign, as in Python, so ``a == (a // b) * b + a % b``.
Dividing by zero, integers or floats, gives null, as in Spark.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.data_types import DURATION, as_decimal, common_type, is_number, is_text, is_time, plain
from planner.functions.signature import (
    Function,
    arg_types,
    infix,
    method,
    typed,
    with_literals_adapted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.nodes import Call, Node, Value

_INTEGER = pa.int64()
_FLOAT = pa.float64()


def _number(call: Call) -> pa.DataType | None:
    """The type in which numbers of both types are added."""
    types = [pa.int64() if pa.types.is_null(t) else plain(t) for t in arg_types(call)]
    if not all(is_number(t) for t in types):
        return None
    return _INTEGER if all(pa.types.is_integer(t) for t in types) else common_type(*types)


def _resolve_plus(call: Call) -> Node | None:
    left, right = (plain(t) for t in arg_types(call))
    if is_text(left) and is_text(right):
        return typed(replace(call, function="concat"), pa.string(), pa.string(), pa.string())
    if is_time(left) and pa.types.is_duration(right):
        return _moved(call, left)
    if pa.types.is_duration(left) and is_time(right):
        return _moved(replace(call, args=call.args[::-1]), right)
    if pa.types.is_duration(left) and pa.types.is_duration(right):
        return typed(call, DURATION, DURATION, DURATION)
    return _resolve_number(call)


def _resolve_minus(call: Call) -> Node | None:
    left, right = (plain(t) for t in arg_types(call))
    if is_time(left) and pa.types.is_duration(right):
        return _moved(call, left)
    if is_time(left) and is_time(right):
        common = common_type(_as_timestamp(left), right)
        return None if common is None else typed(call, DURATION, common, common)
    if pa.types.is_duration(left) and pa.types.is_duration(right):
        return typed(call, DURATION, DURATION, DURATION)
    return _resolve_number(call)


def _resolve_times(call: Call) -> Node | None:
    left, right = (plain(t) for t in arg_types(call))
    if pa.types.is_duration(left) and pa.types.is_integer(right):
        return typed(call, DURATION, DURATION, _INTEGER)
    if pa.types.is_integer(left) and pa.types.is_duration(right):
        return typed(call, DURATION, _INTEGER, DURATION)
    return _resolve_number(call)


def _as_timestamp(t: pa.DataType) -> pa.DataType:
    return t if pa.types.is_timestamp(t) else pa.timestamp("us")


def _moved(call: Call, time: pa.DataType) -> Node:
    moved = _as_timestamp(time)
    return typed(call, moved, moved, DURATION)


def _resolve_number(call: Call) -> Node | None:
    common = _number(call)
    if common is None or pa.types.is_decimal(common):
        return None if common is None else _resolve_decimal(call)
    return typed(call, common, common, common)


def _resolve_decimal(call: Call) -> Node | None:
    """Decimals keep their own scales; Arrow says how wide the result is."""
    call = with_literals_adapted(call)
    for widen in (pa.decimal128, pa.decimal256):
        types = [as_decimal(t, widen) for t in arg_types(call)]
        try:
            result = _KERNELS[call.function](*(pa.nulls(0, t) for t in types)).type
        except pa.ArrowException:  # more digits than it has room for
            continue
        return typed(call, result, *types)
    return None


def _resolve_divide(call: Call) -> Node | None:
    return None if _number(call) is None else typed(call, _FLOAT, _FLOAT, _FLOAT)


def _resolve_floored(call: Call) -> Node | None:
    common = _number(call)
    if common is None:
        return None
    common = _INTEGER if pa.types.is_integer(common) else _FLOAT
    return typed(call, common, common, common)


_KERNELS: dict[str, Callable[[Value, Value], Value]] = {
    "add": pc.add,
    "subtract": pc.subtract,
    "multiply": pc.multiply,
}


def _kernel(values: Sequence[Value], call: Call) -> Value:
    return _KERNELS[call.function](*values)


def _divide(values: Sequence[Value], _call: Call) -> Value:
    left, right = values
    zero = pc.equal(right, 0.0)
    return pc.divide(left, pc.if_else(zero, pa.scalar(None, _FLOAT), right))


def _floored(function: Callable[..., np.ndarray]) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], call: Call) -> Value:
        (left, left_null), (right, right_null) = (_dense(v) for v in values)
        null = left_null | right_null | (right == 0)
        with np.errstate(all="ignore"):
            out = function(left, np.where(right == 0, 1, right))
        if all(isinstance(v, pa.Scalar) for v in values):
            return pa.scalar(None if null else out.item(), call.type)
        if not null.any():
            return pa.array(out, call.type, from_pandas=False)
        null = np.broadcast_to(null, out.shape)
        return pa.array(out, call.type, mask=null, from_pandas=False)

    return evaluate


def _modulo(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``np.mod``, by one number in a third of its time."""
    if right.ndim or left.dtype.kind != "i":
        return np.mod(left, right)  # type: ignore[no-any-return]
    below = np.array(np.floor_divide(left, right))
    below *= right
    np.subtract(left, below, out=below)
    return below


def _dense(value: Value) -> tuple[np.ndarray, np.ndarray]:
    """Values with something in place of the nulls, and where the nulls are."""
    if isinstance(value, pa.Scalar):
        filled = value.as_py() if value.is_valid else 1
        return np.asarray(filled, value.type.to_pandas_dtype()), np.asarray(not value.is_valid)
    if value.null_count == 0:
        return value.to_numpy(zero_copy_only=False), np.asarray(False)
    filled = pc.fill_null(value, pa.scalar(1, value.type)).to_numpy(zero_copy_only=False)
    return filled, pc.is_null(value).to_numpy(zero_copy_only=False)


def _resolve_same(call: Call) -> Node | None:
    """One number in, the same type out; integers widen."""
    t = plain(arg_types(call)[0])
    if pa.types.is_null(t):
        t = _INTEGER
    if pa.types.is_duration(t) and call.function in ("negate", "abs"):
        return typed(call, t, t)
    if not is_number(t):
        return None
    return typed(call, t, t) if not pa.types.is_integer(t) else typed(call, _INTEGER, _INTEGER)


def _resolve_float(call: Call) -> Node | None:
    return typed(call, _FLOAT, _FLOAT) if _resolve_same(call) is not None else None


def _round(values: Sequence[Value], call: Call) -> Value:
    if pa.types.is_integer(call.type):
        return values[0]
    return pc.round(
        values[0], ndigits=call.option("digits"), round_mode="half_towards_infinity"
    ).cast(call.type)


def _unary(kernel: Callable[[Value], Value]) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], call: Call) -> Value:
        if pa.types.is_duration(call.type):
            return kernel(values[0].cast(_INTEGER)).cast(call.type)
        return kernel(values[0])

    return evaluate


def _rounded(kernel: Callable[[Value], Value]) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], call: Call) -> Value:
        return values[0] if pa.types.is_integer(call.type) else kernel(values[0]).cast(call.type)

    return evaluate


FUNCTIONS = {
    "add": Function("+", _resolve_plus, _kernel, infix("+")),
    "subtract": Function("-", _resolve_minus, _kernel, infix("-")),
    "multiply": Function("*", _resolve_times, _kernel, infix("*")),
    "divide": Function("/", _resolve_divide, _divide, infix("/")),
    "floor_divide": Function("//", _resolve_floored, _floored(np.floor_divide), infix("//")),
    "modulo": Function("%", _resolve_floored, _floored(_modulo), infix("%")),
    "negate": Function("-", _resolve_same, _unary(pc.negate), lambda c: f"-{c.args[0]}"),
    "abs": Function("abs", _resolve_same, _unary(pc.abs), method("abs")),
    "round": Function("round", _resolve_same, _round, method("round", "digits")),
    "floor": Function("floor", _resolve_same, _rounded(pc.floor), method("floor")),
    "ceil": Function("ceil", _resolve_same, _rounded(pc.ceil), method("ceil")),
    "sqrt": Function("sqrt", _resolve_float, _unary(pc.sqrt), method("sqrt")),
    "concat": Function(
        "+",
        lambda call: typed(call, pa.string(), pa.string(), pa.string()),
        lambda values, _call: pc.binary_join_element_wise(*values, ""),
        infix("+"),
    ),
}
