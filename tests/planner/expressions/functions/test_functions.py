"""Tables of the results of single functions, and of their errors."""

from __future__ import annotations

import math
import string
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from planner import (
    EvaluationError,
    ExpressionTypeError,
    InvalidPlanError,
    UnknownColumnError,
    coalesce,
    col,
    lit,
    ve,
    vs,
    when,
)
from planner.expressions.bare_text import bare
from planner.expressions.failure import failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner import Expr

BATCH = pa.RecordBatch.from_pydict(
    {
        "_vs": pa.array([0, 90_061_000_001, -1], pa.int64()),
        "_ve": pa.array([1, 90_061_000_002, 0], pa.int64()),
        "i": pa.array([7, -7, None], pa.int64()),
        "tiny": pa.array([100, -100, None], pa.int8()),
        "f": pa.array([2.5, -2.5, None], pa.float64()),
        "f32": pa.array([0.5, 1.5, None], pa.float32()),
        "b": pa.array([True, False, None], pa.bool_()),
        "s": pa.array([" Hello  wörld ", "", None], pa.string()),
        "n": pa.array(["12", "-3", None], pa.string()),
        "ts": pa.array([0, 86_399_999, None], pa.timestamp("ms")),
        "ny": pa.array([0, 86_399_999_999, None], pa.timestamp("us", "America/New_York")),
        "d": pa.array([0, 400, None], pa.date32()),
        "dec": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(10, 2)),
        "dict": pa.array(["x", "y", None]).dictionary_encode(),
        "iso": pa.array(["2013-01-01T05:00:00Z", "2013-01-01 05:00", None]),
        "u": pa.array([1, 2, None], pa.uint64()),
        "list": pa.array([[1], [], None], pa.list_(pa.int64())),
    }
)


def at(*args: int) -> datetime:
    return datetime(*args)  # type: ignore[arg-type]  # noqa: DTZ001 - naive stands for UTC


def utc(*args: int) -> datetime:
    return datetime(*args, tzinfo=UTC)  # type: ignore[misc,arg-type]


