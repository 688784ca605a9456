"""Interval joins: equal to a comparison of all rows, for any cuts and restores.

Not covered: a plan that sends equal keys to different vertices, or a misread SQL bound
(``tests/planner/sql/test_interval_joins.py``).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VE, VS
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.run import Run
from rvertex.operators.joins.interval import How, IntervalJoin
from tests.support.budget import examples, one_in
from tests.support.builders import cti, ev, make_run
from tests.support.divided import assert_divisible
from tests.support.operator_harness import assert_cut_invariant, assert_horizon
from tests.support.strategies import ports, splits, times

if TYPE_CHECKING:
    from collections.abc import Sequence

LEFT = pa.schema([("k", pa.int64()), ("a", pa.int64())])
RIGHT = pa.schema([("k", pa.int64()), ("b", pa.int64())])
BOTH = (("left", "k", "k"), ("left", "a", "a"), ("right", "k", "k2"), ("right", "b", "b"))
HOWS: tuple[How, ...] = get_args(How)
BOUNDS = [(0, 0), (-3, 0), (0, 3), (-2, 4), (2, 5), (-5, -2), (1, 1), (-INF_TIME, INF_TIME)]


@dataclass(frozen=True)
class Differ:
    """``a <> b``; null if either is null."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.not_equal(batch.column("a"), batch.column("b"))


def spec_of(how: How, lo: int, hi: int, *, where: bool = False) -> IntervalJoin:
    output = BOTH if how not in ("semi", "anti") else BOTH[:2]
    extra: dict[str, Any] = {"where": Differ(), "reads": (BOTH[1], BOTH[3])} if where else {}
    return IntervalJoin(("k",), ("k",), output, lo, hi, how, **extra)  # type: ignore[arg-type]


def last_instant(start: int, wait: int) -> int:
    return min(start + max(wait, 0), INF_TIME - 1)


def compared(
    lefts: Sequence[dict[str, Any]], rights: Sequence[dict[str, Any]], spec: IntervalJoin
) -> list[tuple[Any, ...]]:
    """Every row compared with every other: ``(vs, values)``, unordered."""
    columns = [(side, column) for side, column, _ in spec.output]
    out: list[tuple[Any, ...]] = []
    single = {"left": spec.how in ("left", "full", "anti"), "right": spec.how in ("right", "full")}
    met_right: set[int] = set()

    def row(time: int, a: dict[str, Any] | None, b: dict[str, Any] | None) -> None:
        sides = {"left": a or {}, "right": b or {}}
        out.append((time, *(sides[side].get(column) for side, column in columns)))

    for a in lefts:
        matches = []
        for j, b in enumerate(rights):
            same = a["k"] is not None and a["k"] == b["k"]
            near = spec.lo_us <= b[VS] - a[VS] <= spec.hi_us
            true = spec.where is None or (None not in (a["a"], b["b"]) and a["a"] != b["b"])
            if same and near and true:
                matches.append(b)
                met_right.add(j)
        if spec.how == "semi" and matches:
            row(max(a[VS], min(b[VS] for b in matches)), a, None)
        elif spec.how not in ("semi", "anti"):
            for b in matches:
                row(max(a[VS], b[VS]), a, b)
        if single["left"] and not matches:
            row(last_instant(a[VS], spec.hi_us), a, None)
    for j, b in enumerate(rights):
        if single["right"] and j not in met_right:
            row(last_instant(b[VS], -spec.lo_us), None, b)
    return out


def sortable(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [(value is None, value or 0) for value in row])


@examples(12)
@given(
    ports([LEFT, RIGHT], times=times(0, 12), duration_max=4, max_size=9),
    st.sampled_from(HOWS),
    st.sampled_from(BOUNDS),
    st.booleans(),
    splits(),
)
def test_interval_join_equals_a_comparison_of_all_pairs(
    inputs: list[Run], how: How, bounds: tuple[int, int], where: bool, cuts: list[int]
) -> None:
    spec = spec_of(how, *bounds, where=where)
    out = assert_cut_invariant(spec, inputs, [LEFT, RIGHT], cuts)
    assert out.ctis.tolist() == inputs[0].ctis.tolist()
    lefts, rights = (run.events.to_pylist() for run in inputs)
    reached = [MIN_TIME, *inputs[0].ctis.tolist(), *(row[VS] for row in (*lefts, *rights))]
    found = [(row[VS], *list(row.values())[2:]) for row in out.events.to_pylist()]
    assert all(row[VE] == row[VS] + 1 for row in out.events.to_pylist())
    expected = compared(lefts, rights, spec)
    if max(reached) < INF_TIME:  # unmatched rows from there on are not emitted yet
        found = [row for row in found if row[0] < max(reached)]
        expected = [row for row in expected if row[0] < max(reached)]
    assert sortable(found) == sortable(expected)


