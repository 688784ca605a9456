"""Runs and items are two forms of the same data; pieces of a run can be joined again."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import rvertex.events.run
from rstream.items.batch import CTI, EVENT, KIND, VS, int64_column, item_schema, kinds
from rstream.items.dictionaries import as_declared
from rstream.types import INF_TIME
from rvertex.events.run import NO_CTIS, Run, concat, growing, to_items
from tests.support.budget import examples
from tests.support.builders import Ev, Item, cti, ev, make_events, make_items, make_run, table_of
from tests.support.exact import assert_same_items
from tests.support.strategies import PAYLOAD, runs, splits

N = pa.schema([("n", pa.int64())])
NS = pa.schema([("n", pa.int64()), ("s", pa.string())])


def from_items(batch: pa.RecordBatch) -> Run:
    """Return a batch of items in normal form as a run (zero copy if it has no CTI)."""
    kind = kinds(batch)
    is_event = kind == EVENT
    if is_event.all():
        return Run(batch.drop_columns([KIND]), NO_CTIS)
    events = batch.drop_columns([KIND]).filter(pa.array(is_event))
    return Run(events, growing(int64_column(batch, VS)[~is_event], None))


@examples(40)
@given(run=runs(duration_max=5))
def test_a_run_is_built_from_items_and_back(run: Run) -> None:
    items = to_items(run)
    again = from_items(items)
    again.check()
    assert_same_items(again.events, run.events, "events")
    assert again.ctis.tolist() == run.ctis.tolist()
    assert items.num_rows == run.events.num_rows + len(run.ctis)
    assert run.is_empty == (items.num_rows == 0)


@examples(40)
@given(run=runs())
def test_items_are_in_normal_form(run: Run) -> None:
    """By time, at equal times the CTI first; CTI rows carry no payload."""
    items = to_items(run)
    keys = list(zip(int64_column(items, VS).tolist(), kinds(items) == EVENT, strict=True))
    assert keys == sorted(keys)
    for row in items.to_pylist():
        if row[KIND] == CTI:
            assert [row[name] for name in PAYLOAD.names] == [None] * len(PAYLOAD)


@examples(40)
@given(run=runs(), cuts=splits())
def test_pieces_join_to_the_whole(run: Run, cuts: list[int]) -> None:
    items = to_items(run)
    edges = [0, *(c for c in cuts if c < items.num_rows), items.num_rows]
    pieces = [from_items(items.slice(lo, hi - lo)) for lo, hi in itertools.pairwise(edges)]
    whole = concat(pieces)
    assert_same_items(to_items(whole), items, f"cut at {edges}")
    joined = pa.concat_batches([to_items(piece) for piece in pieces])
    assert_same_items(joined, items, f"written in pieces {edges}")


@examples(30)
@given(
    count=st.integers(0, 30),
    ctis=st.sets(st.integers(0, 40), max_size=30),
    slice_rows=st.sampled_from([0, 3, 1_000]),
)
def test_few_and_many_ctis_are_placed_alike(count: int, ctis: set[int], slice_rows: int) -> None:
    table: list[Item] = [*(ev(t, n=t, s=f"{t % 3}") for t in range(count)), *(cti(t) for t in ctis)]
    ordered = sorted(table, key=lambda i: (i.vs, 1) if isinstance(i, Ev) else (i.time, 0))
    run = make_run(table, NS)
    as_dictionary = run.events.set_column(3, "s", run.events.column("s").dictionary_encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rvertex.events.run, "_SLICE_ROWS", slice_rows)
        assert_same_items(to_items(run), make_items(ordered, NS), "items")
        carried = to_items(Run(as_dictionary, run.ctis))
    assert_same_items(as_declared(carried, item_schema(NS)), make_items(ordered, NS), "carried")


def test_placing_by_hand() -> None:
    run = make_run([cti(5), ev(5, 9, n=2), ev(3, n=1), cti(INF_TIME)], N)
    assert table_of(run) == [ev(3, n=1), cti(5), ev(5, 9, n=2), cti(INF_TIME)]


def test_a_batch_without_ctis_is_shared() -> None:
    items = make_items([ev(1, n=1), ev(2, n=2)], N)
    assert from_items(items).events.column(2).buffers()[1] == items.column(3).buffers()[1]


def test_a_repeated_cti_counts_once() -> None:
    run = from_items(make_items([cti(3), cti(3), ev(3, n=1), cti(7)], N))
    assert run.ctis.tolist() == [3, 7]


def test_check_detects_disorder() -> None:
    events = make_events([ev(1, n=1), ev(2, n=2)], N)
    with pytest.raises(AssertionError, match="not sorted"):
        Run(events.take(pa.array([1, 0])), NO_CTIS).check()
    with pytest.raises(AssertionError, match="do not increase"):
        Run(events, np.array([3, 3])).check()