TABLE: list[tuple[Expr, pa.DataType, list[Any]]] = [
    # Arithmetic.
    (col("i") // 2, pa.int64(), [3, -4, None]),
    (col("i") % 3, pa.int64(), [1, 2, None]),
    (col("i") % -3, pa.int64(), [-2, -1, None]),
    (col("i") / 2, pa.float64(), [3.5, -3.5, None]),
    (col("i") / 0, pa.float64(), [None, None, None]),
    (col("i") // 0, pa.int64(), [None, None, None]),
    (col("f") / 0.0, pa.float64(), [None, None, None]),
    (col("f") // 2, pa.float64(), [1.0, -2.0, None]),
    (col("f") % 2, pa.float64(), [0.5, 1.5, None]),
    (2 - col("i"), pa.int64(), [-5, 9, None]),
    (100 // col("i"), pa.int64(), [14, -15, None]),
    (col("tiny") + col("tiny"), pa.int64(), [200, -200, None]),
    (col("f32") + col("f32"), pa.float32(), [1.0, 3.0, None]),
    (col("f32") + col("f"), pa.float64(), [3.0, -1.0, None]),
    (-col("tiny"), pa.int64(), [-100, 100, None]),
    (abs(col("i")), pa.int64(), [7, 7, None]),
    (col("f").round(), pa.float64(), [3.0, -3.0, None]),
    (col("i").round(), pa.int64(), [7, -7, None]),
    (col("f").floor(), pa.float64(), [2.0, -3.0, None]),
    (col("f").ceil(), pa.float64(), [3.0, -2.0, None]),
    (lit(9).sqrt(), pa.float64(), [3.0, 3.0, 3.0]),
    (col("dec") + col("dec"), pa.decimal128(11, 2), [Decimal("3.00"), Decimal("-4.50"), None]),
    (col("dec") * 2, pa.decimal128(12, 2), [Decimal("3.00"), Decimal("-4.50"), None]),
    (col("dec") * col("i"), pa.decimal128(30, 2), [Decimal("10.50"), Decimal("15.75"), None]),
    (col("dec") * col("i") * col("i"), pa.decimal256(50, 2),
     [Decimal("73.50"), Decimal("-110.25"), None]),
    (col("u") > 1, pa.bool_(), [False, True, None]),
    (col("u").is_in([2, 3]), pa.bool_(), [False, True, None]),
    (col("u") + 1, pa.int64(), [2, 3, None]),
    (col("u") - col("i"), pa.int64(), [-6, 9, None]),
    (col("dec") > 1, pa.bool_(), [True, False, None]),
    (col("dec") * 2.0, pa.float64(), [3.0, -4.5, None]),
    (col("i") + lit(None), pa.int64(), [None, None, None]),
    (lit(timedelta(minutes=1)) + col("ts"), pa.timestamp("us"),
     [at(1970, 1, 1, 0, 1), at(1970, 1, 2, 0, 0, 59, 999_000), None]),
    (col("d") - timedelta(days=1), pa.timestamp("us"),
     [at(1969, 12, 31), at(1971, 2, 4), None]),
    (-lit(timedelta(hours=1)) + timedelta(minutes=1), pa.duration("us"),
     [timedelta(minutes=-59)] * 3),
    (lit(timedelta(hours=1)) - timedelta(minutes=1), pa.duration("us"),
     [timedelta(minutes=59)] * 3),
    (abs(lit(timedelta(hours=-1))).dt.epoch_us(), pa.int64(), [3_600_000_000] * 3),
    (-lit(None), pa.int64(), [None] * 3),
    (5.0 / col("i"), pa.float64(), [5 / 7, -5 / 7, None]),
    (5 + col("i") * 1 - 0, pa.int64(), [12, -2, None]),
    (3 * col("i"), pa.int64(), [21, -21, None]),
    (10 % col("i"), pa.int64(), [3, -4, None]),
    (col("f").abs(), pa.float64(), [2.5, 2.5, None]),
    (lit(-27).cbrt() + col("i"), pa.float64(), [4.0, -10.0, None]),
    ((col("i") + 7).factorial(), pa.int64(), [87178291200, 1, None]),
    (lit(20).factorial(), pa.int64(), [2432902008176640000] * 3),
    (col("f").width_bucket(-2.5, 2.5, 5), pa.int64(), [6, 1, None]),
    (col("i").width_bucket(10, -7, 17), pa.int64(), [4, 18, None]),
    (lit(math.nan).width_bucket(0, 1, 2), pa.int64(), [None] * 3),
    # Logic.
    (True & col("b"), pa.bool_(), [True, False, None]),
    (False | col("b"), pa.bool_(), [True, False, None]),
    (col("b").is_not_null(), pa.bool_(), [True, True, False]),
    (lit(None) == lit(None), pa.bool_(), [None] * 3),
    (col("i") != 7, pa.bool_(), [False, True, None]),
    (col("i") <= 7, pa.bool_(), [True, True, None]),
    (col("b") & lit(None), pa.bool_(), [None, False, None]),
    (col("b") | lit(None), pa.bool_(), [True, None, None]),
    (col("i").fill_null(0), pa.int64(), [7, -7, 0]),
    (coalesce(lit(None), col("i"), 1.5), pa.float64(), [7.0, -7.0, 1.5]),
    (col("i").is_in([7, 8]), pa.bool_(), [True, False, None]),
    (col("s").is_in([]), pa.bool_(), [False, False, None]),
    (col("i").between(-7, 6), pa.bool_(), [False, True, None]),
    (when(col("i") > 0).then("pos").when(col("i") < 0).then("neg").otherwise(None), pa.string(),
     ["pos", "neg", None]),
    (when(col("b")).then(1).otherwise(0.5), pa.float64(), [1.0, 0.5, 0.5]),
    (col("dict") == "x", pa.bool_(), [True, False, None]),
    (col("f") == math.nan, pa.bool_(), [False, False, None]),
    # Text.
    (col("s").str.split(), pa.list_(pa.string()), [["Hello", "wörld"], [], None]),
    (col("s").str.split(" "), pa.list_(pa.string()), [["", "Hello", "", "wörld", ""], [""], None]),
    (col("s").str.length(), pa.int64(), [14, 0, None]),
    (col("s").str.upper(), pa.string(), [" HELLO  WÖRLD ", "", None]),
    (col("s").str.strip(), pa.string(), ["Hello  wörld", "", None]),
    (col("n").str.strip("-"), pa.string(), ["12", "3", None]),
    (col("s").str.contains("lo"), pa.bool_(), [True, False, None]),
    (col("s").str.contains("l+o", regex=True), pa.bool_(), [True, False, None]),
    (col("s").str.ends_with(" "), pa.bool_(), [True, False, None]),
    (col("s").str.slice(1, -1), pa.string(), ["Hello  wörld", "", None]),
    (col("s").str.replace("l+", "L", regex=True), pa.string(), [" HeLo  wörLd ", "", None]),
    (col("n") + "!", pa.string(), ["12!", "-3!", None]),
    (col("dict").str.upper(), pa.string(), ["X", "Y", None]),
    # Time.
    (col("_vs").dt.hour(), pa.int64(), [0, 1, 23]),
    (vs().dt.second(), pa.int64(), [0, 1, 59]),
    (ve() - vs(), pa.duration("us"), [timedelta(microseconds=1)] * 3),
    (vs(), pa.timestamp("us", "UTC"),
     [utc(1970, 1, 1), utc(1970, 1, 2, 1, 1, 1, 0).replace(microsecond=1),
      utc(1969, 12, 31, 23, 59, 59, 999_999)]),
    (col("ts").dt.hour(), pa.int64(), [0, 23, None]),
    (col("ny").dt.hour(), pa.int64(), [0, 23, None]),
    (col("d").dt.year(), pa.int64(), [1970, 1971, None]),
    (col("d").dt.weekday(), pa.int64(), [3, 4, None]),
    (col("d").dt.day_of_year(), pa.int64(), [1, 36, None]),
    (col("d").dt.month(), pa.int64(), [1, 2, None]),
    (col("d").dt.day(), pa.int64(), [1, 5, None]),
    (col("ts").dt.minute(), pa.int64(), [0, 59, None]),
    (col("_vs").dt.truncate("1h"), pa.timestamp("us", "UTC"),
     [utc(1970, 1, 1), utc(1970, 1, 2, 1), utc(1969, 12, 31, 23)]),
    (col("ts").dt.truncate("1d"), pa.timestamp("us"), [at(1970, 1, 1), at(1970, 1, 1), None]),
    (col("ts").dt.epoch_us(), pa.int64(), [0, 86_399_999_000, None]),
    (col("ts") + timedelta(minutes=1) * col("i"), pa.timestamp("us"),
     [at(1970, 1, 1, 0, 7), at(1970, 1, 1, 23, 52, 59, 999_000), None]),
    (col("ts") - col("ts"), pa.duration("us"), [timedelta(0), timedelta(0), None]),
    (col("ts") > "1970-01-01T12:00:00", pa.bool_(), [False, True, None]),
    (col("ny") > at(1970, 1, 1, 12), pa.bool_(), [False, True, None]),
    (col("d") == date(1970, 1, 1), pa.bool_(), [True, False, None]),
    (col("d") < "1970-06-01", pa.bool_(), [True, False, None]),
    (vs().between("1970-01-01", "1970-01-02"), pa.bool_(), [True, False, False]),
    # Casts.
    (col("n").cast(int), pa.int64(), [12, -3, None]),
    (col("f").cast("int32"), pa.int32(), [2, -2, None]),
    (col("i").cast(str), pa.string(), ["7", "-7", None]),
    (col("b").cast("int64"), pa.int64(), [1, 0, None]),
    (col("iso").cast("timestamp"), pa.timestamp("us", "UTC"),
     [utc(2013, 1, 1, 5), utc(2013, 1, 1, 5), None]),
    (col("ts").cast(int), pa.int64(), [0, 86_399_999_000, None]),
    (col("d").cast("timestamp"), pa.timestamp("us", "UTC"),
     [utc(1970, 1, 1), utc(1971, 2, 5), None]),
    (col("ts").cast(str), pa.string(),
     ["1970-01-01 00:00:00.000000", "1970-01-01 23:59:59.999000", None]),
    (col("ny").cast(str), pa.string(),
     ["1970-01-01 00:00:00.000000Z", "1970-01-01 23:59:59.999999Z", None]),
    (col("ts").cast("date"), pa.date32(), [date(1970, 1, 1), date(1970, 1, 1), None]),
    (col("i").cast("timestamp").dt.epoch_us(), pa.int64(), [7, -7, None]),
    (lit(None).cast("string"), pa.string(), [None, None, None]),
    (col("d").cast(int), pa.int64(), [0, 400 * 86_400_000_000, None]),
    (col("tiny").cast("timestamp").dt.epoch_us(), pa.int64(), [100, -100, None]),
    ((ve() - vs()).cast(int), pa.int64(), [1, 1, 1]),
    (col("n") + None, pa.string(), [None] * 3),
    (lit(None) + col("n"), pa.string(), [None] * 3),
    (lit("a b").str.split(), pa.list_(pa.string()), [["a", "b"]] * 3),
    (col("list").cast(pa.list_(pa.int32())), pa.list_(pa.int32()), [[1], [], None]),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "kind", "values"), TABLE, ids=lambda v: str(v)[:60])
def test_a_function_returns_its_values_and_declared_type(
    expr: Expr, kind: pa.DataType, values: list[Any]
) -> None:
    got = expr.evaluate(BATCH)
    assert got.type == kind
    assert expr.output_type(BATCH.schema) == kind
    assert got.to_pylist() == values
    assert expr.evaluate(BATCH.slice(0, 0)).type == kind


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (col("s") + 1, "'+' does not take string and int64, in (s + 1)"),
        (col("i") & col("b"), "'&' does not take int64 and bool, in (i & b)"),
        (col("s") > 1, "'>' does not take string and int64, in (s > 1)"),
        (col("i").str.upper(), "'str.upper' does not take int64, in i.str.upper()"),
        (col("i").dt.hour(), "'dt.hour' does not take int64, in i.dt.hour()"),
        (~col("i"), "'~' does not take int64, in ~i"),
        (-col("s"), "'-' does not take string, in -s"),
        (col("u") > col("i"), "'>' does not take uint64 and int64, in (u > i)"),
        (col("list") == 1, "'==' does not take list<item: int64> and int64, in (list == 1)"),
        (col("s") / 2, "'/' does not take string and int64, in (s / 2)"),
        (col("s") // 2, "'//' does not take string and int64, in (s // 2)"),
        (col("b") + col("b"), "'+' does not take bool and bool, in (b + b)"),
        (col("s").round(), "'round' does not take string, in s.round(0)"),
        (col("i").dt.truncate("1h"), "'dt.truncate' does not take int64, in i.dt.truncate(\"1h\")"),
        (col("i").dt.epoch_us(), "'dt.epoch_us' does not take int64, in i.dt.epoch_us()"),
        (col("ts") + col("d"), "'+' does not take timestamp[ms] and date32[day], in (ts + d)"),
        (coalesce(col("s"), 1), "'coalesce' does not take string and int64, in coalesce(s, 1)"),
        (when(col("i")).then(1).otherwise(2),
         "'when' does not take int64 and int64 and int64, in when(i).then(1).otherwise(2)"),
        (col("list").cast("date"),
         "'cast' does not take list<item: int64>, in list.cast(date32[day])"),
    ],
)  # fmt: skip
def test_wrong_types_are_named(expr: Expr, message: str) -> None:
    with pytest.raises(ExpressionTypeError) as caught:
        expr.output_type(BATCH.schema)
    assert str(caught.value) == message


def test_wrong_types_inside_name_the_inner_expression() -> None:
    with pytest.raises(ExpressionTypeError, match=r"in \(s \+ 1\)$"):
        ((col("s") + 1) * 2 > 5).output_type(BATCH.schema)


def test_unknown_columns_suggest_the_nearest() -> None:
    schema = pa.schema([("origin", pa.string()), ("visib", pa.float64())])
    with pytest.raises(UnknownColumnError) as caught:
        (col("visibility") < 3).output_type(schema)
    assert str(caught.value) == (
        "no column 'visibility' in (visibility < 3); did you mean 'visib'? "
        "The columns are: origin, visib"
    )


def test_membership_in_lists() -> None:
    with pytest.raises(InvalidPlanError, match=r"use \.is_null"):
        col("i").is_in([1, None]).output_type(BATCH.schema)
    with pytest.raises(InvalidPlanError, match="'is_in' does not take int64 and string"):
        col("i").is_in(["a"]).output_type(BATCH.schema)
    with pytest.raises(InvalidPlanError, match="no type 'int65'; did you mean 'int64'"):
        col("i").cast("int65")


def test_decimals_can_be_named_as_text() -> None:
    assert col("i").cast("decimal(10, 2)").output_type(BATCH.schema) == pa.decimal128(10, 2)
    assert col("i").cast("Decimal(5)").output_type(BATCH.schema) == pa.decimal128(5, 0)
    for bad in ("decimal(39, 2)", "decimal(0)", "decimal(2, 3)"):
        with pytest.raises(InvalidPlanError, match="a decimal has 1 to 38 digits"):
            col("i").cast(bad)


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (col("s").cast(int), "cannot evaluate s.cast(int64): Failed to parse string"),
        (col("i").cast("uint8"), "cannot evaluate i.cast(uint8)"),
        (col("i").factorial(), "i.factorial(): a factorial fits into int64 for 0 to 20, for -7"),
        (col("s").cast("timestamp"), "cannot evaluate s.cast(timestamp[us, tz=UTC])"),
    ],
)
def test_overflow_errors_are_streamscope_errors(expr: Expr, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        expr.evaluate(BATCH)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: lit(1e300).cast(int), "1e+300.cast(int64)"),
        (lambda: lit(21).factorial(), "a factorial fits into int64 for 0 to 20"),
        (lambda: col("f").width_bucket(1, 1, 2), "low and high must be different numbers"),
        (lambda: col("f").width_bucket(1, math.inf, 2), "low and high must be different numbers"),
        (lambda: col("f").width_bucket(1, 2, 0), "buckets must be a whole number from 1 to"),
        (lambda: col("f") + lit("abc").cast(int), "'abc'"),
        (lambda: when(col("b")).then((lit("a") + "b").cast(int)).otherwise(1), "'ab'"),
        (lambda: col("s").str.replace("", "x"), "nothing to replace in an empty pattern"),
        (lambda: col("s").str.replace("", "x", regex=True), "in an empty pattern"),
        (lambda: col("s").str.split(""), "an empty separator splits nothing"),
        (lambda: col("s").str.replace("(a)", r"\2", regex=True), r"'\\2' cannot be a replacement"),
        (lambda: col("s").str.replace("a", "\\", regex=True), "cannot be a replacement"),
        (lambda: col("s").str.contains("(", regex=True), "'(' is not a regular expression"),
        (lambda: col("s").str.contains(None), "the pattern None is not a text"),
        (lambda: col("s").str.slice("1"), "the start '1' is not a whole number"),
        (lambda: col("s").str.replace("a", 1), "the replacement 1 is not a text"),
    ],
)
def test_expressions_that_always_fail_are_rejected(build: Callable[[], Expr], message: str) -> None:
    with pytest.raises(InvalidPlanError) as caught:
        build().output_type(BATCH.schema)
    assert message in str(caught.value)


