"""The result of scanning all times, against the reorder buffer and a plain recomputation.

Not covered: a limit on the memory that a buffered row really needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VS, event_schema
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import LateRowError
from rvertex.events.run import Run, concat
from rvertex.sources import disorder
from rvertex.sources.disorder import (
    LATENESS_MAX_US,
    Disorder,
    TimesSoFar,
    UnitTimes,
    delay_needed,
    disorder_of,
    time_order,
)
from rvertex.vertex.reorder import Reorder
from tests.support.budget import examples

if TYPE_CHECKING:
    from rvertex.events.frontier import KnownFrontier

BLOCK_ROWS = 4
GRID = 3
PAYLOAD = pa.schema([("n", pa.int64())])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Always keep the bounds from later rows, which are usually dropped if they help little."""
    monkeypatch.setattr(disorder, "BLOCK_ROWS", BLOCK_ROWS)
    monkeypatch.setattr(disorder, "FEW_ROWS", 0)
    monkeypatch.setattr(disorder, "GAIN_MIN", 0.0)


units_of_times = st.lists(
    st.lists(st.integers(-20, 40), max_size=13)
    | st.lists(st.integers(-20, 40), max_size=13).map(sorted),
    min_size=1,
    max_size=5,
)
cuts = st.lists(st.integers(0, 6), min_size=1, max_size=20)


def looked_at(unit: list[int], sizes: list[int]) -> UnitTimes:
    """The times of a unit, in batches."""
    times, at = TimesSoFar(), 0
    for size in sizes:
        times.add(np.array(unit[at : at + size], np.int64))
        at += size
    times.add(np.array(unit[at:], np.int64))
    return times.all()


def lateness(vs: list[int]) -> int:
    return max((max(vs[: k + 1]) - time for k, time in enumerate(vs)), default=0)


def events(vs: list[int], first: int) -> pa.RecordBatch:
    columns = [pa.array(vs, pa.int64()), pa.array([t + 1 for t in vs], pa.int64())]
    numbers = pa.array(range(first, first + len(vs)), pa.int64())
    return pa.RecordBatch.from_arrays([*columns, numbers], schema=event_schema(PAYLOAD))


def reordered(
    vs: list[int], delay_us: int, known: KnownFrontier | None, sizes: list[int], *, restores: bool
) -> tuple[Run, int]:
    """The released rows, and the maximum number of buffered rows after a block."""

    def fresh() -> Reorder:
        return Reorder(PAYLOAD, delay_us=delay_us, late="error", cti_every_us=GRID, known=known)

    buffer, runs, waiting, at, k, left = fresh(), list[Run](), 0, 0, 0, 0
    while at < len(vs):  # ends: every other turn has a row
        size = sizes[k % len(sizes)] if k % 2 else 1
        piece = vs[at : at + size]
        assert buffer.offer(at, events(piece, at)) is None
        at, k = at + len(piece), k + 1
        if restores and k % 3 == 0:
            state, buffer = buffer.snapshot(), fresh()
            buffer.load(state)
        buffer.check()
        run = buffer.release()
        runs += [run] if run is not None else []
        left = at - sum(r.events.num_rows for r in runs)
        waiting = max(waiting, left)
    buffer.end()
    last = buffer.release()
    assert last is not None
    for run in [*runs, last]:
        run.check()
    return concat([*runs, last]), waiting


@examples(50)
@given(units_of_times, cuts, cuts)
def test_no_row_is_late_and_all_are_emitted_in_order(
    units: list[list[int]], batches: list[int], sizes: list[int]
) -> None:
    times = [looked_at(unit, batches) for unit in units]
    order = time_order(times)
    assert [k for k in order if units[k]] == sorted(
        (k for k in range(len(units)) if units[k]), key=lambda k: min(units[k])
    )
    times = [times[k] for k in order]
    vs = [time for k in order for time in units[k]]
    delay_us = delay_needed(times)
    assert delay_us == lateness(vs)
    found = disorder_of(times, delay_us)
    run, _ = reordered(vs, delay_us, found.known, sizes, restores=False)
    assert run.events.column("n").to_pylist() == np.argsort(vs, kind="stable").tolist()
    again, waiting = reordered(vs, delay_us, found.known, [1], restores=True)
    assert again.events.equals(run.events)
    assert again.ctis.tolist() == run.ctis.tolist()
    assert waiting <= found.rows_waiting
    if delay_us:
        with pytest.raises(LateRowError):
            reordered(vs, delay_us - 1, None, sizes, restores=False)


