"""Sessions, count windows and snapshots: any cuts, equal to a naive evaluation, worked tables.

Not covered: a mistake that needs more than a few dozen rows; ``test_many_keys_are_forgotten`` and
``test_a_large_batch_equals_small_ones`` have more rows.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VS, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.aggregates.user_defined import Custom
from rvertex.errors import InvalidWindowError, OperatorTypeError, UnknownColumnError
from rvertex.events.run import Run
from rvertex.operators.windows.count import CountWindowAggregate
from rvertex.operators.windows.session import SessionAggregate
from rvertex.operators.windows.snapshots.window import SnapshotAggregate
from tests.support import naive_windows as naive
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run, table_of
from tests.support.cut_runs import run_cut
from tests.support.exact import assert_same_items
from tests.support.operator_harness import assert_cut_invariant, items_of
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.operators.protocol import OperatorSpec

AGGREGATES = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("sum", "x", "x_total"),
    AggregateSpec("first", "s", "s_first"),
    AggregateSpec("last", "n", "n_last"),
    AggregateSpec("max", "s", "s_max"),
    AggregateSpec("variance", "x", "x_var", 1),
    AggregateSpec("top_k", "n", "n_top", 2),
    AggregateSpec("quantile", "n", "n_third", 1 / 3),
)
TWO = (AggregateSpec("count", None, "n"), AggregateSpec("sum", "x", "total"))
SMALL = pa.schema([("k", pa.int64()), ("x", pa.float64())])
KEYS = st.sampled_from([(), ("k",), ("s", "k"), ("x",)])


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def _assert_naive(
    spec: SessionAggregate | CountWindowAggregate | SnapshotAggregate,
    run: Run,
    out: Run,
    windows: Callable[[Any], list[naive.Seen]],
) -> None:
    rows = run.events.to_pylist()
    found = [{n: _comparable(v) for n, v in r.items()} for r in out.events.to_pylist()]
    expected = [
        {n: _comparable(v) for n, v in r.items()}
        for r in naive.results(rows, spec.keys, spec.aggregates, windows)
    ]
    assert found == expected[: len(found)]
    assert out.ctis.tolist() == naive.ctis(rows, spec.keys, run.ctis.tolist(), windows)
    promised = int(out.ctis[-1]) if len(out.ctis) else MIN_TIME
    assert len(found) >= sum(row[VS] < promised for row in expected)


@examples(6)
@given(
    run=runs(duration_max=9, max_size=12),
    cuts=splits(),
    keys=KEYS,
    gap=st.integers(1, 12),
    longest=st.none() | st.integers(1, 25),
)
def test_sessions_equal_the_naive_rows(
    run: Run, cuts: list[int], keys: tuple[str, ...], gap: int, longest: int | None
) -> None:
    spec = SessionAggregate(keys, gap, longest, AGGREGATES)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    _assert_naive(spec, run, out, partial(naive.sessions, gap=gap, longest=longest))


@examples(5)
@given(run=runs(duration_max=9, max_size=12), cuts=splits(), keys=KEYS, n=st.integers(1, 4))
def test_count_windows_equal_the_naive_rows(
    run: Run, cuts: list[int], keys: tuple[str, ...], n: int
) -> None:
    spec = CountWindowAggregate(keys, n, AGGREGATES)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    _assert_naive(spec, run, out, partial(naive.counts, n=n))


@examples(6)
@given(run=runs(duration_max=20, max_size=12), cuts=splits(), keys=KEYS)
def test_snapshots_equal_the_naive_rows(run: Run, cuts: list[int], keys: tuple[str, ...]) -> None:
    spec = SnapshotAggregate(keys, AGGREGATES)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    _assert_naive(spec, run, out, naive.snapshots)


@examples(6)
@given(run=runs(duration_max=1, max_size=12), cuts=splits(), keys=KEYS)
def test_snapshots_of_points_equal_the_naive_rows(
    run: Run, cuts: list[int], keys: tuple[str, ...]
) -> None:
    ends = pa.array(int64_column(run.events, VS) + 1)
    run = Run(run.events.set_column(1, run.events.schema.field(1), ends), run.ctis)
    out = assert_cut_invariant(SnapshotAggregate(keys, AGGREGATES, True), [run], [PAYLOAD], cuts)
    _assert_naive(SnapshotAggregate(keys, AGGREGATES), run, out, naive.snapshots)


def test_sessions_return_the_rows_computed_by_hand() -> None:
    items = [ev(0, x=1.0), ev(4, x=2.0), ev(8, 15, x=4.0), ev(12, x=8.0), ev(19, x=16.0)]
    run = make_run([*items, cti(5), cti(13), cti(24)], SMALL)
    out = assert_cut_invariant(SessionAggregate((), 5, 12, TWO), [run], [SMALL])
    assert table_of(out) == [
        cti(0),
        ev(0, 12, n=3, total=7.0),
        cti(12),
        ev(12, 19, n=1, total=8.0),
        ev(19, 24, n=1, total=16.0),
        cti(24),
    ]


def test_a_worked_count_window() -> None:
    items = [ev(1, x=1.0), ev(3, 9, x=2.0), ev(3, x=4.0), ev(7, x=8.0), ev(8, x=16.0)]
    run = make_run([*items, cti(2), cti(4), cti(9), cti(INF_TIME)], SMALL)
    out = assert_cut_invariant(CountWindowAggregate((), 2, TWO), [run], [SMALL])
    assert table_of(out) == [
        cti(1),
        ev(1, 4, n=2, total=3.0),
        cti(3),
        ev(3, 8, n=2, total=12.0),
        cti(8),
        cti(INF_TIME),
    ]


def test_snapshot_windows_return_the_rows_computed_by_hand() -> None:
    items = [ev(0, 6, x=1.0), ev(2, 9, x=2.0), ev(6, 9, x=4.0), ev(12, 14, x=8.0)]
    run = make_run([*items, cti(2), cti(6), cti(9), cti(13), cti(14)], SMALL)
    out = assert_cut_invariant(SnapshotAggregate((), TWO), [run], [SMALL])
    assert table_of(out) == [
        cti(0),
        ev(0, 2, n=1, total=1.0),
        ev(2, 6, n=2, total=3.0),
        cti(6),
        ev(6, 9, n=2, total=6.0),
        cti(9),
        cti(12),
        ev(12, 14, n=1, total=8.0),
        cti(14),
    ]


def test_a_snapshot_includes_endless_events() -> None:
    run = make_run([ev(0, INF_TIME, x=1.0), ev(5, 6, x=2.0), cti(9), cti(INF_TIME)], SMALL)
    out = assert_cut_invariant(SnapshotAggregate((), TWO), [run], [SMALL])
    assert table_of(out) == [
        ev(0, 5, n=1, total=1.0),
        ev(5, 6, n=2, total=3.0),
        cti(6),
        ev(6, INF_TIME, n=1, total=1.0),
        cti(INF_TIME),
    ]


def _wide_run(rows: int, keys: int, length: int) -> Run:
    """Keys that appear and vanish; lifetimes of up to ``length``; some CTIs."""
    at = np.arange(rows)
    vs = at * 3
    ve = vs + 1 + (at * 7919) % length
    k = (at // 200) * keys + (at * 31) % keys
    x = np.where(at % 3 == 0, 1e16, 0.1) * ((at % 5) - 2)
    schema = pa.schema([("_vs", pa.int64()), ("_ve", pa.int64()), *SMALL])
    events = pa.RecordBatch.from_arrays([pa.array(c) for c in (vs, ve, k, x)], schema=schema)
    return Run(events, np.append(np.arange(0, rows * 3, 700), INF_TIME))


@pytest.mark.parametrize(
    "spec",
    [
        SessionAggregate(("k",), 40, 300, TWO),
        SessionAggregate((), 2, 100, TWO),
        CountWindowAggregate(("k",), 3, TWO),
        SnapshotAggregate(("k",), TWO),
        SnapshotAggregate((), TWO),
    ],
)
def test_a_large_batch_equals_small_ones(spec: OperatorSpec) -> None:
    """Many keys that are dropped, logs that are cut, output in several parts."""
    run = _wide_run(12_000, 40, 60)
    payload = spec.output_schema([SMALL])
    whole = items_of(run_cut(spec, [run], [SMALL], ()), payload)
    assert whole.num_rows > 500
    pieces = run_cut(spec, [run], [SMALL], range(0, 13_000, 137), restore=True)
    assert_same_items(items_of(pieces, payload), whole, "in pieces")


@pytest.mark.parametrize(
    "spec",
    [
        SessionAggregate(("k",), 4, None, TWO),
        CountWindowAggregate(("k",), 2, TWO),
        SnapshotAggregate(("k",), TWO),
    ],
)
def test_windows_with_equal_starts_are_ordered_by_key(spec: OperatorSpec) -> None:
    """More windows than one part of the output has, with keys in another order."""
    keys = [7, 3, 9, 1, 8, 0, 5, 2]
    events = [ev(t, t + 6, k=k, x=float(k)) for t in (0, 3, 30) for k in keys]
    run = make_run([*events, cti(60)], SMALL)
    out = assert_cut_invariant(spec, [run], [SMALL], range(0, 25, 5))
    found = [(row["_vs"], row["k"]) for row in out.events.to_pylist()]
    assert found == sorted(found)
    assert len(found) >= len(keys)


class Join:
    """A user aggregate: the values in order, nulls as a dash."""

    type = pa.string()

    def init(self) -> list[str]:
        return []

    def add(self, state: list[str], values: pa.Array) -> list[str]:
        return [*state, *("-" if v is None else v for v in values.to_pylist())]

    def result(self, state: list[str]) -> str:
        return "".join(state)


def test_a_user_aggregate_gets_its_values_in_order() -> None:
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    items = [ev(i, k=i % 2, s="abc-e"[i] if i != 3 else None) for i in range(5)]
    run = make_run([*items, cti(INF_TIME)], schema)
    spec = SessionAggregate(
        ("k",), 5, None, (AggregateSpec("user", "s", "u", Custom("join", Join())),)
    )
    out = assert_cut_invariant(spec, [run], [schema], [2])
    assert out.events.column("u").to_pylist() == ["ace", "b-"]


def test_wrong_windows_and_columns_are_errors() -> None:
    with pytest.raises(InvalidWindowError, match="gap must be at least 1"):
        SessionAggregate((), 0, None, TWO)
    with pytest.raises(InvalidWindowError, match="it needs at least one"):
        CountWindowAggregate((), 0, TWO)
    with pytest.raises(UnknownColumnError):
        SnapshotAggregate(("nope",), TWO).output_schema([SMALL])
    for function in ("variance", "quantile", "product"):
        spec = SnapshotAggregate((), (AggregateSpec(function, "s", "o", 1),))
        with pytest.raises(OperatorTypeError, match="column 's' is string"):
            spec.output_schema([PAYLOAD])
