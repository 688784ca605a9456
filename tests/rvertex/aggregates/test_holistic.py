"""Aggregates over all values of a window: any cuts, equal to naive ones, beside others.

Not covered: a loss of precision that the naive evaluator shares; ``test_variance_is_accurate``
compares with exact fractions.
"""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec, lanes_of
from rvertex.events.run import Run
from rvertex.operators.windows.hopping import FinalAggregate, PartialAggregate, WindowAggregate
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run
from tests.support.exact import assert_same_items
from tests.support.naive import aggregate, windows_of
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

GATHERED = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("sum", "x", "total"),
    AggregateSpec("variance", "x", "x_var", 1),
    AggregateSpec("variance", "n", "n_var", 0),
    AggregateSpec("stddev", "n", "n_dev", 1),
    AggregateSpec("count_distinct", "x", "x_kinds"),
    AggregateSpec("count_distinct", "s", "s_kinds"),
    AggregateSpec("top_k", "x", "x_top", 3),
    AggregateSpec("top_k", "s", "s_top", 1),
    AggregateSpec("quantile", "x", "x_mid", 0.5),
    AggregateSpec("quantile", "n", "n_low", 0.1),
    AggregateSpec("quantile_disc", "x", "x_disc", "0.3 desc"),
    AggregateSpec("quantile_disc", "s", "s_disc", "0.75 asc"),
    AggregateSpec("mode", "x", "x_often"),
    AggregateSpec("mode", "s", "s_often"),
    AggregateSpec("mode", "n", "n_often"),
    AggregateSpec("product", "x", "x_product"),
    AggregateSpec("last", "s", "s_last"),
)


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [_comparable(v) for v in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


@examples(3)
@given(
    run=runs(duration_max=9),
    cuts=splits(),
    keys=st.sampled_from([(), ("k",)]),
    window=st.sampled_from([(6, 6), (7, 3), (3, 5)]),
)
def test_values_collected_per_window(
    run: Run, cuts: list[int], keys: tuple[str, ...], window: tuple[int, int]
) -> None:
    run = Run(run.events, run.ctis[run.ctis < INF_TIME])
    run = Run(run.events, pa.array([*run.ctis.tolist(), INF_TIME]).to_numpy())
    spec = WindowAggregate(keys, *window, GATHERED, points=False)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    rows = run.events.to_pylist()
    for result in out.events.to_pylist():
        members = [
            row
            for row in rows
            if result["_vs"] in windows_of(row["_vs"], row["_ve"], size=window[0], every=window[1])
            and all(row[key] == result[key] for key in keys)
        ]
        expected = {
            a.output: aggregate(a.function, a.column, members, argument=a.argument)
            for a in GATHERED
        }
        found = {name: result[name] for name in expected}
        assert _comparable(list(found.values())) == _comparable(list(expected.values()))


@examples(3)
@given(run=runs(), cuts=splits())
def test_products_in_two_phases_equal_those_of_one(run: Run, cuts: list[int]) -> None:
    spec = WindowAggregate(
        ("k",), 6, 2, (AggregateSpec("product", "x", "p"), AggregateSpec("product", "n", "q")), True
    )
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    partial, final = spec.phases
    assert isinstance(partial, PartialAggregate)
    assert isinstance(final, FinalAggregate)
    middle = partial.open([PAYLOAD]).process([run])
    result = final.open([partial.output_schema([PAYLOAD])]).process([middle])
    assert_same_items(result.events, out.events, "two phases")


@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_skewness_and_kurtosis_are_accurate(shift: float) -> None:
    values = [shift + v for v in (4.0, 7.0, 13.0, 16.0, 0.5, 2.25)]
    items = [ev(i, x=v, n=7) for i, v in enumerate(values)]
    run = make_run(
        [*items, ev(100, x=1.0), ev(200, x=math.inf), ev(201, x=1.0), cti(INF_TIME)], PAYLOAD
    )
    specs = [AggregateSpec(f, c, f"{f}_{c}") for f in ("skewness", "kurtosis") for c in "xn"]
    out = assert_cut_invariant(WindowAggregate((), 100, 100, specs, True), [run], [PAYLOAD])
    row, one, wild = out.events.to_pylist()
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / 6
    moments = [sum((v - mean) ** power for v in exact) / 6 for power in range(5)]
    assert row["skewness_x"] == pytest.approx(float(moments[3]) / float(moments[2]) ** 1.5)
    assert row["kurtosis_x"] == pytest.approx(float(moments[4] / moments[2] ** 2) - 3)
    assert [row["skewness_n"], one["skewness_x"], one["kurtosis_n"]] == [None, None, None]
    assert math.isnan(wild["skewness_x"])


@pytest.mark.parametrize("shift", [0.0, 1e9, -1e15])
def test_variance_is_accurate(shift: float) -> None:
    values = [shift + v for v in (4.0, 7.0, 13.0, 16.0, 0.5, 2.25)]
    run = make_run([*(ev(i, x=v) for i, v in enumerate(values)), cti(INF_TIME)], PAYLOAD)
    specs = (AggregateSpec("variance", "x", "v", 1), AggregateSpec("stddev", "x", "d", 0))
    spec = WindowAggregate((), 100, 100, specs, True)
    (row,) = spec.open([PAYLOAD]).process([run]).events.to_pylist()
    exact = [Fraction(v) for v in values]
    assert row["v"] == pytest.approx(float(statistics.variance(exact)), rel=1e-12)
    assert row["d"] == pytest.approx(statistics.pstdev([float(v - exact[0]) for v in exact]))


def test_decimals_and_booleans() -> None:
    schema = pa.schema([("d", pa.decimal128(10, 2)), ("b", pa.bool_())])
    items = [ev(i, d=Decimal(i) / 4, b=i % 2 == 0) for i in range(5)]
    run = make_run([*items, cti(INF_TIME)], schema)
    specs = (
        AggregateSpec("quantile", "d", "q", 0.5),
        AggregateSpec("top_k", "d", "top", 2),
        AggregateSpec("count_distinct", "b", "n"),
        AggregateSpec("mode", "d", "often"),
        AggregateSpec("mode", "b", "b_often"),
        AggregateSpec("product", "d", "p"),
        AggregateSpec("variance", "d", "v", 1),
    )
    spec = WindowAggregate((), 100, 100, specs, True)
    (row,) = assert_cut_invariant(spec, [run], [schema]).events.to_pylist()
    assert row == {
        "_vs": 0,
        "_ve": 100,
        "q": 0.5,
        "top": [Decimal("1.00"), Decimal("0.75")],
        "n": 2,
        "often": Decimal("0.00"),
        "b_often": True,
        "p": 0.0,
        "v": 0.15625,
    }


def test_one_function_with_two_arguments_has_two_lanes() -> None:
    specs = (AggregateSpec("quantile", "x", "a", 0.5), AggregateSpec("quantile", "x", "b", 0.9))
    assert len(lanes_of(specs, PAYLOAD)) == 2
