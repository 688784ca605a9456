"""Sessions in two phases: any cuts for each, and together equal to one phase.

Not covered: an error that all three share; ``test_data_windows.py`` compares one phase with the
naive evaluator, and random plans do so with both.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from planner import Stream, agg, col, session
from planner.physical.lower import lower
from rstream.items.batch import VE, VS, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.errors import SumOverflowError
from rvertex.events.run import Run
from rvertex.operators.windows.session import SessionAggregate
from rvertex.operators.windows.session_phases import FinalSession, PartialSession, pane_us
from rvertex.vertex.reorder import Reorder
from tests.rvertex.operators.windows.panes.test_unordered import (
    AGGREGATES as FREE,
    PAYLOAD as UNSORTED,
    ROWS,
    events as unsorted_events,
)
from tests.support.budget import examples, one_in
from tests.support.builders import Cti, Ev, cti, ev, make_run, table_of
from tests.support.cut_runs import run_cut
from tests.support.exact import assert_same_items
from tests.support.operator_harness import assert_cut_invariant, check_output, items_of
from tests.support.plan_runner import answer, sorted_rows
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rvertex.operators.protocol import Operator

COUNTED = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("sum", "n", "total"),
    AggregateSpec("min", "x", "low"),
    AggregateSpec("max", "s", "high"),
    AggregateSpec("count_distinct", "n", "kinds"),
)
TWO = (AggregateSpec("count", None, "n"), AggregateSpec("sum", "x", "total"))
SMALL = pa.schema([("k", pa.int64()), ("x", pa.int64())])


@examples(3)
@given(
    run=runs(duration_max=9, max_size=12),
    cuts=splits(),
    keys=st.sampled_from([(), ("k",), ("s", "k")]),
    gap=st.sampled_from([1, 7, 25, 60, 300]),
    vertices=st.integers(1, 3),
    is_paced=st.booleans(),
)
def test_two_phases_equal_one(
    run: Run, cuts: list[int], keys: tuple[str, ...], gap: int, vertices: int, is_paced: bool
) -> None:
    pane = pane_us(gap, is_paced=is_paced)
    partial, final = PartialSession(keys, pane, COUNTED), FinalSession(keys, gap, COUNTED)
    schema = partial.output_schema([PAYLOAD])
    at = np.arange(run.events.num_rows) % vertices
    parts = [
        assert_cut_invariant(
            partial, [Run(run.events.filter(pa.array(at == v)), run.ctis)], [PAYLOAD], cuts
        )
        for v in range(vertices)
    ]
    # As MERGE does: by start, on ties the first vertex first.
    rows = pa.Table.from_batches([part.events for part in parts]).combine_chunks()
    order = np.argsort(rows.column(VS).to_numpy(), kind="stable")
    merged = rows.take(pa.array(order)).to_batches()
    events = merged[0] if merged else parts[0].events
    out = assert_cut_invariant(final, [Run(events, parts[0].ctis)], [schema], cuts)
    whole = Run(run.events, np.append(run.ctis[run.ctis < INF_TIME], INF_TIME))
    (one,) = run_cut(SessionAggregate(keys, gap, None, COUNTED), [whole], [PAYLOAD], ())
    (two,) = run_cut(final, [Run(events, whole.ctis)], [schema], ())
    if len(run.ctis) and run.ctis[-1] == INF_TIME:
        assert_same_items(out.events, one.events, "all of it")
        assert_same_items(two.events, one.events, "with the CTIs of one phase")
    assert_same_items(out.events, one.events.slice(0, out.events.num_rows), "so far")


@examples(40)
@given(
    rows=ROWS,
    cuts=st.lists(st.integers(0, 39), max_size=6),
    keys=st.sampled_from([(), ("k",)]),
    pane=st.sampled_from([1, 3, 7, 40]),
    restore=st.booleans(),
)
def test_a_source_does_not_need_to_sort(
    rows: list[tuple[int, int | None, int | None]],
    cuts: list[int],
    keys: tuple[str, ...],
    pane: int,
    restore: bool,
) -> None:
    batch = unsorted_events(rows)
    ordered = PartialSession(keys, pane, FREE)
    assert ordered.is_order_free(UNSORTED)
    unordered = replace(ordered, any_order=True)
    payload = ordered.output_schema([UNSORTED])
    expected = _behind_a_source(ordered, batch, [], restore=False)
    found = _behind_a_source(unordered, batch, cuts, restore=restore)
    check_output(found, payload)
    assert_same_items(items_of(found, payload), items_of(expected, payload), f"cut at {cuts}")


def _behind_a_source(
    spec: PartialSession, rows: pa.RecordBatch, cuts: Sequence[int], *, restore: bool
) -> list[Run]:
    """The output after a source of these rows, up to each cut."""

    def opened() -> tuple[Reorder, Operator]:
        source = Reorder(
            UNSORTED, delay_us=6, late="adjust", cti_every_us=5, sorts=not spec.any_order
        )
        return source, spec.open([UNSORTED])

    source, operator = opened()
    found: list[Run] = []
    for lo, hi in itertools.pairwise([0, *sorted(c for c in cuts if c < len(rows)), len(rows)]):
        source.offer(lo, rows.slice(lo, hi - lo))
        if restore:
            states = source.snapshot(), operator.snapshot()
            source, operator = opened()
            source.load(states[0])
            operator.load(states[1])
        if (run := source.release()) is not None:
            found.append(operator.process([run]))
    source.end()
    if (run := source.release()) is not None:
        found.append(operator.process([run]))
    return found


def test_files_are_not_sorted_for_sessions(tmp_path: Path) -> None:
    at = np.arange(4_000)
    vs = at * 10 + (at * 7919) % 300
    table = pa.table({"vs": vs, "k": at * 31 % 17, "x": at % 5})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
    stream = Stream.from_parquet(str(tmp_path), vs="vs", delay=400, late="error", partitions=2)
    found = []
    for total in (agg.sum("x"), agg.sum(col("x") + 0.0)):
        query = stream.group_by("k").window(session(1_000)).agg(n=agg.count(), total=total)
        plan = lower(query.to_parquet(), root="r", cti_every=50)
        found.append(("not sorted" in str(plan.stages[0]), sorted_rows(answer(plan))))
    assert [is_unsorted for is_unsorted, _ in found] == [True, False]
    assert found[0][1] == found[1][1]
    assert sum(row["n"] for row in found[0][1]) == len(at)  # type: ignore[misc]


def test_panes_of_sessions_equal_the_rows_computed_by_hand() -> None:
    items: list[Ev | Cti] = [
        ev(0, k=1, x=1),
        ev(3, 9, k=2, x=2),
        ev(4, k=1, x=4),
        ev(11, k=2, x=8),
        cti(14),
        ev(16, k=1, x=16),
        cti(20),
        cti(29),
    ]
    spec = PartialSession(("k",), pane_us(100, is_paced=True), TWO)
    assert spec.pane_us == 10
    assert pane_us(100, is_paced=False) == 100
    out = assert_cut_invariant(spec, [make_run(items, SMALL)], [SMALL])
    lanes = [{"k": 1, "@count()": 2}, {"k": 2, "@count()": 1}, {"k": 2, "@count()": 1}]
    rows = out.events.to_pylist()
    assert [(r[VS], r[VE]) for r in rows] == [(0, 5), (3, 9), (11, 12), (16, 17)]
    assert [{n: r[n] for n in lanes[0]} for r in rows[:3]] == lanes
    assert [r["@sum(x)"] for r in rows] == [5, 2, 8, 16]
    assert out.ctis.tolist() == [10, 20]


@pytest.mark.parametrize("is_paced", [True, False])
@pytest.mark.parametrize("gap", one_in(2, [1, 10, 2**62, 2**40]))
def test_sessions_at_the_ends_of_the_time_axis(gap: int, is_paced: bool) -> None:
    low, high = MIN_TIME, INF_TIME - 1
    items: list[Ev | Cti] = [
        cti(low),
        ev(low, k=1, x=1),
        ev(low + 1, INF_TIME, k=2, x=2),
        cti(low + 3),
        ev(0, k=1, x=4),
        cti(5),
        ev(high, INF_TIME, k=3, x=8),
        cti(INF_TIME),
    ]
    run = make_run(items, SMALL)
    pane = pane_us(gap, is_paced=is_paced)
    partial, final = PartialSession(("k",), pane, TWO), FinalSession(("k",), gap, TWO)
    part = assert_cut_invariant(partial, [run], [SMALL])
    loose = assert_cut_invariant(replace(partial, any_order=True), [run], [SMALL])
    assert_same_items(loose.events, part.events, "in any order")
    assert loose.ctis.tolist() == part.ctis.tolist()
    assert part.ctis[0] == low
    assert part.ctis[-1] == INF_TIME
    out = assert_cut_invariant(final, [part], [partial.output_schema([SMALL])])
    (one,) = run_cut(SessionAggregate(("k",), gap, None, TWO), [run], [SMALL], ())
    assert_same_items(out.events, one.events, "ends of time")


@pytest.mark.parametrize("any_order", [False, True])
def test_a_large_batch_equals_small_ones(any_order: bool) -> None:
    rows = 8_000
    at = np.arange(rows)
    columns = [at * 3, at * 3 + 1 + at % 50, (at // 400) * 7 + (at * 31) % 11, at % 5]
    schema = pa.schema([(VS, pa.int64()), (VE, pa.int64()), *SMALL])
    events = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=schema)
    run = Run(events, np.append(np.arange(0, rows * 3, 700), INF_TIME))
    spec = PartialSession(("k",), 100, TWO, any_order=any_order)
    (whole,) = run_cut(spec, [run], [SMALL], ())
    assert 500 < whole.events.num_rows < rows // 2
    assert (np.diff(int64_column(whole.events, VS)) >= 0).all()
    for cuts, restore in (range(0, rows + 50, 137), True), ([100, 250, 6_000, 6_500], False):
        pieces = run_cut(spec, [run], [SMALL], cuts, restore=restore)
        joined = pa.concat_batches([piece.events for piece in pieces])
        assert_same_items(joined, whole.events, f"in pieces {cuts}")


def test_only_the_final_sums_must_fit() -> None:
    large = 2**62
    spec = PartialSession(("k",), 10, TWO, any_order=True)
    items: list[Ev | Cti] = [ev(t, k=1, x=x) for t, x in enumerate([large, large, -large, 5])]
    out = assert_cut_invariant(spec, [make_run([*items, cti(20)], SMALL)], [SMALL])
    assert out.events.column("@sum(x)").to_pylist() == [large + 5]
    two = assert_cut_invariant(spec, [make_run([*items[:2], cti(20)], SMALL)], [SMALL])
    assert two.events.column("@sum(x)").to_pylist() == [-(2**63)]
    assert two.events.column("@sum(x).carry").to_pylist() == [1]
    with pytest.raises(SumOverflowError, match="total: the sum of column 'x' does not fit"):
        run_cut(FinalSession(("k",), 10, TWO), [two], [spec.output_schema([SMALL])], ())


def test_a_session_waits_for_all_vertices() -> None:
    spec = FinalSession((), 50, TWO)
    names = ("@count()", "@sum(x)", "@sum(x).carry")
    schema = pa.schema([(name, pa.int64()) for name in names])
    parts = [
        {VS: 0, VE: 9, "@count()": 3, "@sum(x)": 3},
        {VS: 4, VE: 30, "@count()": 2, "@sum(x)": 5},
        {VS: 60, VE: 61, "@count()": 1, "@sum(x)": 7},
        {VS: 130, VE: 131, "@count()": 1, "@sum(x)": 9},
    ]
    items = [ev(r.pop(VS), r.pop(VE), **r) for r in parts]
    run = make_run([*items[:3], cti(100), items[3], cti(INF_TIME)], schema)
    out = assert_cut_invariant(spec, [run], [schema])
    assert table_of(out) == [
        cti(0),
        ev(0, 110, n=6, total=15),
        ev(130, 180, n=1, total=9),
        cti(INF_TIME),
    ]
