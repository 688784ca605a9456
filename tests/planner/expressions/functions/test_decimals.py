"""Decimals against Python's own: conversions, comparisons, and times of finer units.

Not covered: bugs of Python's ``decimal.Decimal`` and ``float``.
"""

from __future__ import annotations

import decimal
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from planner import EvaluationError, Expr, InvalidPlanError, col, lit
from planner.batch.spark_sql import to_sql
from planner.expressions.functions.decimals import divided_exactly
from planner.expressions.nodes import resolve
from rstream.items.batch import VE, VS
from rvertex.events.decimals import nearest_floats
from tests.support.calls import calls_of

EXACT = Context(prec=200)


def evaluated(expr: Expr, column: pa.Array) -> list[Any]:
    """Evaluate ``expr`` over a column ``d``, as a column and row by row."""
    times = pa.array(range(len(column)), pa.int64())
    batch = pa.RecordBatch.from_arrays([times, times, column], names=[VS, VE, "d"])
    whole = expr.evaluate(batch)
    alone = [expr.evaluate(batch.slice(i, 1))[0].as_py() for i in range(len(column))]
    found: list[Any] = whole.to_pylist()
    assert found == alone
    return found


@st.composite
def types(draw: st.DrawFn) -> pa.DataType:
    """Decimals of 128 bits, often with all their digits."""
    precision = draw(st.sampled_from([38, 20, 18]) | st.integers(1, 38))
    return pa.decimal128(precision, draw(st.integers(0, precision)))


def values(kind: pa.DataType) -> st.SearchStrategy[Decimal]:
    """Draw decimals of all sizes, often at the limits."""
    most = 10**kind.precision - 1
    near = st.integers(0, min(most, 1000)).map(lambda n: most - n)
    size = st.integers(0, most) | near | st.integers(0, min(most, 10_000))
    sign = st.sampled_from([1, -1])
    return st.builds(lambda n, s: Decimal(n * s).scaleb(-kind.scale, EXACT), size, sign)


def test_a_constant_float_becomes_a_decimal_of_any_size() -> None:
    batch = pa.RecordBatch.from_pydict({"_vs": [0], "_ve": [1]})
    for kind in (pa.decimal128(4, 2), pa.decimal128(38, 30), pa.decimal256(60, 40)):
        assert lit(2.5).cast(kind).evaluate(batch).to_pylist() == [Decimal("2.5")]


@given(types().flatmap(lambda t: st.tuples(st.just(t), st.lists(values(t), max_size=5))))
@example((pa.decimal128(4, 2), [Decimal("19.99"), Decimal("0.35"), Decimal("-0.07")]))
@example((pa.decimal128(38, 0), [Decimal(2**53 + 1), Decimal(10**37 + 1)]))
def test_a_decimal_becomes_the_nearest_float(case: tuple[pa.DataType, list[Decimal]]) -> None:
    kind, numbers = case
    column = pa.array([*numbers, None], kind)
    assert evaluated(col("d").cast(float), column) == [*map(float, numbers), None]
    assert nearest_floats(column.slice(1)).to_pylist() == [*map(float, numbers), None][1:]


def test_every_decimal_of_two_places_equals_its_literal() -> None:
    hundredths = range(-2000, 2000)
    column = pa.array([Decimal(n) / 100 for n in hundredths], pa.decimal128(5, 2))
    assert nearest_floats(column).to_pylist() == [n / 100 for n in hundredths]
    for n in (1999, 35, -7):
        assert sum(evaluated(col("d") == n / 100, column.slice(2000 + n - 3, 7))) == 1
        assert sum(evaluated(col("d").is_in([n / 100]), column.slice(2000 + n - 3, 7))) == 1


@given(st.tuples(types(), types()).flatmap(
    lambda pair: st.tuples(st.just(pair), st.lists(values(pair[0]), min_size=1, max_size=3))
))  # fmt: skip
@example(((pa.decimal128(38, 0), pa.decimal128(38, 37)), [Decimal(10**29)]))
@example(((pa.decimal128(4, 2), pa.decimal128(3, 1)), [Decimal("99.99"), Decimal("0.15")]))
def test_a_decimal_is_rounded_to_fewer_places_and_must_fit(
    case: tuple[tuple[pa.DataType, pa.DataType], list[Decimal]],
) -> None:
    (source, target), numbers = case
    unit = Decimal(1).scaleb(-target.scale, EXACT)
    wanted = [n.quantize(unit, ROUND_HALF_UP, EXACT) for n in numbers]
    limit = Decimal(10) ** (target.precision - target.scale)
    column, cast = pa.array(numbers, source), col("d").cast(target)
    if any(w.copy_abs() >= limit for w in wanted):
        with pytest.raises(EvaluationError, match=r"cannot evaluate d\.cast"):
            evaluated(cast, column)
    else:
        assert evaluated(cast, column) == wanted


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4), types())
@example([5], pa.decimal128(10, 2))
def test_an_integer_as_a_decimal(numbers: list[int], target: pa.DataType) -> None:
    column, cast = pa.array(numbers, pa.int64()), col("d").cast(target)
    if any(abs(n) >= 10 ** (target.precision - target.scale) for n in numbers):
        with pytest.raises(EvaluationError, match=r"cannot evaluate d\.cast"):
            evaluated(cast, column)
    else:
        assert evaluated(cast, column) == numbers


