"""Frames of rows: any cuts, equal to Python loops over the rows of each frame."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VS
from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.errors import OperatorTypeError
from rvertex.operators.windows.running.frames import FrameAggregate
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run, table_of
from tests.support.operator_harness import assert_cut_invariant, assert_horizon
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from rvertex.events.run import Run

ONE = pa.schema([("k", pa.int64()), ("x", pa.float64())])
RUNNING = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("sum", "n", "total"),
    AggregateSpec("sum", "x", "x_total"),
    AggregateSpec("first", "s", "s_first"),
    AggregateSpec("last", "n", "n_last"),
    AggregateSpec("max", "s", "s_max"),
    AggregateSpec("count_distinct", "n", "n_distinct"),
)
ALL = (
    *RUNNING,
    AggregateSpec("quantile", "n", "n_half", 0.5),
    AggregateSpec("array_agg", "s", "s_all"),
)


def frames_of(run: Run, spec: FrameAggregate) -> list[list[dict[str, Any]]]:
    """The rows of each row's frame, by loops."""
    rows = run.events.to_pylist()
    found = []
    for at, row in enumerate(rows):
        peers = [r for r in enumerate(rows) if all(r[1][k] == row[k] for k in spec.keys)]
        if spec.rows:
            upto = [r for i, r in peers if i <= at]
            first = 0 if spec.first is None else max(0, len(upto) - 1 - spec.first)
            found.append(upto[first : max(0, len(upto) - spec.last)])
        else:
            end = row[VS] - spec.last
            start = -(2**62) if spec.first is None else row[VS] - spec.first
            found.append([r for _, r in peers if start <= r[VS] <= end])
    return found


@examples(15)
@given(
    run=runs(max_size=14, duration_max=6),
    cuts=splits(),
    keys=st.sampled_from([(), ("k",), ("s", "k")]),
    rows=st.booleans(),
    first=st.sampled_from([None, 0, 1, 2, 5, 70]),
    last=st.integers(0, 2),
)
def test_running_frames_equal_the_naive_rows(
    run: Run, cuts: list[int], keys: tuple[str, ...], rows: bool, first: int | None, last: int
) -> None:
    aggregates = RUNNING if first is None else ALL
    spec = FrameAggregate(keys, rows, first, 0 if first is None else last, aggregates)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    seen = make_seen(run, out, spec)
    for row, frame in seen:
        assert row["rows"] == len(frame)
        numbers = [r["n"] for r in frame if r["n"] is not None]
        assert row["total"] == (sum(numbers) if numbers else None)
        assert row["n_distinct"] == len(set(numbers))
        assert row["s_first"] == (frame[0]["s"] if frame else None)
        assert row["n_last"] == (frame[-1]["n"] if frame else None)
        texts = [r["s"] for r in frame if r["s"] is not None]
        assert row["s_max"] == max(texts, default=None)
        if first is not None:
            assert row["s_all"] == ([r["s"] for r in frame] or None)


