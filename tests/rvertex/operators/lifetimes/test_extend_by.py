"""Events extended by the length in a column: any cuts, equal to a loop."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, strategies as st

from rstream.types import INF_TIME
from rvertex.operators.lifetimes.extend_by import ExtendBy
from tests.support.budget import examples
from tests.support.builders import cti, ev, make_run
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import splits

PAYLOAD = pa.schema([("x", pa.int64())])
far = st.sampled_from([1, 2, 7, INF_TIME - 1, INF_TIME])


@examples(8)
@given(
    starts=st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 9), far), max_size=12),
    cuts=splits(),
)
def test_each_event_is_extended_by_its_own_column(
    starts: list[tuple[int, int, int]], cuts: list[int]
) -> None:
    rows = sorted(starts, key=lambda row: row[0])
    items = [*(ev(vs, vs + n, x=x) for vs, n, x in rows), ev(30, INF_TIME, x=1), cti(40)]
    out = assert_cut_invariant(ExtendBy("x"), [make_run(items, PAYLOAD)], [PAYLOAD], cuts)
    expected = [min(vs + n - 1 + x, INF_TIME) for vs, n, x in rows]
    assert out.events["_ve"].to_pylist() == [*expected, INF_TIME]
    assert out.events["_vs"].to_pylist() == [*(vs for vs, _, _ in rows), 30]
    assert out.ctis.tolist() == [40]