def test_a_decimal_as_an_integer_is_rounded_like_a_float() -> None:
    texts = ["1.50", "-1.99", "0.49", "-0.01"]
    column = pa.array([Decimal(t) for t in texts], pa.decimal128(5, 2))
    assert evaluated(col("d").cast(int), column) == [int(float(t)) for t in texts]
    assert evaluated(col("d").cast(float).cast(int), column) == [int(float(t)) for t in texts]
    with pytest.raises(EvaluationError, match=r"cannot evaluate d\.cast\(int64\)"):
        evaluated(col("d").cast(int), pa.array([Decimal(2**63)], pa.decimal128(38, 0)))


def test_text_with_more_places_is_rounded() -> None:
    column = pa.array(["19.995", "-0.005", "1e2", None])
    wanted = [Decimal("20.00"), Decimal("-0.01"), Decimal("100.00"), None]
    assert evaluated(col("d").cast(pa.decimal128(5, 2)), column) == wanted


def test_a_literal_as_a_decimal() -> None:
    column = pa.array([1])
    assert evaluated(lit(5).cast(pa.decimal128(10, 2)), column) == [Decimal("5.00")]
    with pytest.raises(InvalidPlanError, match="does not fit in precision 2"):
        evaluated(lit(5).cast(pa.decimal128(2, 2)), column)


def test_decimals_of_256_bits() -> None:
    number = Decimal("1" * 50 + ".125")
    column = pa.array([number], pa.decimal256(76, 3))
    rounded = number.quantize(Decimal("0.01"), ROUND_HALF_UP, EXACT)
    assert evaluated(col("d").cast(pa.decimal256(60, 2)), column) == [rounded]
    assert evaluated(col("d").cast(float), column) == [float(number)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), st.sampled_from(["ts", "duration"]))
@example([-1, -1000, -1001, 999], "ts")
@example([-1, -1000, -1001, 999], "duration")
def test_digits_below_a_microsecond_are_rounded_down(ticks: list[int], kind: str) -> None:
    fine, micros = (
        (pa.timestamp("ns"), pa.timestamp("us"))
        if kind == "ts"
        else (pa.duration("ns"), pa.duration("us"))
    )
    column = pa.array(ticks, pa.int64()).cast(fine)
    assert evaluated(col("d").cast(micros).cast(int), column) == [n // 1000 for n in ticks]
    assert evaluated(col("d").dt.epoch_us(), column) == [n // 1000 for n in ticks]


def test_the_decimal_context_of_the_process_is_ignored() -> None:
    with decimal.localcontext(prec=3):
        column = pa.array([Decimal("12345.125")], pa.decimal128(10, 3))
        wanted = [Decimal("12345.13")]
        assert evaluated(col("d").cast(pa.decimal128(10, 2)), column) == wanted


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e6, 1e6)
        | st.sampled_from([2.5, -2.5, 1.005, 0.5, 1e-30, 1e22, 5e-324, 9.5, 99.995]),
        max_size=4,
    ),
    types(),
)  # fmt: skip
@example([2.5, -0.5, 1.005], pa.decimal128(5, 0))
@example([1.005, 1e-300], pa.decimal128(5, 2))
@example([1e-30, 5e-38], pa.decimal128(38, 37))
def test_a_float_as_a_decimal_is_rounded_by_its_digits(
    numbers: list[float], target: pa.DataType
) -> None:
    unit, exact = Decimal(1).scaleb(-target.scale), Context(prec=1000)
    wanted = [Decimal(repr(n)).quantize(unit, ROUND_HALF_UP, exact) for n in numbers]
    limit = Decimal(10) ** (target.precision - target.scale)
    column, cast = pa.array(numbers, pa.float64()), col("d").cast(target)
    if any(w.copy_abs() >= limit for w in wanted):
        with pytest.raises(EvaluationError, match=r"cannot evaluate d\.cast"):
            evaluated(cast, column)
    else:
        assert evaluated(cast, column) == wanted


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "99999999999999999999999999.99"])
@pytest.mark.parametrize("target", [pa.decimal128(5, 2), pa.decimal128(38, 30)], ids=str)
def test_invalid_decimals_are_rejected_among_valid_ones(number: Any, target: pa.DataType) -> None:
    column = pa.array([number, type(number)("1.5")])
    with pytest.raises(EvaluationError, match=r"cannot evaluate d\.cast"):
        col("d").cast(target).evaluate(
            pa.RecordBatch.from_pydict({VS: [0, 1], VE: [1, 2], "d": column})
        )