def make_seen(
    run: Run, out: Run, spec: FrameAggregate
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The output rows, each with its frame; they are the first input rows."""
    rows, came = out.events.to_pylist(), run.events.select(out.events.schema.names[:6])
    passed = out.events.select(came.schema.names).to_pylist()
    assert repr(passed) == repr(came.slice(0, len(rows)).to_pylist())
    if spec.rows or (len(run.ctis) and run.ctis[-1] == INF_TIME):
        assert len(rows) == came.num_rows
    return list(zip(rows, frames_of(run, spec), strict=False))


ROWS = [ev(1, 2, k=1, x=1.0), ev(3, 9, k=1, x=2.0), ev(3, 4, k=1, x=3.0), ev(6, 7, k=1, x=4.0)]


@pytest.mark.parametrize(
    ("rows", "first", "last", "totals"),
    [
        (True, 1, 0, [1.0, 3.0, 5.0, 7.0]),
        (True, 1, 1, [None, 1.0, 2.0, 3.0]),
        (True, None, 0, [1.0, 3.0, 6.0, 10.0]),
        (False, 2, 0, [1.0, 6.0, 6.0, 4.0]),
        (False, 5, 3, [None, None, None, 6.0]),
        (False, None, 0, [1.0, 6.0, 6.0, 10.0]),
    ],
)
def test_a_frame_has_the_totals_computed_by_hand(
    rows: bool, first: int | None, last: int, totals: list[float | None]
) -> None:
    spec = FrameAggregate(("k",), rows, first, last, (AggregateSpec("sum", "x", "total"),))
    run = make_run([*ROWS, cti(INF_TIME)], ONE)
    found = table_of(assert_cut_invariant(spec, [run], [ONE]))
    wanted = [
        ev(row.vs, row.ve, **row.payload, total=total)
        for row, total in zip(ROWS, totals, strict=True)
    ]
    assert found == [*wanted, cti(INF_TIME)]


def test_peers_have_equal_sort_columns() -> None:
    """0.0 equals -0.0, NaN equals NaN, null equals null; another key has its own peers."""
    sorted_by = [-0.0, 0.0, 1.0, math.nan, -math.nan, None, None]
    counts = [2, 2, 3, 5, 5, 7, 7]
    rows = [ev(3, 4, k=k, x=x) for x in sorted_by for k in (1, 2)]
    run = make_run([*rows, ev(4, 5, k=1, x=0.0), cti(INF_TIME)], ONE)
    count = (AggregateSpec("count", None, "n"),)
    spec = FrameAggregate(("k",), False, None, 0, count, peers=("x",))
    found = assert_cut_invariant(spec, [run], [ONE]).events.column("n").to_pylist()
    assert found == [n for n in counts for _ in (1, 2)] + [8]


def test_frames_of_rows_are_known_at_once_and_frames_of_time_after_their_peers() -> None:
    count = (AggregateSpec("count", None, "n"),)
    run = make_run(ROWS[:2], ONE)
    at_once = FrameAggregate(("k",), True, 3, 0, count).open([ONE]).process([run])
    assert at_once.events.column("n").to_pylist() == [1, 2]
    later = FrameAggregate(("k",), False, 3, 0, count).open([ONE]).process([run])
    assert later.events.column("n").to_pylist() == [1]


def test_rows_outside_of_all_frames_are_forgotten() -> None:
    count = (AggregateSpec("count", None, "n"),)
    of_time = FrameAggregate(("k",), False, 10, 0, count).open([ONE])
    of_rows = FrameAggregate(("k",), True, 2, 0, count).open([ONE])
    for start in range(0, 40_000, 1_000):
        run = make_run([ev(t, t + 1, k=t % 7, x=0.0) for t in range(start, start + 1_000)], ONE)
        assert of_rows.process([run]).events.num_rows == 1_000
        of_time.process([run])
    for operator in (of_time, of_rows):
        assert operator.snapshot().tables["held"].num_rows < 4_000


def test_the_horizon_is_the_start_of_a_frame() -> None:
    rows = [ev(t, k=1, x=float(t)) for t in range(0, 30, 2)]
    run = make_run([*rows, *(cti(t) for t in range(1, 30, 3))], ONE)
    spec = FrameAggregate(("k",), False, 9, 6, (AggregateSpec("sum", "x", "total"),))
    assert spec.horizon_us((1,)) == 9
    assert_horizon(spec, [run], [ONE], 9, range(4, 24, 3))
    assert FrameAggregate(("k",), True, 9, 6, spec.aggregates).horizon_us((1,)) is None


def test_impossible_frames_are_errors() -> None:
    whole = FrameAggregate(("k",), True, None, 0, (AggregateSpec("quantile", "x", "q", 0.5),))
    with pytest.raises(OperatorTypeError, match="needs a frame that has a beginning"):
        whole.open([ONE])
    taken = FrameAggregate(("k",), True, 1, 0, (AggregateSpec("count", None, "x"),))
    with pytest.raises(OperatorTypeError, match="the input has a column 'x' already"):
        taken.open([ONE])
