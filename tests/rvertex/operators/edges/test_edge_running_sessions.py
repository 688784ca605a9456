"""Running sessions over starts and ends, against those over whole rows; any cuts and restores."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.types import INF_TIME
from rvertex.aggregates.spec import AggregateSpec
from rvertex.operators.edges.running_sessions import EdgeRunningSessions
from rvertex.operators.windows.running.aggregate import RunningSessionAggregate
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

FOREVER = int(INF_TIME)
COUNT = AggregateSpec("count", None, "n")
AGGREGATES = (
    COUNT,
    AggregateSpec("sum", "x", "s"),
    AggregateSpec("max", "x", "top"),
    AggregateSpec("count_distinct", "x", "d"),
)


@pytest.mark.parametrize("keys", [("k",), ()], ids=["by key", "of all"])
@examples(12)
@given(data=st.data())
def test_edges_encode_the_results_of_complete_rows(
    keys: tuple[str, ...], data: st.DataObject
) -> None:
    rows, ctis = data.draw(some_rows()), ending(data.draw(some_ctis))
    lengths = (data.draw(st.integers(1, 4)), data.draw(st.sampled_from([None, 1, 3, 6])))
    spec = EdgeRunningSessions(keys, *lengths, AGGREGATES)
    out = assert_cut_invariant(spec, [edge_run(rows, ctis)], [PAYLOAD])
    closed = RunningSessionAggregate(keys, *lengths, AGGREGATES)
    whole = answer_of(closed, [closed_run(rows, ctis)], [PAYLOAD])
    rows_of_whole = sorted_rows(pa.Table.from_batches([whole.events]))
    expected = joined_lives(rows_of_whole)
    assert joined_lives(meant(out)) == expected
    assert len(meant(out)) == len(expected), "a change that is none"
    assert (out.events.column("_vs").to_numpy() < FOREVER).all()
    renewing = replace(spec, renews=True)
    again = answer_of(renewing, [edge_run(rows, ctis)], [PAYLOAD])
    assert meant(again) == rows_of_whole
    assert begins(again) == begins(whole)


def test_a_result_is_emitted_at_once_and_ends_with_its_session() -> None:
    operator = EdgeRunningSessions(("k",), 5, None, (COUNT,)).open([PAYLOAD])
    first = operator.process([make_run([ev(1, k=1, x=3), cti(2), ev(4, k=1, x=1)], PAYLOAD)])
    last = operator.process([make_run([cti(20)], PAYLOAD)])
    found = [
        [(e["_vs"], e["_ve"], e["n"]) for e in run.events.to_pylist()] for run in (first, last)
    ]
    assert found == [
        [(1, FOREVER, 1)],
        [(4, 1, 1), (4, FOREVER, 2), (9, 4, 2)],
    ]


def test_keys_of_ended_sessions_are_forgotten() -> None:
    operator = EdgeRunningSessions(("k",), 5, None, AGGREGATES).open([PAYLOAD])
    for start in range(0, 50_000, 5_000):
        rows = [ev(t, k=t, x=t) for t in range(start, start + 5_000)]
        operator.process([make_run([*rows, cti(start + 5_001)], PAYLOAD)])
    tables = operator.snapshot().tables
    assert tables["groups"].num_rows < 15_000
    assert tables["ahead"].num_rows < 100
    assert tables["seen0.groups"].num_rows < 15_000
