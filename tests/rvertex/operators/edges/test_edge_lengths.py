"""Rows whose ends arrive later, clipped and extended, against intervals."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.types import INF_TIME
from rvertex.errors import EndlessChopError
from rvertex.operators.edges.lifetimes.chop import EdgeChop
from rvertex.operators.edges.lifetimes.extend import EdgeExtend
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.extend_by import ExtendBy
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run
from tests.support.edges import (
    PAYLOAD,
    Row,
    answer_of,
    closed_run,
    edge_run,
    ending,
    meant,
    some_ctis,
    some_rows,
)
from tests.support.operator_harness import assert_cut_invariant

FOREVER = int(INF_TIME)
EXAMPLES = examples(12)


@EXAMPLES
@given(some_rows(), some_ctis, st.integers(1, 6), st.integers(-4, 4))
def test_pieces_equal_those_of_intervals(
    rows: list[Row], ctis: list[int], period: int, offset: int
) -> None:
    rows = [row for row in rows if row.ve != FOREVER]
    ctis = ending(ctis)
    out = assert_cut_invariant(EdgeChop(period, offset), [edge_run(rows, ctis)], [PAYLOAD])
    whole = answer_of(Chop(period, offset), [closed_run(rows, ctis)], [PAYLOAD])
    assert meant(out) == meant(whole)
    assert (out.events.column("_ve").to_numpy() > out.events.column("_vs").to_numpy()).all()


def test_pieces_are_emitted_while_a_row_is_current() -> None:
    operator = EdgeChop(10).open([PAYLOAD])
    out = operator.process([make_run([ev(3, FOREVER, k=1, x=2), cti(25)], PAYLOAD)])
    assert [(e["_vs"], e["_ve"]) for e in out.events.to_pylist()] == [(3, 10), (10, 20)]
    assert out.ctis.tolist() == [20]
    with pytest.raises(EndlessChopError):
        operator.process([make_run([cti(FOREVER)], PAYLOAD)])


def test_ended_rows_leave_the_state() -> None:
    operator = EdgeChop(10).open([PAYLOAD])
    for start in range(0, 50_000, 5_000):
        rows = [ev(t, t + 1, k=t, x=1) for t in range(start, start + 5_000)]
        operator.process([make_run([*rows, cti(start + 5_001)], PAYLOAD)])
    assert operator.snapshot().tables["rows"].num_rows < 15_000


@EXAMPLES
@given(some_rows(), some_ctis, st.sampled_from([0, 1, 3, 20]))
def test_ends_move_like_those_of_intervals(rows: list[Row], ctis: list[int], by: int) -> None:
    ctis = ending(ctis)
    out = assert_cut_invariant(EdgeExtend(by), [edge_run(rows, ctis)], [PAYLOAD])
    assert meant(out) == meant(answer_of(Extend(by), [closed_run(rows, ctis)], [PAYLOAD]))


@EXAMPLES
@given(some_rows(), some_ctis)
def test_ends_move_by_a_column(rows: list[Row], ctis: list[int]) -> None:
    rows = [Row(row.vs, row.ve, row.is_split, row.k, row.x + 1) for row in rows]
    ctis = ending(ctis)
    out = assert_cut_invariant(EdgeExtend("x"), [edge_run(rows, ctis)], [PAYLOAD])
    assert meant(out) == meant(answer_of(ExtendBy("x"), [closed_run(rows, ctis)], [PAYLOAD]))


def test_an_end_beyond_the_time_axis_is_never_emitted() -> None:
    rows = [ev(1, FOREVER, k=1, x=1), ev(FOREVER - 2, 1, k=1, x=1), cti(FOREVER)]
    out = answer_of(EdgeExtend(5), [make_run(rows, PAYLOAD)], [PAYLOAD])
    assert pa.Table.from_batches([out.events]).num_rows == 1
