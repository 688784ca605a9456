"""The optimizer's rewrites of every query of tests/support/queries.py, as golden files.

``pytest tests/planner --rewrite`` writes them again. Each plan is also executed: with all rules,
with all but one, without any, and at other parallelisms; the result is the same table.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import pytest

from planner import Query, Stream, agg, col, event, tumbling
from planner.cost.options import PlanOptions
from planner.cost.statistics import Discovery
from planner.errors import EvaluationError
from planner.explain.text import mermaid, stages_text
from planner.logical.text import logical_text
from planner.logical.traversal import share
from planner.optimizer.optimizer import RULES
from planner.optimizer.rules import place_exchange
from planner.physical.lower import lower
from rvertex.sources.discover import discover
from rvertex.sources.statistics import statistics_of
from tests.rooms import ROOT
from tests.support.budget import one_in
from tests.support.optimizer_queries import OPTIMIZER_QUERIES
from tests.support.plan_runner import answer, run_plan, sorted_rows
from tests.support.queries import QUERIES
from tests.support.temporal_queries import TEMPORAL_QUERIES

if TYPE_CHECKING:
    from planner.logical.nodes import LogicalNode

ALL = QUERIES | TEMPORAL_QUERIES | OPTIMIZER_QUERIES
GOLDEN = ROOT / "tests" / "golden" / "planner"


def transcript(query: Query) -> str:
    """The plan before, after every rule that changed it, and in its final form."""
    node: LogicalNode = query.plan
    known = Discovery(discover).statistics(query.plan, statistics_of)
    options = PlanOptions(statistics=known)
    parts = ["== as written", logical_text(node)]
    for rule in RULES:
        changed = share(rule(node, options))
        if logical_text(changed) != logical_text(node):
            parts += [f"== {rule.__name__}", logical_text(changed)]
        node = changed
    plan = lower(query, root="memory://job")
    parts += [
        "== physical",
        stages_text(plan),
        "== mermaid",
        mermaid(plan),
    ]
    return "\n".join(parts)


@pytest.mark.parametrize("name", ALL)
def test_a_rule_changes_the_plan_as_recorded(name: str, rewrite: bool) -> None:
    path = GOLDEN / f"{name}.txt"
    text = transcript(ALL[name]())
    if rewrite:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    expected = path.read_text()
    diff = "\n".join(difflib.unified_diff(expected.splitlines(), text.splitlines(), lineterm=""))
    assert text == expected, diff


def test_every_golden_file_has_a_test() -> None:
    of_other_tests = {"signatures", "spark_aggregates", "spark_sql", "sql_errors"}
    assert {p.stem for p in GOLDEN.glob("*.txt")} - of_other_tests == set(ALL)


@pytest.mark.parametrize("name", one_in(8, ALL))
def test_rules_do_not_change_the_result(name: str) -> None:
    query = ALL[name]()
    plain = answer(lower(query, root="memory://job", rules=(place_exchange,)))
    assert plain.num_rows > 2, "an answer without rows shows nothing"
    expected = sorted_rows(plain)
    for left_out in (rule for rule in RULES if rule is not place_exchange):
        rules = tuple(rule for rule in RULES if rule is not left_out)
        assert sorted_rows(answer(lower(query, root="memory://job", rules=rules))) == expected
    for parallelism in (1, 2, 3):
        for partial in (True, False):
            plan = lower(
                query, root="memory://job", parallelism=parallelism, partial_aggregation=partial
            )
            assert sorted_rows(answer(plan)) == expected, (parallelism, partial)


@pytest.mark.parametrize("name", one_in(3, ALL))
def test_batch_boundaries_do_not_change_any_stream(name: str) -> None:
    plan = lower(ALL[name](), root="memory://job")
    whole, bits = run_plan(plan), run_plan(plan, rows_max=3)
    assert whole.keys() == bits.keys()
    for stream, pieces in whole.items():
        rows = [row for items in pieces for row in items.batch.to_pylist()]
        assert rows == [row for items in bits[stream] for row in items.batch.to_pylist()], stream


@pytest.mark.parametrize("how", ["left", "anti"])
def test_a_filter_above_an_outer_join_of_a_shared_stream_stays(how: str) -> None:
    """If it were pushed into the right side only, unmatched left rows would pass."""
    rows = [event(i, i + 4, k=i % 5, x=i) for i in range(20)]
    both = Stream.from_items({"k": "int64", "x": "int64"}, rows)
    joined = both.join(both.filter(col("x") > 7), on="k", how=how)
    query = joined.filter(col("k") < 3).to_parquet()
    found = answer(lower(query, root="r", parallelism=2))
    assert found.num_rows > 0
    assert max(found["k"].to_pylist()) == 2


def test_the_maximum_is_kept_after_expressions_that_may_fail() -> None:
    """A cast fails on a row that is not the maximum, with the rule and without it."""
    rows = [event(0, k=1, s="7"), event(1, k=1, s="7"), event(2, k=2, s="x")]
    stream = Stream.from_items({"k": "int64", "s": "string"}, rows)
    counts = stream.group_by("k", "s").window(tumbling(10)).agg(n=agg.count())
    most = counts.window(tumbling(10)).agg(most=agg.max("n"))

    def joined(left: Stream) -> Query:
        return left.join(most, left_on="n", right_on="most").to_parquet()

    assert "keep greatest n" in transcript(joined(counts.select("n", t=col("s"))))
    query = joined(counts.select("n", t=col("s").cast(int)))
    for rules in (RULES, (place_exchange,)):
        with pytest.raises(EvaluationError, match="'x'"):
            answer(lower(query, root="r", rules=rules, parallelism=1))