@given(units_of_times)
def test_the_frontier_is_ahead_where_the_delay_would_be_too_short(units: list[list[int]]) -> None:
    times = [looked_at(unit, [5]) for unit in units]
    vs = [time for unit in units for time in unit]
    delay_us = delay_needed(times)
    ends = np.cumsum([min(BLOCK_ROWS, len(u) - at) for u in units for at in range(0, len(u), 4)])
    expected: dict[int, int] = {}
    for end in ends.tolist()[:-1]:
        to_come = min(vs[end:])
        if to_come > max([max(vs[:end]) - delay_us, *expected.values()]):
            expected[end] = to_come
    known = disorder_of(times, delay_us).known
    found = {} if known is None else dict(zip(*(e.tolist() for e in known.entries()), strict=True))
    assert found == expected


def test_one_very_late_row_delays_only_earlier_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disorder, "GAIN_MIN", 1.5)
    vs = list(range(100, 140))
    vs[21] = 0
    times = looked_at(vs, [7])
    found = disorder_of([times], delay_needed([times]))
    assert delay_needed([times]) == 120
    assert found.known is not None
    assert found.known.entries()[0].tolist() == [4, *range(24, 40, 4)]
    assert found.rows_waiting == 24


def test_rows_in_order_or_evenly_out_of_order_need_only_the_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disorder, "GAIN_MIN", 2.0)
    times = [looked_at(list(range(k, k + 9)), [2]) for k in (0, 8, 30)]
    assert disorder_of(times, delay_needed(times)) == Disorder(None, BLOCK_ROWS)
    assert disorder_of([looked_at([], [1])], 0) == Disorder(None, 0)
    evenly = [looked_at([k + 6 * (k % 2) for k in range(100)], [9])]
    assert disorder_of(evenly, delay_needed(evenly)).known is None


def test_times_at_the_ends_of_the_axis() -> None:
    apart = [looked_at([INF_TIME - 1, MIN_TIME + 1], [1])]
    assert delay_needed(apart) == LATENESS_MAX_US
    early = [looked_at([MIN_TIME + 5, MIN_TIME, MIN_TIME + 9], [2])]
    assert delay_needed(early) == 5
    run, _ = reordered([MIN_TIME + 5, MIN_TIME, MIN_TIME + 9], 5, None, [1], restores=True)
    assert run.events.column(VS).to_pylist() == [MIN_TIME, MIN_TIME + 5, MIN_TIME + 9]


def test_bad_rows_at_the_end_do_not_affect_the_end_of_time() -> None:
    times = TimesSoFar()
    vs = np.array([30, 1, 2, 3, 4, 5, 6, 7, *[0] * 8])
    times.add(vs, pa.array([False] * 8 + [True] * 8))
    unit = times.all()
    known = disorder_of([unit], delay_needed([unit])).known
    assert known is not None
    assert [a.tolist() for a in known.entries()] == [[4], [4]]


@examples(100)
@given(
    st.lists(st.tuples(st.integers(-20, 40), st.sampled_from([False, False, True])), max_size=13),
    cuts,
    st.booleans(),
)
def test_bad_rows_have_no_times_for_any_batch_boundaries(
    rows: list[tuple[int, bool]], sizes: list[int], tells_all: bool
) -> None:
    """``tells_all``: a batch without bad rows also marks each row as good."""
    times, at = TimesSoFar(), 0
    for size in [*sizes, len(rows)]:
        batch = rows[at : at + size]
        bad = [is_bad for _, is_bad in batch]
        told = pa.array(bad) if tells_all or any(bad) else None
        times.add(np.array([time for time, _ in batch], np.int64), told)
        at += size
    unit = times.all()
    blocks = [rows[k : k + BLOCK_ROWS] for k in range(0, len(rows), BLOCK_ROWS)]
    good = [[time for time, is_bad in block if not is_bad] for block in blocks]
    assert unit.least.tolist() == [min(block, default=INF_TIME) for block in good]
    assert unit.greatest.tolist() == [max(block, default=MIN_TIME) for block in good]
    assert unit.delay_us == lateness([time for block in good for time in block])
