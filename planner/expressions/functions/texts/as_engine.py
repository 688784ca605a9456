"""Text as other engines write it: doubles, and the upper and lower case of letters.

A double is written with the fewest digits that give the same double; Java writes two digits where
one is enough. In Java some letters become longer in another case: ``ß`` becomes ``SS``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.entries.signature import plain_call, typed
from planner.expressions.functions.texts.words import mapped
from planner.expressions.nodes import Function
from planner.expressions.spark.errors import not_in_batch
from planner.expressions.types import is_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Node, Value

_TEXT = pa.string()
#: Letters whose other case is longer, or depends on the letters around them.
_LONGER = (
    r"[\x{DF}\x{149}\x{1F0}\x{390}\x{3B0}\x{587}\x{1C4}-\x{1CC}\x{1F1}-\x{1F3}"
    r"\x{1E96}-\x{1E9A}\x{1F50}-\x{1FFC}\x{FB00}-\x{FB17}]"
)
_SPECIAL = {"upper": _LONGER, "title": _LONGER, "lower": r"[\x{130}\x{3A3}]"}


@dataclass(frozen=True, slots=True)
class _Style:
    """How doubles are written."""

    #: Range of powers of ten, ``[low, high)``, that are written without an exponent.
    low: int
    high: int
    #: The text after a whole number, and after a single digit before an exponent.
    whole: str
    single: str
    exponent: str
    nan: str
    infinity: str


_STYLES = {
    "java": _Style(-3, 7, ".0", ".0", "E{}", "NaN", "Infinity"),
    "duckdb": _Style(-4, 16, ".0", "", "e{:+03d}", "nan", "inf"),
    "postgres": _Style(-4, 15, "", "", "e{:+03d}", "NaN", "Infinity"),
}


def _written(style: _Style, shortest: str, value: float) -> str:
    if math.isnan(value):
        return style.nan
    if math.isinf(value):
        return style.infinity if value > 0 else f"-{style.infinity}"
    number = Decimal(shortest).normalize()
    if style.single and len(number.as_tuple().digits) == 1:
        number = Decimal(f"{value:.1e}").normalize()
    power = number.adjusted()
    if style.low <= power < style.high:
        text = f"{number:f}"
        return text if "." in text else text + style.whole
    first, *others = number.as_tuple().digits
    rest = f".{''.join(map(str, others))}" if others else style.single
    return f"{'-' * number.is_signed()}{first}{rest}{style.exponent.format(power)}"


def _resolve_double(call: Call) -> Node | None:
    kind = call.args[0].type
    return typed(call, _TEXT, kind) if kind is not None and pa.types.is_floating(kind) else None


def _of_doubles(values: Sequence[Value], call: Call) -> Value:
    (value,) = values
    if isinstance(value, pa.Scalar):
        return _of_doubles([pa.repeat(value, 1)], call)[0]
    style = _STYLES[call.option("style")]
    numbers = value.cast(pa.float64()).to_pylist()
    if value.type == pa.float64():
        short = map(repr, numbers)
    else:
        short = map(str, value.to_numpy(zero_copy_only=False).astype(value.type.to_pandas_dtype()))
    texts = [
        None if number is None else _written(style, shortest, number)
        for number, shortest in zip(numbers, short, strict=True)
    ]
    return pa.array(texts, _TEXT)


def _spark_double(call: Call, a: str) -> str:
    return f"cast({a} as string)" if call.option("style") == "java" else not_in_batch(call)


def _resolve_case(call: Call) -> Node | None:
    kind = call.args[0].type
    is_null = kind is not None and pa.types.is_null(kind)
    return typed(call, _TEXT, _TEXT) if is_text(kind) or is_null else None


def _cased(values: Sequence[Value], call: Call) -> Value:
    """Change case as Java does; use Arrow only if no letter changes its length."""
    (value,) = values
    case: str = call.option("case")
    is_special: Any = pc.match_substring_regex(value, _SPECIAL[case])
    special = is_special if isinstance(value, pa.Scalar) else pc.any(is_special)
    if special.as_py():
        return mapped(value, partial(_in_case, case), _TEXT)
    return getattr(pc, f"utf8_{case}")(value)


def _in_case(case: str, text: str) -> str:
    return str(getattr(text, case)())


def _spark_case(call: Call, a: str) -> str:
    return f"{'initcap' if call.option('case') == 'title' else call.option('case')}({a})"


FUNCTIONS = {
    "double_text": Function(
        "double_text", _resolve_double, _of_doubles, plain_call("double_text"), spark=_spark_double
    ),
    "cased": Function("cased", _resolve_case, _cased, plain_call("cased"), spark=_spark_case),
}
