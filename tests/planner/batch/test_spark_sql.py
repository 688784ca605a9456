"""Expressions as Spark SQL text; tests/spark checks that the text has the same meaning."""

from __future__ import annotations

import contextlib
import re
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from planner import Stream, agg, col, hopping, lit, when
from planner.batch.spark_sql import UnsupportedInBatchError, physical, restored, to_sql, type_name
from planner.batch.spark_sql.aggregates import take_of
from planner.batch.spark_sql.expressions import WRITERS
from planner.batch.spark_sql.frame import Frame
from planner.batch.spark_sql.in_order import first_difference, way
from planner.batch.temporal import clock_windows
from planner.batch.temporal.lifetimes import moved
from planner.errors import InvalidPlanError
from planner.expressions.functions import FUNCTIONS
from planner.expressions.nodes import Literal, resolve
from planner.expressions.spark.errors import MARK, BatchDataError, BatchFailedError, explained
from planner.expressions.spark.let_bindings import let, let2
from planner.expressions.spark.patterns import java_pattern, java_replacement
from planner.expressions.spark.types import integer, literal, text
from planner.logical.nodes.aggregation import Aggregate, WindowAgg
from rstream.items.batch import VS
from rstream.types import INF_TIME, MIN_TIME
from rvertex.aggregates.registry import FUNCTIONS as AGGREGATES
from tests.rooms import ROOT
from tests.support.signatures import ROWS, calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rvertex.aggregates.function import Argument

AGGREGATE_TEXTS = ROOT / "tests" / "golden" / "planner" / "spark_aggregates.txt"
GOLDEN = ROOT / "tests" / "golden" / "planner" / "spark_sql.txt"

SCHEMA = pa.schema([("a", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
COLUMNS = {"a": "c0", "x": "c1", "s": "c2"}


def test_every_function_has_a_translation() -> None:
    written = WRITERS.keys() | {name for name, f in FUNCTIONS.items() if f.spark}
    assert written == FUNCTIONS.keys() - {"row_pattern"}


def test_simple_expressions_are_plain_sql() -> None:
    expr = when(col("a") > 1).then(col("s").str.upper()).otherwise("it's")
    sql = to_sql(resolve(expr.node, SCHEMA), COLUMNS)
    assert sql == r"case when (c0 > 1L) then upper(c2) else 'it\'s' end"


def test_the_text_grows_linearly_with_the_tree() -> None:
    expr = col("a")
    sizes = []
    for _ in range(12):
        expr = expr // 3
        sizes.append(len(to_sql(resolve(expr.node, SCHEMA), COLUMNS)))
    assert sizes[-1] < 2 * 12 * sizes[0]


@pytest.mark.parametrize("has_place", [True, False])
def test_events_with_equal_times_are_ordered_by_known_places(has_place: bool) -> None:
    frame = Frame(None, SCHEMA, lifetime_us=1, has_place=has_place)
    assert frame.order == (VS, *frame.place)
    assert len(frame.place) == has_place


def test_names_of_lets_do_not_clash() -> None:
    sql = let2("a + b", let("c + d", lambda v: f"{v} * {v}"), lambda x, y: f"{x} / {y}")
    assert sql == (
        "transform(array(a + b), let1 -> transform(array(transform(array(c + d), "
        "let1 -> let1 * let1)[0]), let2 -> let1 / let2)[0])[0]"
    )
    assert let("c0", lambda v: f"{v} + {v}") == "c0 + c0"


@pytest.mark.parametrize(
    ("value", "kind", "sql"),
    [
        (-5, pa.int64(), "(-5L)"),
        (-5, pa.int8(), "cast('-5' as tinyint)"),
        (0.1, pa.float64(), "cast('0.1' as double)"),
        (None, pa.string(), "cast(null as string)"),
        (True, pa.bool_(), "true"),
        (b"\x00\xff", pa.binary(), "X'00ff'"),
    ],
)
def test_a_literal_becomes_spark_sql_text(value: object, kind: pa.DataType, sql: str) -> None:
    assert literal(Literal(value, kind)) == sql  # type: ignore[arg-type]


def test_text_literals_are_escaped() -> None:
    assert text("a'b\\n\n${x}") == "'a\\'b\\\\n\n${x}'"
    assert java_replacement(r"\2$1\\x") == r"$2\$1\\x"


@pytest.mark.parametrize(
    ("pattern", "java"),
    [
        (r"(?P<a_name>a)(?<b>c)(?:d)(e)", r"(a)(c)(?:d)(e)"),
        (r"[[:alpha:](?P<n>]+[^[:^digit:]_]", r"[\p{Alpha}(?P<n>]+[^\P{Digit}_]"),
        (r"[[:word:]][[:^word:]][[:xdigit:]][[:ascii:]]", r"[\w][\W][\p{XDigit}][\p{ASCII}]"),
        (r"\(?P<n>\[[:alpha:]]\Q(?P<n>[[:alpha:]]\E", r"\(?P<n>\[[:alpha:]]\Q(?P<n>[[:alpha:]]\E"),
    ],
)
def test_regular_expressions_are_translated_to_java(pattern: str, java: str) -> None:
    assert java_pattern(pattern) == java


@pytest.mark.parametrize(
    ("kind", "stored", "name"),
    [
        (pa.timestamp("ms", "UTC"), pa.int64(), "bigint"),
        (pa.date32(), pa.int32(), "int"),
        (pa.time32("s"), pa.int32(), "int"),
        (pa.uint64(), pa.decimal128(20, 0), "decimal(20, 0)"),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string(), "string"),
        (pa.list_(pa.duration("us")), pa.list_(pa.int64()), "array<bigint>"),
        (pa.struct([("f", pa.uint8())]), pa.struct([("f", pa.int16())]), "struct<`f`: smallint>"),
        (pa.binary(4), pa.binary(), "binary"),
    ],
    ids=str,
)
def test_a_type_has_its_name_and_storage_in_spark(
    kind: pa.DataType, stored: pa.DataType, name: str
) -> None:
    assert physical(kind) == stored
    assert type_name(kind) == name


RESTORED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(pa.int64(), 2), [None, None]),
    (pa.list_(pa.int64(), 2), [[1, None], None, [2, 3]]),
    (pa.list_(pa.map_(pa.string(), pa.list_(pa.int8(), 2))), [[[("a", [1, 2])], None], None, []]),
    (pa.struct([("m", pa.map_(pa.date32(), pa.uint8()))]), [{"m": [(date(2026, 1, 1), 1)]}, None]),
    (pa.map_(pa.string(), pa.struct([("n", pa.large_list(pa.int64()))])), [[("a", {"n": [1]})]]),
]


