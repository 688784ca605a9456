"""Variances, distinct values and top values over shared panes and in two phases.

Not covered: lost precision for values of very different size (test_holistic.py compares with
fractions).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VS
from rstream.types import INF_TIME
from rvertex.aggregates.distinct import _fold_equal
from rvertex.aggregates.mergeable import MOMENTS, MergedMoments, Top
from rvertex.aggregates.spec import AggregateSpec, lanes_in, lanes_of
from rvertex.events.run import Run
from rvertex.operators.windows.hopping import WindowAggregate
from tests.support import naive
from tests.support.budget import examples
from tests.support.exact import assert_same_items
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

SPECS = (
    AggregateSpec("variance", "n", "var", 1),
    AggregateSpec("stddev", "n", "dev", 0),
    AggregateSpec("variance", "x", "wild", 1),
    AggregateSpec("count_distinct", "x", "x_kinds"),
    AggregateSpec("count_distinct", "s", "s_kinds"),
    AggregateSpec("top_k", "x", "x_top", 2),
    AggregateSpec("top_k", "s", "s_top", 3),
)
EXACT = ("x_kinds", "s_kinds", "x_top", "s_top")


def ended(run: Run) -> Run:
    return Run(run.events, np.append(run.ctis[run.ctis < INF_TIME], INF_TIME))


def comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [comparable(v) for v in value]
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def near(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)


@pytest.fixture(params=[2, 1 << 16], ids=lambda n: f"shrinking at {n}")
def _shrinking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rvertex.aggregates.mergeable._SHRINK_MIN", request.param)
    monkeypatch.setattr("rvertex.aggregates.distinct._PIECE_MAX_ROWS", request.param)


@examples(3)
@given(
    run=runs(),
    cuts=splits(),
    keys=st.sampled_from([(), ("k",)]),
    window=st.sampled_from([(6, 6), (12, 3), (7, 3), (3, 5)]),
)
@pytest.mark.usefixtures("_shrinking")
def test_aggregates_over_shared_panes(
    run: Run, cuts: list[int], keys: tuple[str, ...], window: tuple[int, int]
) -> None:
    run = ended(run)
    spec = WindowAggregate(keys, *window, SPECS, points=True)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    rows = run.events.to_pylist()
    for found in out.events.to_pylist():
        members = [
            row
            for row in rows
            if found[VS] <= row[VS] < found[VS] + window[0]
            and all(row[key] == found[key] for key in keys)
        ]
        for a in SPECS:
            want = naive.aggregate(a.function, a.column, members, argument=a.argument)
            if a.output in EXACT:
                assert comparable(found[a.output]) == comparable(want)
            elif a.output != "wild":
                assert found[a.output] == near(want)


@examples(10)
@given(run=runs(), window=st.sampled_from([(6, 6), (12, 3)]), split=st.integers(1, 3))
def test_two_phases_return_the_items_of_one_phase(
    run: Run, window: tuple[int, int], split: int
) -> None:
    """Partial results of rows that are distributed to several first phases."""
    run = ended(run)
    spec = WindowAggregate(("k",), *window, SPECS, points=True)
    whole = spec.open([PAYLOAD]).process([run]).events
    partial, final = spec.phases
    schema = partial.output_schema([PAYLOAD])
    parts = [
        partial.open([PAYLOAD]).process(
            [Run(run.events.take(np.arange(i, run.events.num_rows, split)), run.ctis)]
        )
        for i in range(split)
    ]
    rows = pa.concat_batches([part.events for part in parts])
    order = np.argsort(rows.column(VS).to_numpy(), kind="stable")
    merged = final.open([schema]).process([Run(rows.take(pa.array(order)), parts[0].ctis)]).events
    names = [VS, "k", *EXACT]
    if split == 1:
        assert_same_items(merged, whole, "one first phase")
    for mine, other in zip(merged.to_pylist(), whole.to_pylist(), strict=True):
        assert [comparable(mine[n]) for n in names] == [comparable(other[n]) for n in names]
        assert mine["var"] == near(other["var"])


FILTERED = pa.schema([
    *PAYLOAD,
    *(pa.field(name, pa.float64()) for name in ("low", "high", "other", "none", "fifth")),
])  # fmt: skip
DISTINCT = tuple(
    AggregateSpec("count_distinct", column, f"{column}_kinds")
    for column in ("low", "s", "x", "high", "n", "other", "none", "fifth")
)


def with_filtered(run: Run) -> Run:
    """Two columns with ``x`` in some rows, one with other values, and one without values."""
    x, turn = run.events.column("x"), np.arange(run.events.num_rows) % 3
    low = pc.if_else(pa.array(turn == 0), x, None)
    high = pc.if_else(pa.array(turn > 0), x, None)
    other = x.take(pa.array(np.arange(len(x))[::-1]))
    columns = [*run.events.columns, low, high, other, pa.nulls(len(x), pa.float64()), high]
    names = [*run.events.schema.names, *FILTERED.names[len(PAYLOAD) :]]
    return Run(pa.RecordBatch.from_arrays(columns, names=names), run.ctis)


@examples(3)
@given(run=runs(), cuts=splits(), window=st.sampled_from([(6, 6), (12, 3), (7, 3)]))
@pytest.mark.usefixtures("_shrinking")
def test_distinct_values_of_columns_in_one_lane(
    run: Run, cuts: list[int], window: tuple[int, int]
) -> None:
    """Columns that share a lane have right distinct counts, in one phase and in two."""
    run = with_filtered(ended(run))
    gathered = (*DISTINCT, AggregateSpec("quantile", "n", "q", 0.5))
    spec = WindowAggregate(("k",), *window, DISTINCT, points=True)
    out = assert_cut_invariant(spec, [run], [FILTERED], cuts).events
    at_once = WindowAggregate(("k",), *window, gathered, points=True).open([FILTERED])
    assert at_once.process([run]).events.drop_columns(["q"]).equals(out)
    rows = run.events.to_pylist()
    for found in out.to_pylist():
        members = [
            row
            for row in rows
            if found[VS] <= row[VS] < found[VS] + window[0] and row["k"] == found["k"]
        ]
        for a in DISTINCT:
            assert found[a.output] == naive.aggregate(a.function, a.column, members)


def test_distinct_values_of_one_type_share_a_lane() -> None:
    lanes = lanes_of(DISTINCT, FILTERED)
    assert [(lane.column, lane.others) for lane in lanes] == [
        ("low", ("x", "high", "other")),
        ("s", ()),
        ("n", ()),
        ("none", ("fifth",)),
    ]
    partial = pa.schema([field for lane in lanes for field in lane.fields])
    assert lanes_in(DISTINCT, partial) == lanes


def test_variance_and_deviation_share_a_lane() -> None:
    lanes = lanes_of(SPECS, PAYLOAD)
    assert [lane.name for lane in lanes] == [
        "@moments(n)",
        "@moments(x)",
        "@distinct(x)",
        "@distinct(s)",
        "@top_k(x; 2)",
        "@top_k(s; 3)",
    ]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_nan_is_greatest_among_the_top_values(kind: pa.DataType) -> None:
    """NaN is the greatest value of ``top_k``, at any position and in merged results."""
    nan = float("nan")
    groups = [[1.0, nan, 3.0, nan, 5.0], [nan, 2.0, 9.0], [4.0], []]
    expected = [["nan", "nan"], ["nan", 9.0], [4.0], None]
    codes = np.repeat(np.arange(4), [len(group) for group in groups])
    values = pa.array([v for group in groups for v in group], kind)
    top = Top("x", kind, 2, merges=False)
    found = top.made(codes, values, 4).to_pylist()
    assert [v and [comparable(w) for w in v] for v in found] == expected
    kept = top.made(*top.shrink(codes[::-1], values[::-1]), 4).to_pylist()
    assert [v and [comparable(w) for w in v] for v in kept] == expected


def test_the_mean_of_merged_moments_starts_with_the_first_part_that_has_values() -> None:
    """The sum of large values is infinite, so a part without values must not be the reference."""
    of = {"count": [0, 4, 4], "mean": [0.0, 1.7e308, 1.7e308], "squares": [0.0, 0.0, 0.0]}
    columns = [pa.array(values) for values in of.values()]
    parts = pa.StructArray.from_arrays(columns, fields=list(MOMENTS))
    found = MergedMoments("x", parts.type).made(np.zeros(3, np.int64), parts, 1)
    assert list(found[0].as_py().values()) == [8, 1.7e308, 0.0]


@pytest.mark.parametrize("piece_rows", [1, 2, 3, 100])
def test_a_value_that_continues_in_the_next_piece_keeps_all_column_bits(
    piece_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rvertex.aggregates.distinct._PIECE_MAX_ROWS", piece_rows)
    words = np.array([0b0001, 0b0010, 0b0101, 0b0110, 0b0110, 0b1001, 0b1001, 0b1010, 0b1101])
    kept = _fold_equal(words, 2)
    assert words[:kept].tolist() == [0b0011, 0b0111, 0b1011, 0b1101]
