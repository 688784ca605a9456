"""Running aggregates: any cuts, equal to snapshot windows over events that never end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VE, VS, event_schema, int64_column
from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.events.run import Run
from rvertex.operators.windows.running.aggregate import (
    RunningAggregate,
    RunningSessionAggregate,
)
from rvertex.operators.windows.snapshots.window import SnapshotAggregate
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run, table_of
from tests.support.divided import assert_divisible
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from collections.abc import Sequence

AGGREGATES = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("count", "n", "values"),
    AggregateSpec("sum", "n", "total"),
    AggregateSpec("sum", "x", "x_total"),
    AggregateSpec("mean", "x", "x_mean"),
    AggregateSpec("first", "s", "s_first"),
    AggregateSpec("last", "n", "n_last"),
    AggregateSpec("min", "x", "x_min"),
    AggregateSpec("max", "s", "s_max"),
    AggregateSpec("variance", "x", "x_var", 1),
    AggregateSpec("top_k", "n", "n_top", 2),
    AggregateSpec("count_distinct", "n", "n_distinct"),
    AggregateSpec("count_distinct", "x", "x_distinct"),
    AggregateSpec("count_distinct", "s", "s_distinct"),
)
ONE = pa.schema([("k", pa.int64()), ("x", pa.float64())])


def endless(run: Run) -> Run:
    """The same events without an end."""
    columns = list(run.events.columns)
    at = run.events.schema.get_field_index(VE)
    columns[at] = pa.array(np.full(run.events.num_rows, INF_TIME))
    return Run(pa.RecordBatch.from_arrays(columns, schema=run.events.schema), run.ctis)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)
    return bool(a == b)


@examples(12)
@given(
    run=runs(max_size=14),
    cuts=splits(),
    keys=st.sampled_from([(), ("k",), ("s", "k")]),
    some=st.integers(1, len(AGGREGATES)),
)
def test_running_aggregates_equal_snapshot_windows(
    run: Run, cuts: list[int], keys: Sequence[str], some: int
) -> None:
    run = endless(run)
    aggregates = AGGREGATES[:some] if some > 1 else AGGREGATES[-1:]
    spec = RunningAggregate(tuple(keys), aggregates)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    expected = SnapshotAggregate(tuple(keys), aggregates).open([PAYLOAD]).process([run])
    assert out.ctis.tolist() == expected.ctis.tolist()
    assert out.events.schema == expected.events.schema
    found, wanted = out.events.to_pylist(), expected.events.to_pylist()
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert all(same(one[name], other[name]) for name in other), (one, other)


def test_a_variance_that_overflows_is_infinite_in_one_batch_or_several() -> None:
    events = [ev(t, INF_TIME, k=1, x=x) for t, x in ((0, 0.1), (0, 0.1), (1, 1e308))]
    run = make_run([*events, cti(INF_TIME)], ONE)
    for kind in (RunningAggregate, SnapshotAggregate):
        spec = kind((), (AggregateSpec("variance", "x", "wild", 1),))
        assert spec.open([ONE]).process([run]).events.column("wild").to_pylist() == [0.0, math.inf]


def test_running_aggregates_equal_the_values_computed_by_hand() -> None:
    items = [ev(1, 2, k=1, x=3.0), ev(2, 9, k=2, x=7.0), ev(4, 5, k=1, x=1.0), ev(4, 6, k=1, x=1.0)]
    spec = RunningAggregate(("k",), (AggregateSpec("sum", "x", "total"),))
    run = make_run([*items, cti(INF_TIME)], ONE)
    assert table_of(assert_cut_invariant(spec, [run], [ONE])) == [
        ev(1, 4, k=1, total=3.0),
        ev(2, INF_TIME, k=2, total=7.0),
        ev(4, INF_TIME, k=1, total=5.0),
        cti(INF_TIME),
    ]


def test_a_result_waits_for_all_rows_that_start_at_its_end() -> None:
    """A result waits until all rows that start at its end have arrived."""
    events = [ev(t, k=1, x=1.0) for t in (1, 4, 9)]
    run = endless(make_run([*events, *(cti(t) for t in (4, 5, 9, 10))], ONE))
    spec = RunningAggregate(("k",), AGGREGATES[:1])
    out = assert_cut_invariant(spec, [run], [ONE], [2, 4])
    assert out.ctis.tolist() == [1, 4, 9]


def test_open_results_delay_those_that_start_later() -> None:
    items = [ev(1, 2, k=1, x=3.0), ev(2, 9, k=2, x=7.0), cti(3), ev(4, 5, k=2, x=1.0), cti(9)]
    spec = RunningAggregate(("k",), (AggregateSpec("count", None, "n"),))
    assert table_of(assert_cut_invariant(spec, [make_run(items, ONE)], [ONE])) == [cti(1)]


def test_the_cost_of_a_step_follows_the_new_rows() -> None:
    """Ten times the steps take about ten times the merges, regardless of the state."""
    spec = RunningAggregate((), (AggregateSpec("count", None, "n"),))
    operator = spec.open([ONE])
    for start in range(0, 4_000, 400):
        run = make_run([ev(t, t + 1, k=1, x=0.0) for t in range(start, start + 400)], ONE)
        operator.process([run])
        state = operator.snapshot()
        carried = state.tables["carried0"].num_rows
        assert carried <= 2 + start // 400 + 1
    final = operator.process([make_run([cti(INF_TIME)], ONE)])
    assert int64_column(final.events, VS).tolist() == [3_998, 3_999]
    assert final.events.column("n").to_pylist() == [3_999, 4_000]


@pytest.mark.parametrize("kind", ["endless", "sessions"])
def test_the_state_is_divided_by_key(kind: str) -> None:
    """Totals and distinct values continue in the vertex that gets the key."""
    aggregates = (
        AggregateSpec("sum", "n", "total"),
        AggregateSpec("count_distinct", "n", "values"),
    )
    spec: Any = RunningAggregate(("k",), aggregates)
    if kind == "sessions":
        spec = RunningSessionAggregate(("k",), 40, None, aggregates)
    payload = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    for seed in range(6):
        draw = np.random.default_rng(seed)
        vs = np.sort(draw.integers(0, 200, 60))
        columns = [vs, vs + 1, draw.integers(0, 9, 60), draw.integers(0, 4, 60)]
        rows = pa.RecordBatch.from_arrays(
            [pa.array(c) for c in columns], schema=event_schema(payload)
        )
        assert_divisible(spec, [Run(rows, np.array([50, 120]))], [payload])
