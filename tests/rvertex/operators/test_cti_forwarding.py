"""CTIs that buffered rows delay are emitted after these rows: any cuts, restores and replays.

The expected items come from an evaluation item by item, which thins out CTIs by dividing times.

Not covered: an operator that emits a row before a CTI has reached its start.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VS, event_schema, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.events.reorder_buffer import empty_batch
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.cti_forwarding import ForwardCtis
from rvertex.operators.cti_hold import HELD_MAX, HeldCtis
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.left import LeftJoin
from rvertex.operators.lifetimes.clip import Clip
from rvertex.operators.lifetimes.stitch import Stitch
from rvertex.operators.user.transform import UserOperator
from rvertex.operators.windows.count import CountWindowAggregate
from rvertex.operators.windows.running.aggregate import RunningSessionAggregate
from rvertex.operators.windows.session import SessionAggregate
from rvertex.operators.windows.snapshots.window import SnapshotAggregate
from rvertex.user_code.code import UserCode
from tests.support.budget import examples
from tests.support.builders import Item, cti, ev, make_run, table_of
from tests.support.cut_runs import run_cut
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, ports, runs, splits, times

if TYPE_CHECKING:
    from collections.abc import Sequence

COUNT = (AggregateSpec("count", None, "n"),)
ONE = [
    SessionAggregate(("k",), 4, None, COUNT),
    SessionAggregate(("k",), 4, 9, COUNT),
    RunningSessionAggregate(("k",), 4, 9, COUNT),
    CountWindowAggregate(("k",), 2, COUNT),
    SnapshotAggregate(("k",), COUNT),
    Stitch(("k",)),
]
TWO = [
    Clip(("k",), ("k",)),
    AntiJoin(("k",), ("k",), (("k", "k"),)),
    LeftJoin(("k",), ("k",), (("left", "k", "k"), ("right", "x", "y"))),
]


def _is_of_use(time: int, after: int, last: int) -> bool:
    """Return whether a CTI still waits. ``after``: the next waiting CTI. ``last``: the last one."""
    width = 1
    while width < 2**63 and time // width != after // width:
        width *= 2
    block = min(256 * width, 2**63)
    return time // block == last // block


def _passing(spec: Any, inputs: list[Run], schemas: list[pa.Schema]) -> list[int]:
    """Return the waiting CTIs that the rows and CTIs have passed."""
    times = [(t, -1) for t in inputs[0].ctis.tolist()]
    times += [(t, p) for p, run in enumerate(inputs) for t in int64_column(run.events, VS).tolist()]
    waiting: list[int] = []
    passed: list[int] = []
    reached = MIN_TIME
    outputs = run_cut(spec, inputs, schemas, range(1, len(times)))
    for (time, port), out in zip(sorted(times), outputs[: len(times)], strict=True):
        waiting += [time] if port < 0 else []
        reached = max([reached, *int64_column(out.events, VS).tolist(), *out.ctis.tolist()])
        passed += [t for t in waiting if t <= reached]
        waiting = [t for t in waiting if t > reached]
        if port < 0 and waiting:
            pairs = itertools.pairwise(waiting)
            waiting = [*(t for t, n in pairs if _is_of_use(t, n, time)), waiting[-1]]
    return passed


def _assert_all_pass(spec: Any, inputs: list[Run], cuts: list[int]) -> Run:
    """Check that the rows are the same as without forwarding.

    The CTIs are the operator's own and the received ones, thinned.
    """
    schemas = [PAYLOAD] * len(inputs)
    plain = assert_cut_invariant(spec, inputs, schemas, cuts)
    is_user = isinstance(spec, UserOperator)
    behind = replace(spec, passes_ctis=True) if is_user else ForwardCtis(spec)
    out = assert_cut_invariant(behind, inputs, schemas, cuts)
    assert str(out.events.to_pylist()) == str(plain.events.to_pylist())
    own = [] if is_user else plain.ctis.tolist()
    assert out.ctis.tolist() == sorted({*own, *_passing(spec, inputs, schemas)})
    return out


class Behind:
    """Emits rows after a CTI more than three later, and states this delay in its CTIs."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []

    def execute(self, events: pa.RecordBatch, ctis: list[int]) -> Any:
        times = (events.column(name).to_pylist() for name in ("_vs", "_ve"))
        self.rows += map(list, zip(*times, strict=True))
        told = [t if t == INF_TIME else t - 3 for t in ctis]
        gone = [row for row in self.rows if told and row[0] < told[-1]]
        self.rows = self.rows[len(gone) :]
        return {"_vs": [a for a, _ in gone], "_ve": [b for _, b in gone]}, told

    def get_snapshot(self) -> dict[str, Any]:
        return {"rows": [list(row) for row in self.rows]}

    def load(self, state: dict[str, Any]) -> None:
        self.rows = state["rows"]


