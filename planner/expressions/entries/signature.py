"""Determines the types of calls, and prints calls."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.errors import InvalidDurationError
from planner.expressions.bare_text import bare
from planner.expressions.nodes import Call, Literal, Node, cast_to
from planner.expressions.types import TIMESTAMP_UTC, common_type, is_text, is_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def typed(call: Call, result: pa.DataType, *args: pa.DataType) -> Call:
    """Return ``call`` with type ``result``, its arguments converted to ``args``."""
    assert len(args) == len(call.args), call
    converted = tuple(cast_to(a, t) for a, t in zip(call.args, args, strict=True))
    return replace(call, args=converted, type=result)


def arg_types(call: Call) -> list[pa.DataType]:
    """Return the types of the resolved arguments."""
    types = [arg.type for arg in call.args]
    assert None not in types, call
    return types


def with_literals_adapted(call: Call) -> Call:
    """Adapt literals to the other argument's type: text to a time, an integer to its size."""
    types = arg_types(call)
    if any(is_time(t) for t in types):
        return replace(call, args=tuple(_as_time(arg) for arg in call.args))
    if any(pa.types.is_decimal(t) for t in types):
        return replace(call, args=tuple(_as_short_decimal(arg) for arg in call.args))
    if pa.uint64() in types:
        return replace(call, args=tuple(_as_unsigned(arg) for arg in call.args))
    return call


def common_of(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the common type of ``types``."""
    common: pa.DataType | None = pa.null()
    for t in types:
        common = None if common is None else common_type(common, t)
    return common


def _as_time(node: Node) -> Node:
    from planner.durations import time_us

    if not isinstance(node, Literal) or not isinstance(node.literal, str):
        return node
    try:
        us = time_us(node.literal)
    except InvalidDurationError:
        return node
    moment = pa.scalar(us, TIMESTAMP_UTC).as_py()
    return Literal(moment, TIMESTAMP_UTC)


def _int_literal(node: Node) -> int | None:
    """Return the value of a literal that is an integer."""
    if isinstance(node, Literal) and node.type == pa.int64() and isinstance(node.literal, int):
        return node.literal
    return None


def _as_short_decimal(node: Node) -> Node:
    """Make a decimal as narrow as possible, so that the result fits."""
    value = _int_literal(node)
    if value is None:
        return node
    return Literal(Decimal(value), pa.decimal128(len(str(abs(value))), 0))


def _as_unsigned(node: Node) -> Node:
    value = _int_literal(node)
    return node if value is None or value < 0 else Literal(value, pa.uint64())


def infix(symbol: str) -> Callable[[Call], str]:
    """Return the function that prints a call as ``(a + b)``."""

    def show(call: Call) -> str:
        left, right = call.args
        return f"({left} {symbol} {right})"

    return show


def method(name: str, *options: str) -> Callable[[Call], str]:
    """Return the function that prints a call as ``a.name(b, option)``."""

    def show(call: Call) -> str:
        extra = [bare(arg) for arg in call.args[1:]]
        extra += [_option(call.option(name)) for name in options if call.option(name) is not None]
        return f"{call.args[0]}.{name}({', '.join(extra)})"

    return show


def plain_call(name: str) -> Callable[[Call], str]:
    """Return the function that prints a call as ``name(a, b)``."""

    def show(call: Call) -> str:
        return f"{name}({', '.join(bare(arg) for arg in call.args)})"

    return show


def text_of(node: Node) -> bool:
    """Return whether a resolved node is text."""
    assert node.type is not None
    return is_text(node.type) or bool(pa.types.is_null(node.type))


def _option(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_option(v) for v in value) + "]"
    return str(Literal(value)) if isinstance(value, str) else str(value)
