"""Running results of sessions: any cuts, equal to a plain loop row by row.

Not covered: sums of doubles in another order, since these values lose no bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VS
from rstream.types import INF_TIME, MIN_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.errors import InvalidWindowError
from rvertex.operators.horizon import horizon_of, output_duration_of
from rvertex.operators.windows.running.aggregate import RunningSessionAggregate
from rvertex.operators.windows.session import SessionAggregate
from tests.rvertex.operators.windows.running.test_aggregate import AGGREGATES, ONE, same
from tests.support import naive_windows as naive
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run, table_of
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rvertex.events.run import Run
    from tests.support.builders import Item

COUNT = AGGREGATES[:1]


def expected(run: Run, spec: RunningSessionAggregate) -> tuple[list[dict[str, Any]], list[int]]:
    """Rows and CTIs by a plain loop."""
    rows = run.events.to_pylist()

    def windows(members: Any) -> list[naive.Seen]:
        return naive.running_sessions(members, spec.gap_us, spec.max_us)

    found = naive.results(rows, spec.keys, spec.aggregates, windows)
    return found, naive.ctis(rows, spec.keys, run.ctis.tolist(), windows)


@examples(12)
@given(
    run=runs(duration_max=9, max_size=14),
    cuts=splits(),
    keys=st.sampled_from([(), ("k",), ("s", "k")]),
    some=st.integers(1, len(AGGREGATES)),
    gap=st.integers(1, 12),
    longest=st.none() | st.integers(1, 25),
)
def test_running_sessions_row_by_row(
    run: Run, cuts: list[int], keys: Sequence[str], some: int, gap: int, longest: int | None
) -> None:
    aggregates = AGGREGATES[:some] if some > 1 else AGGREGATES[-1:]
    spec = RunningSessionAggregate(tuple(keys), gap, longest, aggregates)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    wanted, ctis = expected(run, spec)
    assert out.ctis.tolist() == ctis
    found = out.events.to_pylist()
    promised = ctis[-1] if ctis else MIN_TIME
    assert len(found) >= sum(row[VS] < promised for row in wanted)
    for one, other in zip(found, wanted[: len(found)], strict=True):
        assert all(same(one[name], other[name]) for name in other), (one, other)


def test_running_sessions_equal_the_rows_computed_by_hand() -> None:
    items: list[Item] = [ev(1, k=1, x=3.0), ev(4, k=1, x=1.0), ev(4, k=1, x=1.0), ev(5, k=2, x=7.0)]
    items = [*items, cti(6), ev(12, k=1, x=2.0), cti(13), cti(INF_TIME)]
    spec = RunningSessionAggregate(("k",), 5, None, AGGREGATES[:1])
    assert table_of(assert_cut_invariant(spec, [make_run(items, ONE)], [ONE])) == [
        ev(1, 4, k=1, rows=1),
        cti(4),
        ev(4, 9, k=1, rows=3),
        ev(5, 10, k=2, rows=1),
        cti(12),
        ev(12, 17, k=1, rows=1),
        cti(INF_TIME),
    ]


def test_a_session_counts_distinct_values_and_lasts_as_long_as_its_longest_event() -> None:
    """The longest of the events with the same start determines the session's end."""
    items: list[Item] = [ev(1, 2, k=1, x=3.0), ev(1, 9, k=1, x=3.0), cti(4), ev(4, k=1, x=3.0)]
    items = [*items, ev(12, k=1, x=5.0), cti(12), ev(12, k=1, x=3.0), cti(15), ev(16, k=1, x=5.0)]
    items = [*items, ev(30, 31, k=1, x=3.0), ev(30, 35, k=1, x=3.0), cti(INF_TIME)]
    distinct = AggregateSpec("count_distinct", "x", "kinds")
    spec = RunningSessionAggregate(("k",), 5, None, (*COUNT, distinct))
    assert table_of(assert_cut_invariant(spec, [make_run(items, ONE)], [ONE], [2, 4, 6])) == [
        cti(1),
        ev(1, 4, k=1, rows=2, kinds=1),
        cti(4),
        ev(4, 12, k=1, rows=3, kinds=1),
        cti(12),
        ev(12, 16, k=1, rows=5, kinds=2),
        ev(16, 21, k=1, rows=6, kinds=2),
        ev(30, 39, k=1, rows=2, kinds=1),
        cti(INF_TIME),
    ]


def test_an_open_session_delays_results_by_its_gap_at_most() -> None:
    """An endless session is emitted as it grows, as are all sessions beside it."""
    items: list[Item] = [item for t in range(0, 100, 2) for item in (ev(t, k=1, x=0.0), cti(t + 1))]
    items[5:5] = [ev(4, k=2, x=0.0)]
    spec = RunningSessionAggregate(("k",), 3, None, COUNT)
    out = spec.open([ONE]).process([make_run(items, ONE)])
    assert int(out.ctis[-1]) == 98
    assert out.events.num_rows == 50
    whole = SessionAggregate(("k",), 3, None, COUNT).open([ONE]).process([make_run(items, ONE)])
    assert int(whole.ctis[-1]) == 0
    assert whole.events.num_rows == 0


@pytest.mark.slow
@pytest.mark.parametrize("keys", [(), ("k",)])
def test_the_state_does_not_grow_with_ended_sessions(keys: tuple[str, ...]) -> None:
    """The state grows neither with silent keys nor with values of closed sessions."""
    distinct = AggregateSpec("count_distinct", "x", "x_distinct")
    operator = RunningSessionAggregate(keys, 5, None, (*COUNT, distinct)).open([ONE])
    sizes = []
    for piece in range(12):
        times = range(piece * 20_000, (piece + 1) * 20_000, 20)
        run = make_run([ev(t, k=t, x=float(t)) for t in times] + [cti(times[-1] + 1)], ONE)
        operator.process([run])
        state = operator.snapshot()
        sizes.append(max(table.num_rows for table in state.tables.values()))
    assert max(sizes) < 2_100, "of 12,000 events"


def test_lengths_of_sessions() -> None:
    assert horizon_of(RunningSessionAggregate((), 5, 12, COUNT), (1,)) is None
    assert output_duration_of(RunningSessionAggregate((), 5, None, COUNT), (1,)) == 5
    assert output_duration_of(RunningSessionAggregate((), 5, 12, COUNT), (9,)) == 12
    assert output_duration_of(RunningSessionAggregate((), 5, None, COUNT), (None,)) is None
    with pytest.raises(InvalidWindowError):
        RunningSessionAggregate((), 0, None, COUNT)