BEHIND = UserOperator(UserCode("Behind", Behind), pa.schema([]))


@pytest.mark.parametrize("spec", [*ONE, BEHIND], ids=lambda spec: type(spec).__name__)
@examples(3)
@given(
    run=st.one_of([runs(times=t, duration_max=9, max_size=10) for t in (times(), times(502, 520))]),
    cuts=splits(),
)
def test_every_cti_passes(spec: Any, run: Run, cuts: list[int]) -> None:
    _assert_all_pass(spec, [run], cuts)


@pytest.mark.parametrize("spec", TWO, ids=lambda spec: type(spec).__name__)
@examples(3)
@given(both=ports([PAYLOAD, PAYLOAD], times=times(0, 14), duration_max=9), cuts=splits())
def test_every_cti_of_a_pair_passes(spec: Any, both: list[Run], cuts: list[int]) -> None:
    _assert_all_pass(spec, both, cuts)


def test_the_worked_session() -> None:
    run = make_run([ev(0, k=1), cti(3), cti(INF_TIME)], pa.schema([("k", pa.int64())]))
    spec = ForwardCtis(SessionAggregate((), 5, None, COUNT))
    out = assert_cut_invariant(spec, [run], [pa.schema([("k", pa.int64())])])
    assert table_of(out) == [cti(0), ev(0, 5, n=1), cti(3), cti(INF_TIME)]


def test_ctis_that_wait_long_are_thinned_except_the_last() -> None:
    """One session lasts from 1 to the end.

    Others are emitted with the CTIs that wait beside them.
    """
    items: list[Item] = [ev(1, 3000, k=1), *(ev(t, k=2) for t in (480, 530, 1_100))]
    items += [cti(t) for t in (*range(500, 540), 1_200, INF_TIME)]
    run = make_run(items, PAYLOAD)
    out = _assert_all_pass(SessionAggregate(("k",), 4, None, COUNT), [run], [9, 30])
    starts = int64_column(out.events, VS).tolist()
    assert starts == [1, 480, 530, 1_100]
    passed = out.ctis.tolist()
    assert {539, 1_200, INF_TIME} <= set(passed)
    assert not {500, 501, 505, 530} & set(passed)


def test_a_transform_emits_only_the_ctis_it_got() -> None:
    items: list[Item] = [ev(1, k=1), cti(2), cti(4), ev(5, k=1), cti(9), cti(INF_TIME)]
    out = _assert_all_pass(BEHIND, [make_run(items, PAYLOAD)], [3])
    assert table_of(out) == [ev(1), cti(2), cti(4), ev(5), cti(9), cti(INF_TIME)]


def test_the_number_of_waiting_ctis_is_limited() -> None:
    """The input has CTIs every 10 ms for half an hour, and then one a year later."""
    empty = empty_batch(event_schema(PAYLOAD))

    def nothing(ports: Sequence[Run]) -> Run:
        return Run(empty, NO_CTIS)

    held = HeldCtis(keeps_own=True)
    grid = np.split(np.arange(180_000) * 10_000, 60)
    for ctis in (*grid, np.array([10**15])):
        assert held.follow([Run(empty, ctis)], nothing).is_empty
    reached, *waiting = held.save()
    assert len(waiting) < 3_000 < HELD_MAX
    assert (reached, waiting[-1]) == (MIN_TIME, 10**15)
