"""Arithmetic. Integers are int64, times and durations int64 microseconds; ``/`` returns a float.

A result that does not fit is an error, never another number. ``//`` rounds down and ``%`` has the
divisor's sign, as in Python, so ``a == (a // b) * b + a % b``. Division of integers or floats by
zero is null, as in Spark. ``//`` and ``%`` of decimals are computed exactly and returned as the
nearest float.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.entries.signature import (
    arg_types,
    infix,
    method,
    text_of,
    typed,
    with_literals_adapted,
)
from planner.expressions.functions.decimals import applied, divided_exactly, rounded
from planner.expressions.functions.doubles import rounded_float
from planner.expressions.nodes import Function
from planner.expressions.types import (
    DURATION,
    as_decimal,
    common_type,
    is_number,
    is_text,
    is_time,
    plain,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Node, Value

#: The number of zeros of 10**18, the greatest power of ten in int64.
_INT64_ZEROS = 18
_LEAST = np.iinfo(np.int64).min
_INTEGER = pa.int64()
_FLOAT = pa.float64()


def _number(call: Call) -> pa.DataType | None:
    """Return the common type in which the numbers are added; None if one is not a number."""
    types = [pa.int64() if pa.types.is_null(t) else plain(t) for t in arg_types(call)]
    if not all(is_number(t) for t in types):
        return None
    return _INTEGER if all(pa.types.is_integer(t) for t in types) else common_type(*types)


def _resolve_plus(call: Call) -> Node | None:
    left, right = (plain(t) for t in arg_types(call))
    if any(map(is_text, (left, right))) and all(map(text_of, call.args)):
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
    """Type arithmetic on decimals, which keep their scales; the width of the result is Arrow's."""
    call = with_literals_adapted(call)
    for widen in (pa.decimal128, pa.decimal256):
        types = [as_decimal(t, widen) for t in arg_types(call)]
        try:
            result = _KERNELS[call.function](*(pa.nulls(0, t) for t in types)).type
        except MemoryError:
            raise
        except pa.ArrowException:  # more digits than a decimal can have
            continue
        return typed(call, result, *types)
    return None


def _resolve_divide(call: Call) -> Node | None:
    return None if _number(call) is None else typed(call, _FLOAT, _FLOAT, _FLOAT)


def _resolve_floored(call: Call) -> Node | None:
    common = _number(call)
    if common is None:
        return None
    types = arg_types(call)
    if pa.types.is_decimal(common) and not any(map(pa.types.is_null, types)):
        return typed(call, _FLOAT, *(as_decimal(plain(t)) for t in types))
    common = _INTEGER if pa.types.is_integer(common) else _FLOAT
    return typed(call, common, common, common)


#: Kernels that raise on integer overflow. Floats become infinite; decimals fit by their type.
_KERNELS: dict[str, Callable[[Value, Value], Value]] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
}


def _kernel(values: Sequence[Value], call: Call) -> Value:
    return _fitting(_KERNELS[call.function], values, call)


def _fitting(kernel: Callable[..., Value], values: Sequence[Value], call: Call) -> Value:
    """Call ``kernel``; turn its overflow error into one with advice."""
    try:
        return kernel(*values)
    except pa.ArrowInvalid:
        raise _overflow(call) from None


def _overflow(call: Call) -> pa.ArrowInvalid:
    assert call.type is not None, call
    if pa.types.is_temporal(call.type):
        return pa.ArrowInvalid(f"the {call.type} does not fit into 64 bits")
    hint = "cast its parts to float64 or to a decimal for more room"
    return pa.ArrowInvalid(f"the result does not fit into {call.type} ({hint})")


def _divide(values: Sequence[Value], _call: Call) -> Value:
    left, right = values
    zero = pc.equal(right, 0.0)
    return pc.divide(left, pc.if_else(zero, pa.scalar(None, _FLOAT), right))


def _floored(function: Callable[..., np.ndarray]) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], call: Call) -> Value:
        if pa.types.is_decimal(values[0].type):
            return divided_exactly(values, 0 if function is np.floor_divide else 1)
        (left, left_null), (right, right_null) = (_dense(v) for v in values)
        null = left_null | right_null | (right == 0)
        if function is np.floor_divide and left.dtype.kind == "i":
            over = (right == -1) & (left == _LEAST) & ~null
            if over.any():
                raise _overflow(call)
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
    """Return ``np.mod``, computed three times as fast if the divisor is one number."""
    if right.ndim or left.dtype.kind != "i":
        return np.mod(left, right)  # type: ignore[no-any-return]
    below = np.array(np.floor_divide(left, right))
    below *= right
    np.subtract(left, below, out=below)
    return below


