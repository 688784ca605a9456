"""The recovery of a plan's stages: from the query, from run options, and errors.

Not covered: whether a strategy recovers correctly (tests/rvertex, tests/jobmanager).
"""

from __future__ import annotations

import pytest

from planner import Stream, agg, event, tumbling
from planner.errors import InvalidPlanError
from planner.physical.lower import lower
from planner.physical.recovery import WHY_STRONG, further, longest_us, recovered_with
from rstream.types import INF_TIME
from rvertex.vertex.spec import Recovery

MS = 1_000
ITEMS = [event(t * MS, key=t % 3, value=t) for t in range(20)]


def source() -> Stream:
    return Stream.from_items({"key": "int64", "value": "int64"}, ITEMS)


def counts(events: Stream) -> Stream:
    return events.group_by("key").window(tumbling("5ms")).agg(n=agg.count())


def strategies(query: object, strategy: str | None = None, replicas: int | None = None) -> object:
    """The strategy and the number of replicas per stage."""
    plan = recovered_with(lower(query, root="r"), strategy, replicas)  # type: ignore[arg-type]
    return {v.stage[:3]: (v.recovery.strategy, v.recovery.replicas) for v in plan.vertices}


def test_stages_are_recovered_as_the_query_says() -> None:
    mixed = counts(source().recover_with("replay")).recover_with("replication", replicas=3)
    assert strategies(mixed.to_parquet()) == {"s01": ("replay", 1), "s02": ("replication", 3)}
    assert strategies(counts(source()).to_parquet()) == {
        "s01": ("replay", 1),
        "s02": ("replay", 1),
    }, "both are little work to rebuild"


def test_the_default_of_the_query_applies_to_stages_without_a_choice() -> None:
    query = counts(source()).recover_with("replication").to_parquet().recover_with("replay")
    assert strategies(query) == {"s01": ("replay", 1), "s02": ("replication", 2)}


def test_the_option_of_a_run_overrides_the_query() -> None:
    query = counts(source()).recover_with("replication").to_parquet()
    assert strategies(query, "checkpoint") == {"s01": ("checkpoint", 1), "s02": ("checkpoint", 1)}
    assert strategies(query, None, 2) == {"s01": ("replication", 2), "s02": ("replication", 2)}


def test_the_strategy_of_the_longer_horizon_applies() -> None:
    """All vertices of a stage have the same recovery."""
    near, far, without_bound = (Recovery("replay", 1, horizon) for horizon in (5, 6, None))
    for first, second in ((near, far), (far, without_bound), (near, without_bound)):
        assert further(first, second) == further(second, first) == second


def test_a_strategy_does_not_change_the_result() -> None:
    plain = lower(counts(source()).to_parquet(), root="r")
    chosen = lower(counts(source()).recover_with("replay").to_parquet(), root="r")
    assert plain.plan_hash == chosen.plan_hash


@pytest.mark.parametrize("is_strong", [False, True])
def test_the_output_of_a_strong_stage_is_flushed(is_strong: bool) -> None:
    events = source().recover_with("strong") if is_strong else source()
    plan = lower(counts(events).to_parquet(), root="r")
    edges = [edge for stage in plan.stages for edge in stage.inputs]
    channels = [channel for vertex in plan.vertices for channel in vertex.inputs]
    durability = "async" if is_strong else "volatile"
    assert {edge.durability for edge in edges} == {durability}
    assert {channel.durability for channel in channels} == {durability}
    assert {edge.reason == WHY_STRONG for edge in edges} == {is_strong}


def test_replay_of_unbounded_state_is_rejected() -> None:
    stitched = source().set_duration("2ms").stitch(on="key").to_parquet()
    for query, strategy in [(stitched.recover_with("replay"), None), (stitched, "replay")]:
        with pytest.raises(
            InvalidPlanError, match=r"cannot be recovered by replay: 'stitch by key'"
        ):
            strategies(query, strategy)


def test_the_longest_lifetime_of_endless_rows() -> None:
    """The event starts before 1970, so its length does not fit into int64."""
    items = [event(-5, INF_TIME, n=1), event(3, 13, n=2)]
    stream = Stream.from_items({"n": "int64"}, items)
    (vertex, *_) = lower(stream.to_parquet(), root="r").vertices
    assert vertex.source is not None
    assert longest_us(vertex.source.spec) == INF_TIME + 5


@pytest.mark.parametrize(
    ("strategy", "replicas", "said"),
    [
        ("replication", 1, "recovery='replication' takes replicas=2 or more"),
        ("replication", 0, "replicas=0: must be between 1 and "),
        (None, 10**6, "replicas=1000000: must be between 1 and "),
        ("replay", 2, "recovery='replay' has one instance of each vertex; replicas=2 goes with "),
    ],
)
def test_invalid_numbers_of_replicas(strategy: str | None, replicas: int, said: str) -> None:
    query = counts(source()).to_parquet()
    with pytest.raises(InvalidPlanError) as caught:
        strategies(query, strategy, replicas)
    assert str(caught.value).startswith(said)


def test_valid_numbers_of_replicas() -> None:
    query = counts(source()).to_parquet()
    for strategy, replicas, found in (
        ("replication", None, 2),
        ("replication", 2, 2),
        ("replication", 3, 3),
        ("replay", 1, 1),
        (None, 2, 2),
    ):
        made = strategies(query, strategy, replicas)
        assert {count for _, count in made.values()} == {found}  # type: ignore[attr-defined]
