"""Random queries: whatever the optimizer does, the result equals that of nested loops.

Not covered: errors in expressions (both sides share them), late events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, strategies as st

from planner.optimizer.optimizer import RULES
from planner.optimizer.rules import place_exchange
from planner.physical.lower import lower
from tests.support.budget import examples
from tests.support.exact import assert_same_items
from tests.support.naive_plan import naive_rows
from tests.support.plan_runner import Schedule, answer, run_plan, sorted_rows
from tests.support.random_plans import streams
from tests.support.small_limits import small_limits

if TYPE_CHECKING:
    from planner import Stream

ROWS_MAX = 1_500
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
schedules = st.builds(
    Schedule,
    numbers=st.lists(st.integers(0, 1_000), min_size=2, max_size=20).map(tuple),
    rows_max=st.sampled_from([1, 4, 30]),
    restores=st.booleans(),
)


def check_against_loops(
    stream: Stream, parallelism: int, optimized: bool, partial: bool, schedule: Schedule
) -> None:
    """Any parallelism, with the optimizer or without, cut and restored anywhere."""
    query = stream.to_parquet()
    rules = RULES if optimized else (place_exchange,)
    plan = lower(query, root="r", parallelism=parallelism, partial_aggregation=partial, rules=rules)
    expected = naive_rows(query.plan)
    assume(len(expected) <= ROWS_MAX)
    expected.sort(key=lambda row: (row["_vs"], row["_ve"], repr(row)))
    assert sorted_rows(answer(plan, schedule=schedule)) == expected


def check_every_item(stream: Stream, parallelism: int, schedule: Schedule) -> None:
    """Every item of every stream of the plan, in sequence, for any schedule."""
    plan = lower(stream.to_parquet(), root="r", parallelism=parallelism)
    whole = run_plan(plan)
    assume(sum(i.batch.num_rows for items in whole.values() for i in items) <= ROWS_MAX)
    cut = run_plan(plan, schedule=schedule)
    assert whole.keys() == cut.keys()
    for name, items in whole.items():
        got, want = (pa.concat_batches([i.batch for i in s]) for s in (cut[name], items))
        assert_same_items(got, want, name)


NAIVE = (streams(), st.sampled_from([1, 3]), st.booleans(), st.booleans(), schedules)
EXACT = (streams(ordered=True), st.sampled_from([1, 2, 3]), schedules)


@examples(6, suppress_health_check=SLOW)
@given(*NAIVE)
def test_random_plans_equal_nested_loops(
    stream: Stream, parallelism: int, optimized: bool, partial: bool, schedule: Schedule
) -> None:
    check_against_loops(stream, parallelism, optimized, partial, schedule)


@examples(4, suppress_health_check=SLOW)
@given(*EXACT)
def test_no_schedule_changes_an_item(stream: Stream, parallelism: int, schedule: Schedule) -> None:
    check_every_item(stream, parallelism, schedule)


@examples(6, suppress_health_check=SLOW)
@given(*NAIVE)
def test_small_limits_change_no_row(
    stream: Stream, parallelism: int, optimized: bool, partial: bool, schedule: Schedule
) -> None:
    """With small limits, few rows run code for many: dropped keys, partial output, new indexes."""
    with small_limits():
        check_against_loops(stream, parallelism, optimized, partial, schedule)


@examples(4, suppress_health_check=SLOW)
@given(*EXACT)
def test_small_limits_change_no_item(stream: Stream, parallelism: int, schedule: Schedule) -> None:
    plan = lower(stream.to_parquet(), root="r", parallelism=parallelism)
    whole = run_plan(plan)
    assume(sum(i.batch.num_rows for items in whole.values() for i in items) <= ROWS_MAX)
    with small_limits():
        cut = run_plan(plan, schedule=schedule)
    for name, items in whole.items():
        got, want = (pa.concat_batches([i.batch for i in s]) for s in (cut[name], items))
        assert_same_items(got, want, name)


@pytest.mark.slow
@examples(50, suppress_health_check=SLOW)
@given(*NAIVE)
def test_many_random_plans_equal_nested_loops(
    stream: Stream, parallelism: int, optimized: bool, partial: bool, schedule: Schedule
) -> None:
    check_against_loops(stream, parallelism, optimized, partial, schedule)


@pytest.mark.slow
@examples(50, suppress_health_check=SLOW)
@given(*EXACT)
def test_many_schedules_change_no_item(
    stream: Stream, parallelism: int, schedule: Schedule
) -> None:
    check_every_item(stream, parallelism, schedule)
