"""Calls of a dialect whose meaning follows from the types of their arguments."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from planner.api.choices import when
from planner.api.expressions import struct
from planner.errors import InvalidPlanError
from planner.expressions.nodes import Literal
from planner.expressions.types import TIMESTAMP_UTC, is_list, is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.api.expressions import Expr
    from planner.sql.expressions.engines.compiler import Compiler

_DAYS = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_TRIED = {
    "TRY_ADD": operator.add,
    "TRY_SUBTRACT": operator.sub,
    "TRY_MULTIPLY": operator.mul,
}
_INT32 = 2**31
_LONG = 64
_DAY_US = 86_400_000_000
#: The number of digits of a decimal that holds every integer; results of operators have more.
_DIGITS = pa.decimal128(19, 0)


def by_type(
    node: exp.Expr, build: Callable[..., Expr], values: list[Expr], compiler: Compiler
) -> Expr | None:
    """Return the call's expression; None: types do not change it."""
    kinds = [value.output_type(compiler.schema) for value in values]
    engine = compiler.text.engine.name
    name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    if engine == "flink" and name == "TIMESTAMPADD" and pa.types.is_date(kinds[-1]):
        unit = getattr(values[0].node, "literal", "")
        is_whole = str(unit).upper().removesuffix("S") in _DAYS
        return build(*values).cast("date") if is_whole else None
    if name == "@SEQUENCE" and len(kinds) > 1 and all(map(_is_time, kinds[:2])):
        return _times(build, values, kinds)
    if engine == "postgres" and name == "CARDINALITY" and is_list(kinds[0]):
        return _of_all(build, values[0], kinds[0])
    if engine == "spark" and name == "TO_JSON":
        return _spark_json(build(*values), kinds[0])
    if isinstance(node, exp.ConcatWs) and engine == "spark" and any(map(is_list, kinds[1:])):
        return build(values[0], *map(_joined, values[1:], kinds[1:], [values[0]] * len(values)))
    return None


def _of_all(build: Callable[..., Expr], held: Expr, kind: pa.DataType) -> Expr:
    """Count the elements of all dimensions of a list."""
    while is_list(kind.value_type):  # terminates: a type has a finite depth
        held, kind = held.list.flatten(), kind.value_type
    return build(held)


def _spark_json(written: Expr, kind: pa.DataType) -> Expr | None:
    """Return a value as JSON text; as in Spark, null fields of structs are left out.

    Maps keep their nulls.
    """
    parts = list(_parts(kind))
    if any(map(pa.types.is_timestamp, parts)):
        raise InvalidPlanError(
            "TO_JSON: Spark writes times in another form; convert them by DATE_FORMAT(t, f)"
        )
    if not any(map(pa.types.is_struct, parts)):
        return None
    if any(map(pa.types.is_map, parts)):
        raise InvalidPlanError(
            "TO_JSON: a map inside of a struct is not supported; call TO_JSON for each"
        )
    return written.str.json_without_nulls()


def _parts(kind: pa.DataType) -> Iterator[pa.DataType]:
    yield kind
    is_map = pa.types.is_map(kind)  # Arrow gives a map one field, a struct of key and value
    fields = [] if is_map else [kind.field(at).type for at in range(kind.num_fields)]
    for part in (kind.key_type, kind.item_type) if is_map else fields:
        yield from _parts(part)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _times(build: Callable[..., Expr], values: list[Expr], kinds: list[pa.DataType]) -> Expr:
    """Return the list of times between two times, one day or another step apart."""
    first, last, step = values
    apart = step.cast("int64") if pa.types.is_duration(kinds[2]) else step * _DAY_US
    listed = build(first.dt.epoch_us(), last.dt.epoch_us(), apart)
    times = listed.list.transform(lambda us: us.cast(TIMESTAMP_UTC))
    is_day = pa.types.is_date(kinds[0])
    return times.list.transform(lambda t: t.cast("date")) if is_day else times


def _joined(value: Expr, kind: pa.DataType, separator: Expr) -> Expr:
    """Return the texts of a list with the separator between them; null for no texts."""
    if not is_list(kind):
        return value
    texts = value.list.filter(lambda x: x.is_not_null())
    if not is_text(kind.value_type):
        texts = texts.list.transform(lambda x: x.cast("string"))
    return when(texts.list.length() > 0).then(texts.list.join(separator)).otherwise(None)


def by_place(value: Expr, kind: pa.DataType, to: pa.DataType, *, tries: bool) -> Expr:
    """Return a struct cast to another, field by field: names do not matter.

    ``tries``: a field whose cast fails is null.

    Raises:
        InvalidPlanError: they have different numbers of fields.
    """
    if not pa.types.is_struct(kind) or not pa.types.is_struct(to):
        cast = value.try_cast if tries else value.cast
        return value if kind == to else cast(to)
    if kind.num_fields != to.num_fields:
        counts = f"{kind.num_fields} fields cannot be cast to one of {to.num_fields}"
        raise InvalidPlanError(f"a ROW of {counts}: name a type with as many fields")
    fields = {
        wanted.name: by_place(value.field(held.name), held.type, wanted.type, tries=tries)
        for held, wanted in zip(kind, to, strict=True)
    }
    return when(value.is_null()).then(None).otherwise(struct(**fields))


def tried(node: exp.Expr, compiler: Compiler) -> Expr | None:
    """Compile Spark's ``TRY_ADD(a, b)``, null where the sum is too large; None: another call."""
    name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    if name not in _TRIED or compiler.text.engine.name != "spark" or len(node.expressions) != 2:
        return None
    a, b = map(compiler.compile, node.expressions)
    kinds = [value.output_type(compiler.schema) for value in (a, b)]
    with compiler.text.located(node):
        if not all(map(pa.types.is_integer, kinds)):
            made: Expr = _TRIED[name](a, b)
            return made
        width = max(_bits(value, kind) for value, kind in zip((a, b), kinds, strict=True))
        exact: Expr = _TRIED[name](a.cast(_DIGITS), b.cast(_DIGITS))
        return exact.try_cast(pa.int32() if width < _LONG else pa.int64()).cast("int64")


def _bits(value: Expr, kind: pa.DataType) -> int:
    """Return the width of an integer in Spark, in bits; small literals have 32."""
    if isinstance(value.node, Literal) and isinstance(value.node.literal, int):
        return 32 if -_INT32 <= value.node.literal < _INT32 else 64
    return int(kind.bit_width)
