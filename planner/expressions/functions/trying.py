"""``try_cast``: like a cast, but null where the cast fails.

The distinct values of a batch are converted at once, without texts that do not have the form of the
type. If that fails, the values are halved until each failing value is alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from planner.expressions.entries.signature import method
from planner.expressions.functions import casting
from planner.expressions.nodes import Function
from planner.expressions.types import is_text
from rstream.items.text_failures import alone, failing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Call, Node, Value


def _resolve(call: Call) -> Node | None:
    made = casting.FUNCTIONS["cast"].resolve(replace(call, function="cast"))
    is_same = made is None or made is call.args[0]
    return made if is_same else replace(call, type=call.option("to"))


def _evaluate(values: Sequence[Value], call: Call) -> Value:
    (value,) = values
    target = call.type
    assert target is not None
    try:
        return casting.convert(value, target)
    except MemoryError:
        raise
    except (pa.ArrowException, OverflowError):
        pass
    if isinstance(value, pa.Scalar):
        return pa.scalar(None, target)
    plain = value.dictionary_decode() if pa.types.is_dictionary(value.type) else value
    if is_text(plain.type):
        fails = failing(plain, target, lambda part: casting.convert(part, target))
        return _convertible(plain, fails, target)
    if pa.types.is_nested(plain.type):
        return _converted(plain, target)
    distinct = plain.dictionary_encode()
    return _converted(distinct.dictionary, target).take(distinct.indices)


def _converted(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert the values to ``target``; null where that is not possible."""
    fails = np.zeros(len(values), np.bool_)
    fails[alone(np.arange(len(values)), values, lambda part: casting.convert(part, target))] = True
    return _convertible(values, fails, target)


def _convertible(values: pa.Array, fails: np.ndarray, target: pa.DataType) -> pa.Array:
    """Convert the values that do not fail; null in the places of the others."""
    return casting.convert(values.take(pa.array(np.arange(len(values)), mask=fails)), target)


FUNCTIONS = {"try_cast": Function("try_cast", _resolve, _evaluate, method("try_cast", "to"))}
