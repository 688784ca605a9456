"""Numbers as text: with commas between thousands, and in another base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.expressions.entries.signature import plain_call, typed
from planner.expressions.functions.texts.words import mapped
from planner.expressions.nodes import Function
from planner.expressions.types import is_number, is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.expressions.nodes import Call, Node, Value

_TEXT = pa.string()
_WORD = 1 << 64
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _resolve_grouped(call: Call) -> Node | None:
    kind = call.args[0].type
    assert kind is not None
    return typed(call, _TEXT, kind) if is_number(kind) else None


def _grouped(values: Sequence[Value], call: Call) -> Value:
    """Format numbers as ``12,345.68``; halves of the exact value go to even, as in Java."""
    form = f",.{call.option('digits')}f"
    return _each(values[0], lambda number: format(number, form).replace("nan", "NaN"))


def _resolve_based(call: Call) -> Node | None:
    kind = call.args[0].type
    assert kind is not None
    return typed(call, _TEXT, _TEXT) if is_text(kind) else None


def _based(values: Sequence[Value], call: Call) -> Value:
    """Convert an integer to another base; its text ends at the first invalid digit."""
    base, to = call.option("base"), call.option("to")
    return mapped(values[0], lambda text: _in_base(text.strip(), base, to), _TEXT)


def _in_base(text: str, base: int, to: int) -> str | None:
    if not text:
        return None
    is_negative = text.startswith("-")
    number = 0
    for character in text.removeprefix("-").upper():
        digit = _DIGITS.find(character)
        if not 0 <= digit < base:
            break
        number = min(number * base + digit, _WORD - 1)
    if is_negative:
        number = -number if to < 0 else (_WORD - number) % _WORD
    elif to < 0 and number >= _WORD // 2:
        number -= _WORD
    rest, written = abs(number), ""
    while rest or not written:  # terminates: ``rest`` shrinks
        written = _DIGITS[rest % abs(to)] + written
        rest //= abs(to)
    return f"-{written}" if number < 0 else written


def _bytes_of(text: str) -> bytes | None:
    """Return the bytes of hexadecimal digits; an odd number of digits gets a 0 in front."""
    try:
        return bytes.fromhex(text.zfill(len(text) + len(text) % 2))
    except ValueError:
        return None


def _resolve_bytes(call: Call) -> Node | None:
    kind = call.args[0].type
    assert kind is not None
    return typed(call, pa.binary(), _TEXT) if is_text(kind) else None


def _each(value: Value, write: Callable[[Any], str]) -> Value:
    def one(number: object) -> str | None:
        return None if number is None else write(number)

    if isinstance(value, pa.Scalar):
        return pa.scalar(one(value.as_py()), _TEXT)
    return pa.array([one(number) for number in value.to_pylist()], _TEXT)


FUNCTIONS = {
    "format_number": Function(
        "format_number",
        _resolve_grouped,
        _grouped,
        plain_call("format_number"),
        spark=lambda call, a: f"format_number({a}, {call.option('digits')})",
    ),
    "unhex": Function(
        "unhex",
        _resolve_bytes,
        lambda values, _call: mapped(values[0], _bytes_of, pa.binary()),
        plain_call("unhex"),
        spark="unhex({args})",
    ),
    "conv": Function(
        "conv",
        _resolve_based,
        _based,
        plain_call("conv"),
        spark=lambda call, a: f"conv({a}, {call.option('base')}, {call.option('to')})",
    ),
}
