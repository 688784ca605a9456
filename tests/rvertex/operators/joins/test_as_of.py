"""As-of joins: any cuts, equal to a naive search and to Polars, and the cost of a step.

Not covered: mistakes that Polars and this operator share; the catalogue compares with DuckDB.
"""

from __future__ import annotations

from random import Random
from typing import get_args

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VE, VS
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.run import Run
from rvertex.operators.joins.as_of import AsOfJoin, Strategy
from rvertex.state.memory import StateMemory, give_memory
from tests.support.budget import examples, one_in
from tests.support.builders import cti, ev, make_run
from tests.support.naive_lifetimes import nearest_match
from tests.support.operator_harness import assert_cut_invariant, assert_horizon
from tests.support.strategies import PAYLOAD, ports, splits, times

OTHER = pa.schema([("s", pa.string()), ("j", pa.int64())])
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
OUTPUT = (("left", "k", "k"), ("left", "s", "s"), ("right", "j", "j"))


def spec_of(strategy: Strategy, tolerance: int | None, *, is_outer: bool = True) -> AsOfJoin:
    return AsOfJoin(("s",), ("s",), OUTPUT, strategy, tolerance, is_outer)  # type: ignore[arg-type]


@examples(12)
@given(
    ports([PAYLOAD, OTHER], times=times(0, 12), duration_max=9, max_size=12),
    st.sampled_from(STRATEGIES),
    st.sampled_from([None, 0, 1, 3, 20]),
    st.booleans(),
    splits(),
)
def test_as_of_join_equals_a_search(
    inputs: list[Run], strategy: Strategy, tolerance: int | None, is_outer: bool, cuts: list[int]
) -> None:
    if strategy != "backward" and tolerance is None:
        tolerance = 2
    spec = spec_of(strategy, tolerance, is_outer=is_outer)
    out = assert_cut_invariant(spec, inputs, [PAYLOAD, OTHER], cuts)
    left, right = (run.events.to_pylist() for run in inputs)
    seen = [MIN_TIME, *inputs[0].ctis.tolist(), *(row[VS] for row in (*left, *right))]
    until = max(seen) if max(seen) == INF_TIME else max(seen) - spec.wait_us
    expected = []
    for row in left:
        found = nearest_match(row, right, ("s",), ("s",), strategy, tolerance)
        if row[VS] < until and (is_outer or found is not None):
            j = None if found is None else found["j"]
            expected.append({VS: row[VS], VE: row[VE], "k": row["k"], "s": row["s"], "j": j})
    assert out.events.to_pylist() == expected
    ctis = inputs[0].ctis.tolist()
    assert out.ctis.tolist() == [t if t == INF_TIME else t - spec.wait_us for t in ctis]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("tolerance", [None, 7])
def test_as_of_join_equals_polars(strategy: Strategy, tolerance: int | None) -> None:
    rng = Random(3)
    schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("j", pa.int64())])
    sides = []
    for _ in range(2):
        starts = sorted(rng.randrange(600) for _ in range(300))
        sides.append([{"t": t, "s": rng.choice("abc"), "j": n} for n, t in enumerate(starts)])
    tables = [
        pl.DataFrame(rows, schema={"t": pl.Int64, "s": pl.String, "j": pl.Int64}) for rows in sides
    ]
    found = tables[0].join_asof(tables[1], on="t", by="s", strategy=strategy, tolerance=tolerance)
    given = 600 if tolerance is None and strategy != "backward" else tolerance
    spec = spec_of(strategy, given)
    runs = [
        make_run([*(ev(r["t"], k=r["j"], s=r["s"], j=r["j"]) for r in rows), cti(INF_TIME)], schema)
        for rows in sides
    ]
    out = spec.open([schema, schema]).process(runs).events
    assert out.column("k").to_pylist() == found["j"].to_list()
    assert out.column("j").to_pylist() == found["j_right"].to_list()


def test_an_as_of_join_returns_the_rows_computed_by_hand() -> None:
    left = make_run([ev(1, k=1, s="a"), ev(6, 9, k=2, s="a"), cti(5), cti(9), cti(10)], PAYLOAD)
    right = make_run([ev(2, s="a", j=1), ev(8, s="a", j=2), cti(5), cti(9), cti(10)], OTHER)
    out = assert_cut_invariant(spec_of("nearest", 3), [left, right], [PAYLOAD, OTHER])
    assert [tuple(row.values()) for row in out.events.to_pylist()] == [
        (1, 2, 1, "a", 1),
        (6, 9, 2, "a", 2),
    ]
    assert out.ctis.tolist() == [2, 6, 7]


@pytest.mark.parametrize(
    ("strategy", "left", "right", "matches"),
    [
        ("backward", 5, 2, [2, None]),
        ("nearest", 5, 2, [2, None]),
        ("forward", 2, 5, [0, 1]),
        ("nearest", 2, 5, [2, 3]),
    ],
)
def test_a_match_at_the_tolerance_waits_for_the_last_row_that_may_take_it(
    strategy: Strategy, left: int, right: int, matches: list[int | None]
) -> None:
    """A match exactly at the tolerance is kept, even if old matches are dropped at every step."""
    times = [cti(t) for t in range(1, 12)]
    lefts = make_run([ev(left, k=1, s="a"), ev(left + 1, k=2, s="b"), *times], PAYLOAD)
    rights = make_run([ev(right, s=s, j=j) for j, s in enumerate("abab")] + times, OTHER)
    out = assert_cut_invariant(spec_of(strategy, 3), [lefts, rights], [PAYLOAD, OTHER])
    assert out.events.column("j").to_pylist() == matches


