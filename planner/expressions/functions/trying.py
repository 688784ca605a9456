"""``try_cast``: like a cast, but null where the cast fails.

The distinct values of a batch are converted at once. If that fails, they are halved until each
failing value is alone; texts without the form of the type are left out before.
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
from rstream.items.text_failures import failing

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
    if not is_text(plain.type):
        distinct = plain.dictionary_encode()
        found = pa.concat_arrays(_converted(distinct.dictionary, target))
        return found.take(distinct.indices)
    fails = failing(plain, target, lambda part: casting.convert(part, target))
    return casting.convert(pc.if_else(pa.array(fails), pa.scalar(None, plain.type), plain), target)


def _converted(values: pa.Array, target: pa.DataType) -> list[pa.Array]:
    """Convert the values to ``target``, in parts; null where that is not possible."""
    parts: list[pa.Array] = []
    todo = [values]
    while todo:  # ends: a part is converted, or halved until it is one value
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
