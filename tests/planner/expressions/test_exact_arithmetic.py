"""Arithmetic at the limits of its types against Python's exact numbers: the result, or an error.

Not covered: a sum over events (``tests/rvertex/aggregates/test_exact_sums.py``), or floats.
"""

from __future__ import annotations

import contextlib
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from planner import EvaluationError, Expr, Stream, col, event, lit
from planner.errors import ExpressionTypeError, InvalidPlanError
from planner.expressions.bounds import bounds
from planner.expressions.nodes import Literal, resolve
from planner.expressions.predicates import may_fail
from planner.optimizer.rules.fold_constants import folded
from rstream.items.batch import VE, VS
from tests.spark.batches import streamed
from tests.support.budget import examples

if TYPE_CHECKING:
    from collections.abc import Callable

LOW, HIGH = -(2**63), 2**63 - 1
EDGES = [LOW, LOW + 1, HIGH, HIGH - 1, 0, 1, -1, 2, -2, 10, 2**31, -(2**31), 2**32, 3037000500]
INT64 = st.sampled_from(EDGES) | st.integers(LOW, HIGH) | st.integers(-100, 100)
BINARY: dict[str, tuple[Callable[[Expr, Expr], Expr], Callable[[int, int], int]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "subtract": (lambda a, b: a - b, lambda a, b: a - b),
    "multiply": (lambda a, b: a * b, lambda a, b: a * b),
    "floor_divide": (lambda a, b: a // b, lambda a, b: a // b),
    "modulo": (lambda a, b: a % b, lambda a, b: a % b),
}
WIDTHS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]


def batch_of(**columns: pa.Array) -> pa.RecordBatch:
    times = pa.array(range(len(next(iter(columns.values())))), pa.int64())
    return pa.RecordBatch.from_pydict({VS: times, VE: times, **columns})


def found(expr: Expr, batch: pa.RecordBatch) -> int | str | None:
    """The value of the only row as int64, or the error."""
    try:
        column = expr.evaluate(batch)
    except EvaluationError as error:
        return str(error)
    value: int | None = column.cast(pa.int64())[0].as_py()
    return value


def assert_exact(got: int | str | None, wanted: int | None, room: str = "int64") -> None:
    if wanted is None or LOW <= wanted <= HIGH:
        assert got == wanted
    else:
        assert isinstance(got, str)
        assert f"does not fit into {room}" in got


@given(st.sampled_from(sorted(BINARY)), INT64, INT64)
@example("floor_divide", LOW, -1)
@example("modulo", LOW, -1)
@example("multiply", 2**62, 4)
@example("multiply", LOW, -1)
def test_integers_are_exact_or_rejected(name: str, a: int, b: int) -> None:
    build, exact = BINARY[name]
    divides = name in ("floor_divide", "modulo")
    wanted = None if divides and b == 0 else exact(a, b)
    batch = batch_of(a=pa.array([a]), b=pa.array([b]))
    for expr in (build(col("a"), col("b")), build(col("a"), lit(b)), build(lit(a), col("b"))):
        assert_exact(found(expr, batch), wanted)
    literals = build(lit(a), lit(b)).node
    if wanted is None or LOW <= wanted <= HIGH:
        assert folded(resolve(literals, batch.schema)) == Literal(wanted, pa.int64())
    else:  # for any data
        with pytest.raises(InvalidPlanError, match="does not fit into int64"):
            resolve(literals, batch.schema)


@given(INT64, st.integers(-22, 3))
@example(HIGH, -1)
@example(5 * 10**18, -19)
@example(-5 * 10**18 + 1, -19)
@example(150, -2)
@example(-150, -2)
def test_unary_operations_on_integers(a: int, digits: int) -> None:
    batch = batch_of(a=pa.array([a]))
    assert_exact(found(-col("a"), batch), -a)
    assert_exact(found(abs(col("a")), batch), abs(a))
    zeros = max(-digits, 0)
    whole = (abs(a) + 10**zeros // 2) // 10**zeros * 10**zeros
    assert_exact(found(col("a").round(digits), batch), whole if a >= 0 else -whole)


def test_nulls_and_columns() -> None:
    batch = batch_of(a=pa.array([None, 149, -150, 151]), b=pa.array([HIGH, None, 7, 0]))
    results = {
        col("a").round(-2): [None, 100, -200, 200],
        col("a") + col("b"): [None, None, -143, 151],
        col("a") // col("b"): [None, None, -22, None],
        -col("a"): [None, -149, 150, -151],
    }
    for expr, wanted in results.items():
        assert expr.evaluate(batch).to_pylist() == wanted


DAY_US = 86_400_000_000


@given(INT64, INT64)
@example(HIGH, 1)
@example(LOW, -1)
def test_times_and_durations_are_exact_or_rejected(a: int, b: int) -> None:
    batch = batch_of(
        t=pa.array([a]).cast(pa.timestamp("us", "UTC")), u=pa.array([b]).cast(pa.timestamp("us")),
        x=pa.array([a]).cast(pa.duration("us")), y=pa.array([b]).cast(pa.duration("us")),
        n=pa.array([b]),
    )  # fmt: skip
    t, u, x, y, n = (col(name) for name in "tuxyn")
    moment = "64 bits"
    for expr, wanted in (
        *((t + y, a + b), (y + t, a + b), (t - y, a - b), (x + y, a + b), (x - y, a - b)),
        *((t - u.cast("timestamp"), a - b), (x * n, a * b), (n * x, a * b), (-x, -a)),
        *((abs(x), abs(a)), (t.dt.truncate("1d"), a // DAY_US * DAY_US)),
    ):
        assert_exact(found(expr, batch), wanted, moment)


@st.composite
def decimals(draw: st.DrawFn) -> tuple[pa.DataType, Decimal]:
    precision = draw(st.sampled_from([38, 19]) | st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    most = 10**precision - 1
    size = draw(st.sampled_from([most, most - 1, 5, 0]) | st.integers(0, most))
    number = Decimal(draw(st.sampled_from([size, -size]))).scaleb(-scale, Context(prec=50))
    return pa.decimal128(precision, scale), number


@given(decimals(), decimals(), st.integers(-3, 3))
@example((pa.decimal128(38, 0), Decimal("9" * 38)), (pa.decimal128(38, 0), Decimal("9" * 38)), 0)
@example((pa.decimal128(3, 2), Decimal("9.99")), (pa.decimal128(1, 0), Decimal(1)), 0)
def test_decimals_are_exact_or_rejected(
    left: tuple[pa.DataType, Decimal], right: tuple[pa.DataType, Decimal], digits: int
) -> None:
    (kind, a), (other, b) = left, right
    exact = Context(prec=200)
    # With rows before and after, because Arrow forgets an error if a valid row follows.
    batch = batch_of(a=pa.array([a, Decimal(0)], kind), b=pa.array([b, Decimal(0)], other))
    x, y = col("a"), col("b")
    for expr, wanted in (
        (x + y, exact.add(a, b)), (x - y, exact.subtract(a, b)), (x * y, exact.multiply(a, b)),
    ):  # fmt: skip
        if kind.precision + other.precision >= 76:  # no type can hold all products
            with contextlib.suppress(ExpressionTypeError):
                assert expr.evaluate(batch)[0].as_py() == wanted
        else:
            assert expr.evaluate(batch)[0].as_py() == wanted
    assert (-x).evaluate(batch)[0].as_py() == a.copy_negate()
    assert abs(x).evaluate(batch)[0].as_py() == a.copy_abs()
    unit = Decimal(1).scaleb(-min(digits, kind.scale), exact)
    limit = Decimal(10) ** (kind.precision - kind.scale)
    for expr, wanted in (
        (x.round(digits), a.quantize(unit, ROUND_HALF_UP, exact)),
        (x.floor(), a.to_integral_value("ROUND_FLOOR", exact)),
        (x.ceil(), a.to_integral_value("ROUND_CEILING", exact)),
    ):
        if wanted.copy_abs() < limit:
            assert expr.evaluate(batch)[0].as_py() == wanted
        else:
            with pytest.raises(EvaluationError, match="does not fit into decimal128"):
                expr.evaluate(batch)


@st.composite
def integer_trees(draw: st.DrawFn, depth: int = 3) -> Expr:
    """Arithmetic expressions on columns of all widths."""
    if depth == 0 or draw(st.booleans()):
        return draw(
            st.integers(0, len(WIDTHS) - 1).map(lambda i: col(f"c{i}"))
            | st.sampled_from([1, -1, 7, 100, -3, 2**40]).map(lit)
        )
    name = draw(st.sampled_from([*BINARY, "negate", "abs", "round"]))
    first: Expr = draw(integer_trees(depth - 1))
    if name in BINARY:
        return BINARY[name][0](first, draw(integer_trees(depth - 1)))
    if name == "round":
        return first.round(draw(st.integers(-4, 1)))
    return -first if name == "negate" else abs(first)


@examples(50)
@given(integer_trees(), st.data())
def test_results_are_within_their_bounds_and_infallible_expressions_do_not_fail(
    tree: Expr, data: st.DataObject
) -> None:
    def edge(kind: pa.DataType) -> int:
        low = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (kind.bit_width - 1))
        high = low + 2**kind.bit_width - 1
        size = st.sampled_from([low, high, 0]) | st.integers(low, high)
        return data.draw(size)

    batch = batch_of(**{f"c{i}": pa.array([edge(k)], k) for i, k in enumerate(WIDTHS)})
    try:
        node = resolve(tree.node, batch.schema)
    except InvalidPlanError:
        return  # a constant part of it overflows for all rows
    low, high = bounds(node)
    got = found(tree, batch)
    assert may_fail(node) or not isinstance(got, str)
    if isinstance(got, int):
        assert low <= got <= high


def test_small_numbers_are_known_not_to_overflow() -> None:
    schema = pa.schema([("i", pa.int32()), ("n", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    fits = [col("i") * col("i"), col("n") % 123, col("n") // 7, col("n") * 2.0, -col("i"),
            col("n") % 1000 * 1000 + 5, col("t").dt.hour() * 60,
            col("n") - col("n") * 1.0]  # fmt: skip
    tight = [col("n") + 1, col("n") // -1, -col("n"), col("n") * 2, col("t") - col("t"),
             col("i") * col("i") * col("i"), col("n").round(-1), abs(col("n"))]  # fmt: skip
    assert not any(may_fail(resolve(e.node, schema)) for e in fits)
    assert all(may_fail(resolve(e.node, schema)) for e in tight)


def test_the_error_names_the_event_and_a_remedy() -> None:
    stream = Stream.from_items({"n": "int64"}, [event(5, n=1), event(7, n=2**62)])
    with pytest.raises(EvaluationError) as caught:
        streamed(stream.select(x=col("n") * 4))
    told = str(caught.value)
    assert "cannot evaluate (n * 4): the result does not fit into int64" in told
    assert "decimal" in told
    assert f"for {2**62}, in the event with _vs=7" in told


def test_a_filter_that_protects_an_expression_stays_in_front_of_it() -> None:
    items = [event(k, n=n) for k, n in enumerate([1, 2**62, 3])]
    stream = Stream.from_items({"n": "int64"}, items).filter(col("n") < 100)
    table: Any = streamed(stream.with_columns(x=col("n") * 4).filter(col("x") > 4))
    assert table["x"].to_pylist() == [12]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("x") == 2.0**53, [False, True, None]),
        (col("x") > 2.0**53, [True, False, None]),
        (col("x").between(1.0, 2.0**53), [False, True, None]),
        (col("x").is_in([2.0**53, 1]), [False, True, None]),
        (col("x") < 0.5, [False, False, None]),
        (col("x") < 2.0**63, [True, True, None]),
        (col("x") < 1e300, [True, True, None]),
        (col("x").is_in([2.0**53, 5.5]), [False, True, None]),
        (col("x").is_in([2**53 + 1, 0.5, float("nan")]), [True, False, None]),
        (col("x").is_in([2.0**63, 5.5]), [False, False, None]),
        (col("x").between(0.5, 2**53), [False, True, None]),
        (col("x").between(0.5, 2.0**63), [True, True, None]),
    ],
)
def test_whole_doubles_are_compared_exactly_with_integers(
    expression: Expr, expected: list[bool | None]
) -> None:
    rows = pa.record_batch({"x": pa.array([2**53 + 1, 2**53, None], pa.int64())})
    assert resolve(expression.node, rows.schema).evaluate(rows).to_pylist() == expected
