"""CTIs that rows held back pass once these have left: any cutting, restore and replay.

Cannot catch: an operator that puts a row out before a CTI up to its start has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from rstream.batch import VS, int64_column
from rstream.types import INF_TIME, MIN_TIME
from rvertex.aggregates import AggregateSpec
from rvertex.operators.anti_join import AntiJoin
from rvertex.operators.caught_up import CaughtUp
from rvertex.operators.clip import Clip
from rvertex.operators.count_window import CountWindowAggregate
from rvertex.operators.left_join import LeftJoin
from rvertex.operators.session import SessionAggregate
from rvertex.operators.snapshot_window import SnapshotAggregate
from rvertex.operators.stitch import Stitch
from tests.support.builders import cti, ev, make_run, table_of
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, ports, runs, splits, times

if TYPE_CHECKING:
    from rvertex.run import Run

COUNT = (AggregateSpec("count", None, "n"),)
ONE = [
    SessionAggregate(("k",), 4, None, COUNT),
    SessionAggregate(("k",), 4, 9, COUNT),
    CountWindowAggregate(("k",), 2, COUNT),
    SnapshotAggregate(("k",), COUNT),
    Stitch(("k",)),
]
TWO = [
    Clip(("k",), ("k",)),
    AntiJoin(("k",), ("k",), (("k", "k"),)),
    LeftJoin(("k",), ("k",), (("left", "k", "k"), ("right", "x", "y"))),
]


def _assert_all_pass(spec: Any, inputs: list[Run], cuts: list[int]) -> None:
    """Rows as without it; the CTIs are its own and all that it got and has come to."""
    schemas = [PAYLOAD] * len(inputs)
    plain = assert_cut_invariant(spec, inputs, schemas, cuts)
    out = assert_cut_invariant(CaughtUp(spec), inputs, schemas, cuts)
    assert str(out.events.to_pylist()) == str(plain.events.to_pylist())
    starts = int64_column(out.events, VS).tolist()
    reached = max([MIN_TIME, *starts[-1:], *plain.ctis[-1:].tolist()])
    passed = {t for t in inputs[0].ctis.tolist() if t <= reached}
    assert out.ctis.tolist() == sorted({*plain.ctis.tolist(), *passed})


@pytest.mark.parametrize("spec", ONE, ids=lambda spec: type(spec).__name__)
@settings(max_examples=3, deadline=None)
@given(run=runs(duration_max=9, max_size=10), cuts=splits())
def test_every_cti_passes(spec: Any, run: Run, cuts: list[int]) -> None:
    _assert_all_pass(spec, [run], cuts)


@pytest.mark.parametrize("spec", TWO, ids=lambda spec: type(spec).__name__)
@settings(max_examples=3, deadline=None)
@given(both=ports([PAYLOAD, PAYLOAD], times=times(0, 14), duration_max=9), cuts=splits())
def test_every_cti_of_a_pair_passes(spec: Any, both: list[Run], cuts: list[int]) -> None:
    _assert_all_pass(spec, both, cuts)


def test_the_worked_session() -> None:
    run = make_run([ev(0, k=1), cti(3), cti(INF_TIME)], pa.schema([("k", pa.int64())]))
    spec = CaughtUp(SessionAggregate((), 5, None, COUNT))
    out = assert_cut_invariant(spec, [run], [pa.schema([("k", pa.int64())])])
    assert table_of(out) == [cti(0), ev(0, 5, n=1), cti(3), cti(INF_TIME)]
