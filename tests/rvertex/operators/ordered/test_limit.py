"""The first events of a stream: any cuts, equal to a slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from rvertex.operators.ordered.limit import Limit
from tests.support.budget import examples
from tests.support.exact import exact_rows
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from rvertex.events.run import Run


@examples(8)
@given(run=runs(max_size=14), cuts=splits(), rows=st.integers(1, 16))
def test_the_first_rows_are_kept(run: Run, cuts: list[int], rows: int) -> None:
    out = assert_cut_invariant(Limit(rows), [run], [PAYLOAD], cuts)
    assert exact_rows(out.events) == exact_rows(run.events)[:rows]
    assert out.ctis.tolist() == run.ctis.tolist()
