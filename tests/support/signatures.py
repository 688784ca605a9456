"""Calls of every function over columns of every type, for tables of their signatures."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from planner import col, lit, struct, when
from planner.expressions.functions import FUNCTIONS
from planner.expressions.nodes import Call, Column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner import Expr
    from planner.expressions.nodes import Node

#: Columns of each kind; the last row is null.
COLUMNS: dict[str, pa.Array] = {
    "int": pa.array([7, -3, None], pa.int64()),
    "double": pa.array([2.5, -0.5, None]),
    "decimal": pa.array([Decimal("1.25"), Decimal("-9.50"), None], pa.decimal128(10, 2)),
    "text": pa.array(["b7", "", None]),
    "bool": pa.array([True, False, None]),
    "time": pa.array(
        [datetime(2024, 2, 29, 23, 59, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC), None],
        pa.timestamp("us"),
    ),
    "list": pa.array([[2, 7], [], None], pa.list_(pa.int64())),
    "null": pa.nulls(3),
}
ROWS = pa.table(COLUMNS).to_batches()[0]
KINDS = {
    "int64": pa.int64(),
    "int8": pa.int8(),
    "uint16": pa.uint16(),
    "float64": pa.float64(),
    "float32": pa.float32(),
    "decimal(4, 1)": pa.decimal128(4, 1),
    "string": pa.string(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us"),
    "timestamp[s]": pa.timestamp("s"),
    "date": pa.date32(),
    "duration": pa.duration("us"),
    "list<double>": pa.list_(pa.float64()),
}


def calls() -> Iterator[tuple[str, Node]]:
    """Unresolved calls by name: some need other types or other numbers of arguments."""
    for function in FUNCTIONS:
        for count in (1, 2):
            for columns in itertools.product(COLUMNS, repeat=count):
                name = f"{function}({', '.join(columns)})"
                yield name, Call(function, tuple(map(Column, columns)))
    for source, (name, kind) in itertools.product(COLUMNS, KINDS.items()):
        yield f"{source} as {name}", col(source).cast(kind).node
        yield f"{source} as {name}, or null", col(source).try_cast(kind).node
    for made in with_options():
        yield str(made.node), made.node


def with_options() -> Iterator[Expr]:
    """Calls with options."""
    number, double, decimal = col("int"), col("double"), col("decimal")
    for digits in (-20, -19, -18, -2, -1, 0, 1):
        yield from (value.round(digits) for value in (number, double, decimal))
    yield from (number.is_in([7, 8]), double.is_in([2.5]), number.between(-3, 6))
    yield from (number.between(double, decimal), col("time").between(col("time"), col("time")))
    yield from (double.width_bucket(-1, 3, 1), number.width_bucket(7, -3, 4))
    yield when(number > 0).then(number).when(col("bool")).then(double).otherwise(None)
    text = col("text").str
    for characters in (None, "b", "7"):
        yield from (text.strip(characters), text.strip_left(characters))
        yield text.strip_right(characters)
    yield from (text.contains("7"), text.contains("[0-9]", regex=True), text.starts_with("b"))
    yield from (text.ends_with("7"), text.replace("7", "x"), text.position("7"))
    yield text.replace("([0-9])", r"<\1>", regex=True)
    yield from (text.slice(0, 1), text.slice(1), text.slice(-1), text.slice(-2, -1))
    yield from (text.repeat(0), text.repeat(2), text.pad_left(5, "ab"), text.pad_right(5, "ab"))
    yield from (text.pad_left(1), text.pad_right(1), text.extract("([a-z])([0-9])", 2))
    yield from (text.digest("md5"), text.translate("b7", "x"), text.split("7"), text.split())
    yield from (text.to_timestamp("%Y", strict=False), text.to_date("%Y", strict=False))
    time = col("time").dt
    for unit in ("year", "quarter", "month", "week"):
        yield time.floor(unit)
    yield from (time.add_months(1), time.add_months(-13), time.truncate("7h"))
    yield from (time.format("%Y-%m-%d %H:%M"), col("list").list.contains(7))
    for made in (struct(x=number, y=col("text")), struct(x=lit(1), y=number), struct(x=lit(1))):
        yield from (made, made.field("x"))
