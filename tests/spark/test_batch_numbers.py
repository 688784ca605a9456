"""Numbers at the limits of their types, as a stream and as Spark SQL compute them.

Not covered: an error that both share; for these there is Python's arithmetic in ``tests/planner``
and ``tests/rvertex``.
"""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from planner import EvaluationError, Expr, Stream, agg, col, event, tumbling
from planner.batch.spark_sql import BatchDataError
from rvertex.errors import SumOverflowError
from tests.spark.batches import assert_twins, batched, streamed
from tests.spark.test_batch_expressions import numbered, selected

pytestmark = pytest.mark.spark


def test_decimals_and_fine_times() -> None:
    draw = random.Random(11)
    long = [draw.choice([1, -1]) * draw.randrange(10 ** draw.randrange(1, 38)) for _ in range(40)]
    count = len(long)
    stream = numbered(
        {
            "d": [Decimal(draw.randrange(-9999, 10_000)).scaleb(-2) for _ in range(count)],
            "w": [Decimal(n).scaleb(-10) for n in long],
            "t": [draw.randrange(-5000, 5000) for _ in range(count)],
            "s": [f"{draw.randrange(-9999, 9999)}e-3" for _ in range(count)],
        },
        {"d": pa.decimal128(5, 2), "w": pa.decimal128(38, 10), "t": "int64", "s": "string"},
    ).with_columns(
        ns=col("t").cast(pa.timestamp("ns")), length=col("t").cast(pa.duration("ns")),
    )  # fmt: skip
    d, w = col("d"), col("w")
    expressions = [
        *(d.cast(float), w.cast(float), d == 19.99, d.is_in([0.35, -0.07, 19.99]), d * 2.0),
        *(d.cast(pa.decimal128(6, 1)), w.cast(pa.decimal128(38, 3)), w.cast(pa.decimal128(29, 0))),
        *((d.cast(float) + 0.005).cast(pa.decimal128(7, 2)), (d * 2.5).cast(pa.decimal128(9, 1))),
        *(d.cast(int), d.cast("int8"), col("s").cast(pa.decimal128(5, 2))),
        *(col("t").cast(pa.decimal128(10, 2)), col("ns").cast("timestamp"), col("ns").cast(int)),
        *(col("length").cast(pa.duration("us")), col("length") + col("length")),
    ]
    assert_twins(selected(stream, expressions))


LEAST, MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    "expr",
    [
        *(col("most") + col("one"), col("least") - col("one"), col("most") * col("two")),
        *(col("least") // -col("one"), -col("least"), abs(col("least")), col("most").round(-1)),
        *(col("t") + col("length"), col("length") * col("two"), col("t").dt.truncate("1d")),
        *(col("d").round(1), col("d").ceil(), col("d").cast(pa.decimal128(2, 1))),
    ],
    ids=str,
)
def test_overflows_fail_in_both(expr: Expr) -> None:
    values = {"most": MOST, "least": LEAST, "one": 1, "two": 2, "d": Decimal("9.99")}
    kinds = {"d": pa.decimal128(3, 2)}
    stream = numbered(
        {name: [value, None] for name, value in values.items()},
        {name: kinds.get(name, "int64") for name in values},
    ).with_columns(
        t=col("least").cast(pa.timestamp("us")), length=col("least").cast("duration")
    )  # fmt: skip
    told = r"cannot evaluate .*fit"
    with pytest.raises(EvaluationError, match=told):
        streamed(stream.select(e=expr))
    with pytest.raises(BatchDataError, match=told):
        batched(stream.select(e=expr))


def test_numbers_at_their_edges() -> None:
    draw = random.Random(13)
    count = 60
    columns = {
        "a": [draw.randrange(LEAST, MOST) >> draw.randrange(64) for _ in range(count)],
        "b": [draw.randrange(LEAST, MOST) >> draw.randrange(64) for _ in range(count)],
    }
    stream = numbered(columns, {"a": "int64", "b": "int64"})
    a, b = col("a"), col("b")
    half, third = a // 2, b // 3
    expressions = [
        *(half + third, half - third, (a % 2**31) * (b % 2**31), -half, abs(half), half // -7),
        *(half.round(digits) for digits in (-1, -2, -5, -17, -18, -20)),
        (half % 2**40 * 1000).cast(pa.timestamp("us")).dt.truncate("1h"),
    ]
    assert_twins(selected(stream, expressions))


def test_sums_at_their_edges() -> None:
    most = Decimal("9" * 38)
    rows = [
        (MOST, most),
        (MOST, most.copy_negate()),
        (LEAST, Decimal(1)),
        (LEAST, Decimal(2)),
        (5, Decimal(3)),
    ]
    items = [event(i, k=i // 5, n=n, d=d, e=Decimal(i) / 8) for i, (n, d) in enumerate(rows * 2)]
    kinds = {"k": "int64", "n": "int64", "d": pa.decimal128(38, 0), "e": pa.decimal128(5, 3)}
    whole = Stream.from_items(kinds, items).group_by("k").window(tumbling(100))
    found = assert_twins(
        whole.agg(n=agg.sum("n"), m=agg.mean("n"), e=agg.sum("e"), f=agg.mean("e"))
    )
    assert found["n"].to_pylist() == [3, 3]
    wide = Stream.from_items(kinds, items).group_by("k").window(tumbling(1))
    assert_twins(wide.agg(d=agg.sum("d"), m=agg.mean("d"), n=agg.mean("n")))


def test_a_sum_of_decimals_that_overflows_fails_in_both() -> None:
    items = [event(i, d=Decimal("9" * 38)) for i in range(2)]
    stream = Stream.from_items({"d": pa.decimal128(38, 0)}, items).window(tumbling(10))
    with pytest.raises(SumOverflowError, match="total: the sum of column 'd' does not fit"):
        streamed(stream.agg(total=agg.sum("d")))
    with pytest.raises(BatchDataError, match=r"sum\(d\): the sum does not fit into 38 digits"):
        batched(stream.agg(total=agg.sum("d")))


def test_the_greatest_by_text_and_by_decimal() -> None:
    items = [event(i, k=i % 2, s=s, d=Decimal(d)) for i, (s, d) in enumerate(
        [("a", "1.50"), ("é", "-1.00"), ("", "9.99"), ("zz", "0.00"), ("b", "9.98"), ("z", "2.00")]
    )]  # fmt: skip
    kinds = {"k": "int64", "s": "string", "d": pa.decimal128(5, 2)}
    stream = Stream.from_items(kinds, items).group_by("k").window(tumbling(100))
    assert_twins(
        stream.agg(
            a=agg.max_by("d", "s"), b=agg.min_by("d", "s"),
            c=agg.max_by("s", "d"), e=agg.min_by("s", "d"),
        )
    )  # fmt: skip


def test_keys_of_two_types() -> None:
    left = numbered(
        {"d": [Decimal("19.99"), Decimal("0.35"), Decimal("1.00")]}, {"d": pa.decimal128(5, 2)}
    ).extend(10_000_000)
    right = numbered({"x": [1.0, 0.35, 19.99]}, {"x": "float64"}).extend(10_000_000)
    pairs = left.join(right.select("x"), left_on="d", right_on="x")
    assert assert_twins(pairs).num_rows == 3
