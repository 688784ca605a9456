"""Left and anti joins against their definition at each instant, with random cuts and restores.

Not covered: a plan that sends equal keys to different vertices.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VE, VS, event_schema
from rstream.types import INF_TIME, MIN_TIME
from rvertex.events.run import Run
from rvertex.operators.joins.anti import AntiJoin
from rvertex.operators.joins.conditional import ConditionalJoin
from rvertex.operators.joins.left import LeftJoin
from tests.support import naive_lifetimes as naive
from tests.support.budget import examples
from tests.support.builders import Item, cti, ev, make_run, table_of
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import ports, splits, times

if TYPE_CHECKING:
    from rvertex.operators.joins.conditional import Columns
    from rvertex.operators.protocol import OperatorSpec

LEFT = pa.schema([("k", pa.int64()), ("s", pa.string()), ("a", pa.int64())])
RIGHT = pa.schema([("k", pa.int64()), ("s", pa.string()), ("b", pa.int64())])
INPUTS = ports([LEFT, RIGHT], times=times(0, 14), duration_max=9)
KEYS = st.sampled_from([("k",), ("k", "s")])


def anti(*on: str) -> AntiJoin:
    return AntiJoin(on, on, (("k", "k"), ("s", "s"), ("a", "a")))


def left(*on: str) -> LeftJoin:
    columns = (("left", "k", "k"), ("left", "s", "s"), ("left", "a", "a"), ("right", "b", "b"))
    return LeftJoin(on, on, columns)  # type: ignore[arg-type]


def joined(spec: OperatorSpec, lefts: list[Item], rights: list[Item]) -> list[Item]:
    return table_of(assert_cut_invariant(spec, runs_of(lefts, rights), [LEFT, RIGHT]))


def runs_of(lefts: list[Item], rights: list[Item]) -> list[Run]:
    ctis = [i for i in lefts if i not in rights and not hasattr(i, "vs")]
    return [make_run(lefts, LEFT), make_run([*rights, *ctis], RIGHT)]


def a(vs: int, ve: int, k: int | None = 1) -> Item:
    return ev(vs, ve, k=k, s=None, a=None)


def b(vs: int, ve: int, value: int | None, k: int | None = 1) -> Item:
    return ev(vs, ve, k=k, s=None, a=None, b=value)


def test_an_anti_join_returns_the_table_of_the_algebra() -> None:
    lefts: list[Item] = [ev(100, 110, k=1), cti(102), cti(107), cti(110)]
    rights: list[Item] = [ev(101, 103, k=1), ev(106, 108, k=1), ev(106, 109, k=1)]
    assert joined(anti("k"), lefts, rights) == [
        a(100, 101),
        cti(102),
        a(103, 106),
        cti(107),
        a(109, 110),
        cti(110),
    ]


def test_a_left_join_returns_the_table_of_the_algebra() -> None:
    lefts: list[Item] = [ev(100, 110, k=1), cti(102), cti(107)]
    rights: list[Item] = [ev(101, 103, k=1, b=7), ev(106, 112, k=1, b=8)]
    assert joined(left("k"), lefts, rights) == [
        b(100, 101, None),
        b(101, 103, 7),
        cti(102),
        b(103, 106, None),
        b(106, 110, 8),
        cti(107),
    ]


def test_rows_with_null_keys_are_not_split() -> None:
    lefts: list[Item] = [ev(1, 9, k=None), cti(20)]
    assert joined(anti("k"), lefts, [ev(0, 9, k=None)]) == [a(1, 9, None), cti(20)]
    assert joined(left("k"), lefts, [ev(0, 9, k=None)]) == [b(1, 9, None, None), cti(20)]
    others = [ev(0, 9, k=1), ev(0, 9, k=2)]
    assert joined(anti("k"), lefts, others) == [a(1, 9, None), cti(20)]
    assert joined(left("k"), lefts, others) == [b(1, 9, None, None), cti(20)]


def test_a_match_from_the_first_instant_leaves_no_unmatched_piece() -> None:
    lefts: list[Item] = [ev(1, 9, k=1), cti(20)]
    assert joined(anti("k"), lefts, [ev(1, 5, k=1), ev(5, 9, k=1)]) == [cti(20)]
    assert joined(anti("k"), lefts, [ev(9, 12, k=1), ev(0, 1, k=1)]) == [a(1, 9), cti(20)]


def test_an_open_piece_delays_later_ones() -> None:
    lefts: list[Item] = [ev(1, INF_TIME, k=1), ev(2, 3, k=2), cti(10), cti(20)]
    assert joined(anti("k"), lefts, []) == [cti(1)]
    assert joined(anti("k"), lefts, [ev(12, 30, k=1)]) == [cti(1), a(1, 12), a(2, 3, 2), cti(20)]


def test_a_piece_starts_at_the_end_of_a_cover_for_any_ctis() -> None:
    """A piece begins where the last match ends, also at the border of two steps."""
    rows = [[ev(100, 110, k=1)], [ev(101, 103, k=1), ev(106, 108, k=1)]]
    for first, second in itertools.combinations(range(100, 112), 2):
        operator = anti("k").open([LEFT, RIGHT])
        found: list[tuple[int, int]] = []
        before = 0
        for until in (first, second, 120):
            ports = [
                make_run([*(r for r in side if before <= r.vs < until), cti(until)], schema)
                for side, schema in zip(rows, (LEFT, RIGHT), strict=True)
            ]
            found += [(r[VS], r[VE]) for r in operator.process(ports).events.to_pylist()]
            before = until
        assert found == [(100, 101), (103, 106), (108, 110)], (first, second)


@examples(8)
@given(INPUTS, KEYS, splits())
def test_anti_join_equals_its_definition(
    inputs: list[Run], on: tuple[str, ...], cuts: list[int]
) -> None:
    out = assert_cut_invariant(anti(*on), inputs, [LEFT, RIGHT], cuts)
    lefts, rights = (run.events.to_pylist() for run in inputs)
    pieces = naive.pieces_alone(lefts, rights, on, on)
    assert out.events.to_pylist() == known(pieces, inputs)
    assert out.ctis.tolist() == naive.held_ctis(inputs[0].ctis.tolist(), pieces)


@examples(6)
@given(INPUTS, KEYS, splits())
def test_left_join_is_all_of_both(inputs: list[Run], on: tuple[str, ...], cuts: list[int]) -> None:
    out = assert_cut_invariant(left(*on), inputs, [LEFT, RIGHT], cuts)
    lefts, rights = (run.events.to_pylist() for run in inputs)
    pieces = naive.pieces_alone(lefts, rights, on, on)
    assert out.ctis.tolist() == naive.held_ctis(inputs[0].ctis.tolist(), pieces)
    alone = [r for r in out.events.to_pylist() if r["b"] is None]
    pieces_out = [{**row, "b": None} for row in known(pieces, inputs)]
    assert all(piece in alone for piece in pieces_out)


@examples(60)
@given(INPUTS, KEYS)
def test_at_each_instant_the_joins_are_relational(inputs: list[Run], on: tuple[str, ...]) -> None:
    ended = [Run(run.events, np.array([INF_TIME], np.int64)) for run in inputs]
    lefts, rights = (run.events.to_pylist() for run in ended)
    alone = anti(*on).open([LEFT, RIGHT]).process(ended).events.to_pylist()
    outer = left(*on).open([LEFT, RIGHT]).process(ended).events.to_pylist()
    for t in range(-1, 25):
        now, there = naive.alive_at(t, lefts), naive.alive_at(t, rights)
        pairs = [(x, [y for y in there if matching(x, y, on)]) for x in now]
        assert bag(naive.alive_at(t, alone)) == bag([x for x, found in pairs if not found])
        expected = [{**x, "b": y["b"]} for x, found in pairs for y in (found or [{"b": None}])]
        assert bag(naive.alive_at(t, outer)) == bag(expected)


def matching(x: naive.Row, y: naive.Row, on: tuple[str, ...]) -> bool:
    return all(x[name] is not None and x[name] == y[name] for name in on)


def bag(rows: list[naive.Row]) -> list[str]:
    return sorted(map(repr, rows))


def known(pieces: list[naive.Due], inputs: list[Run]) -> list[naive.Row]:
    """The pieces before the first one that is not due at the greatest time so far."""
    seen = [int(MIN_TIME), *inputs[0].ctis.tolist()]
    for run in inputs:
        seen += run.events.column(VS).to_pylist()
    return naive.leaving(pieces, max(seen))


@dataclass(frozen=True)
class LessOrNull:
    """``a < other``; null if either is null."""

    other: str

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.less(batch.column("a"), batch.column(self.other))


def conditional(how: Literal["left", "anti"], *on: str) -> ConditionalJoin:
    plain = left(*on).output
    output = plain if how == "left" else plain[:-1]
    reads: Columns = (("left", "a", "a"), ("right", "b", "b"))
    return ConditionalJoin(on, on, output, LessOrNull("b"), reads, how)


def less(x: naive.Row, y: naive.Row) -> bool:
    return x["a"] is not None and y["b"] is not None and x["a"] < y["b"]


def test_a_condition_says_what_a_match_is() -> None:
    lefts: list[Item] = [ev(100, 110, k=1, a=5), cti(110)]
    rights: list[Item] = [ev(101, 103, k=1, b=9), ev(104, 108, k=1, b=2)]
    alone = joined(conditional("anti", "k"), lefts, rights)
    assert alone == [ev(100, 101, k=1, s=None, a=5), ev(103, 110, k=1, s=None, a=5), cti(110)]


@examples(6)
@given(INPUTS, KEYS, splits())
def test_conditional_anti_join_equals_its_definition(
    inputs: list[Run], on: tuple[str, ...], cuts: list[int]
) -> None:
    out = assert_cut_invariant(conditional("anti", *on), inputs, [LEFT, RIGHT], cuts)
    lefts, rights = (run.events.to_pylist() for run in inputs)
    pieces = naive.pieces_alone(lefts, rights, on, on, less)
    assert out.events.to_pylist() == known(pieces, inputs)
    assert out.ctis.tolist() == naive.held_ctis(inputs[0].ctis.tolist(), pieces)


@examples(6)
@given(INPUTS, KEYS, splits())
def test_conditional_left_join_at_each_instant(
    inputs: list[Run], on: tuple[str, ...], cuts: list[int]
) -> None:
    assert_cut_invariant(conditional("left", *on), inputs, [LEFT, RIGHT], cuts)
    ended = [Run(run.events, np.array([INF_TIME], np.int64)) for run in inputs]
    lefts, rights = (run.events.to_pylist() for run in ended)
    outer = conditional("left", *on).open([LEFT, RIGHT]).process(ended).events.to_pylist()
    for t in range(-1, 25):
        now, there = naive.alive_at(t, lefts), naive.alive_at(t, rights)
        expected = []
        for x in now:
            found = [y for y in there if matching(x, y, on) and less(x, y)]
            expected += [{**x, "b": y["b"]} for y in (found or [{"b": None}])]
        assert bag(naive.alive_at(t, outer)) == bag(expected)


@pytest.mark.slow
def test_keys_of_the_past_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    lefts: list[Item] = [ev(t, t + 5, k=t // 2) for t in range(24)]
    rights: list[Item] = [ev(t, t + 2, k=t // 2) for t in range(0, 24, 3)]
    lefts += [cti(t) for t in range(0, 40, 10)]
    specs: list[OperatorSpec] = [anti("k"), left("k"), conditional("left", "k")]
    inputs = runs_of(lefts, rights)
    whole = [table_of(spec.open([LEFT, RIGHT]).process(inputs)) for spec in specs]
    monkeypatch.setattr("rvertex.operators.joins.anti._CODES_SLACK", 10)
    assert [joined(spec, lefts, rights) for spec in specs] == whole


@pytest.mark.parametrize("batch_rows", [1_000, 20_000])
def test_matches_without_effect_cost_nothing(batch_rows: int) -> None:
    """20,000 long events of one key, and as many overlapping matches."""
    rows, ctis = 20_000, np.empty(0, np.int64)
    operator = anti("k").open([LEFT, RIGHT])
    nothing = np.empty(0, np.int64)
    vs = np.arange(rows)
    began = time.thread_time()
    lefts = events(vs, np.full(rows, INF_TIME), LEFT)
    nobody = events(nothing, nothing, RIGHT)
    operator.process([Run(lefts, ctis), Run(nobody, ctis)])
    emitted = 0
    for at in range(0, rows, batch_rows):
        part = rows + vs[at : at + batch_rows]
        rights = events(part, part + 5, RIGHT)
        out = operator.process([Run(events(nothing, nothing, LEFT), ctis), Run(rights, ctis)])
        emitted += out.events.num_rows
    assert emitted == rows
    assert time.thread_time() - began < 2


def events(vs: np.ndarray, ve: np.ndarray, payload: pa.Schema) -> pa.RecordBatch:
    keys = pa.array(np.zeros(len(vs), np.int64))
    columns = [pa.array(vs), pa.array(ve), keys, pa.nulls(len(vs), pa.string()), keys]
    return pa.RecordBatch.from_arrays(columns, schema=event_schema(payload)).select(
        [VS, VE, *payload.names]
    )
