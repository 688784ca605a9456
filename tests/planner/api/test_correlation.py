"""Correlations and sums of different values, against Python's own."""

from __future__ import annotations

import math
import statistics
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from planner import InvalidPlanError, Stream, agg, event, sql, tumbling
from planner.physical.lower import lower
from tests.support.plan_runner import Schedule, answer

if TYPE_CHECKING:
    from planner.physical.plan import PhysicalPlan


def stream(kind: str = "float64") -> tuple[Stream, list[tuple[float | None, float | None]]]:
    rng = Random(3)
    pairs = [(rng.choice([None, 1, 2, 3, -4]), rng.choice([None, 5, 6.5, 9])) for _ in range(40)]
    items = [event(at, x=x, y=y) for at, (x, y) in enumerate(pairs)]
    return Stream.from_items({"x": kind, "y": "float64"}, items), pairs


def test_correlation_and_covariance_equal_those_of_python() -> None:
    rows, pairs = stream()
    both = [(x, y) for x, y in pairs if x is not None and y is not None]
    made = rows.window(tumbling(100)).agg(
        r=agg.corr("x", "y"), c=agg.covariance("x", "y"), p=agg.covariance("x", "y", ddof=0)
    )
    plan = lower(made.to_parquet(), root="memory://c", parallelism=2)
    for schedule in (Schedule((0,)), Schedule((3, 0, 1), rows_max=4, restores=True)):
        ((r, c, p),) = [tuple(v for v in row.values())[2:] for row in _rows(plan, schedule)]
        xs, ys = zip(*both, strict=True)
        assert math.isclose(r, statistics.correlation(xs, ys))
        assert math.isclose(c, statistics.covariance(xs, ys))
        assert math.isclose(p, statistics.covariance(xs, ys) * (len(xs) - 1) / len(xs))


def test_constant_columns_have_no_correlation() -> None:
    items = [event(0, x=1.0, y=2.0), event(1, x=1.0, y=3.0), event(10, x=1.0, y=1.0)]
    items += [event(20, x=2.0, y=1.0), event(21, x=3.0, y=1.0), event(22, x=9.0, y=None)]
    rows = Stream.from_items({"x": "float64", "y": "float64"}, items)
    made = rows.window(tumbling(10)).agg(r=agg.corr("x", "y"), c=agg.covariance("x", "y"))
    plan = lower(made.to_parquet(), root="memory://n", parallelism=1)
    found = [(row["r"], row["c"]) for row in _rows(plan, Schedule((0,)))]
    assert found == [(None, 0.0), (None, None), (None, 0.0)]


@pytest.mark.parametrize("kind", ["int64", "float64", "float32", "int8"])
def test_distinct_values_count_once(kind: str) -> None:
    rows, pairs = stream(kind)
    made = rows.window(tumbling(100)).agg(
        s=agg.sum_distinct("x"), m=agg.mean_distinct("x"), n=agg.count_distinct("x", "y")
    )
    plan = lower(made.to_parquet(), root="memory://d", parallelism=2)
    ((row),) = _rows(plan, Schedule((2, 0, 1), rows_max=3, restores=True))
    different = {x for x, _ in pairs if x is not None}
    together = {(x, y) for x, y in pairs if x is not None and y is not None}
    assert row["s"] == sum(different)
    assert row["m"] == statistics.mean(different)
    assert row["n"] == len(together)


def test_distinct_doubles_are_added_in_order_of_appearance() -> None:
    """Added in ascending order, the 1 would be lost in the sum."""
    values = [1e16, -1e16, 1e16, 1.0, -1e16]
    rows = Stream.from_items({"x": "float64"}, [event(t, x=x) for t, x in enumerate(values)])
    made = rows.window(tumbling(10)).agg(s=agg.sum_distinct("x"))
    plan = lower(made.to_parquet(), root="memory://o", parallelism=1)
    assert [row["s"] for row in _rows(plan, Schedule((0,)))] == [1.0]


def test_distinct_values_compare_alike_in_one_and_several_columns() -> None:
    kinds = {"k": "string", "f": "float64", "b": "binary", "id": pa.binary(2)}
    values = [("a", 0.0), ("a", -0.0), ("a0", 0.0), ("a", math.nan), ("a", -math.nan), (None, 1.0)]
    items = [event(0, k=k, f=f, b=b"\xff", id=b"\xff\xfe") for k, f in values]
    rows = Stream.from_items(kinds, items)
    whole = rows.window(tumbling(10))
    made = whole.agg(n=agg.count_distinct("k", "f"), m=agg.count_distinct("f"))
    plan = lower(made.to_parquet(), root="memory://z", parallelism=1)
    assert [(row["n"], row["m"]) for row in _rows(plan, Schedule((0,)))] == [(3, 3)]
    for name, kind in (("b", "binary"), ("id", r"fixed_size_binary\[2\]")):
        with pytest.raises(
            InvalidPlanError, match=f"{name} is {kind}: decode the bytes to text first"
        ):
            whole.agg(n=agg.count_distinct("k", name))
    with pytest.raises(InvalidPlanError, match="b is binary"):
        sql("SELECT b FROM r EXCEPT SELECT b FROM r", {"r": rows.for_ever()})


def test_sums_of_distinct_decimals_are_exact() -> None:
    kind = pa.decimal128(10, 2)
    values = pa.array(["0.10", "0.10", "0.20", None]).cast(kind).to_pylist()
    items = [event(at, x=value) for at, value in enumerate(values)]
    rows = Stream.from_items(pa.schema([("x", kind)]), items)
    plan = lower(
        rows.window(tumbling(100)).agg(s=agg.sum_distinct("x")).to_parquet(),
        root="memory://x",
        parallelism=1,
    )
    (row,) = _rows(plan, Schedule((0,)))
    assert str(row["s"]) == "0.30"


def _rows(plan: PhysicalPlan, schedule: Schedule) -> list[dict[str, Any]]:
    return answer(plan, schedule=schedule).to_pylist()
