"""Lifetime operators against their definition, row by row, with random cuts and restores.

Not covered: speed, except the shape of its growth; a plan that sends keys to the wrong vertex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.types import INF_TIME, MIN_TIME
from rvertex.errors import EndlessChopError, TimeAxisError, UnknownColumnError
from rvertex.operators.lifetimes.chop import Chop
from rvertex.operators.lifetimes.clip import Clip
from rvertex.operators.lifetimes.extend import Extend
from rvertex.operators.lifetimes.point_at_end import PointAtEnd
from rvertex.operators.lifetimes.set_duration import SetDuration
from rvertex.operators.lifetimes.shift import Shift
from rvertex.operators.lifetimes.stitch import Stitch
from tests.support import naive_lifetimes as naive
from tests.support.budget import examples
from tests.support.builders import Ev, Item, cti, ev, make_run, table_of
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import ports, runs, splits, times

if TYPE_CHECKING:
    from rvertex.events.run import Run
    from rvertex.operators.protocol import OperatorSpec

PAYLOAD = pa.schema([("k", pa.int64()), ("s", pa.string())])
OTHER = pa.schema([("s", pa.string()), ("j", pa.int64())])
INTERVALS = runs(PAYLOAD, times=times(-6, 14), duration_max=9)


def out_of(spec: OperatorSpec, *tables: list[Item]) -> list[Item]:
    """The output for whole tables; the second also has the columns of ``PAYLOAD``."""
    inputs = [make_run(table, PAYLOAD) for table in tables]
    out = assert_cut_invariant(spec, inputs, [PAYLOAD] * len(inputs))
    return [_short(item) for item in table_of(out)]


def _short(item: Item) -> Item:
    if not isinstance(item, Ev):
        return item
    return Ev(item.vs, item.ve, {k: v for k, v in item.payload.items() if v is not None})


# The tables of the docstrings.


def test_shift_returns_the_table_of_the_algebra() -> None:
    table: list[Item] = [ev(1, 5, s="a"), cti(2), ev(2, INF_TIME, s="b"), cti(INF_TIME)]
    assert out_of(Shift(3), table) == [
        ev(4, 8, s="a"),
        cti(5),
        ev(5, INF_TIME, s="b"),
        cti(INF_TIME),
    ]
    assert out_of(Shift(-3), table)[:2] == [ev(-2, 2, s="a"), cti(-1)]


def test_set_duration_returns_the_table_of_the_algebra() -> None:
    table: list[Item] = [ev(1, 2, s="a"), ev(3, INF_TIME, s="b"), cti(4)]
    assert out_of(SetDuration(4), table) == [ev(1, 5, s="a"), ev(3, 7, s="b"), cti(4)]
    assert out_of(SetDuration(INF_TIME), table)[1] == ev(3, INF_TIME, s="b")


def test_extend_returns_the_table_of_the_algebra() -> None:
    table: list[Item] = [ev(1, 5, s="a"), ev(2, 5, s="b"), ev(3, INF_TIME, s="c"), cti(4)]
    assert out_of(Extend(-3), table) == [ev(1, 2, s="a"), ev(3, INF_TIME, s="c"), cti(4)]
    assert out_of(Extend(2), table)[0] == ev(1, 7, s="a")
    assert out_of(Extend(-100), table) == [ev(3, INF_TIME, s="c"), cti(4)]


def test_point_at_end_table() -> None:
    table: list[Item] = [ev(1, 9, s="a"), ev(2, 5, s="b"), cti(4), ev(6, 7, s="c")]
    table += [cti(8), cti(INF_TIME), ev(7, INF_TIME, s="never")]
    assert out_of(PointAtEnd(), table) == [
        cti(4),
        ev(5, 6, s="b"),
        ev(7, 8, s="c"),
        cti(8),
        ev(9, 10, s="a"),
        cti(INF_TIME),
    ]


def test_chop_returns_the_table_of_the_algebra() -> None:
    table: list[Item] = [ev(3, 25, s="a"), ev(12, 14, s="b"), cti(20), cti(21)]
    assert out_of(Chop(10), table) == [
        ev(3, 10, s="a"),
        ev(10, 20, s="a"),
        ev(12, 14, s="b"),
        cti(20),
        ev(20, 25, s="a"),
        cti(21),
    ]


def test_chop_offset_counts_from_zero() -> None:
    assert out_of(Chop(10, 4), [ev(-8, 5, s="a"), cti(9)]) == [
        ev(-8, -6, s="a"),
        ev(-6, 4, s="a"),
        ev(4, 5, s="a"),
        cti(9),
    ]
    assert out_of(Chop(10, -16), [ev(3, 5, s="a"), cti(9)])[:2] == [
        ev(3, 4, s="a"),
        ev(4, 5, s="a"),
    ]


def test_stitch_returns_the_table_of_the_algebra() -> None:
    table: list[Item] = [ev(1, 3, k=1, s="a"), ev(3, 5, k=1, s="b"), ev(4, 6, k=2, s="c")]
    table += [cti(5), cti(6), ev(8, 9, k=1, s="d"), cti(INF_TIME)]
    assert out_of(Stitch(("k",)), table) == [
        cti(1),
        ev(1, 5, k=1, s="a"),
        cti(4),
        ev(4, 6, k=2, s="c"),
        ev(8, 9, k=1, s="d"),
        cti(INF_TIME),
    ]


def test_clip_returns_the_table_of_the_algebra() -> None:
    left: list[Item] = [ev(1, 9, k=1, s="a"), ev(2, 9, k=2, s="b"), *map(cti, (3, 6, 9))]
    right: list[Item] = [ev(1, 2, k=1), ev(5, 6, k=1), *map(cti, (3, 6, 9))]
    assert out_of(Clip(("k",), ("k",)), left, right) == [
        cti(1),
        ev(1, 5, k=1, s="a"),
        cti(2),
        ev(2, 9, k=2, s="b"),
        cti(9),
    ]


def test_a_stream_clipped_by_itself_lasts_until_the_next_of_its_key() -> None:
    table: list[Item] = [ev(1, INF_TIME, k=1, s="a"), ev(1, INF_TIME, k=1, s="b")]
    table += [ev(4, INF_TIME, k=1, s="c"), ev(5, INF_TIME, s="null"), ev(6, INF_TIME, s="null")]
    table += [cti(INF_TIME)]
    assert out_of(Clip(("k",), ("k",)), table, table) == [
        ev(1, 4, k=1, s="a"),
        ev(1, 4, k=1, s="b"),
        ev(4, INF_TIME, k=1, s="c"),
        ev(5, INF_TIME, s="null"),
        ev(6, INF_TIME, s="null"),
        cti(INF_TIME),
    ]


# Against the definitions.


@examples(10)
@given(INTERVALS, st.integers(-12, 12), splits())
def test_shift_and_extend_move_rows_and_ctis(run: Run, d: int, cuts: list[int]) -> None:
    rows = run.events.to_pylist()
    out = assert_cut_invariant(Shift(d), [run], [PAYLOAD], cuts)
    assert out.events.to_pylist() == [{**r, "_vs": r["_vs"] + d, "_ve": r["_ve"] + d} for r in rows]
    assert out.ctis.tolist() == [t if t == INF_TIME else t + d for t in run.ctis.tolist()]
    out = assert_cut_invariant(Extend(d), [run], [PAYLOAD], cuts)
    moved = [{**r, "_ve": r["_ve"] + d} for r in rows]
    assert out.events.to_pylist() == [r for r in moved if r["_ve"] > r["_vs"]]


@examples(10)
@given(INTERVALS, splits())
def test_each_row_becomes_a_point_at_its_end(run: Run, cuts: list[int]) -> None:
    out = assert_cut_invariant(PointAtEnd(), [run], [PAYLOAD], cuts)
    frontier = max([MIN_TIME, *run.ctis.tolist(), *run.events.column("_vs").to_pylist()])
    points = naive.points_at_end(run.events.to_pylist())
    assert out.events.to_pylist() == [p for p in points if p["_vs"] < frontier]
    assert np.array_equal(out.ctis, run.ctis)


@examples(15)
@given(INTERVALS, st.integers(1, 7), st.integers(-9, 9), splits())
def test_chop_equals_the_naive_rows(run: Run, period: int, offset: int, cuts: list[int]) -> None:
    out = assert_cut_invariant(Chop(period, offset), [run], [PAYLOAD], cuts)
    pieces = naive.chop(run.events.to_pylist(), period, offset)
    last_vs = max(run.events.column("_vs").to_pylist(), default=MIN_TIME)
    last_cti = max(run.ctis.tolist(), default=MIN_TIME)
    known = [p for p in pieces if p["_vs"] <= last_vs or p["_vs"] < last_cti]
    assert out.events.to_pylist() == known
    assert np.array_equal(out.ctis, run.ctis)


@examples(12)
@given(INTERVALS, st.sampled_from([("k",), ("k", "s"), ("s",), ()]), splits())
def test_stitch_equals_the_naive_rows(run: Run, on: tuple[str, ...], cuts: list[int]) -> None:
    out = assert_cut_invariant(Stitch(on), [run], [PAYLOAD], cuts)
    islands = naive.stitch(run.events.to_pylist(), on)
    assert out.events.to_pylist() == released(islands, [run])
    assert out.ctis.tolist() == naive.held_ctis(run.ctis.tolist(), islands)


@examples(12)
@given(ports([PAYLOAD, OTHER], times=times(0, 12), duration_max=9), st.booleans(), splits())
def test_clip_equals_the_naive_rows(inputs: list[Run], both: bool, cuts: list[int]) -> None:
    on = (("k", "s"), ("j", "s")) if both else (("s",), ("s",))
    out = assert_cut_invariant(Clip(*on), inputs, [PAYLOAD, OTHER], cuts)
    left, right = (run.events.to_pylist() for run in inputs)
    rows = naive.clip(left, right, *on)
    assert out.events.to_pylist() == released(rows, inputs)
    assert out.ctis.tolist() == naive.held_ctis(inputs[0].ctis.tolist(), rows)


def released(rows: list[naive.Due], inputs: list[Run]) -> list[naive.Row]:
    """The rows before the first one that is not due at the greatest time so far."""
    seen = [MIN_TIME, *inputs[0].ctis.tolist()]
    for run in inputs:
        seen += run.events.column("_vs").to_pylist()
    return naive.leaving(rows, max(seen))


# The limits of time, and errors.


@pytest.mark.parametrize("d", [INF_TIME, 7, 0, -7, MIN_TIME])
@pytest.mark.parametrize("vs", [MIN_TIME, MIN_TIME + 7, -1, 0, INF_TIME - 9])
def test_shift_at_the_ends_of_time(d: int, vs: int) -> None:
    table: list[Item] = [cti(vs), ev(vs, vs + 5, s="a"), ev(vs, INF_TIME, s="b")]
    if MIN_TIME <= vs + d < INF_TIME:
        assert out_of(Shift(d), table) == [
            cti(vs + d),
            ev(vs + d, min(vs + 5 + d, INF_TIME), s="a"),
            ev(vs + d, INF_TIME, s="b"),
        ]
    else:
        with pytest.raises(TimeAxisError):
            out_of(Shift(d), table)


@pytest.mark.parametrize(("d", "gone"), [(7, INF_TIME - 3), (-7, MIN_TIME + 3)])
def test_a_shifted_cti_beyond_the_time_axis_says_nothing(d: int, gone: int) -> None:
    early, late = MIN_TIME + 20, INF_TIME - 20
    table: list[Item] = [ev(early, early + 1, s="a"), ev(late, late + 1, s="b")]
    at = 0 if gone < 0 else 2
    table.insert(at, cti(gone))
    shifted = [ev(vs + d, vs + 1 + d, s=s) for vs, s in ((early, "a"), (late, "b"))]
    assert out_of(Shift(d), table) == shifted


@pytest.mark.parametrize("vs", [MIN_TIME, INF_TIME - 30])
def test_chop_at_the_ends_of_time(vs: int) -> None:
    rows = [{"_vs": vs, "_ve": vs + 29, "k": None, "s": "a"}]
    for period, offset in ((10, 0), (7, 3), (INF_TIME, 0), (INF_TIME, -1)):
        out = Chop(period, offset).open([PAYLOAD])
        run = make_run([ev(vs, vs + 29, s="a"), cti(INF_TIME)], PAYLOAD)
        assert out.process([run]).events.to_pylist() == naive.chop(rows, period, offset)


@pytest.mark.parametrize("ve", [INF_TIME, 1_000_002])
def test_endless_chops_are_refused(ve: int) -> None:
    with pytest.raises(EndlessChopError, match="set_duration"):
        Chop(1).open([PAYLOAD]).process([make_run([ev(1, ve)], PAYLOAD)])


def test_stitch_needs_its_columns() -> None:
    with pytest.raises(UnknownColumnError):
        Stitch(("nobody",)).open([PAYLOAD])


@pytest.mark.slow
@pytest.mark.parametrize("module", ["stitch", "clip"])
def test_keys_of_the_past_are_forgotten(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"rvertex.operators.lifetimes.{module}._CODES_SLACK", 20)
    spec: OperatorSpec = Stitch(("k",)) if module == "stitch" else Clip(("k",), ("k",))
    table: list[Item] = [ev(t, t + 3, k=t // 2) for t in range(100)]
    table += [cti(t) for t in range(0, 150, 10)]
    tables = [table] if module == "stitch" else [table, table]
    whole = out_of(spec, *tables)
    monkeypatch.setattr(f"rvertex.operators.lifetimes.{module}._CODES_SLACK", 1 << 17)
    assert out_of(spec, *tables) == whole
