"""More functions of numbers: greatest and least, powers and logarithms, angles, bits.

``greatest`` and ``least`` skip nulls and accept any ordered type; NaN is greater than every number.
Powers, logarithms and angles follow IEEE 754: ``ln(0)`` is minus infinity, and an undefined result
is NaN.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial, reduce
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
from planner.expressions.functions.doubles import cube_root, rounded_float
from planner.expressions.nodes import Function
from planner.expressions.types import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Node, Value

_FLOAT, _INTEGER = pa.float64(), pa.int64()
#: The greatest number whose factorial fits into int64.
FACTORIAL_MAX = 20
BUCKETS_MAX = 2**31 - 1


def _resolve_extreme(call: Call) -> Node | None:
    call = with_literals_adapted(call)
    common = common_of(arg_types(call))
    if common is None or pa.types.is_nested(common) or pa.types.is_boolean(common):
        return None
    common = _INTEGER if pa.types.is_null(common) else common
    return typed(call, common, *[common] * len(call.args))


def _extreme(wins: Callable[..., Value], values: Sequence[Value], _call: Call) -> Value:
    return reduce(lambda a, b: _better(wins, a, b), values)


def _better(wins: Callable[..., Value], a: Value, b: Value) -> Value:
    first = pc.fill_null(wins(a, b), False)
    if pa.types.is_floating(a.type):
        greatest = pc.is_nan(a) if wins is pc.greater_equal else pc.is_nan(b)
        first = pc.or_(first, pc.fill_null(greatest, False))
    first = pc.and_(first, pc.is_valid(a))
    return pc.if_else(pc.or_(first, pc.is_null(b)), a, b)


def _resolve_floats(call: Call) -> Node | None:
    kinds = [_INTEGER if pa.types.is_null(kind) else kind for kind in arg_types(call)]
    if not all(is_number(kind) for kind in kinds):
        return None
    return typed(call, _FLOAT, *[_FLOAT] * len(call.args))


def _resolve_sign(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    if pa.types.is_integer(kind):
        return typed(call, _INTEGER, _INTEGER)
    return _resolve_floats(call)


def _resolve_trunc(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return replace(call, type=kind)
    return typed(call, _FLOAT, _FLOAT) if pa.types.is_floating(kind) else None


def _trunc(values: Sequence[Value], call: Call) -> Value:
    if call.type is not None and pa.types.is_integer(call.type):
        digits = max(0, -call.option("digits"))
        bits = call.type.bit_width - pa.types.is_signed_integer(call.type)
        is_beyond = 10**digits >= 1 << bits
        unit = pa.scalar(0 if is_beyond else 10**digits, call.type)
        return pc.multiply(values[0] if is_beyond else pc.divide(values[0], unit), unit)
    if call.type is not None and pa.types.is_decimal(call.type):
        digits = min(call.option("digits"), call.type.scale)
        return pc.round(values[0], ndigits=digits, round_mode="towards_zero")
    return rounded_float(values[0], call.option("digits"), toward_zero=True)


def _resolve_bits(call: Call) -> Node | None:
    kinds = [_INTEGER if pa.types.is_null(kind) else kind for kind in arg_types(call)]
    if not all(pa.types.is_integer(kind) and kind != pa.uint64() for kind in kinds):
        return None
    return typed(call, _INTEGER, *[_INTEGER] * len(call.args))


def _resolve_factorial(call: Call) -> Node | None:
    (kind,) = arg_types(call)
    is_whole = pa.types.is_integer(kind) or pa.types.is_null(kind)
    return typed(call, _INTEGER, _INTEGER) if is_whole else None


def _factorial(values: Sequence[Value], call: Call) -> Value:
    (value,) = values
    if isinstance(value, pa.Scalar):
        return _factorial([pa.array([value.as_py()], _INTEGER)], call)[0]
    if pc.any(pc.or_(pc.less(value, 0), pc.greater(value, FACTORIAL_MAX))).as_py():
        raise pa.ArrowInvalid(f"a factorial fits into int64 for 0 to {FACTORIAL_MAX}")
    factorials = [math.factorial(n) for n in range(FACTORIAL_MAX + 1)]
    return pa.array(factorials, _INTEGER).take(value)


def _resolve_bucket(call: Call) -> Node | None:
    low, high, buckets = (call.option(name) for name in ("low", "high", "buckets"))
    is_range = all(isinstance(v, int | float) and math.isfinite(v) for v in (low, high))
    if not is_range or low == high:
        raise InvalidPlanError(f"{call}: low and high must be different numbers")
    if not isinstance(buckets, int) or not 1 <= buckets <= BUCKETS_MAX:
        raise InvalidPlanError(f"{call}: buckets must be a whole number from 1 to {BUCKETS_MAX}")
    return typed(call, _INTEGER, _FLOAT) if _resolve_floats(call) else None


def _bucket(values: Sequence[Value], call: Call) -> Value:
    (value,) = values
    if isinstance(value, pa.Scalar):
        return _bucket([pa.array([value.as_py()], _FLOAT)], call)[0]
    low, high = float(call.option("low")), float(call.option("high"))
    buckets = call.option("buckets")
    numbers = value.fill_null(math.nan).to_numpy()
    if low > high:
        low, high, numbers = -low, -high, -numbers
    mask = np.isnan(numbers)
    inside = np.clip(np.where(mask, low, numbers), low, high)
    bucket = np.floor(float(buckets) * (inside - low) / (high - low)).astype(np.int64) + 1
    bucket[numbers < low] = 0
    bucket[numbers >= high] = buckets + 1
    return pa.array(bucket, _INTEGER, mask=mask)


def _cube_root(values: Sequence[Value], call: Call) -> Value:
    (value,) = values
    if isinstance(value, pa.Scalar):
        return _cube_root([pa.array([value.as_py()], _FLOAT)], call)[0]
    roots = cube_root(value.fill_null(0.0).to_numpy())
    return pa.array(roots, _FLOAT, mask=value.is_null().to_numpy(zero_copy_only=False))


def _of(kernel: Callable[..., Value]) -> Callable[[Sequence[Value], Call], Value]:
    def evaluate(values: Sequence[Value], _call: Call) -> Value:
        return kernel(*values)

    return evaluate


def _float(name: str, kernel: Callable[..., Value]) -> Function:
    return Function(name, _resolve_floats, _of(kernel), method(name))


def _bits(name: str, kernel: Callable[..., Value]) -> Function:
    return Function(name, _resolve_bits, _of(kernel), method(name))


FUNCTIONS = {
    "greatest": Function(
        "greatest", _resolve_extreme, partial(_extreme, pc.greater_equal), plain_call("greatest")
    ),
    "least": Function(
        "least", _resolve_extreme, partial(_extreme, pc.less_equal), plain_call("least")
    ),
    "power": _float("power", pc.power),
    "cbrt": Function("cbrt", _resolve_floats, _cube_root, method("cbrt")),
    "factorial": Function("factorial", _resolve_factorial, _factorial, method("factorial")),
    "width_bucket": Function(
        "width_bucket", _resolve_bucket, _bucket, method("width_bucket", "low", "high", "buckets")
    ),
    "exp": _float("exp", pc.exp),
    "ln": _float("ln", pc.ln),
    "log10": _float("log10", pc.log10),
    "log2": _float("log2", pc.log2),
    "sin": _float("sin", pc.sin),
    "cos": _float("cos", pc.cos),
    "tan": _float("tan", pc.tan),
    "asin": _float("asin", pc.asin),
    "acos": _float("acos", pc.acos),
    "atan": _float("atan", pc.atan),
    "atan2": _float("atan2", pc.atan2),
    "is_nan": Function(
        "is_nan",
        lambda call: typed(call, pa.bool_(), _FLOAT) if _resolve_floats(call) else None,
        _of(pc.is_nan),
        method("is_nan"),
    ),
    "sign": Function(
        "sign",
        _resolve_sign,
        lambda values, call: pc.sign(values[0]).cast(call.type),
        method("sign"),
    ),
    "trunc": Function("trunc", _resolve_trunc, _trunc, method("trunc", "digits")),
    "bit_and": _bits("bit_and", pc.bit_wise_and),
    "bit_or": _bits("bit_or", pc.bit_wise_or),
    "bit_xor": _bits("bit_xor", pc.bit_wise_xor),
    "bit_not": _bits("bit_not", pc.bit_wise_not),
}
