"""Extremes: any cuts, equal to a comparison of every two events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from rstream.items.batch import VE, VS
from rstream.types import INF_TIME
from rvertex.errors import OperatorTypeError, UnknownColumnError
from rvertex.operators.windows.extremes import Extremes
from tests.support.budget import examples
from tests.support.builders import Cti, Ev, cti, ev, make_run, table_of
from tests.support.exact import exact_rows
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from rvertex.events.run import Run

ONE = pa.schema([("n", pa.int64())])


@examples(8)
@given(run=runs(duration_max=1, max_size=12), cuts=splits(), is_max=st.booleans())
def test_extremes_are_not_exceeded_by_events_of_the_same_lifetime(
    run: Run, cuts: list[int], is_max: bool
) -> None:
    out = assert_cut_invariant(Extremes("n", is_max), [run], [PAYLOAD], cuts)
    rows = run.events.to_pylist()
    kept = [
        row["n"] is not None
        and not any(
            (other["n"] > row["n"]) if is_max else (other["n"] < row["n"])
            for other in rows
            if other["n"] is not None and (other[VS], other[VE]) == (row[VS], row[VE])
        )
        for row in rows
    ]
    expected = exact_rows(run.events.filter(pa.array(kept, pa.bool_())))
    assert exact_rows(out.events) == expected[: out.events.num_rows]
    assert out.ctis.tolist() == run.ctis.tolist()
    if len(run.ctis) and run.ctis[-1] == INF_TIME:
        assert out.events.num_rows == len(expected)


def test_ties_are_kept_and_other_ends_are_separate() -> None:
    items: list[Ev | Cti] = [
        ev(0, 10, n=3),
        ev(0, 10, n=5),
        ev(0, 10, n=None),
        ev(0, 10, n=5),
        ev(0, 20, n=1),
        cti(1),
        ev(10, 20, n=2),
        cti(INF_TIME),
    ]
    out = assert_cut_invariant(Extremes("n", True), [make_run(items, ONE)], [ONE])
    assert table_of(out) == [
        ev(0, 10, n=5),
        ev(0, 10, n=5),
        ev(0, 20, n=1),
        cti(1),
        ev(10, 20, n=2),
        cti(INF_TIME),
    ]


def test_a_wrong_column_of_an_extreme_is_an_error() -> None:
    with pytest.raises(UnknownColumnError):
        Extremes("nope", True).output_schema([PAYLOAD])
    with pytest.raises(OperatorTypeError, match="'x' is double, not an integer"):
        Extremes("x", True).output_schema([PAYLOAD])
