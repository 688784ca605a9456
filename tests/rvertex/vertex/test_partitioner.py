"""Splitting a run over streams: every stream gets its rows in order, and each CTI in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import event_schema
from rstream.items.hashing import partition_of, slots_of
from rvertex.events.run import Run, to_items
from rvertex.vertex.partitioner import split
from rvertex.vertex.spec import OutputEdge
from tests.support.budget import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = event_schema(pa.schema([("k", pa.int64()), ("text", pa.string())]))
times = st.lists(st.integers(0, 9), max_size=12).map(sorted)


def run_of(starts: Sequence[int], ctis: Sequence[int]) -> Run:
    rows = [
        {"_vs": t, "_ve": t + 1, "k": None if n % 5 == 4 else n % 3, "text": str(n) * (n % 4)}
        for n, t in enumerate(starts)
    ]
    return Run(pa.RecordBatch.from_pylist(rows, schema=SCHEMA), np.unique(np.array(ctis, np.int64)))


@examples(100)
@given(times, times, st.sampled_from([1, 2, 3, 9, 300]), st.booleans())
def test_each_stream_equals_a_filter_by_partition(
    starts: list[int], ctis: list[int], n: int, in_dictionary: bool
) -> None:
    run = run_of(starts, ctis)
    if in_dictionary:
        columns = [*run.events.columns[:3], run.events.column("text").dictionary_encode()]
        events = pa.RecordBatch.from_arrays(columns, names=SCHEMA.names)
        run = Run(events, run.ctis)
    streams = tuple(f"s{k}" for k in range(n))
    edge = OutputEdge(streams, streams, ("k",), "volatile")
    check_split(run, edge)


@pytest.mark.parametrize("rows", [500, 600])
@pytest.mark.parametrize("n", [2, 9])
@pytest.mark.parametrize("ctis", [[0, 5, 6, 100], list(range(0, 190, 3))], ids=["few", "many"])
def test_few_and_many_rows(rows: int, n: int, ctis: list[int]) -> None:
    """Few rows are gathered for all streams at once; few CTIs are put between slices."""
    streams = tuple(f"s{k}" for k in range(n))
    run = run_of([t // 3 for t in range(rows)], [*ctis, rows])
    check_split(run, OutputEdge(streams, streams, ("k",), "volatile"))


def test_few_rows_are_gathered_once_for_all_streams() -> None:
    """The few rows share one buffer; with many rows, each stream has its own."""
    streams = ("a", "b", "c")
    edge = OutputEdge(streams, streams, ("k",), "volatile")
    memory = {}
    for rows in (60, 6_000):
        batches = split(run_of(range(rows), [rows]), edge)
        buffers = [batch.column(1).buffers()[1] for batch in batches if batch is not None]
        assert len(buffers) == 3
        memory[rows] = len({buffer.address for buffer in buffers})
    assert memory == {60: 1, 6_000: 3}


@pytest.mark.parametrize("n", [256, 257, 300])
def test_a_number_of_streams_that_needs_two_bytes(n: int) -> None:
    streams = tuple(f"s{k}" for k in range(n))
    rows = [{"_vs": t, "_ve": t + 1, "k": t, "text": None} for t in range(4 * n)]
    run = Run(pa.RecordBatch.from_pylist(rows, schema=SCHEMA), np.array([4 * n]))
    check_split(run, OutputEdge(streams, streams, ("k",), "volatile"))


def check_split(run: Run, edge: OutputEdge) -> None:
    n = len(edge.streams)
    batches = split(run, edge)
    assert len(batches) == n
    part = partition_of([run.events.column("k")], n)
    for k, batch in enumerate(batches):
        mine = Run(run.events.filter(pa.array(part == k)), run.ctis)
        if mine.is_empty:
            assert batch is None
            continue
        assert batch is not None
        batch.validate(full=True)
        assert batch.to_pylist() == to_items(mine).to_pylist()


def test_rows_go_to_the_owner_of_their_range() -> None:
    """A row whose slot is a bound belongs to the range that begins there."""
    draw = np.random.default_rng(0)
    streams = ("a", "b", "c", "d")
    keys = np.arange(3_000)
    slots = slots_of([pa.array(keys)])
    bounds = tuple(np.sort(draw.choice(slots, 4, replace=False)).tolist())
    owners = (2, 0, 3, 1, 2)
    edge = OutputEdge(streams, streams, ("k",), "volatile", bounds=bounds, owners=owners)
    expected = np.array(owners)[[sum(slot >= bound for bound in bounds) for slot in slots]]
    for count in (60, 3_000):
        rows = [{"_vs": t, "_ve": t + 1, "k": t, "text": None} for t in range(count)]
        batches = split(Run(pa.RecordBatch.from_pylist(rows, schema=SCHEMA), np.array([9])), edge)
        for k, batch in enumerate(batches):
            found = [] if batch is None else batch.column("k").drop_null().to_pylist()
            assert found == keys[:count][expected[:count] == k].tolist()