def _dense(value: Value) -> tuple[np.ndarray, np.ndarray]:
    """Return the values with placeholders for nulls, and the null mask."""
    if isinstance(value, pa.Scalar):
        filled = value.as_py() if value.is_valid else 1
        return np.asarray(filled, value.type.to_pandas_dtype()), np.asarray(not value.is_valid)
    if value.null_count == 0:
        return value.to_numpy(zero_copy_only=False), np.asarray(False)
    filled = pc.fill_null(value, pa.scalar(1, value.type)).to_numpy(zero_copy_only=False)
    return filled, pc.is_null(value).to_numpy(zero_copy_only=False)


def _resolve_same(call: Call) -> Node | None:
    """Set the types of a function of one number: the result has its type; integers become int64."""
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
    digits = call.option("digits")
    if pa.types.is_integer(call.type):
        return values[0] if digits >= 0 else _round_integer(values[0], -digits, call)
    if pa.types.is_decimal(call.type):
        return _in_decimals(lambda value, kind: rounded(value, digits, kind), values[0], call)
    made = rounded_float(values[0].cast(_FLOAT), digits, toward_zero=False)
    return made.cast(call.type, safe=False)


def _round_integer(value: Value, zeros: int, call: Call) -> Value:
    """Round integers to a multiple of 10**zeros without intermediate results above int64."""
    if zeros > _INT64_ZEROS + 1:
        return pc.subtract(value, value)
    if zeros > _INT64_ZEROS:  # 10**zeros does not fit into int64, but half of it may
        half = 5 * 10**_INT64_ZEROS
        far = pc.or_(pc.less_equal(value, -half), pc.greater_equal(value, half))
        if (far if isinstance(far, pa.Scalar) else pc.any(far)).as_py():
            raise _overflow(call)
        return pc.subtract(value, value)
    unit = 10**zeros
    whole = pc.divide(value, unit)
    rest = pc.subtract(value, pc.multiply(whole, unit))
    up = pc.greater_equal(rest, unit // 2).cast(_INTEGER)
    down = pc.less_equal(rest, -(unit // 2)).cast(_INTEGER)
    nearest = pc.subtract(pc.add(whole, up), down)
    return _fitting(pc.multiply_checked, (nearest, pa.scalar(unit, _INTEGER)), call)


def _in_decimals(change: Callable[[Value, pa.DataType], Value], value: Value, call: Call) -> Value:
    assert call.type is not None, call
    try:
        return change(value, call.type)
    except pa.ArrowInvalid:
        raise _overflow(call) from None


def _unary(kernel: Callable[[Value], Value]) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], call: Call) -> Value:
        if pa.types.is_duration(call.type):
            return _fitting(kernel, [values[0].cast(_INTEGER)], call).cast(call.type)
        return _fitting(kernel, values, call)

    return evaluate


def _rounded(kernel: Callable[[Value], Value]) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], call: Call) -> Value:
        if pa.types.is_integer(call.type):
            return values[0]
        if pa.types.is_decimal(call.type):
            return _in_decimals(lambda v, kind: applied(kernel, v, kind), values[0], call)
        return kernel(values[0]).cast(call.type)

    return evaluate


FUNCTIONS = {
    "add": Function("+", _resolve_plus, _kernel, infix("+")),
    "subtract": Function("-", _resolve_minus, _kernel, infix("-")),
    "multiply": Function("*", _resolve_times, _kernel, infix("*")),
    "divide": Function("/", _resolve_divide, _divide, infix("/")),
    "floor_divide": Function("//", _resolve_floored, _floored(np.floor_divide), infix("//")),
    "modulo": Function("%", _resolve_floored, _floored(_modulo), infix("%")),
    "negate": Function("-", _resolve_same, _unary(pc.negate_checked), lambda c: f"-{c.args[0]}"),
    "abs": Function("abs", _resolve_same, _unary(pc.abs_checked), method("abs")),
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
