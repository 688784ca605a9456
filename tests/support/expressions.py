"""Random expressions, each with its definition as a plain Python function of a row.

The Python side is written without looking at Arrow: null is None, an integer beyond int64 is an
``OverflowError``, an operation with None returns None unless defined otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from planner import Expr, coalesce, col, lit, when

Row = dict[str, Any]
Python = Callable[[Row], Any]

SCHEMA = pa.schema(
    [
        *[pa.field(name, pa.int64()) for name in ("a", "b")],
        pa.field("small", pa.int8()),
        *[pa.field(name, pa.float64()) for name in ("x", "y")],
        *[pa.field(name, pa.bool_()) for name in ("p", "q")],
        *[pa.field(name, pa.string()) for name in ("s", "t")],
    ]
)
_NAMES = {
    "int": ("a", "b", "small"),
    "float": ("x", "y"),
    "bool": ("p", "q"),
    "str": ("s", "t"),
}
_TEXT = st.text("abAB é ", max_size=5)
_LITERALS: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-5, 5),
    "float": st.sampled_from([0.0, 0.5, -1.25, 3.0, 1e10]),
    "bool": st.booleans(),
    "str": _TEXT,
}


@dataclass(frozen=True)
class Twin:
    """An expression and its definition."""

    expr: Expr
    python: Python

    def __repr__(self) -> str:
        return str(self.expr)


def rows() -> st.SearchStrategy[list[Row]]:
    """Rows of :data:`SCHEMA` with nulls and edge cases."""
    integers = st.integers(-9, 9) | st.sampled_from([2**63 - 1, -(2**63), 2**31])
    floats = st.sampled_from([0.0, -0.0, 0.5, -2.5, 1e300, math.inf, -math.inf, math.nan, 7.0])
    values: dict[str, st.SearchStrategy[Any]] = {
        "a": integers,
        "b": integers,
        "small": st.integers(-128, 127),
        "x": floats,
        "y": floats,
        "p": st.booleans(),
        "q": st.booleans(),
        "s": _TEXT,
        "t": _TEXT,
    }
    row = st.fixed_dictionaries({name: st.none() | v for name, v in values.items()})
    return st.lists(row, max_size=6)


@cache
def twins(kind: str, depth: int = 3) -> st.SearchStrategy[Twin]:
    """Random expressions of a kind: ``int``, ``float``, ``bool`` or ``str``."""
    leaf = st.one_of(
        st.sampled_from(_NAMES[kind]).map(lambda n: Twin(col(n), lambda row: row[n])),
        _LITERALS[kind].map(lambda v: Twin(lit(v), lambda row: v)),
    )
    if depth == 0:
        return leaf
    made = {"int": _ints, "float": _floats, "bool": _bools, "str": _strs}[kind](depth - 1)
    return st.one_of(leaf, made, _choices(kind, depth - 1))


def _both(kind: str, depth: int) -> st.SearchStrategy[tuple[Twin, Twin]]:
    return st.tuples(twins(kind, depth), twins(kind, depth))


def _strict(function: Callable[..., Any], *args: Twin) -> Python:
    """Null if an argument is null."""

    def python(row: Row) -> Any:
        values = [arg.python(row) for arg in args]
        return None if any(v is None for v in values) else function(*values)

    return python


def _fit(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise OverflowError(value)
    return value


def _ints(depth: int) -> st.SearchStrategy[Twin]:
    operations: list[Callable[[Twin, Twin], Twin]] = [
        lambda a, b: Twin(a.expr + b.expr, _strict(lambda v, w: _fit(v + w), a, b)),
        lambda a, b: Twin(a.expr - b.expr, _strict(lambda v, w: _fit(v - w), a, b)),
        lambda a, b: Twin(a.expr * b.expr, _strict(lambda v, w: _fit(v * w), a, b)),
        lambda a, b: Twin(a.expr // b.expr, _strict(_floored(lambda v, w: v // w), a, b)),
        lambda a, b: Twin(a.expr % b.expr, _strict(_floored(lambda v, w: v % w), a, b)),
    ]
    length = twins("str", depth).map(lambda s: Twin(s.expr.str.length(), _strict(len, s)))
    negated = twins("int", depth).map(lambda a: Twin(-a.expr, _strict(lambda v: _fit(-v), a)))
    return st.one_of(_apply(operations, "int", depth), length, negated)


def _floored(function: Callable[[int, int], int]) -> Callable[[int, int], int | None]:
    return lambda v, w: None if w == 0 else _fit(function(v, w))


def _floats(depth: int) -> st.SearchStrategy[Twin]:
    operations: list[Callable[[Twin, Twin], Twin]] = [
        lambda a, b: Twin(a.expr + b.expr, _strict(lambda v, w: v + w, a, b)),
        lambda a, b: Twin(a.expr - b.expr, _strict(lambda v, w: v - w, a, b)),
        lambda a, b: Twin(a.expr * b.expr, _strict(lambda v, w: v * w, a, b)),
        lambda a, b: Twin(a.expr / b.expr, _strict(lambda v, w: None if w == 0 else v / w, a, b)),
    ]
    divided = _both("int", depth).map(
        lambda ab: Twin(
            ab[0].expr / ab[1].expr,
            _strict(lambda v, w: None if w == 0 else float(v) / float(w), *ab),
        )
    )
    mixed = st.tuples(twins("int", depth), twins("float", depth)).map(
        lambda ab: Twin(ab[0].expr + ab[1].expr, _strict(lambda v, w: float(v) + w, *ab))
    )
    absolute = twins("float", depth).map(lambda a: Twin(abs(a.expr), _strict(abs, a)))
    return st.one_of(_apply(operations, "float", depth), divided, mixed, absolute)


def _bools(depth: int) -> st.SearchStrategy[Twin]:
    kinds = st.sampled_from(["int", "float", "str"])
    compared = kinds.flatmap(lambda kind: _apply(_COMPARISONS, kind, depth))
    logical: list[Callable[[Twin, Twin], Twin]] = [
        lambda a, b: Twin(a.expr & b.expr, lambda row: _decided(False, row, a, b)),
        lambda a, b: Twin(a.expr | b.expr, lambda row: _decided(True, row, a, b)),
    ]
    inverted = twins("bool", depth).map(lambda a: Twin(~a.expr, _strict(lambda v: not v, a)))
    null = kinds.flatmap(lambda kind: twins(kind, depth)).map(
        lambda a: Twin(a.expr.is_null(), lambda row: a.python(row) is None)
    )
    member = twins("int", depth).map(
        lambda a: Twin(a.expr.is_in([1, 2, 5]), _strict(lambda v: v in (1, 2, 5), a))
    )
    begins = twins("str", depth).map(
        lambda a: Twin(a.expr.str.starts_with("a"), _strict(lambda v: v.startswith("a"), a))
    )
    return st.one_of(compared, _apply(logical, "bool", depth), inverted, null, member, begins)


_COMPARISONS: list[Callable[[Twin, Twin], Twin]] = [
    lambda a, b: Twin(a.expr == b.expr, _strict(lambda v, w: v == w, a, b)),
    lambda a, b: Twin(a.expr != b.expr, _strict(lambda v, w: v != w, a, b)),
    lambda a, b: Twin(a.expr < b.expr, _strict(lambda v, w: v < w, a, b)),
    lambda a, b: Twin(a.expr >= b.expr, _strict(lambda v, w: v >= w, a, b)),
]


def _decided(zero: bool, row: Row, *sides: Twin) -> bool | None:
    """Kleene logic: a side with the value ``zero`` decides, even if the other side fails."""
    values: list[bool | None] = []
    wrong: OverflowError | None = None
    for side in sides:
        try:
            values.append(side.python(row))
        except OverflowError as error:
            wrong = error
    if zero in values:
        return zero
    if wrong is not None:
        raise wrong
    return None if None in values else not zero


def _strs(depth: int) -> st.SearchStrategy[Twin]:
    unary: list[Callable[[Twin], Twin]] = [
        lambda a: Twin(a.expr.str.upper(), _strict(str.upper, a)),
        lambda a: Twin(a.expr.str.lower(), _strict(str.lower, a)),
        lambda a: Twin(a.expr.str.strip(), _strict(str.strip, a)),
        lambda a: Twin(a.expr.str.replace("a", "bb"), _strict(lambda v: v.replace("a", "bb"), a)),
        lambda a: Twin(a.expr.str.slice(1, 3), _strict(lambda v: v[1:3], a)),
    ]
    joined = _both("str", depth).map(
        lambda ab: Twin(ab[0].expr + ab[1].expr, _strict(lambda v, w: v + w, *ab))
    )
    one = st.tuples(st.sampled_from(unary), twins("str", depth)).map(lambda fa: fa[0](fa[1]))
    shown = twins("int", depth).map(lambda a: Twin(a.expr.cast(str), _strict(str, a)))
    return st.one_of(one, joined, shown)


def _choices(kind: str, depth: int) -> st.SearchStrategy[Twin]:
    def choose(parts: tuple[Twin, Twin, Twin]) -> Twin:
        c, a, b = parts
        expr = when(c.expr).then(a.expr).otherwise(b.expr)
        return Twin(expr, lambda row: a.python(row) if c.python(row) else b.python(row))

    def first(ab: tuple[Twin, Twin]) -> Twin:
        def python(row: Row) -> Any:
            value = ab[0].python(row)
            return ab[1].python(row) if value is None else value

        return Twin(coalesce(ab[0].expr, ab[1].expr), python)

    chosen = st.tuples(twins("bool", depth), twins(kind, depth), twins(kind, depth)).map(choose)
    return st.one_of(chosen, _both(kind, depth).map(first))


def _apply(
    operations: list[Callable[[Twin, Twin], Twin]], kind: str, depth: int
) -> st.SearchStrategy[Twin]:
    return st.tuples(st.sampled_from(operations), _both(kind, depth)).map(
        lambda parts: parts[0](*parts[1])
    )
