"""Lifetime operators, clips, stitches and outer joins as users write them, with their results.

Not covered: anything about Spark, which runs the same vertices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager import collect
from planner import InvalidPlanError, Stream, UnknownColumnError, agg, col, cti, event, lit
from planner.cost.options import PlanOptions
from planner.logical.nodes.partitioning import Partitioning
from planner.logical.text import logical_text
from planner.optimizer.rules import push_down_filter
from tests.support.naive_plan import naive_rows
from tests.support.plan_runner import sorted_rows
from tests.support.queries import bids, sales
from tests.support.temporal_queries import TEMPORAL_QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.logical.nodes import LogicalNode

SCHEMA = {"k": "int64", "x": "int64"}
POINTS = Stream.from_items(SCHEMA, [event(1, k=1, x=1), event(2, k=2, x=1)], partitions=2)
SPANS = Stream.from_items(SCHEMA, [event(1, 5, k=1, x=1)], partitions=2)


@pytest.mark.parametrize("name", TEMPORAL_QUERIES)
def test_a_job_returns_the_same_rows_at_any_parallelism(name: str) -> None:
    query = TEMPORAL_QUERIES[name]()
    expected = sorted(naive_rows(query.plan), key=lambda row: (row["_vs"], row["_ve"], repr(row)))
    assert len(expected) > 2
    for parallelism in (1, 3):
        table = collect(Stream(query.plan.input), parallelism=parallelism)
        assert sorted_rows(table) == expected, parallelism


def test_the_anti_join_of_the_documentation() -> None:
    left = Stream.from_items({"k": "int64"}, [event(100, 110, k=1), cti(200)])
    right = Stream.from_items(
        {"k": "int64"}, [event(a, b, k=1) for a, b in ((101, 103), (106, 108), (106, 109))]
    )
    table = collect(left.join(right, on="k", how="anti"), parallelism=3)
    spans = list(zip(table["_vs"].to_pylist(), table["_ve"].to_pylist(), strict=True))
    assert spans == [(100, 101), (103, 106), (109, 110)]
    assert table.column_names == ["_vs", "_ve", "k"]


def test_temporal_joins_and_clips_return_the_expected_columns() -> None:
    other = SPANS.rename({"x": "y"})
    assert POINTS.join(other, on="k", how="left").schema.names == ["k", "x", "y"]
    assert POINTS.join(other, on="k", how="anti").schema.names == ["k", "x"]
    assert POINTS.clip(other, on="k").schema.names == ["k", "x"]


@pytest.mark.parametrize(
    ("change", "of_points", "of_spans"),
    [
        (lambda s: s.shift("3s"), True, False),
        (lambda s: s.set_duration(1), True, True),
        (lambda s: s.set_duration(2), False, False),
        (lambda s: s.extend(1), False, False),
        (lambda s: s.extend(-1), True, False),
        (lambda s: s.point_at_end(), True, True),
        (lambda s: s.chop(1), True, True),
        (lambda s: s.chop(10), True, False),
        (lambda s: s.stitch("k"), False, False),
        (lambda s: s.clip(SPANS, on="k"), True, False),
        (lambda s: s.join_asof(POINTS, by="k"), True, False),
        (lambda s: s.join(SPANS, on="k", how="left"), True, False),
        (lambda s: s.join(SPANS, on="k", how="anti"), True, False),
        (lambda s: s.join(POINTS, on="k", within=(0, 5), how="left"), True, True),
    ],
)
def test_the_plan_knows_whether_a_change_of_lifetimes_returns_points(
    change: Callable[[Stream], Stream], of_points: bool, of_spans: bool
) -> None:
    assert change(POINTS).plan.is_point is of_points
    assert change(SPANS).plan.is_point is of_spans


def test_which_changes_are_stateless() -> None:
    assert POINTS.shift(1).extend(1).set_duration(5).plan.is_stateless
    assert not POINTS.chop(5).plan.is_stateless
    assert not POINTS.point_at_end().plan.is_stateless


def test_operators_that_keep_the_partitioning() -> None:
    by_key = POINTS.join(SPANS.rename({"k": "j"}), left_on="k", right_on="j", how="left")
    now = by_key.shift(3).stitch("k").plan.partitioning
    assert now == Partitioning((frozenset(["k"]),)), "j is null where nothing matches"


def pushed(stream: Stream) -> list[str]:
    node: LogicalNode = push_down_filter(stream.plan, PlanOptions())
    return [line.strip() for line in logical_text(node).splitlines()]


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.shift(3),
        lambda s: s.extend(-3),
        lambda s: s.set_duration(3),
        lambda s: s.chop(3),
        lambda s: s.point_at_end(),
        lambda s: s.stitch("k"),
        lambda s: s.clip(bids().select(k=col("price")), on="k"),
        lambda s: s.join_asof(bids().select(k=col("price")), by="k"),
    ],
)
def test_filters_pass_unless_they_read_lifetimes(change: Callable[[Stream], Stream]) -> None:
    assert pushed(change(SPANS).filter(col("k") > 1))[1].startswith("filter k > 1")
    for reads in (col("_vs") > 1, col("_ve") > col("k"), lit(1) / col("_ve") > 0):
        assert pushed(change(SPANS).filter(reads))[0].startswith("filter")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda s: s.deduplicate("k", within=3), "deduplicate"),
        (lambda s: s.group_by("k").rolling(rows=2).with_columns(n=agg.count()), "over"),
        (lambda s: s.limit(2), "limit"),
    ],
)
def test_a_filter_stays_above_operators_that_depend_on_other_rows(
    change: Callable[[Stream], Stream], what: str
) -> None:
    lines = pushed(change(SPANS).filter(col("x") > 1))
    (at,) = (k for k, line in enumerate(lines) if line.startswith("filter"))
    (node,) = (k for k, line in enumerate(lines) if line.startswith(what))
    assert at < node


def test_a_filter_on_merged_lifetimes_stays_above_stitch() -> None:
    assert pushed(SPANS.stitch("k").filter(col("x") > 1))[0] == "filter x > 1"


def test_a_filter_that_reads_nulls_of_a_left_join_stays_above_it() -> None:
    joined = POINTS.join(SPANS.rename({"x": "y"}), on="k", how="left")
    assert pushed(joined.filter(col("y").is_null()))[0].startswith("filter")
    moved = pushed(joined.filter((col("x") > 1) & (col("k") > 2)))
    assert moved[0] == "temporal left join on k"
    assert sum(line.startswith("filter") for line in moved) == 2
    right = SPANS.rename({"k": "j", "x": "y"})
    renamed = POINTS.join(right, left_on="k", right_on="j", how="left").filter(col("j") > 1)
    assert pushed(renamed)[0] == "filter j > 1", "j is null where nothing matches"


def test_descriptions_in_plans() -> None:
    stream = sales().shift("-1s").extend("2s").set_duration("3s").chop("1m", "5s").point_at_end()
    stream = stream.stitch(["auction", "tier"]).clip(sales().select("auction"), on="auction")
    near = sales().select("auction")
    stream = stream.join_asof(near, by="auction", strategy="nearest", tolerance="1m")
    text = logical_text(stream.join(sales(), on="tier", how="anti").plan)
    for words in (
        "temporal anti join on tier",
        "clip on auction",
        "nearest as-of left join on auction within 1m",
        "stitch by auction, tier",
        "point at end",
        "chop 1m from 5s",
        "set duration 3s",
        "extend 2s",
        "shift -1s",
    ):
        assert words in text


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: POINTS.join(SPANS, on="k", how="outer"),
        lambda: POINTS.set_duration(0),
        lambda: POINTS.chop("-1s"),
        lambda: POINTS.shift("soon"),
        lambda: POINTS.clip(SPANS, on=[]),
        lambda: POINTS.join_asof(SPANS, by="k", strategy="near"),
        lambda: POINTS.join_asof(SPANS, by="k", strategy="forward"),
        lambda: POINTS.join_asof(SPANS, by="k", tolerance=-1),
        lambda: POINTS.join_asof(SPANS, by="k", how="anti"),
        lambda: POINTS.join_asof(SPANS, by="k", left_by="k"),
        lambda: POINTS.join_asof(SPANS, left_by="k"),
        lambda: POINTS.join_asof("SPANS"),  # type: ignore[arg-type]
        lambda: POINTS.clip("SPANS", on="k"),  # type: ignore[arg-type]
        lambda: POINTS.clip(SPANS.select(k=lit("a")), on="k"),
        lambda: Stream.from_items({"l": "list<int64>"}, []).stitch(),
    ],
)
def test_mistakes_are_reported_at_once(wrong: Callable[[], object]) -> None:
    with pytest.raises((InvalidPlanError, ValueError)) as told:
        wrong()
    assert str(told.value)


@pytest.mark.parametrize("strategy", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("how", ["left", "inner"])
def test_as_of_joins_without_keys_and_with_keys_of_other_types(strategy: str, how: str) -> None:
    left = Stream.from_items(
        {"k": "int32", "x": "int64"}, [event(t, t + 9, k=t % 2, x=t) for t in (3, 8, 20)]
    )
    right = Stream.from_items(
        {"j": "int64", "x": "int64"}, [event(t, j=t % 2, x=t) for t in (2, 4, 7, 25)]
    )
    answers: dict[str, tuple[list[int | None], ...]] = {
        "backward": ([2, 7, None], [None, 4, None]),
        "forward": ([4, None, 25], [7, None, None]),
        "nearest": ([4, 7, 25], [7, 4, None]),
    }
    asked: list[dict[str, str]] = [{}, {"left_by": "k", "right_by": "j"}]
    for by, matches in zip(asked, answers[strategy], strict=True):
        stream = left.join_asof(right, strategy=strategy, tolerance=5, how=how, **by)
        assert stream.schema.names == ["k", "x", "j", "x_right"]
        table = collect(stream, parallelism=2)
        kept = [m for m in matches if how == "left" or m is not None]
        assert table["x_right"].to_pylist() == kept
        lives = [(row["_ve"] - row["_vs"]) for row in table.to_pylist()]
        assert lives == [9] * len(kept), "events stay as they are"


def test_an_unknown_column_of_a_temporal_operator_is_named() -> None:
    with pytest.raises(UnknownColumnError):
        POINTS.stitch("nobody")
    with pytest.raises(UnknownColumnError):
        POINTS.clip(SPANS, on="nobody")
