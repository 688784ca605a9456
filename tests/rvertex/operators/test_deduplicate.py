"""The first of equal keys: cut-invariant, and what a walk over the events keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from rstream.items.batch import VS
from rstream.types import INF_TIME
from rvertex.operators.deduplicate import Deduplicate
from tests.support.budget import examples
from tests.support.exact import exact_rows
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from rvertex.events.run import Run


@examples(8)
@given(
    run=runs(max_size=16),
    cuts=splits(),
    keys=st.sampled_from([("k",), ("s", "k")]),
    within=st.sampled_from([1, 3, int(INF_TIME)]),
)
def test_the_first_of_each_key(
    run: Run, cuts: list[int], keys: tuple[str, ...], within: int
) -> None:
    out = assert_cut_invariant(Deduplicate(keys, within), [run], [PAYLOAD], cuts)
    free: dict[Any, int] = {}
    expected = []
    for row, exact in zip(run.events.to_pylist(), exact_rows(run.events), strict=True):
        key = tuple(row[name] for name in keys)
        if row[VS] >= free.get(key, row[VS]):
            free[key] = row[VS] + within
            expected.append(exact)
    assert exact_rows(out.events) == expected
    assert out.ctis.tolist() == run.ctis.tolist()