@given(
    types().flatmap(lambda t: st.tuples(st.just(t), st.lists(values(t), min_size=1, max_size=3))),
    st.integers(-80, 80),
)
@example((pa.decimal128(38, 38), [Decimal("0.6")]), -40)
@example((pa.decimal128(37, 30), [Decimal("9999999.9")]), -12)
@example((pa.decimal128(2, 0), [Decimal(60), Decimal(-40)]), -2)
def test_rounding_to_any_digits(case: tuple[pa.DataType, list[Decimal]], digits: int) -> None:
    kind, numbers = case
    unit = Decimal(1).scaleb(-min(digits, kind.scale), EXACT)
    wanted = [n.quantize(unit, ROUND_HALF_UP, EXACT) for n in numbers]
    column, rounded = pa.array(numbers, kind), col("d").round(digits)
    if any(w.copy_abs() >= Decimal(10) ** (kind.precision - kind.scale) for w in wanted):
        with pytest.raises(EvaluationError, match="does not fit into decimal128"):
            evaluated(rounded, column)
    else:
        assert evaluated(rounded, column) == wanted


@pytest.mark.parametrize(("unit", "per_us"), [("s", 1_000_000), ("ms", 1000), ("us", 1)])
def test_a_duration_as_a_number_is_microseconds_for_any_unit(unit: str, per_us: int) -> None:
    column = pa.array([2, -3, None], pa.duration(unit))
    assert evaluated(col("d").cast(int), column) == [2 * per_us, -3 * per_us, None]
    assert evaluated(col("d").cast(str), column) == [str(2 * per_us), str(-3 * per_us), None]
    assert evaluated((col("d") * 1).cast(int), column) == [2 * per_us, -3 * per_us, None]
    nanoseconds = pa.array([1999, -1, None], pa.duration("ns"))
    assert evaluated(col("d").cast(int), nanoseconds) == [1, -1, None]
    schema = pa.schema([("d", pa.duration(unit))])
    text = to_sql(resolve(col("d").cast(int).node, schema), {"d": "c0"})
    assert (text == "c0") is (unit == "us")


def some(kind: pa.DataType) -> st.SearchStrategy[tuple[pa.DataType, list[Decimal]]]:
    return st.tuples(st.just(kind), st.lists(values(kind) | st.just(Decimal(0)), max_size=4))


@given(st.tuples(types().flatmap(some), types().flatmap(some)))
@example(((pa.decimal128(38, 0), [Decimal("9" * 38)]), (pa.decimal128(1, 0), [Decimal(7)])))
@example(((pa.decimal128(5, 2), [Decimal("1.25")]), (pa.decimal128(3, 2), [Decimal("0.05")])))
@example(((pa.decimal128(5, 2), [Decimal("-0.35")]), (pa.decimal128(3, 1), [Decimal("0.5")])))
def test_quotients_and_remainders_are_exact(
    case: tuple[tuple[pa.DataType, list[Decimal]], tuple[pa.DataType, list[Decimal]]],
) -> None:
    """The expected value is computed with Python's integers and fractions, then rounded."""
    (kind, numbers), (other, divisors) = case
    count = min(len(numbers), len(divisors))
    times = pa.array(range(count), pa.int64())
    columns = [pa.array(numbers[:count], kind), pa.array(divisors[:count], other)]
    batch = pa.RecordBatch.from_arrays([times, times, *columns], names=[VS, VE, "a", "b"])
    pairs = [(Fraction(a), Fraction(b)) for a, b in zip(numbers, divisors, strict=False)]
    assert (col("a") // col("b")).evaluate(batch).to_pylist() == [
        float(a // b) if b else None for a, b in pairs
    ]
    assert (col("a") % col("b")).evaluate(batch).to_pylist() == [
        float(a % b) if b else None for a, b in pairs
    ]


def test_quotients_of_decimals_and_integers() -> None:
    column = pa.array([Decimal("9" * 38), Decimal(-7), None], pa.decimal128(38, 0))
    assert evaluated(col("d") % 7, column) == [1.0, 0.0, None]
    assert evaluated(col("d") // 2, column) == [5e37, -4.0, None]
    assert evaluated(col("d") % 0, column) == [None, None, None]
    assert evaluated(lit(Decimal("0.35")) % lit(Decimal("0.05")), column) == [0.0] * 3


@pytest.mark.parametrize("rows", [10, 1_000])
def test_short_decimals_are_divided_without_a_python_call_per_row(rows: int) -> None:
    column = pa.array([Decimal(n).scaleb(-2) for n in range(rows)], pa.decimal128(12, 2))
    divisor = pa.scalar(Decimal("0.35"), pa.decimal128(3, 2))
    assert calls_of(lambda: divided_exactly([column, divisor], 1)) < 100
    found = divided_exactly([column.slice(3), divisor], 1).to_pylist()
    assert found == [n % 35 / 100 for n in range(3, rows)]
