"""Functions whose options are columns: ``col("s").str.pad_left(col("n"))``.

Rows are grouped by the values of the options. The function evaluates each group with these options,
so a column has the same effect as a literal. A null option gives null. An invalid option is an
error of its row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from planner.errors import InvalidPlanError
from planner.expressions.bare_text import bare
from planner.expressions.entries.family import VARYING, VARYING_KINDS
from planner.expressions.nodes import REGISTRY, Call, Function, Node, as_array, cast_to
from planner.expressions.spark.errors import UnsupportedInBatchError
from planner.expressions.spark.types import SparkText
from planner.expressions.types import is_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.expressions.nodes import Value

#: Option values that every function accepts, to check calls whose options are columns.
_SAMPLES: dict[type, Any] = {str: "a", int: 1}


def _base(call: Call) -> Function:
    return REGISTRY[call.option("function")]


def _literal_call(call: Call, args: Sequence[Node], values: Sequence[Any]) -> Call:
    """Return the function of ``args`` with these values of the options."""
    given = dict(zip(call.option("names"), values, strict=True))
    options = tuple(sorted({**dict(call.option("fixed")), **given}.items()))
    return Call(call.option("function"), tuple(args), options)


def _split(call: Call) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    at = len(call.args) - len(call.option("names"))
    return call.args[:at], call.args[at:]


def _kinds(call: Call) -> list[type]:
    import inspect

    parameters = inspect.signature(_base(call).python).parameters
    kinds = []
    for name in call.option("names"):
        kind = VARYING_KINDS.get(str(parameters[name].annotation))
        if kind is None:
            shown = f"{_base(call).symbol}(): {name}"
            raise InvalidPlanError(f"{shown} must be a literal, not a column")
        kinds.append(kind)
    return kinds


def _resolve(call: Call) -> Node | None:
    args, varying = _split(call)
    kinds = _kinds(call)
    for node, kind in zip(varying, kinds, strict=True):
        given = node.type
        assert given is not None, node
        fits = is_text(given) if kind is str else pa.types.is_integer(given)
        if not fits and not pa.types.is_null(given):
            return None
    probe = _literal_call(call, args, [_SAMPLES[kind] for kind in kinds])
    resolved = _base(call).resolve(probe)
    if not isinstance(resolved, Call):
        return None
    stored = [pa.string() if kind is str else pa.int64() for kind in kinds]
    options = [cast_to(node, kind) for node, kind in zip(varying, stored, strict=True)]
    return replace(call, args=(*resolved.args, *options), type=resolved.type)


def _evaluate(values: Sequence[Value], call: Call) -> Value:
    rows = max((len(v) for v in values if not isinstance(v, pa.Scalar)), default=None)
    if rows is None:
        return _rows(values, call, 1)[0]
    return _rows(values, call, rows)


def _rows(values: Sequence[Value], call: Call, rows: int) -> pa.Array:
    nodes, _ = _split(call)
    args = list(values[: len(nodes)])
    options = [
        as_array(value, rows, node.type)
        for value, node in zip(values[len(nodes) :], call.args[len(nodes) :], strict=True)
    ]
    codes, groups = _groups(options, rows)
    made: list[pa.Array] = []
    places: list[np.ndarray] = []
    for code, given in enumerate(groups):
        at = np.flatnonzero(codes == code) if len(groups) > 1 else np.arange(rows)
        places.append(at)
        made.append(_of_group(args, nodes, call, given, at))
    if not made:
        return pa.nulls(rows, call.type)
    back = np.empty(rows, np.int64)
    back[np.concatenate(places)] = np.arange(rows)
    return pa.concat_arrays(made).take(pa.array(back))


def _groups(options: list[pa.Array], rows: int) -> tuple[np.ndarray, list[tuple[Any, ...]]]:
    """Return a group number per row, and the values of the options of each group."""
    encoded = [column.dictionary_encode() for column in options]
    codes = np.zeros(rows, np.int64)
    for column in encoded:
        codes *= len(column.dictionary) + 1
        codes += column.indices.fill_null(len(column.dictionary)).to_numpy() + 0
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return codes, [tuple(column[int(at)].as_py() for column in options) for at in first]


def _of_group(
    args: list[Value], nodes: Sequence[Node], call: Call, given: tuple[Any, ...], at: np.ndarray
) -> pa.Array:
    if None in given:
        return pa.nulls(len(at), call.type)
    base = _base(call)
    try:
        literal = base.resolve(_literal_call(call, nodes, given))
    except InvalidPlanError as error:
        raise pa.ArrowInvalid(str(error)) from None
    assert isinstance(literal, Call), call
    where = pa.array(at)
    taken = [value if isinstance(value, pa.Scalar) else value.take(where) for value in args]
    assert call.type is not None, call
    return as_array(base.evaluate(taken, literal), len(at), call.type)


def _spark(call: Call, *args: str) -> str:
    """Write the function with its options in SQL.

    Raises:
        UnsupportedInBatchError: the batch takes a literal where there is a column.
    """
    from planner.expressions.spark.templates import filled_template

    nodes, _ = _split(call)
    given = dict(zip(call.option("names"), map(SparkText, args[len(nodes) :]), strict=True))
    options = tuple({**dict(call.option("fixed")), **given}.items())
    filled = Call(call.option("function"), nodes, options, call.type)
    spark, values = _base(call).spark, args[: len(nodes)]
    try:
        if isinstance(spark, str):
            return filled_template(spark, filled, *values)
        return spark(filled, *values)
    except UnsupportedInBatchError as error:
        raise UnsupportedInBatchError(str(call), error.why) from None


def _show(call: Call) -> str:
    args, varying = _split(call)
    shown = [*map(bare, args[1:])]
    shown += [f"{n}={bare(v)}" for n, v in zip(call.option("names"), varying, strict=True)]
    shown += [f"{n}={v!r}" for n, v in call.option("fixed") if v is not None]
    return f"{args[0]}.{_base(call).symbol}({', '.join(shown)})"


FUNCTIONS = {
    VARYING: Function("a function", _resolve, _evaluate, _show, spark=_spark, may_fail=True)
}
