"""Random queries: the physical plan, at any parallelism, gives what nested loops give.

Cannot catch: what expressions get wrong (both sides share them), late events, first and last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.lower import lower
from tests.support.naive_plan import naive_rows, streams
from tests.support.plan_runner import answer, sorted_rows

if TYPE_CHECKING:
    from planner import Stream


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(streams(temporal=True), st.integers(1, 3), st.booleans(), st.sampled_from([2, 1000]))
def test_as_nested_loops_would(
    stream: Stream, parallelism: int, partial: bool, rows_max: int
) -> None:
    query = stream.to_parquet()
    plan = lower(query, root="r", parallelism=parallelism, partial_aggregation=partial)
    expected = naive_rows(query.plan)
    expected.sort(key=lambda row: (row["_vs"], row["_ve"], repr(row)))
    assert sorted_rows(answer(plan, rows_max=rows_max)) == expected
