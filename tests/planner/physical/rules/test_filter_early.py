"""Which filters a source evaluates; tests of whole plans compare the outputs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from planner import Stream, agg, col, event, tumbling, vs
from planner.physical.lower import PHYSICAL_RULES, lower
from planner.physical.rules import filter_early, forward_ctis, late_decode, skip_sort
from rvertex.operators.filter import Filter

if TYPE_CHECKING:
    from planner import Expr

_ITEMS = [event(i, k=i, s=str(i), t=datetime(1970, 1, 1, tzinfo=UTC)) for i in (1, 2)]
ROWS = Stream.from_items({"k": "int64", "s": "string", "t": "timestamp"}, _ITEMS, partitions=2)


def test_the_rules_have_an_order() -> None:
    """An early filter may put an aggregate first, whose rows then need not be sorted."""
    assert (filter_early, skip_sort, late_decode, forward_ctis) == PHYSICAL_RULES


@pytest.mark.parametrize(
    ("predicate", "is_early"),
    [(col("k") > 1, True), (col("s").cast("int64") > 1, False), (vs() > col("t"), False)],
)
def test_only_infallible_conditions_are_evaluated_early(predicate: Expr, is_early: bool) -> None:
    query = ROWS.filter(predicate).group_by("k").window(tumbling(4)).agg(n=agg.count())
    plan = lower(query.to_parquet(), root="memory://early", parallelism=2)
    assert any(line.startswith("filter") for line in plan.stages[0].operators)
    for vertex in plan.vertices[:2]:
        assert vertex.source is not None
        assert (vertex.source.spec.keep is not None) is is_early
        assert any(isinstance(operator, Filter) for operator in vertex.operators) is not is_early


def test_early_conditions_are_part_of_the_hash_of_a_plan() -> None:
    hashes = {
        lower(ROWS.filter(predicate).to_parquet(), root="memory://early").plan_hash
        for predicate in (col("k") > 1, col("k") > 2)
    }
    assert len(hashes) == 2
