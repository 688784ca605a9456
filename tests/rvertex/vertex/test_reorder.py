"""The reorder buffer against a per-row model, for any cuts and restores.

Not covered: times within one delay of the limits of int64, which are only spot-checked.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import KIND, VE, VS, event_schema, only_events
from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import LateRowError
from rvertex.events.delay_estimate import DelayEstimate, lateness
from rvertex.events.reorder_buffer import SortedRuns
from rvertex.events.run import concat
from rvertex.vertex import reorder
from rvertex.vertex.lateness_counts import LatenessCounts
from rvertex.vertex.reorder import FRONTIER, Reorder
from tests.support.budget import examples
from tests.support.builders import Cti, Ev, Item, cti, ev, make_items, table_of

if TYPE_CHECKING:
    from rvertex.operators.protocol import OperatorState
    from rvertex.sources.spec import LatePolicy

PAYLOAD = pa.schema([("n", pa.int64())])


@dataclass
class Twin:
    """The rule of reorder.py, row by row."""

    delay: int | DelayEstimate
    late: LatePolicy
    grid: int
    frontier: int = MIN_TIME
    max_vs: int = MIN_TIME
    last_cti: int = MIN_TIME
    events: list[Ev] = field(default_factory=list)
    ctis: list[int] = field(default_factory=list)
    dropped: int = 0
    adjusted: int = 0
    late_rows: list[int] = field(default_factory=list)
    #: The lateness of each row.
    lateness: list[int] = field(default_factory=list)
    #: Lateness of the counted rows: late ones, or all if the delay is estimated.
    counted: list[int] = field(default_factory=list)

    def row(self, number: int, item: Item, *, explicit: bool) -> None:
        if isinstance(item, Cti):
            self.frontier = max(self.frontier, item.time)
            self.emit(item.time)
            return
        vs, ve = item.vs, item.ve
        is_late = vs < self.frontier
        if is_late:
            self.late_rows.append(number)
            if self.late == "error":
                raise LateRowError(number, vs, self.frontier)
            if self.late == "drop":
                self.dropped += 1
            else:
                self.adjusted += 1
                vs = self.frontier
        if not is_late or self.late == "adjust":
            self.events.append(Ev(vs, max(ve, vs + 1), item.payload))
        if not explicit:
            delay = self.delay_now()
            self.lateness.append(max(self.max_vs - item.vs, 0))
            if is_late or not isinstance(self.delay, int):
                self.counted.append(self.lateness[-1])
            self.max_vs = max(self.max_vs, item.vs)
            self.frontier = max(self.max_vs - delay, self.frontier)
            if self.frontier >= MIN_TIME + self.grid:
                self.emit(self.frontier // self.grid * self.grid)

    def delay_now(self) -> int:
        """The delay that applies to the next row."""
        if isinstance(self.delay, int):
            return self.delay
        rows = self.delay.block_rows
        begun = len(self.lateness) // rows * rows
        window = sorted(self.lateness[max(0, begun - rows * self.delay.blocks_max) : begun])
        enough = (k for k in window if sum(x <= k for x in window) >= share(self, len(window)))
        return min(enough, default=INF_TIME - MIN_TIME)

    def emit(self, time: int) -> None:
        if time > self.last_cti:
            self.last_cti = time
            self.ctis.append(time)

    def output(self, *, ended: bool) -> list[Item]:
        if ended:
            self.emit(INF_TIME)
            self.frontier = INF_TIME
        left = sorted((e for e in self.events if e.vs <= self.frontier), key=lambda e: e.vs)
        keyed: list[tuple[int, int, Item]] = [(e.vs, 1, e) for e in left]
        keyed += [(t, 0, cti(t)) for t in self.ctis]
        return [item for _, _, item in sorted(keyed, key=lambda k: k[:2])]


def share(twin: Twin, rows: int) -> Fraction:
    """The number of ``rows`` that must be in time."""
    assert isinstance(twin.delay, DelayEstimate)
    return Fraction(str(twin.delay.quantile)) * rows


def events_of(items: list[Ev]) -> pa.RecordBatch:
    return only_events(make_items(items, PAYLOAD))


def through_bytes(state: OperatorState) -> OperatorState:
    again: OperatorState = pickle.loads(pickle.dumps(state))
    return again


estimates = st.builds(
    DelayEstimate,
    quantile=st.sampled_from([0.01, 0.5, 0.75, 0.99]),
    block_rows=st.integers(1, 5),
    blocks_max=st.integers(1, 3),
)


@st.composite
def sources(draw: st.DrawFn) -> tuple[list[Item], dict[str, Any], bool]:
    explicit = draw(st.booleans())
    times = st.integers(-20, 40)
    event = st.builds(lambda t, d: (t, d), times, st.integers(1, 9))
    row = st.one_of(event, event, times) if explicit else event
    items: list[Item] = [
        cti(r) if isinstance(r, int) else ev(r[0], r[0] + r[1], n=n)
        for n, r in enumerate(draw(st.lists(row, max_size=30)))
    ]
    options = {
        "delay_us": draw(st.one_of(st.sampled_from([0, 1, 5, 30]), estimates)),
        "late": draw(st.sampled_from(["drop", "adjust", "error"])),
        "cti_every_us": draw(st.sampled_from([1, 3, 10])),
    }
    return items, options, explicit


steps = st.lists(
    st.tuples(st.sampled_from(["offer", "offer", "release", "restore"]), st.integers(0, 6)),
    max_size=25,
)


@examples(62)
@given(sources(), steps, st.booleans())
def test_reorder_equals_its_per_row_model(
    case: tuple[list[Item], dict[str, Any], bool], steps: list[tuple[str, int]], ended: bool
) -> None:
    items, options, explicit = case
    twin = Twin(options["delay_us"], options["late"], options["cti_every_us"])
    reorder, released, late = Reorder(PAYLOAD, **options), [], 0
    refused: tuple[Any, ...] = ()
    stopped: tuple[Any, ...] = ()
    try:
        for number, item in enumerate(items):
            twin.row(number, item, explicit=explicit)
    except LateRowError as error:
        refused = error.args
    try:
        for step, rows in [*steps, ("offer", len(items))]:
            if step == "offer":
                at = reorder.consumed
                part = make_items(items[at : at + rows], PAYLOAD)
                given = part if explicit else part.drop_columns([KIND])
                rejected = reorder.offer(at, given)
                late += rejected.num_rows if rejected is not None else 0
            elif step == "release":
                released += [run] if (run := reorder.release()) else []
            else:
                again = Reorder(PAYLOAD, **options)
                again.load(through_bytes(reorder.snapshot()))
                reorder = again
            reorder.check()
    except LateRowError as error:
        stopped = error.args
    assert stopped == refused
    if stopped:
        return
    assert reorder.max_vs == max((i.vs for i in items if isinstance(i, Ev)), default=MIN_TIME)
    if ended:
        reorder.end()
        assert reorder.is_ended
    released += [run] if (run := reorder.release()) else []
    for run in released:
        run.check()
    got = table_of(concat(released)) if released else []
    assert got == twin.output(ended=ended)
    assert (reorder.late_dropped, reorder.late_adjusted) == (twin.dropped, twin.adjusted)
    assert late == len(twin.late_rows)
    counted = LatenessCounts().adding(np.array(twin.counted, np.int64))
    assert reorder.lateness.to_bytes() == counted.to_bytes()
    assert reorder.consumed == len(items)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.integers(1, 9)), max_size=30), steps
)
def test_a_stream_in_order_is_unchanged(
    rows: list[tuple[int, bool, int]], steps: list[tuple[str, int]]
) -> None:
    """A sorted stream passes unchanged, without waiting for CTIs."""
    ctis = {t for t, is_cti, _ in rows if is_cti}
    items: list[Item] = sorted(
        [
            *map(cti, ctis),
            *(ev(t, t + d, n=n) for n, (t, is_cti, d) in enumerate(rows) if not is_cti),
        ],
        key=lambda item: (item.time, 0) if isinstance(item, Cti) else (item.vs, 1),
    )
    options: dict[str, Any] = {"delay_us": 0, "late": "error", "cti_every_us": 7}
    reorder, released = Reorder(PAYLOAD, is_stream=True, **options), []
    for step, count in [*steps, ("offer", len(items)), ("release", 0)]:
        at = reorder.consumed
        if step == "offer":
            reorder.offer(at, make_items(items[at : at + count], PAYLOAD))
        elif step == "release":
            released += [run] if (run := reorder.release()) else []
            assert (table_of(concat(released)) if released else []) == items[:at]
        else:
            again = Reorder(PAYLOAD, is_stream=True, **options)
            again.load(through_bytes(reorder.snapshot()))
            reorder = again
        reorder.check()


def test_a_late_row_is_reported_with_both_times() -> None:
    reorder = Reorder(PAYLOAD, delay_us=5, late="error", cti_every_us=1)
    reorder.offer(0, events_of([ev(10, n=0), ev(20, n=1)]))
    with pytest.raises(
        LateRowError, match=r"row 3 \(counted from 0\) is late: its time 14.* before 15"
    ) as caught:
        reorder.offer(2, events_of([ev(15, n=2), ev(14, n=3)]))
    assert pickle.loads(pickle.dumps(caught.value)).args == (3, 14, 15)
    assert reorder.consumed == 2


def test_late_rows_are_returned_unchanged() -> None:
    reorder = Reorder(PAYLOAD, delay_us=0, late="adjust", cti_every_us=10)
    late = reorder.offer(0, events_of([ev(25, n=0), ev(3, 4, n=1), ev(26, n=2)]))
    assert late is not None
    assert late.to_pylist() == [{VS: 3, VE: 4, "n": 1, FRONTIER: 25}]
    run = reorder.release()
    assert run is not None
    assert table_of(run) == [cti(20), ev(25, 26, n=0), ev(25, 26, n=1), ev(26, n=2)]


@pytest.mark.parametrize("delay", [10, DelayEstimate(0.5, block_rows=2)])
def test_the_frontier_by_rows_is_known_beside_the_promised_one(delay: int | DelayEstimate) -> None:
    found = Reorder(PAYLOAD, delay_us=delay, late="drop", cti_every_us=1)
    assert found.rows_frontier == MIN_TIME
    found.offer(0, events_of([ev(100, n=0), ev(90, n=1), ev(120, n=2)]))
    by_rows = found.rows_frontier
    assert by_rows == found.frontier == (110 if delay == 10 else 120)
    found.advance(500)
    assert (found.frontier, found.rows_frontier) == (500, by_rows)
    found.offer(3, events_of([ev(200, n=3), ev(130, n=4)]))  # below the promised time
    assert found.frontier == 500
    assert by_rows < found.rows_frontier <= 200
    again = Reorder(PAYLOAD, delay_us=delay, late="drop", cti_every_us=1)
    again.load(found.snapshot())
    assert (again.frontier, again.rows_frontier) == (500, MIN_TIME)
    again.offer(5, events_of([ev(600, n=5)]))
    assert 500 < again.rows_frontier == again.frontier


def test_no_time_underflows() -> None:
    reorder = Reorder(PAYLOAD, delay_us=100, late="error", cti_every_us=7)
    reorder.offer(
        0, events_of([ev(MIN_TIME + 50, n=0), ev(MIN_TIME + 1, n=1), ev(MIN_TIME + 2, n=2)])
    )
    assert reorder.release() is None
    reorder.end()
    run = reorder.release()
    assert run is not None
    assert run.events.column("n").to_pylist() == [1, 2, 0]
    assert run.ctis.tolist() == [INF_TIME]


def test_end_is_idempotent_and_an_explicit_end_is_not_repeated() -> None:
    reorder = Reorder(PAYLOAD, delay_us=0, late="drop", cti_every_us=1)
    reorder.offer(0, make_items([ev(4, n=0), cti(INF_TIME)], PAYLOAD))
    reorder.end()
    reorder.end()
    run = reorder.release()
    assert run is not None
    assert run.ctis.tolist() == [INF_TIME]
    assert reorder.release() is None


@pytest.mark.parametrize("disorder", [0, 3, 50, 5_000])
def test_the_number_of_runs_is_small_for_any_disorder(disorder: int) -> None:
    rng = np.random.default_rng(4)
    rows = 3_000
    vs = np.arange(rows) + rng.integers(0, disorder + 1, rows)
    schema = event_schema(PAYLOAD)
    columns = [pa.array(vs), pa.array(vs + 1), pa.array(np.arange(rows))]
    everything = pa.RecordBatch.from_arrays(columns, schema=schema)
    buffer, taken = SortedRuns(schema), []
    for at in range(0, rows, 10):
        buffer.push(everything.slice(at, 10))
        assert buffer.runs <= (1 if disorder <= 3 else rows.bit_length())
        taken.append(buffer.take_below(int(vs[: at + 10].max()) - disorder))
    buffer.check()
    taken.append(buffer.take_below(INF_TIME))
    assert buffer.rows == 0
    got = pa.concat_batches(taken).column("n").to_numpy()
    assert np.array_equal(got, np.argsort(vs, kind="stable"))


def test_an_estimated_delay_is_what_most_rows_needed() -> None:
    """Every tenth row is 50 us late, one in a thousand 900 us: the 95th percentile is 50."""
    vs = np.arange(4_096) * 10
    vs[::10] -= 50
    vs[700] -= 900
    estimate = DelayEstimate(0.95)
    ahead = np.maximum.accumulate(np.concatenate([[MIN_TIME], vs[:-1]]))
    delays, _ = estimate.observe(lateness(vs, ahead))
    assert set(delays[:1_024].tolist()) == {INF_TIME}
    assert set(delays[1_024:].tolist()) == {40}


def test_a_lateness_beyond_int64_counts_as_the_longest() -> None:
    far = lateness(np.array([MIN_TIME, 5]), np.array([INF_TIME, 3]))
    assert far.tolist() == [INF_TIME - 1, 0]


def test_times_of_the_grid_equal_those_found_row_by_row() -> None:
    random = np.random.default_rng(3)
    for step, every in ((3, 1_000), (40, 7), (1, 1_000_000), (100_000, 1_000)):
        frontier = np.cumsum(random.integers(0, step, 500)) - 20_000
        found = reorder._on_grid(frontier, every)
        assert np.unique(found).tolist() == np.unique(frontier // every * every).tolist()
    assert len(reorder._on_grid(np.full(3, MIN_TIME), 10)) == 0
