"""The neighbour that the generated Spark query selects; tests/spark runs it on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner import Stream
from planner.batch.nearest import _chosen
from planner.logical.nodes.joins import AsOf

if TYPE_CHECKING:
    from rvertex.operators.joins.as_of import Strategy

S = Stream.from_items({"k": "int64"}, [])


def chosen(strategy: Strategy, tolerance: str | None = "1s") -> str:
    plan = S.join_asof(S, by="k", strategy=strategy, tolerance=tolerance).plan
    (node,) = (n for n in [plan, *plan.inputs] if isinstance(n, AsOf))
    return _chosen(node)


@pytest.mark.parametrize("strategy", ["backward", "forward"])
def test_only_one_side_is_searched_unless_both_are_near(strategy: Strategy) -> None:
    side = "_before" if strategy == "backward" else "_after"
    other = {"_before": "_after", "_after": "_before"}[side]
    assert side in chosen(strategy)
    assert other not in chosen(strategy)
    assert " <= 1000000L" in chosen(strategy)


def test_without_a_tolerance_the_previous_event_matches_at_any_age() -> None:
    assert chosen("backward", None) == "_before"


def test_of_two_equally_near_events_the_later_one_matches() -> None:
    assert chosen("nearest").endswith(
        "when _after.at - _at <= _at - _before.at then _after else _before end"
    )
