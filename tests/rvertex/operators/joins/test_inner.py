"""The temporal join against nested loops over the lifetime tables, with random cuts and restores.

Not covered: a plan that sends equal keys to different vertices, and speed, except the shape of its
growth.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VE, VS, event_schema
from rstream.types import INF_TIME
from rvertex.events.lifetime import with_times
from rvertex.events.run import NO_CTIS, Run
from rvertex.operators.joins import inner as join_module
from rvertex.operators.joins.inner import Join, TemporalJoin
from tests.support.budget import examples
from tests.support.builders import Ev, Item, cti, ev, make_run, table_of
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import ports, splits, times

LEFT = pa.schema([("k", pa.int64()), ("a", pa.string())])
RIGHT = pa.schema([("k", pa.int64()), ("b", pa.int64())])
SPEC = TemporalJoin(("k",), ("k",), (("left", "k", "k"), ("left", "a", "a"), ("right", "b", "b")))


def nested_loops(spec: TemporalJoin, inputs: list[Run]) -> list[Item]:
    """All pairs by the definition, in the order that join.py promises."""
    rows = [
        ((row[VS], side, n), side, row)
        for side, run in enumerate(inputs)
        for n, row in enumerate(run.events.to_pylist())
    ]
    rows.sort(key=lambda r: r[0])
    out: list[Item] = []
    for at, (_, side, later) in enumerate(rows):
        for earlier in (row for _, s, row in rows[:at] if s != side):
            left, right = (later, earlier) if side == 0 else (earlier, later)
            vs, ve = max(left[VS], right[VS]), min(left[VE], right[VE])
            keys = [(left[a], right[b]) for a, b in zip(spec.left_on, spec.right_on, strict=True)]
            if vs < ve and all(a is not None and a == b for a, b in keys):
                of_side = {"left": left, "right": right}
                out.append(ev(vs, ve, **{name: of_side[s][c] for s, c, name in spec.output}))
    return out


def only_events(table: list[Item]) -> list[Item]:
    return [item for item in table if isinstance(item, Ev)]


@examples(20)
@given(ports([LEFT, RIGHT], times=times(0, 12), duration_max=6), splits())
def test_the_join_equals_nested_loops_for_any_batch_boundaries(
    inputs: list[Run], cuts: list[int]
) -> None:
    out = assert_cut_invariant(SPEC, inputs, [LEFT, RIGHT], cuts)
    assert only_events(table_of(out)) == nested_loops(SPEC, inputs)
    assert np.array_equal(out.ctis, inputs[0].ctis)


TWO_KEYS = TemporalJoin(
    ("k", "s"), ("k", "s"), (("right", "x", "rx"), ("right", "k", "rk"), ("left", "n", "ln"))
)
WIDE = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("x", pa.int64()), ("s", pa.string())])


@examples(8)
@given(ports([WIDE, WIDE], times=times(0, 9), duration_max=9, distinct_keys=2), splits())
def test_join_by_two_keys(inputs: list[Run], cuts: list[int]) -> None:
    out = assert_cut_invariant(TWO_KEYS, inputs, [WIDE, WIDE], cuts)
    assert only_events(table_of(out)) == nested_loops(TWO_KEYS, inputs)


@examples(6)
@given(st.data())
def test_many_rows_of_few_keys(data: st.DataObject) -> None:
    """Ranges long enough for the tree of maxima, many runs, rows that expire at once."""
    seed = data.draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    inputs = [random_run(rng, LEFT, 90), random_run(rng, RIGHT, 90)]
    operator = SPEC.open([LEFT, RIGHT])
    out: list[Item] = []
    vs = [run.events.column(VS).to_numpy() for run in inputs]
    at = [0, 0]
    for bound in [*sorted(rng.integers(0, 400, 25).tolist()), 10**6]:
        piece = []
        for i, run in enumerate(inputs):
            end = int(np.searchsorted(vs[i], bound))
            piece.append(Run(run.events.slice(at[i], end - at[i]), NO_CTIS))
            at[i] = end
        out += table_of(operator.process(piece))
        operator.check()
    assert out == nested_loops(SPEC, inputs)


@examples(6)
@given(ports([LEFT, LEFT], times=times(0, 12), duration_max=6), splits())
def test_a_stream_joined_with_itself(inputs: list[Run], cuts: list[int]) -> None:
    """Every event pairs with itself, and each other pair occurs twice."""
    spec = TemporalJoin(("k",), ("k",), (("left", "a", "mine"), ("right", "a", "other")))
    both = [inputs[0], inputs[0]]
    out = assert_cut_invariant(spec, both, [LEFT, LEFT], cuts)
    assert only_events(table_of(out)) == nested_loops(spec, both)


@examples(6)
@given(ports([LEFT, RIGHT], times=times(0, 40), duration_max=400), splits())
def test_points_against_long_intervals(inputs: list[Run], cuts: list[int]) -> None:
    points = with_times(inputs[0].events, ve=inputs[0].events.column(VS).to_numpy() + 1)
    both = [Run(points, inputs[0].ctis), inputs[1]]
    out = assert_cut_invariant(SPEC, both, [LEFT, RIGHT], cuts)
    assert only_events(table_of(out)) == nested_loops(SPEC, both)
    assert (out.events.column(VE).to_numpy() - out.events.column(VS).to_numpy() == 1).all()


@pytest.mark.parametrize("batch_rows", [500, 20_000])
def test_points_that_meet_few_of_many_long_intervals_are_cheap(batch_rows: int) -> None:
    """20,000 intervals of 20,000 keys stay valid; each point probes one key."""
    rows = 20_000
    at = np.arange(rows)
    key = pa.array(at)
    long = [pa.array(at), pa.array(at + 10**9), key, key]
    points = [pa.array(rows + at), pa.array(rows + at + 1), key, key.cast(pa.string())]
    left = pa.RecordBatch.from_arrays(points, schema=event_schema(LEFT))
    right = pa.RecordBatch.from_arrays(long, schema=event_schema(RIGHT))
    operator = SPEC.open([LEFT, RIGHT])
    began, found = time.thread_time(), 0
    for lo in range(0, rows, batch_rows):
        part = right.slice(lo, batch_rows)
        operator.process([Run(left.slice(0, 0), NO_CTIS), Run(part, NO_CTIS)])
    for lo in range(0, rows, batch_rows):
        part = left.slice(lo, batch_rows)
        out = operator.process([Run(part, NO_CTIS), Run(right.slice(0, 0), NO_CTIS)])
        found += out.events.num_rows
    assert found == rows
    assert time.thread_time() - began < 5


def random_run(rng: np.random.Generator, payload: pa.Schema, rows: int) -> Run:
    vs = np.sort(rng.integers(0, 400, rows))
    ve = vs + rng.choice([1, 3, 40, 10_000], rows)
    keys = pa.array(rng.integers(0, 3, rows), mask=rng.random(rows) < 0.1)
    value = pa.array(np.arange(rows)).cast(payload.field(1).type)
    columns = [pa.array(vs), pa.array(ve), keys, value]
    return Run(pa.RecordBatch.from_arrays(columns, schema=event_schema(payload)), NO_CTIS)


def test_dictionary_columns_with_any_batch_boundaries() -> None:
    """Text columns are dictionaries with unused values, as readers of Parquet files emit them."""
    kind, rng = pa.dictionary(pa.int32(), pa.string()), np.random.default_rng(3)
    left, right = (pa.schema([("k", kind), (name, kind)]) for name in "ab")
    words = pa.array([f"w{i}" for i in range(40)])
    inputs = []
    for payload, first in ((left, ["b", "c"]), (right, ["b", "a"])):
        vs, keys, values = np.sort(rng.integers(0, 9, 12)), pa.array(first), rng.integers(0, 9, 12)
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 2, 12), pa.int32()), keys),
            pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), words),
        ]
        times = [pa.array(vs), pa.array(vs + rng.integers(1, 9, 12))]
        events = pa.RecordBatch.from_arrays([*times, *columns], schema=event_schema(payload))
        inputs.append(Run(events, NO_CTIS))
    spec = TemporalJoin(("k",), ("k",), (*SPEC.output[:2], ("right", "b", "b")))
    out = assert_cut_invariant(spec, inputs, [left, right], [5, 12])
    assert only_events(table_of(out)) == nested_loops(spec, inputs) != []


def joined(left: list[Item], right: list[Item]) -> list[Item]:
    operator = SPEC.open([LEFT, RIGHT])
    return table_of(operator.process([make_run(left, LEFT), make_run(right, RIGHT)]))


def test_a_pair_has_the_intersection_of_both_lifetimes() -> None:
    left: list[Item] = [ev(1, 10, k=1, a="x"), cti(20)]
    right: list[Item] = [
        ev(0, 1, k=1, b=0),
        ev(0, 2, k=1, b=1),
        ev(5, 7, k=1, b=2),
        ev(9, 30, k=1, b=3),
    ]
    right += [ev(10, 11, k=1, b=4), ev(2, 3, k=2, b=5), cti(20)]
    assert joined(left, right) == [
        ev(1, 2, k=1, a="x", b=1),
        ev(5, 7, k=1, a="x", b=2),
        ev(9, 10, k=1, a="x", b=3),
        cti(20),
    ]


def test_null_keys_never_match() -> None:
    assert joined([ev(1, 10, k=None, a="x")], [ev(1, 10, k=None, b=1)]) == []


def test_points_at_one_time_match() -> None:
    assert joined([ev(3, k=1, a="x")], [ev(3, k=1, b=1), ev(3, k=1, b=2)]) == [
        ev(3, 4, k=1, a="x", b=1),
        ev(3, 4, k=1, a="x", b=2),
    ]


def test_output_of_one_side_only_and_a_column_twice() -> None:
    spec = TemporalJoin(("k",), ("k",), (("right", "b", "b"), ("right", "b", "again")))
    operator = spec.open([LEFT, RIGHT])
    inputs = [make_run([ev(1, 5, k=1, a="x")], LEFT), make_run([ev(2, 3, k=1, b=7)], RIGHT)]
    assert table_of(operator.process(inputs)) == [ev(2, 3, b=7, again=7)]


def test_rows_before_a_cti_are_forgotten() -> None:
    operator = SPEC.open([LEFT, RIGHT])
    right: list[Item] = [ev(n, n + 5, k=n, b=n) for n in range(1000)]
    operator.process([make_run([cti(999)], LEFT), make_run([*right, cti(999)], RIGHT)])
    assert remembered(operator) == 5
    several: list[Item] = [cti(1001), cti(2000)]
    operator.process([make_run(several, LEFT), make_run(several, RIGHT)])
    assert remembered(operator) == 0


def remembered(operator: Join) -> int:
    operator.check()
    return sum(table.num_rows for table in operator.snapshot().tables.values())


def test_keys_without_matches_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_module, "_CODES_SLACK", 100)
    operator = SPEC.open([LEFT, RIGHT])
    lasting = make_run([ev(0, INF_TIME, k=n, b=n) for n in range(10)], RIGHT)
    operator.process([make_run([], LEFT), lasting])
    matches = 0
    for step in range(50):
        left: list[Item] = [ev(step * 10 + n, k=step * 17 % 400 + n, a="x") for n in range(8)]
        right: list[Item] = [ev(step * 10, step * 10 + 9, k=-20 * step - n - 1) for n in range(9)]
        out = operator.process([make_run(left, LEFT), make_run(right, RIGHT)])
        matches += out.events.num_rows
        operator.check()
    expected = [k for s in range(50) for k in range(s * 17 % 400, s * 17 % 400 + 8) if k < 10]
    assert matches == len(expected) > 0


def intervals(vs: np.ndarray, ve: np.ndarray, payload: pa.Schema) -> Run:
    zeros = np.zeros(len(vs), np.int64)
    value = pa.array(np.arange(len(vs))).cast(payload.field(1).type)
    columns = [pa.array(vs), pa.array(ve), pa.array(zeros), value]
    return Run(pa.RecordBatch.from_arrays(columns, schema=event_schema(payload)), NO_CTIS)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("batch_rows", [500, 40_000])
def test_expired_rows_of_one_key_cost_nothing(nested: bool, batch_rows: int) -> None:
    """One key with one long interval and 40,000 short ones; 40,000 points probe it.

    A scan over the expired ones would take 8e8 steps. ``nested``: each interval ends before the
    previous one.
    """
    rows = 40_000
    vs = np.arange(rows)
    ve = 2 * rows - vs if nested else vs + 1
    ve[0] = INF_TIME
    operator = SPEC.open([LEFT, RIGHT])
    began, pairs = time.thread_time(), 0
    nothing = np.empty(0, np.int64)
    for at in range(0, rows, batch_rows):
        end = at + batch_rows
        operator.process(
            [intervals(nothing, nothing, LEFT), intervals(vs[at:end], ve[at:end], RIGHT)]
        )
    points = 2 * rows + np.arange(rows)
    for at in range(0, rows, batch_rows):
        part = points[at : at + batch_rows]
        nobody = intervals(nothing, nothing, RIGHT)
        out = operator.process([intervals(part, part + 1, LEFT), nobody])
        pairs += out.events.num_rows
    assert pairs == rows
    assert time.thread_time() - began < 5
