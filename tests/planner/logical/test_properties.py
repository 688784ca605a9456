"""Derived properties: points, the partition of equal keys, and the grid of CTIs."""

from __future__ import annotations

import pytest

from planner import Stream, agg, col, event, hopping, tumbling
from planner.durations import duration_us
from planner.logical.nodes import Exchange, LogicalNode
from planner.logical.nodes.partitioning import Partitioning
from planner.logical.query import CTI_EVERY_US, grid_us

POINTS = Stream.from_items(
    {"k": "int64", "x": "int64"}, [event(1, k=1), event(2, k=2)], partitions=2
)
SPANS = Stream.from_items({"k": "int64", "y": "int64"}, [event(1, 5, k=1)], partitions=2)


def by(*keys: str) -> LogicalNode:
    return Exchange(POINTS.plan, keys)


def keys_of(node: LogicalNode) -> list[set[str]] | None:
    keys = node.partitioning.keys
    return None if keys is None else [set(names) for names in keys]


def test_the_plan_knows_which_streams_have_only_points() -> None:
    assert POINTS.plan.is_point
    assert not SPANS.plan.is_point
    assert POINTS.filter(col("x") > 1).select("k").plan.is_point
    assert POINTS.join(SPANS, on="k").plan.is_point, "the overlap with a point is a point"
    assert SPANS.join(POINTS, on="k").plan.is_point
    assert not SPANS.join(SPANS, on="k").plan.is_point
    assert not SPANS.join(POINTS, on="k", how="left").plan.is_point, "without a match it lasts"
    assert not SPANS.join(POINTS, on="k", how="anti").plan.is_point
    assert POINTS.join(SPANS, on="k", how="left").plan.is_point
    assert not POINTS.select("k").union(SPANS.select("k")).plan.is_point
    assert not POINTS.window(tumbling("1s")).agg(n=agg.count()).plan.is_point
    assert POINTS.window(hopping(1, 1)).agg(n=agg.count()).plan.is_point


def test_the_cti_grid_divides_all_windows() -> None:
    assert grid_us(POINTS.plan) == CTI_EVERY_US
    hops = POINTS.window(hopping(12, 8)).agg(n=agg.count())
    assert grid_us(hops.plan) == 4
    assert grid_us(POINTS.window(hopping(10, 4)).agg(n=agg.count()).plan) == 2
    assert grid_us(hops.window(tumbling(6)).agg(m=agg.sum("n")).plan) == 2


@pytest.mark.parametrize(
    ("size", "offset", "grid"),
    [
        ("1d", "7h", "1h"),
        ("1w", "4d", "1d"),
        ("1d", "1m", "1m"),
        ("1d", "59s", "1d"),  # it would take 86,400 CTIs a day
        ("1h", "1us", "1h"),
    ],
)
def test_the_cti_grid_divides_the_offsets_of_windows(size: str, offset: str, grid: str) -> None:
    """Weeks from Monday were closed on Thursday, because weeks since 1970 start on Thursday."""
    window = POINTS.window(tumbling(size, offset)).agg(n=agg.count())
    assert grid_us(window.plan) == duration_us(grid)


@pytest.mark.parametrize(
    ("stream", "is_point"),
    [
        (POINTS.shift(3), True),
        (POINTS.chop(3), True),
        (POINTS.extend(3), False),
        (POINTS.for_ever(), False),
        (POINTS.set_duration(3), False),
        (SPANS.set_duration(1), True),
        (SPANS.point_at_end(), True),
        (SPANS.chop(1), True),
        (SPANS.chop(2), False),
        (SPANS.shift(3), False),
    ],
)
def test_which_changed_lifetimes_are_points(stream: Stream, is_point: bool) -> None:
    assert stream.plan.is_point is is_point


def test_only_operators_of_single_rows_are_stateless() -> None:
    assert POINTS.filter(col("x") > 1).plan.is_stateless
    assert not POINTS.plan.is_stateless
    assert not POINTS.join(SPANS, on="k").plan.is_stateless


def test_partitioning_follows_renames() -> None:
    stream = Stream(by("k"))
    assert keys_of(stream.plan) == [{"k"}]
    assert keys_of(stream.filter(col("x") > 0).plan) == [{"k"}]
    assert keys_of(stream.select(a=col("k"), b=col("k")).plan) == [{"a", "b"}]
    assert keys_of(stream.select("x").plan) is None, "the key is gone"
    assert keys_of(stream.select("x", k=col("k") + 1).plan) is None, "the key is another"
    assert keys_of(stream.select(k=col("x"), other=col("k")).plan) == [{"other"}]
    assert keys_of(POINTS.plan) is None


def test_partitioning_of_joins_has_the_names_of_both_sides() -> None:
    joined = POINTS.join(SPANS.rename({"k": "j"}), left_on="k", right_on="j")
    assert keys_of(joined.plan) == [{"k", "j"}]
    assert keys_of(joined.drop("k").plan) == [{"j"}]
    outer = POINTS.join(SPANS.rename({"k": "j"}), left_on="k", right_on="j", how="left")
    assert keys_of(outer.plan) == [{"k"}], "j is null without a match, wherever that is"
    assert keys_of(outer.drop("k").plan) is None


def test_partitioning_of_joins_uses_existing_partitions_of_both_sides() -> None:
    for right, expected in (("k", [{"k"}]), ("x", [{"k"}, {"x"}])):
        joined = Stream(by("k")).join(Stream(by(right)).for_ever(), on=["k", "x"])
        assert keys_of(joined.plan) == expected
        near = Stream(by("k")).join(Stream(by(right)), on=["k", "x"], within=(0, 5))
        assert keys_of(near.plan) == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [{"k", "j"}]),
        ("left", [{"k"}]),
        ("right", [{"j"}]),
        ("full", None),
        ("semi", [{"k"}]),
        ("anti", [{"k"}]),
    ],
)
def test_partitioning_of_interval_joins_uses_keys_present_in_every_row(
    how: str, expected: list[set[str]] | None
) -> None:
    others = Stream(by("k")).rename({"k": "j", "x": "y"})
    joined = Stream(by("k")).join(others, left_on="k", right_on="j", within=(0, 5), how=how)
    assert keys_of(joined.plan) == expected


def test_a_selection_of_a_single_partition_is_single() -> None:
    one = Stream.from_items({"k": "int64"}, [event(1, k=1)], partitions=1)
    assert one.plan.partitioning.is_single
    assert one.select("k").plan.partitioning.is_single
    assert not POINTS.plan.partitioning.is_single


@pytest.mark.parametrize(
    ("keys", "group", "covers"),
    [
        (None, ("a",), False),
        ((), ("a",), True),
        (({"a"},), ("a",), True),
        (({"a"},), ("a", "b"), True),
        (({"a"}, {"b"}), ("a",), False),
        (({"a"}, {"b"}), ("b", "a"), True),
        (({"a", "c"}, {"b"}), ("c", "b"), True),
    ],
)
def test_a_partitioning_covers_the_groups_that_contain_its_keys(
    keys: tuple[set[str], ...] | None, group: tuple[str, ...], covers: bool
) -> None:
    facts = Partitioning(None if keys is None else tuple(frozenset(names) for names in keys))
    assert facts.covers(group) is covers


def test_which_results_count_as_running() -> None:
    lasting = SPANS.for_ever().group_by("k")
    assert lasting.agg(n=agg.count()).plan.describe().startswith("aggregate running by k")
    for stream in (lasting.agg(m=agg.quantile("y", 0.5)), SPANS.group_by("k").agg(n=agg.count())):
        assert stream.plan.describe().startswith("aggregate snapshot by k")