def test_an_interval_join_returns_the_rows_computed_by_hand() -> None:
    ctis = [cti(7), cti(8)]
    left = make_run([ev(1, k=1, a=1), ev(2, k=2, a=2), *ctis], LEFT)
    right = make_run([ev(3, k=1, b=5), *ctis], RIGHT)
    out = assert_cut_invariant(spec_of("left", 0, 5), [left, right], [LEFT, RIGHT])
    assert [tuple(row.values()) for row in out.events.to_pylist()] == [
        (3, 4, 1, 1, 1, 5),
        (7, 8, 2, 2, None, None),
    ]
    assert out.ctis.tolist() == [7, 8]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("bounds", one_in(2, [(0, 5), (-5, 0), (2, 5), (-5, -2)]))
def test_the_state_covers_the_bounds(
    how: How, bounds: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rvertex.operators.joins.inner._CODES_SLACK", 20)
    operator = spec_of(how, *bounds).open([LEFT, RIGHT])
    rows = 0
    for t in range(0, 600, 10):
        left = make_run([ev(t, k=t, a=t), ev(t + 3, k=t, a=t), cti(t + 9)], LEFT)
        right = make_run([ev(t, k=t, b=t), ev(t + 3, k=t, b=t), cti(t + 9)], RIGHT)
        rows += operator.process([left, right]).events.num_rows
    assert rows > 40 or how == "anti"
    tables = operator.snapshot().tables
    assert sum(table.num_rows for table in tables.values()) < 40


def test_row_numbers_continue_after_many_restores() -> None:
    """The numbers in stored rows refer to the same rows as before."""
    operator = spec_of("left", 0, 20).open([LEFT, RIGHT])
    found = []
    for t in range(0, 400, 10):
        state = operator.snapshot()
        operator = spec_of("left", 0, 20).open([LEFT, RIGHT])
        operator.load(state)
        left = make_run([ev(t, k=t, a=t), cti(t + 9)], LEFT)
        right = make_run([ev(t, k=t - 20, b=t), cti(t + 9)] if t % 20 else [cti(t + 9)], RIGHT)
        found += operator.process([left, right]).events.to_pylist()
    ends = make_run([cti(INF_TIME)], LEFT), make_run([cti(INF_TIME)], RIGHT)
    found += operator.process([*ends]).events.to_pylist()
    met = {row["a"] for row in found if row["b"] is not None}
    assert met == {t for t in range(0, 380, 10) if t % 20}
    assert sorted(row["a"] for row in found) == list(range(0, 400, 10))


@pytest.mark.parametrize("how", one_in(3, HOWS))
def test_times_at_the_ends_of_the_time_axis(how: How) -> None:
    last = INF_TIME - 1
    left = make_run([ev(MIN_TIME, k=1, a=1), ev(last, k=2, a=2), cti(INF_TIME)], LEFT)
    right = make_run([ev(MIN_TIME, k=1, b=1), ev(last, k=2, b=2), cti(INF_TIME)], RIGHT)
    for bounds in [(0, 0), (-INF_TIME, INF_TIME), (1, INF_TIME), (-INF_TIME, -1)]:
        spec = spec_of(how, *bounds)
        out = assert_cut_invariant(spec, [left, right], [LEFT, RIGHT])
        found = [(row[VS], *list(row.values())[2:]) for row in out.events.to_pylist()]
        expected = compared(left.events.to_pylist(), right.events.to_pylist(), spec)
        assert sortable(found) == sortable(expected), bounds


@pytest.mark.parametrize(
    "shape", one_in(9, itertools.product(HOWS, [(0, 6), (-6, 0), (-3, 3), (2, 6), (-6, -2)]))
)
def test_a_full_horizon_suffices_and_a_third_does_not(shape: tuple[How, tuple[int, int]]) -> None:
    how, bounds = shape
    spec = spec_of(how, *bounds)
    horizon = spec.horizon_us((1, 1))
    assert horizon is not None
    failed = False
    for seed in range(8):
        rng = Random(seed)
        ctis = np.array(sorted(rng.sample(range(45), 6)), np.int64)
        runs = []
        for schema, name in ((LEFT, "a"), (RIGHT, "b")):
            starts = sorted(rng.randrange(40) for _ in range(14))
            rows = [ev(t, k=rng.randrange(2), **{name: n}) for n, t in enumerate(starts)]
            runs.append(Run(make_run(rows, schema).events, ctis))
        assert_horizon(spec, runs, [LEFT, RIGHT], horizon, range(seed % 6, 40, 6))
        try:
            if not failed:
                assert_horizon(spec, runs, [LEFT, RIGHT], horizon // 3, range(1, 40, 2))
        except AssertionError:
            failed = True
    assert failed


@pytest.mark.parametrize("how", ["left", "right", "full", "anti"])
def test_rows_that_wait_find_their_pairs_in_a_part_of_the_state(how: How) -> None:
    """Buffered rows are numbered by position, so a part of the state numbers them again."""
    spec = spec_of(how, 0, 5)
    lefts = [ev(0, k=k, a=k) for k in range(12)]
    rights = [ev(t, k=k, b=k) for t in (1, 4) for k in range(t, 12, 2)]
    runs = [make_run(lefts, LEFT), make_run(rights, RIGHT)]
    assert_divisible(spec, runs, [LEFT, RIGHT])
