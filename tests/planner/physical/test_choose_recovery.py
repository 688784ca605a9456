"""The recovery of each stage: as requested, by cost, or an error with an alternative."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner import InvalidPlanError, Query, Stream, agg, col, session, tumbling
from planner.explain.text import explain
from planner.physical.lower import lower
from planner.physical.recovery import recovered_with
from rvertex.sources.statistics import SourceStatistics
from tests.support.plan_runner import answer
from tests.support.queries import QUERIES, bids, sales

if TYPE_CHECKING:
    from pathlib import Path

    from planner.physical.plan import PhysicalPlan

COUNTS = tumbling("20ms")


def strategies(query: Query, **options: object) -> dict[str, str]:
    plan = lower(query, root="r", **options)  # type: ignore[arg-type]
    check(plan)
    return {stage.name: stage.recovery.strategy for stage in plan.stages if stage.recovery}


def check(plan: PhysicalPlan) -> None:
    """Every vertex has the recovery of its stage."""
    for vertex in plan.vertices:
        assert vertex.recovery == plan.stage(vertex.stage).recovery, vertex.id
        if vertex.recovery.strategy == "replay":
            assert vertex.recovery.horizon_us is not None, vertex.id


@pytest.fixture
def intervals(tmp_path: Path) -> Stream:
    """Events whose end is in a column, so their length has no bound."""
    (tmp_path / "a.csv").write_text("k,t,end\n1,0,10\n2,5,30\n1,20,40\n")
    return Stream.from_csv(str(tmp_path / "a.csv"), vs="t", ve="end").name("stays")


def test_stages_that_are_cheap_to_rebuild_use_replay() -> None:
    assert strategies(QUERIES["two_phases"]()) == {"s01-bids": "replay", "s02-agg": "replay"}
    plan = lower(QUERIES["two_phases"](), root="r")
    assert [s.recovery.horizon_us for s in plan.stages if s.recovery] == [10_000, 20_000]
    assert [s.why_recovery for s in plan.stages] == [
        "its state reaches back 10ms, so positions suffice",
        "its state reaches back 20ms, so positions suffice",
    ]


def test_stages_with_unbounded_state_use_checkpoints() -> None:
    query = bids().group_by("auction").window(session("5ms")).agg(n=agg.count()).to_parquet()
    assert strategies(query) == {"s01-bids": "replay", "s02-agg": "checkpoint"}
    plan = lower(query, root="r")
    assert plan.stages[1].why_recovery == (
        "'final aggregate session 5ms by auction' may depend on rows of any age"
    )


def test_stages_that_are_expensive_to_rebuild_use_checkpoints() -> None:
    def look(spec: object, units: object) -> SourceStatistics:
        return SourceStatistics(10**9, 0, 10**9, 0, 1.0, {})

    def look_at_little(spec: object, units: object) -> SourceStatistics:
        return SourceStatistics(10**6, 0, 10**9, 0, 1.0, {})

    wide = bids().group_by("auction").window(tumbling("100s")).agg(mid=agg.quantile("price", 0.5))
    assert strategies(wide.to_parquet(), look=look)["s02-agg"] == "checkpoint"
    plan = lower(wide.to_parquet(), root="r", look=look)
    assert "100s again is " in plan.stages[1].why_recovery.replace("1m40s", "100s")
    assert strategies(wide.to_parquet(), look=look_at_little)["s02-agg"] == "replay"


def test_the_query_chooses_for_a_stage_or_for_all() -> None:
    counted = bids().recover_with("checkpoint").group_by("auction").window(COUNTS)
    query = counted.agg(n=agg.count()).recover_with("replication").to_parquet()
    assert strategies(query) == {"s01-bids": "checkpoint", "s02-agg": "replication"}
    plan = lower(query, root="r")
    assert [v.recovery.replicas for v in plan.vertices] == [1, 1, 2, 2]
    assert {s.why_recovery for s in plan.stages} == {"set by the query"}
    plain = bids().group_by("auction").window(COUNTS).agg(n=agg.count())
    three = plain.recover_with("replication", replicas=3).to_parquet().recover_with("checkpoint")
    assert strategies(three) == {"s01-bids": "checkpoint", "s02-agg": "replication"}
    assert answer(lower(three, root="r")).equals(answer(lower(plain.to_parquet(), root="r")))


def test_filters_and_aggregates_inherit_the_choice() -> None:
    asked = bids().recover_with("checkpoint").filter(col("auction") > 1)
    query = asked.group_by("auction").window(COUNTS).agg(n=agg.count()).to_parquet()
    plain = bids().filter(col("auction") > 1).group_by("auction").window(COUNTS)
    other = lower(plain.agg(n=agg.count()).to_parquet(), root="r")
    plan = lower(query, root="r")
    assert plan.plan_hash == other.plan_hash, "a choice changes no answer"
    assert strategies(query) == {"s01-bids": "checkpoint", "s02-agg": "replay"}


def test_an_impossible_replay_is_rejected_with_a_remedy(intervals: Stream) -> None:
    joined = intervals.join(intervals.filter(col("k") > 0), on="k").recover_with("replay")
    with pytest.raises(InvalidPlanError) as caught:
        lower(joined.to_parquet(end="until"), root="r")
    assert "'temporal join on k' keeps events for their lifetime, which has no" in str(caught.value)
    assert '.hint(max_duration="1h") at the source of s01-stays' in str(caught.value)
    promised = intervals.hint(max_duration=25)
    again = promised.join(promised.filter(col("k") > 0), on="k").recover_with("replay")
    assert set(strategies(again.to_parquet(end="until")).values()) == {"replay"}
    bounded = intervals.set_duration(7)
    third = bounded.join(bounded.filter(col("k") > 0), on="k").recover_with("replay")
    assert "replay" in strategies(third.to_parquet(end="until")).values()
    stitched = sales().stitch("auction").recover_with("replay").to_parquet(end="until")
    with pytest.raises(InvalidPlanError, match="rows of any age; choose checkpoint or replication"):
        lower(stitched, root="r")


def test_nondeterministic_code_is_logged() -> None:
    drawn = bids().apply(lambda rows: {"x": rows["price"]}, {"x": "int64"}, deterministic=False)
    assert set(strategies(drawn.to_parquet()).values()) == {"strong"}
    assert set(strategies(drawn.to_parquet().recover_with("replay")).values()) == {"strong"}
    counted = drawn.group_by("x").window(COUNTS).agg(n=agg.count()).to_parquet()
    assert strategies(counted) == {"s01-bids": "strong", "s02-agg": "replay"}
    with pytest.raises(
        InvalidPlanError, match="declared deterministic=False; leave out recover_with"
    ):
        lower(drawn.recover_with("replication").to_parquet(), root="r")
    plan = recovered_with(lower(counted, root="r"), "replication", None)
    assert [s.recovery.strategy for s in plan.stages if s.recovery] == ["strong", "replication"]


def test_a_run_may_choose_another_strategy() -> None:
    plan = lower(QUERIES["two_phases"](), root="r")
    asked = recovered_with(plan, "checkpoint", None)
    check(asked)
    assert {v.recovery.strategy for v in asked.vertices} == {"checkpoint"}
    assert {s.why_recovery for s in asked.stages} == {"set for this run"}
    assert "recovered by checkpoint: set for this run" in explain(asked)
    assert recovered_with(plan, None, None) == plan


def test_wrong_recovery_options_are_named() -> None:
    with pytest.raises(InvalidPlanError, match=r"recover_with\('hope'\): must be"):
        bids().recover_with("hope")
    with pytest.raises(InvalidPlanError, match='only "replication" has replicas'):
        bids().recover_with("replay", replicas=2)
    with pytest.raises(InvalidPlanError, match="a number between 2 and 8"):
        bids().to_parquet().recover_with("replication", replicas=1)
