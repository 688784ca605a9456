"""Events with equal starts, sorted: any cuts, equal to Python's sort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, strategies as st

from rstream.items.batch import VS
from rstream.types import INF_TIME
from rvertex.operators.ordered.sort_together import SortTogether
from tests.support.budget import examples
from tests.support.exact import exact_rows
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import PAYLOAD, runs, splits

if TYPE_CHECKING:
    from rvertex.events.run import Run


def place(value: Any, *, down: bool, nulls_first: bool) -> tuple[Any, ...]:
    """A sort key for SQL's order; NaN is above all numbers."""
    if value is None:
        return (0 if nulls_first else 2, 0, 0)
    is_nan = value != value
    number = 0 if is_nan else value + 0
    return (1, -is_nan if down else is_nan, -number if down else number)


@examples(8)
@given(
    run=runs(max_size=14),
    cuts=splits(),
    ways=st.tuples(*[st.tuples(st.booleans(), st.booleans())] * 2),
)
def test_rows_with_equal_starts_are_sorted(
    run: Run, cuts: list[int], ways: tuple[tuple[bool, bool], ...]
) -> None:
    spec = SortTogether(("x", "n"), ways)
    out = assert_cut_invariant(spec, [run], [PAYLOAD], cuts)
    rows = list(zip(run.events.to_pylist(), exact_rows(run.events), strict=True))
    rows.sort(
        key=lambda row: (
            row[0][VS],
            *(
                place(row[0][name], down=down, nulls_first=first)
                for name, (down, first) in zip(("x", "n"), ways, strict=True)
            ),
        )
    )
    expected = [exact for _, exact in rows]
    assert exact_rows(out.events) == expected[: out.events.num_rows]
    assert out.ctis.tolist() == run.ctis.tolist()
    if len(run.ctis) and run.ctis[-1] == INF_TIME:
        assert out.events.num_rows == len(expected)
