"""``try_cast``: as a cast, and null where that fails.

What a batch has of distinct values is converted at once; if that fails, by halves, until what fails
stands alone. Text without any digit is known not to be a number or a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from planner.expressions.entries.signature import method
from planner.expressions.functions import casting
from planner.expressions.nodes import Function
from planner.expressions.types import is_text

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
    if pa.types.is_nested(plain.type):
        return pa.concat_arrays(_converted(plain, target))
    distinct = plain.dictionary_encode()
    found = pa.concat_arrays(_converted(_without_hopeless(distinct.dictionary, target), target))
    return found.take(distinct.indices)


def _without_hopeless(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Null for text that cannot be a number or a time."""
    needs_digit = (
        pa.types.is_integer(target) or pa.types.is_decimal(target) or pa.types.is_temporal(target)
    )
    if not is_text(values.type) or not needs_digit:
        return values
    has_digit = pc.match_substring_regex(values, "[0-9]")
    return pc.if_else(has_digit, values, pa.scalar(None, values.type))


def _converted(values: pa.Array, target: pa.DataType) -> list[pa.Array]:
    """The values in parts, as ``target``, null where that is not possible."""
    parts: list[pa.Array] = []
    todo = [values]
    while todo:  # ends: every value is converted, or stands alone in the end
        part = todo.pop()
        try:
            parts.append(casting.convert(part, target))
        except MemoryError:
            raise
        except (pa.ArrowException, OverflowError):
            if len(part) == 1:
                parts.append(pa.nulls(1, target))
                continue
            half = len(part) // 2
            todo += [part.slice(half), part.slice(0, half)]
    return parts


FUNCTIONS = {"try_cast": Function("try_cast", _resolve, _evaluate, method("try_cast", "to"))}
