"""Convert numbers to decimals, and round decimals: exact, or halves away from zero.

A value that does not fit its type is an error. Arrow 26 does not always raise it: it rounds and
rescales within the bits of the type, so a value that is too large becomes zero or another number.
So both operations use a type with enough room: 128 bits if the digits suffice, else 256 bits, which
hold every decimal of 128 bits with any scale. The result is then cast with an overflow check.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Value

#: The most digits of decimals with 128 and 256 bits.
_DIGITS, _WIDE_DIGITS = 38, 76
#: Numbers below this fit into 256 bits with 38 places and one more digit.
_ROOM = 10**36
#: If the digits of a float (at most 17) end within this many places, it has at most 38 places.
_FLOAT_SCALE = 19
#: Below _SURE_MAX, a float's printed digits times a power of ten differ from the computed product
#: by less than _UNSURE.
_SURE_MAX, _UNSURE = 2.0**40, 2.0**-10
_HALVES = "half_towards_infinity"
#: Integers with at most this many digits are exact in a double, and so are their remainders.
_EXACT_DIGITS = 15
#: A context of Python's decimals that holds every decimal as an integer.
_EXACT = Context(prec=2 * _WIDE_DIGITS)


def to_decimal(value: Value, target: pa.DataType) -> Value:
    """Convert a number or text to a decimal of type ``target``.

    Raises:
        pa.ArrowException: a value does not fit or is not a number.
    """
    source = value.type
    if pa.types.is_integer(source):
        digits = 20 if source == pa.uint64() else 19
        value = value.cast(pa.decimal128(digits, 0))
    elif pa.types.is_string(source) or pa.types.is_large_string(source):
        if target.precision > _DIGITS or not target.scale >= 0:
            return value.cast(target)
        return _of_digits(value.cast(pa.decimal256(_WIDE_DIGITS, _DIGITS)), target)
    elif pa.types.is_floating(source):
        return _of_floats(value.cast(pa.float64()), target)
    elif not pa.types.is_decimal(source):
        return value.cast(target)
    return _rescaled(value, target)


def rounded(value: Value, digits: int, target: pa.DataType) -> Value:
    """Round decimals to ``digits`` places, with result type ``target``."""
    if not _has_room(value.type):
        return _by_python(value, target, digits)
    # with fewer digits every result is 0
    digits = max(digits, value.type.scale - value.type.precision - 1)
    return _with_room(value, lambda wide: pc.round(wide, digits, _HALVES), target)


def applied(kernel: Callable[[Value], Value], value: Value, target: pa.DataType) -> Value:
    """Apply ``kernel`` (floor or ceil) to decimals, with result type ``target``."""
    if not _has_room(value.type):
        return kernel(value)
    return _with_room(value, kernel, target)


def _of_floats(value: Value, target: pa.DataType) -> Value:
    """Convert floats by their printed digits, so that 1.005 is rounded as the decimal 1.005."""
    if not 0 <= target.scale <= _FLOAT_SCALE or target.precision > _DIGITS:
        if isinstance(value, pa.Scalar):
            return _of_floats(pa.repeat(value, 1), target)[0]
        return _by_python(_shown(value), target, target.scale)
    if isinstance(value, pa.Scalar):
        return _of_shown(value, target)
    made, is_sure = _surely_rounded(value, target.scale)
    if is_sure.all():
        return made.cast(target)
    unsure = pa.array(~is_sure)
    return pc.replace_with_mask(made, unsure, _of_shown(value.filter(unsure), made.type)).cast(
        target
    )


def _surely_rounded(value: pa.Array, scale: int) -> tuple[pa.Array, np.ndarray]:
    """Round floats to ``scale`` places by arithmetic; also a mask of surely right results."""
    numbers = value.to_numpy(zero_copy_only=False)
    empty = value.is_null().to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        scaled = numbers * 10.0**scale
        whole = np.rint(scaled)
        is_sure = np.abs(np.abs(scaled - whole) - 0.5) > _UNSURE
        is_sure &= np.abs(scaled) < _SURE_MAX
    whole[~is_sure] = 0.0
    kind = pa.decimal128(_DIGITS, 0)
    made = pa.array(whole.astype(np.int64), mask=empty).cast(kind)
    made = pa.Array.from_buffers(pa.decimal128(_DIGITS, scale), len(made), made.buffers())
    return made, is_sure | empty


def _of_shown(value: Value, target: pa.DataType) -> Value:
    """Convert floats that fit the type, through their text."""
    # Floats too small to affect the result may have too many places for the text's decimal type.
    tiny = pc.less(pc.abs(value), 10.0 ** -(target.scale + 2))
    shown = pc.if_else(tiny, pa.scalar(0.0), value).cast(pa.string())
    return _of_digits(shown.cast(pa.decimal256(_WIDE_DIGITS, _DIGITS)), target)


def _shown(value: pa.Array) -> list[Decimal | None]:
    """Convert floats of any size to the decimals that Python prints, without loss."""
    if not pc.all(pc.is_finite(value), min_count=0).as_py():
        raise pa.ArrowInvalid("infinity and NaN cannot be decimals")
    return [None if v is None else Decimal(repr(v)) for v in value.to_pylist()]


def _of_digits(value: Value, target: pa.DataType) -> Value:
    """Convert decimals with 38 places to ``target``, in 256 bits if the rounding fits there."""
    if isinstance(value, pa.Array):
        ends = pc.min_max(value)
        largest = max((abs(v) for v in ends.as_py().values() if v is not None), default=0)
        if largest < _ROOM:
            return pc.round(value, target.scale, _HALVES).cast(target)
    return _by_python(value, target, target.scale)


def _rescaled(value: Value, target: pa.DataType) -> Value:
    source = value.type
    gains = target.scale - source.scale
    if source == target:
        return value
    if _has_room(source) and gains >= 0:
        if target.precision - source.precision >= gains:
            return value.cast(target)
        if target.scale <= _DIGITS:
            digits = source.precision + gains
            is_wide = digits > _DIGITS or target.precision > _DIGITS
            wide = pa.decimal256(_WIDE_DIGITS, target.scale)
            return value.cast(wide if is_wide else pa.decimal128(digits, target.scale)).cast(target)
    elif _has_room(source) and target.scale >= 0:
        return rounded(value, target.scale, target)
    return _by_python(value, target, target.scale)


def _has_room(kind: pa.DataType) -> bool:
    """Return whether all values of the type fit into 256 bits with 38 places and one more digit."""
    return bool(0 <= kind.scale <= _DIGITS and kind.precision <= _DIGITS)


def _with_room(value: Value, change: Callable[[Value], Value], target: pa.DataType) -> Value:
    """Apply ``change`` in a type with room for one more digit and for the rounding unit."""
    scale = value.type.scale
    is_wide = value.type.precision >= _DIGITS - 1 or target.precision > _DIGITS
    room = pa.decimal256(_WIDE_DIGITS, scale) if is_wide else pa.decimal128(_DIGITS, scale)
    return change(value.cast(room)).cast(target)


def _by_python(value: Value | list[Decimal | None], target: pa.DataType, digits: int) -> Value:
    """Round any decimals one by one in Python."""
    exact = Context(prec=1000)
    unit = Decimal(1).scaleb(-min(digits, target.scale), exact)

    def one(number: Decimal | None) -> Decimal | None:
        return None if number is None else number.quantize(unit, ROUND_HALF_UP, exact)

    if isinstance(value, pa.Scalar):
        return pa.scalar(one(value.as_py()), target)
    numbers = value if isinstance(value, list) else value.to_pylist()
    return pa.array([one(number) for number in numbers], target)


def divided_exactly(values: Sequence[Value], which: int) -> Value:
    """Return floor quotients (``which=0``) or remainders (1) of two decimals, as nearest floats."""
    if all(isinstance(value, pa.Scalar) for value in values):
        return divided_exactly([pa.repeat(value, 1) for value in values], which)[0]
    rows = max(len(value) for value in values if isinstance(value, pa.Array))
    scale = max(value.type.scale for value in values)
    columns = [
        pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value for value in values
    ]
    unit = 1 if which == 0 else 10**scale
    few = [_few_ticks(column, scale) for column in columns]
    if few[0] is not None and few[1] is not None:
        with np.errstate(all="ignore"):
            made = np.divmod(few[0], few[1])[which] / unit
        null = [column.is_null().to_numpy(zero_copy_only=False) for column in columns]
        return pa.array(made, pa.float64(), mask=null[0] | null[1] | (few[1] == 0))
    # Python rounds the quotient of two integers of any size only once, to the nearest float.
    quotients = [
        None if a is None or not b else divmod(_ticks(a, scale), _ticks(b, scale))[which] / unit
        for a, b in zip(*(column.to_pylist() for column in columns), strict=True)
    ]
    return pa.array(quotients, pa.float64())


def _few_ticks(value: pa.Array, scale: int) -> np.ndarray | None:
    """Return ``_ticks`` of decimals, int64[n], arbitrary for nulls; None if one does not fit."""
    room = _EXACT_DIGITS - scale
    ends = [end for end in pc.min_max(value).as_py().values() if end is not None]
    if room < 0 or any(abs(end) >= 10**room for end in ends):
        return None
    made = value.cast(pa.decimal128(_EXACT_DIGITS, scale))
    low = np.frombuffer(made.buffers()[1], np.int64)[::2]
    return low[made.offset : made.offset + len(made)]


def _ticks(number: Decimal, scale: int) -> int:
    return int(number.scaleb(scale, _EXACT))