@pytest.mark.parametrize(("kind", "values"), RESTORED, ids=[str(kind) for kind, _ in RESTORED])
def test_columns_from_spark_are_converted_to_those_of_the_stream(
    kind: pa.DataType, values: list[Any]
) -> None:
    """Convert columns in the form in which Spark sends them.

    An array of empty lists has no data buffer, which Arrow's cast would read.
    """
    batch = pa.record_batch({"c": pa.array(values, kind).cast(physical(kind))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    (column,) = pa.ipc.open_stream(sink.getvalue()).read_all().columns
    for start in range(len(values)):
        found = restored(column.slice(start), kind)
        found.validate(full=True)
        assert found.type == kind
        assert found.to_pylist() == values[start:]


@pytest.mark.parametrize("kind", [pa.decimal256(50, 2), pa.month_day_nano_interval()], ids=str)
def test_types_without_a_spark_type(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedInBatchError, match="Spark has no such type"):
        physical(kind)


def test_inexact_translations_are_rejected() -> None:
    with pytest.raises(
        UnsupportedInBatchError, match=r"x\.cast\(string\) cannot be run as a batch"
    ):
        to_sql(resolve(col("x").cast(str).node, SCHEMA), COLUMNS)
    assert to_sql(resolve((col("a") + lit(None)).node, SCHEMA), COLUMNS) == (
        "(c0 + cast(null as bigint))"
    )


@pytest.mark.parametrize(
    ("left", "right", "has_quotient", "has_remainder"),
    [
        ((12, 2), (3, 2), True, True),
        ((30, 0), (19, 0), True, True),
        ((29, 0), (10, 2), False, True),
        ((38, 0), (1, 0), False, True),
        ((38, 10), (20, 10), False, False),
        ((20, 10), (38, 10), False, False),
    ],
)
def test_decimals_are_divided_if_spark_has_enough_digits(
    left: tuple[int, int], right: tuple[int, int], *, has_quotient: bool, has_remainder: bool
) -> None:
    schema = pa.schema([("x", pa.decimal128(*left)), ("y", pa.decimal128(*right))])
    x, y = col("x"), col("y")
    for expression, has_room in ((x // y, has_quotient), (x % y, has_remainder)):
        node = resolve(expression.node, schema)
        if has_room:
            assert "as double)" in to_sql(node, {"x": "x", "y": "y"})
            continue
        with pytest.raises(UnsupportedInBatchError, match="cast them to decimals of fewer digits"):
            to_sql(node, {"x": "x", "y": "y"})


def test_translations_of_all_functions(rewrite: bool) -> None:
    """The golden file has values of all types; tests/spark runs the same expressions."""
    columns = {name: f"c{k}" for k, name in enumerate(ROWS.schema.names)}
    lines = []
    for name, call in calls():
        with contextlib.suppress(InvalidPlanError, AssertionError, KeyError, ValueError, TypeError):
            node = resolve(call, ROWS.schema)
            try:
                lines.append(f"{name}: {to_sql(node, columns)}")
            except UnsupportedInBatchError as error:
                lines.append(f"{name}: {error}")
    found = "\n".join(lines) + "\n"
    if rewrite:
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


ARGUMENTS: dict[str, Argument] = {
    **dict.fromkeys(("variance", "stddev", "covariance"), 1),
    "quantile": 0.5,
    "quantile_disc": "0.5 desc",
    "top_k": 2,
    "string_agg": ",",
}
KINDS = {
    "integer": pa.int64(),
    "float": pa.float64(),
    "decimal": pa.decimal128(10, 2),
    "text": pa.string(),
    "bool": pa.bool_(),
}


def aggregated(function: str) -> Iterator[str]:
    """Return Spark's expressions per group and over groups, for each type of the function."""
    for called, kind in KINDS.items():
        if not AGGREGATES[function].takes(kind):
            continue
        below = Frame(None, pa.schema([("x", kind)]), lifetime_us=1)
        take = take_of(Aggregate(function, "x", "out", ARGUMENTS.get(function)), 0, below)
        yield f"{function}({called}) = {take.result}"
        yield from (f"    {name}: {text}" for name, text in take.partial.items())


def test_translations_of_all_aggregates(rewrite: bool) -> None:
    """Review changes of the golden file: Spark must compute the same as our functions."""
    found = (
        "\n".join(line for name in sorted({*AGGREGATES} - {"user"}) for line in aggregated(name))
        + "\n"
    )
    if rewrite:
        AGGREGATE_TEXTS.write_text(found)
    assert found == AGGREGATE_TEXTS.read_text()


@pytest.mark.parametrize("by", [-7, 0, 7])
def test_times_are_moved_up_to_the_ends_of_the_time_axis(by: int) -> None:
    found = moved("t", by)
    assert f"t + {integer(by)}" in found
    assert integer(INF_TIME) in found, "what never ends stays so"
    assert integer(MIN_TIME - by if by < 0 else INF_TIME - by) in found


def test_windows_are_within_the_time_axis() -> None:
    size, every = 9, 7
    plan = Stream.from_items(SCHEMA, []).window(hopping(size, every)).agg(n=agg.count()).plan
    (node,) = (n for n in [plan, *plan.inputs] if isinstance(n, WindowAgg))
    first, last = clock_windows.bounds(node)
    assert integer(-(-MIN_TIME // every)) in first
    assert integer((INF_TIME - size) // every) in last


def test_comparison_uses_the_first_differing_sort_column() -> None:
    assert first_difference(["a"]) == "(a)"
    assert first_difference(["a", "b", "c"]) == (
        "(case when (a) <> 0 then (a) when (b) <> 0 then (b) else (c) end)"
    )


def test_errors_raised_in_the_sql_keep_their_message() -> None:
    """An error of our SQL shows its own message, without the text that Spark adds around it."""
    ours = explained(f"[USER_RAISED] {MARK}no\nroom{MARK}; line 1\nat java")
    assert (type(ours), ours.args) == (BatchDataError, ("no\nroom",))
    for message, told in (
        ("  broken\nat java", "broken"),
        ("", "no message"),
        ("x" * 999, "x" * 500),
    ):
        theirs = explained(message)
        assert (type(theirs), theirs.args) == (BatchFailedError, (told,))


@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("down", [False, True])
def test_values_compare_in_spark_as_in_python(*, down: bool, nulls_first: bool) -> None:
    """Return the value as Python reads it, with ``None`` for null."""
    sql = way("a", "b", down=down, nulls_first=nulls_first)
    steps = re.findall(r"when (.*?) then (-?\d)", sql)
    last = re.fullmatch(r"case .* else (-?\d) end", sql)
    assert last is not None

    def holds(test: str, a: int | None, b: int | None) -> bool:
        known = {"a <=> b": a == b, "a is null": a is None, "b is null": b is None}
        return known.get(test, a is not None and b is not None and a < b)

    for a in (None, 1, 2):
        for b in (None, 1, 2):
            found = next((int(way) for test, way in steps if holds(test, a, b)), int(last[1]))
            if a is None or b is None:
                expected = (b is None) - (a is None) if nulls_first else (a is None) - (b is None)
            else:
                expected = ((a > b) - (a < b)) * (-1 if down else 1)
            assert found == expected