def test_a_value_that_does_not_fit_is_shown_with_its_event() -> None:
    values = ["1", *["2"] * 6, "x2", "3", "y"]
    columns = {"_vs": pa.array(range(10)), "_ve": pa.array(range(1, 11)), "s": pa.array(values)}
    with pytest.raises(
        EvaluationError, match=r"string: 'x2' as .*, in the event with _vs=7; leave"
    ):
        (col("s").cast(int) + 1).evaluate(pa.RecordBatch.from_pydict(columns))


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.duration("s")])
def test_a_time_outside_of_pythons_range_is_shown_as_a_number(kind: pa.DataType) -> None:
    batch = pa.RecordBatch.from_pydict({"t": pa.array([1, 2**53], kind)})
    finer = pa.timestamp("us") if pa.types.is_timestamp(kind) else pa.duration("us")

    def evaluate(values: list[pa.Array]) -> pa.Array:
        return values[0].cast(finer)

    with pytest.raises(pa.ArrowInvalid) as caught:
        evaluate([batch["t"]])
    told = failure(caught.value, [batch["t"]], evaluate, batch)
    assert f", for {2**53}; leave such events out" in told


def test_months_are_counted_up_to_the_ends_of_the_time_axis() -> None:
    days = np.array(["290000-01-31", "-288000-01-31", "2023-01-31"], "M8[us]")
    batch = pa.RecordBatch.from_pydict({"t": pa.array(days.astype(np.int64)).cast("timestamp[us]")})
    found = col("t").dt.add_months(1).evaluate(batch).cast(pa.int64()).to_numpy()
    later = np.array(["290000-02-29", "-288000-02-29", "2023-02-28"], "M8[us]")
    assert found.view("M8[us]").tolist() == later.tolist()
    with pytest.raises(EvaluationError, match="does not fit into 64 bits"):
        col("t").dt.add_months(60_000).evaluate(batch)


PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize("to", PER_SECOND)
@pytest.mark.parametrize("unit", PER_SECOND)
def test_times_and_durations_in_every_unit(unit: str, to: str) -> None:
    ticks = [-1_000_001, -1_001, -1, 0, 999, 10**9 + 7]
    more, less = PER_SECOND[to], PER_SECOND[unit]
    batch = pa.RecordBatch.from_pydict({"d": pa.array(ticks).cast(pa.duration(unit))})
    found = col("d").cast(pa.duration(to)).evaluate(batch).cast(pa.int64())
    assert found.to_pylist() == [tick * more // less for tick in ticks]
    for tick in ticks:
        rows = pa.RecordBatch.from_pydict({"t": pa.array([tick]).cast(pa.timestamp(unit))})
        cast = col("t").cast(pa.timestamp(to))
        us = tick * 10**6 // less
        if unit == to:
            assert cast.evaluate(rows) == rows["t"]
        elif us * more % 10**6:
            with pytest.raises(EvaluationError, match="would lose data"):
                cast.evaluate(rows)
        else:
            found = cast.evaluate(rows).cast(pa.int64())
            assert found.to_pylist() == [us * more // 10**6]


def test_modulo_by_a_number_is_floored_at_the_ends_of_the_range() -> None:
    ends = [-(2**63), 1 - 2**63, -124, -123, -1, 0, 1, 122, 123, 2**63 - 1]
    rows = pa.RecordBatch.from_pydict({"i": pa.array(ends, pa.int64())})
    for by in (1, -1, 7, -10, 123, 2**32 + 1, 2**63 - 1, -(2**63)):
        assert (col("i") % by).evaluate(rows).to_pylist() == [i % by for i in ends], by


def test_every_format_code_equals_python_or_is_rejected() -> None:
    moment = datetime(2024, 2, 29, 13, 5, 9, 123456)  # noqa: DTZ001 - as the column
    rows = pa.RecordBatch.from_pydict({"t": pa.array([moment], pa.timestamp("us"))})
    known = "ABHIMSYabdjmpy%"
    for code in (*string.ascii_letters, "%", "0", " ", ""):
        made = col("t").dt.format(f"at %{code}")
        if code and code in known:
            assert made.evaluate(rows).to_pylist() == [moment.strftime(f"at %{code}")]
        else:
            with pytest.raises(InvalidPlanError, match=f"%{code} is not supported"):
                made.evaluate(rows)


def test_outer_parentheses_are_not_shown() -> None:
    """Parentheses that close before the end are shown."""
    x, y = col("x"), col("y")
    shown = [
        (x + y, "x + y"),
        ((x + y) * 2, "(x + y) * 2"),
        ((x + 1) * (y + 2), "(x + 1) * (y + 2)"),
        ((x > 1) & (y > 2), "(x > 1) & (y > 2)"),
        (x.abs(), "x.abs()"),
    ]
    assert [bare(expr.node) for expr, _ in shown] == [text for _, text in shown]
