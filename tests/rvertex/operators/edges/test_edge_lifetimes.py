"""Clip and stitch of rows whose ends come later, against those of intervals."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given

from rstream.types import INF_TIME
from rvertex.operators.edges.aggregate import EdgeAggregate
from rvertex.operators.edges.clip import EdgeClip
from rvertex.operators.edges.spread import EdgeSpread
from rvertex.operators.lifetimes.clip import Clip
from rvertex.operators.lifetimes.stitch import Stitch
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
    sorted_rows,
)
from tests.support.operator_harness import assert_cut_invariant

FOREVER = int(INF_TIME)
ON = ("k",)


@given(some_rows(), some_rows(), some_ctis)
def test_clip_means_that_of_intervals(left: list[Row], right: list[Row], ctis: list[int]) -> None:
    ctis = ending(ctis)
    schemas = [PAYLOAD, PAYLOAD]
    runs = [edge_run(left, ctis), edge_run(right, ctis)]
    out = assert_cut_invariant(EdgeClip(ON, ON), runs, schemas)
    whole = answer_of(Clip(ON, ON), [closed_run(left, ctis), closed_run(right, ctis)], schemas)
    assert meant(out) == sorted_rows(pa.Table.from_batches([whole.events]))


def test_a_version_comes_at_once_and_ends_with_the_next() -> None:
    rows = [ev(1, FOREVER, k=1, x=3), ev(4, FOREVER, k=1, x=1), cti(5)]
    run = make_run(rows, PAYLOAD)
    out = answer_of(EdgeClip(ON, ON), [run, run], [PAYLOAD, PAYLOAD])
    assert [(e["_vs"], e["_ve"], e["x"]) for e in out.events.to_pylist()] == [
        (1, FOREVER, 3),
        (4, 1, 3),
        (4, FOREVER, 1),
    ]


@given(some_rows(), some_ctis)
def test_stitch_means_that_of_intervals(rows: list[Row], ctis: list[int]) -> None:
    ctis = ending(ctis)
    out = assert_cut_invariant(EdgeAggregate(("k", "x"), ()), [edge_run(rows, ctis)], [PAYLOAD])
    whole = answer_of(Stitch(("k", "x")), [closed_run(rows, ctis)], [PAYLOAD])
    assert meant(out) == sorted_rows(pa.Table.from_batches([whole.events]))


def test_rows_that_ended_are_forgotten() -> None:
    operator = EdgeAggregate(("k", "x"), ()).open([PAYLOAD])
    for start in range(0, 50_000, 5_000):
        rows = [ev(t, t + 1, k=t, x=1) for t in range(start, start + 5_000)]
        operator.process([make_run([*rows, cti(start + 5_001)], PAYLOAD)])
    assert operator.snapshot().tables["groups"].num_rows < 15_000


@given(some_rows(), some_ctis)
def test_every_row_has_a_start_and_an_end(rows: list[Row], ctis: list[int]) -> None:
    ctis = ending(ctis)
    out = assert_cut_invariant(EdgeSpread(), [edge_run(rows, ctis)], [PAYLOAD])
    assert meant(out) == meant(closed_run(rows, ctis))
    ends = sum(row.ve != FOREVER for row in rows)
    assert [e["_ve"] < e["_vs"] for e in out.events.to_pylist()].count(True) == ends
    assert out.events.num_rows == len(rows) + ends