def test_a_match_may_come_when_those_that_it_is_too_late_for_are_long_gone() -> None:
    operator = spec_of("forward", 5).open([PAYLOAD, OTHER])
    for start in range(0, 30_000, 10_000):
        rows = [ev(t, k=t, s="a") for t in range(start, start + 10_000, 10)]
        ctis = [cti(start + 9_999)]
        out = operator.process([make_run([*rows, *ctis], PAYLOAD), make_run(ctis, OTHER)])
        assert out.events.column("j").to_pylist() == [None] * len(rows)
    waits = make_run([ev(30_000, k=1, s="a"), cti(30_001)], PAYLOAD)
    assert operator.process([waits, make_run([cti(30_001)], OTHER)]).events.num_rows == 0
    ctis = [cti(INF_TIME)]
    match = make_run([ev(30_005, s="a", j=7), *ctis], OTHER)
    out = operator.process([make_run(ctis, PAYLOAD), match])
    assert out.events.column("j").to_pylist() == [7]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_times_at_the_ends_of_the_time_axis(strategy: Strategy) -> None:
    last = INF_TIME - 1
    left = make_run([ev(MIN_TIME, k=1, s="a"), ev(last, k=2, s="a"), cti(INF_TIME)], PAYLOAD)
    right = make_run([ev(MIN_TIME, s="a", j=1), ev(last, s="a", j=2), cti(INF_TIME)], OTHER)
    for tolerance in (0, 2**63 - 1):
        spec = spec_of(strategy, tolerance)
        out = assert_cut_invariant(spec, [left, right], [PAYLOAD, OTHER])
        assert out.events.column("j").to_pylist() == [1, 2]
    far = make_run([ev(0, k=1, s="a"), cti(MIN_TIME), cti(INF_TIME)], PAYLOAD)
    near = make_run([ev(last, s="a", j=2), cti(MIN_TIME), cti(INF_TIME)], OTHER)
    out = assert_cut_invariant(spec_of(strategy, 2**63 - 3), [far, near], [PAYLOAD, OTHER])
    assert out.events.column("j").to_pylist() == [None]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_state_covers_the_tolerance(
    strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many keys occur once: rows and keys that are too old are dropped."""
    monkeypatch.setattr("rvertex.operators.joins.as_of._SLACK", 20)
    monkeypatch.setattr("rvertex.operators.joins.as_of._CODES_SLACK", 20)
    operator = spec_of(strategy, 5).open([PAYLOAD, OTHER])
    for t in range(0, 1500, 10):
        left = make_run([ev(t, k=t, s=str(t)), cti(t + 9)], PAYLOAD)
        right = make_run([ev(t, s=str(t), j=t), ev(t + 1, s="b", j=t), cti(t + 9)], OTHER)
        out = operator.process([left, right])
        assert out.events.column("j").to_pylist() == [t]
    tables = operator.snapshot().tables
    assert all(table.num_rows < 100 for table in tables.values())
    assert len(operator._keys) < 200  # type: ignore[attr-defined]


def test_matches_on_scratch_are_listed_once() -> None:
    """Each match on scratch is listed once, not again after it was copied back or replaced."""
    memory = StateMemory(1 << 40)
    in_memory, spilled = (spec_of("backward", 50).open([PAYLOAD, OTHER]) for _ in range(2))
    give_memory(spilled, memory)
    steps = [("", "abcd"), ("a", ""), ("b", "b"), ("", "a")]
    for step, (lefts, rights) in enumerate(steps):
        t = 10 * step
        left = make_run([*(ev(t, k=t, s=s) for s in lefts), cti(t + 9)], PAYLOAD)
        right = make_run([*(ev(t, s=s, j=t) for s in rights), cti(t + 9)], OTHER)
        outs = [operator.process([left, right]).events for operator in (in_memory, spilled)]
        assert outs[0].equals(outs[1])
        if step == 0:
            spilled._spill()  # type: ignore[attr-defined]
            assert memory.used_bytes > 0
        expected, found = (
            sorted(op.held_tables()["matches"].select(["s", "j"]).to_pylist(), key=str)  # type: ignore[attr-defined]
            for op in (in_memory, spilled)
        )
        assert found == expected
        assert len(found) == len("abcd")
    ends = [make_run([cti(51)], schema) for schema in (PAYLOAD, OTHER)]
    spilled.process(ends)
    matches = spilled.held_tables()["matches"]  # type: ignore[attr-defined]
    assert sorted(matches.column("s").to_pylist()) == ["a", "b"]


@pytest.mark.parametrize("strategy", one_in(3, STRATEGIES))
def test_a_full_horizon_suffices_and_a_third_does_not(strategy: Strategy) -> None:
    spec = spec_of(strategy, 6)
    horizon = spec.horizon_us((1, 1))
    assert horizon == {"backward": 6, "forward": 6, "nearest": 12}[strategy]
    failed = False
    for seed in range(8):
        rng = Random(seed)
        ctis = np.array(sorted(rng.sample(range(45), 6)), np.int64)
        runs = []
        for schema, name in ((PAYLOAD, "k"), (OTHER, "j")):
            starts = sorted(rng.randrange(40) for _ in range(14))
            rows = [ev(t, s=rng.choice("ab"), **{name: n}) for n, t in enumerate(starts)]
            runs.append(Run(make_run(rows, schema).events, ctis))
        assert_horizon(spec, runs, [PAYLOAD, OTHER], horizon, range(seed % 6, 40, 6))
        try:
            if not failed:
                assert_horizon(spec, runs, [PAYLOAD, OTHER], horizon // 3, range(1, 40, 2))
        except AssertionError:
            failed = True
    assert failed
    assert spec_of("backward", None).horizon_us((1, 1)) is None
