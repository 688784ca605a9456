"""Aggregates over valid rows, against snapshot windows over the same rows as intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.operators.edges.aggregate import EdgeAggregate
from rvertex.operators.windows.running.aggregate import RunningAggregate
from rvertex.operators.windows.snapshots.window import SnapshotAggregate
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run
from tests.support.edges import (
    PAYLOAD,
    answer_of,
    begins,
    closed_run,
    edge_run,
    ending,
    joined_lives,
    meant,
    some_ctis,
    some_rows,
    sorted_rows,
)
from tests.support.operator_harness import assert_cut_invariant

if TYPE_CHECKING:
    from tests.support.edges import Row

FOREVER = int(INF_TIME)
#: The harness runs each a dozen times, and there are many such tests.
EXAMPLES = examples(10)
COUNTS = (
    AggregateSpec("count", None, "n"),
    AggregateSpec("count", "k", "nk"),
    AggregateSpec("sum", "x", "s"),
    AggregateSpec("mean", "x", "m"),
)
WHOLE = (AggregateSpec("max", "x", "top"), AggregateSpec("collect", "x", "all"))
RUNNING = (*COUNTS, AggregateSpec("max", "x", "top"), AggregateSpec("count_distinct", "x", "d"))


@pytest.mark.parametrize("aggregates", [COUNTS, WHOLE], ids=["signed", "living"])
@pytest.mark.parametrize("keys", [("k",), ()], ids=["by key", "of all"])
@EXAMPLES
@given(data=st.data())
def test_edges_encode_the_snapshots_of_intervals(
    keys: tuple[str, ...], aggregates: tuple[AggregateSpec, ...], data: st.DataObject
) -> None:
    rows = data.draw(some_rows())
    ctis = ending(data.draw(some_ctis))
    out = assert_cut_invariant(EdgeAggregate(keys, aggregates), [edge_run(rows, ctis)], [PAYLOAD])
    spec = SnapshotAggregate(keys, aggregates)
    whole = answer_of(spec, [closed_run(rows, ctis)], [PAYLOAD])
    expected = sorted_rows(pa.Table.from_batches([whole.events]))
    assert joined_lives(_shown(meant(out))) == joined_lives(_shown(expected))
    found = [tuple(map(str, row[2:])) for row in meant(out)]
    lives = [(*row[:2], *text) for row, text in zip(meant(out), found, strict=True)]
    assert len(lives) == len(joined_lives(lives)), "a change that is none"
    renewing = EdgeAggregate(keys, aggregates, renews=True)
    again = assert_cut_invariant(renewing, [edge_run(rows, ctis)], [PAYLOAD])
    assert sorted(map(repr, _shown(meant(again)))) == sorted(map(repr, _shown(expected)))
    if aggregates is COUNTS:
        assert begins(again) == begins(whole)


def _shown(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sort lists, because it is undefined which of two equal rows ends."""
    return [tuple(str(sorted(v)) if isinstance(v, list) else v for v in row) for row in rows]


@EXAMPLES
@given(some_rows(), some_ctis)
def test_values_have_the_order_of_the_starts_of_their_rows(
    rows: list[Row], ctis: list[int]
) -> None:
    """The rows differ; for equal ones the order is undefined."""
    rows = [replace(row, x=number) for number, row in enumerate(rows)]
    spec = EdgeAggregate((), WHOLE)
    out = assert_cut_invariant(spec, [edge_run(rows, ending(ctis))], [PAYLOAD])
    begun = {row.x: place for place, row in enumerate(sorted(rows, key=lambda row: row.vs))}
    for *_, values in meant(out):
        places = [begun[value] for value in values]
        assert places == sorted(places)


@pytest.mark.parametrize("keys", [("k",), ()], ids=["by key", "of all"])
@EXAMPLES
@given(data=st.data())
def test_rows_that_never_end_are_included(keys: tuple[str, ...], data: st.DataObject) -> None:
    rows = data.draw(some_rows(ends=False))
    ctis = ending(data.draw(some_ctis))
    runs = [edge_run(rows, ctis)]
    out = assert_cut_invariant(EdgeAggregate(keys, RUNNING, endless=True), runs, [PAYLOAD])
    again = answer_of(EdgeAggregate(keys, RUNNING), runs, [PAYLOAD])
    assert meant(out) == meant(again)
    renewing = EdgeAggregate(keys, RUNNING, endless=True, renews=True)
    whole = answer_of(RunningAggregate(keys, RUNNING), [closed_run(rows, ctis)], [PAYLOAD])
    expected = sorted_rows(pa.Table.from_batches([whole.events]))
    again = answer_of(renewing, runs, [PAYLOAD])
    assert meant(again) == expected
    assert begins(again) == begins(whole)


def test_a_change_is_an_end_and_a_start_at_one_time() -> None:
    run = make_run([ev(1, FOREVER, k=1, x=3), ev(4, FOREVER, k=1, x=1), cti(5)], PAYLOAD)
    out = answer_of(EdgeAggregate(("k",), (COUNTS[2],), endless=True), [run], [PAYLOAD])
    assert [(e["_vs"], e["_ve"], e["s"]) for e in out.events.to_pylist()] == [
        (1, FOREVER, 3),
        (4, 1, 3),
        (4, FOREVER, 4),
    ]


def test_sums_return_from_beyond_int64() -> None:
    big = 2**63 - 1
    rows = [ev(1, FOREVER, k=1, x=big), ev(2, FOREVER, k=1, x=big), ev(3, 1, k=1, x=big), cti(4)]
    run = make_run(rows, PAYLOAD)
    operator = EdgeAggregate(("k",), (AggregateSpec("mean", "x", "m"),)).open([PAYLOAD])
    means = [e["m"] for e in operator.process([run]).events.to_pylist()]
    assert means == [float(big)]


def test_keys_without_current_rows_are_forgotten() -> None:
    operator = EdgeAggregate(("k",), COUNTS).open([PAYLOAD])
    for start in range(0, 50_000, 5_000):
        rows = [ev(t, t + 1, k=t, x=1) for t in range(start, start + 5_000)]
        operator.process([make_run([*rows, cti(start + 5_001)], PAYLOAD)])
    assert operator.snapshot().tables["groups"].num_rows < 15_000
