"""Queries for the rules of the optimizer, and the plans before and after a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import Expr, Stream, agg, col, event, tumbling
from planner.cost.options import PlanOptions
from planner.cost.statistics import Discovery
from planner.logical.text import logical_text
from planner.logical.traversal import share
from planner.optimizer.optimizer import RULES
from planner.optimizer.rules import partial_aggregation, place_exchange
from planner.physical.lower import lower
from rvertex.sources.discover import discover
from rvertex.sources.statistics import statistics_of
from tests.support.plan_runner import answer, sorted_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.logical.nodes import LogicalNode
    from planner.optimizer.optimizer import Rule


def readings(partitions: int = 3, spans: bool = False) -> Stream:
    """Sixty events with five keys; equal keys are in every partition."""
    rows = [
        event(
            i,
            i + (7 if spans else 1),
            k=(i * i + i // 7) % 5,
            x=(i * 13) % 11,
            y=i % 3,
            s=f"{i % 4}",
        )
        for i in range(60)
    ]
    schema = {"k": "int64", "x": "int64", "y": "int64", "s": "string"}
    return Stream.from_items(schema, rows, partitions=partitions)


def counts(key: str = "k") -> Stream:
    return readings().group_by(key).window(tumbling(10)).agg(n=agg.count(), total=agg.sum("x"))


def failing(column: str = "s") -> Expr:
    return col(column).cast(int) < 3


def plans_around(stream: Stream, rule: Rule) -> tuple[LogicalNode, LogicalNode]:
    """The plan before a rule, as the earlier rules return it, and after it."""
    query = stream.to_parquet()
    known = Discovery(discover).statistics(query.plan, statistics_of)
    options = PlanOptions(statistics=known)
    node: LogicalNode = query.plan
    for former in RULES[: RULES.index(rule)]:
        node = share(former(node, options))
    return node, rule(node, options)


def assert_left_alone(rule: Rule, made: Callable[[], Stream]) -> None:
    """Check that a rule does not change the plan, and no rule the result, which has rows."""
    before, after = plans_around(made(), rule)
    if rule is partial_aggregation:
        assert "final aggregate" not in logical_text(after).splitlines()[1]
    else:
        assert logical_text(after) == logical_text(before)
    assert_same_answer(made)


def assert_same_answer(made: Callable[[], Stream]) -> None:
    """Check that all rules do not change the result, which has rows."""
    query = made().to_parquet()
    plain = answer(lower(query, root="r", rules=(place_exchange,)))
    assert plain.num_rows > 2, "an answer without rows shows nothing"
    for parallelism in (1, 2, 3):
        plan = lower(query, root="r", parallelism=parallelism)
        assert sorted_rows(answer(plan)) == sorted_rows(plain), parallelism
