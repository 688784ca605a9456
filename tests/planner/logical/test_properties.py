"""Derived facts: points, where equal keys lie, and the grid of CTIs."""

from __future__ import annotations

import pytest

from planner import Stream, agg, col, event, hopping, tumbling
from planner.logical.nodes import Exchange, LogicalNode
from planner.logical.properties import (
    CTI_EVERY_US,
    Partitioning,
    grid_us,
    is_point,
    is_stateless,
    partitioning,
)

POINTS = Stream.from_items(
    {"k": "int64", "x": "int64"}, [event(1, k=1), event(2, k=2)], partitions=2
)
SPANS = Stream.from_items({"k": "int64", "y": "int64"}, [event(1, 5, k=1)], partitions=2)


def by(*keys: str) -> LogicalNode:
    return Exchange(POINTS.plan, keys)


def keys_of(node: LogicalNode) -> list[set[str]] | None:
    keys = partitioning(node).keys
    return None if keys is None else [set(names) for names in keys]


def test_points() -> None:
    assert is_point(POINTS.plan)
    assert not is_point(SPANS.plan)
    assert is_point(POINTS.filter(col("x") > 1).select("k").plan)
    assert is_point(POINTS.join(SPANS, on="k").plan), "the overlap with a point is a point"
    assert not is_point(SPANS.join(SPANS, on="k").plan)
    assert not is_point(POINTS.select("k").union(SPANS.select("k")).plan)
    assert not is_point(POINTS.window(tumbling("1s")).agg(n=agg.count()).plan)
    assert is_point(POINTS.window(hopping(1, 1)).agg(n=agg.count()).plan)


def test_the_grid_divides_all_windows() -> None:
    assert grid_us(POINTS.plan) == CTI_EVERY_US
    hops = POINTS.window(hopping(12, 8)).agg(n=agg.count())
    assert grid_us(hops.plan) == 4
    assert grid_us(hops.window(tumbling(6)).agg(m=agg.sum("n")).plan) == 2


def test_stateless() -> None:
    assert is_stateless(POINTS.filter(col("x") > 1).plan)
    assert not is_stateless(POINTS.plan)
    assert not is_stateless(POINTS.join(SPANS, on="k").plan)


def test_partitioning_follows_renames() -> None:
    stream = Stream(by("k"))
    assert keys_of(stream.plan) == [{"k"}]
    assert keys_of(stream.filter(col("x") > 0).plan) == [{"k"}]
    assert keys_of(stream.select(a=col("k"), b=col("k")).plan) == [{"a", "b"}]
    assert keys_of(stream.select("x").plan) is None, "the key is gone"
    assert keys_of(stream.select("x", k=col("k") + 1).plan) is None, "the key is another"
    assert keys_of(stream.select(k=col("x"), other=col("k")).plan) == [{"other"}]
    assert keys_of(POINTS.plan) is None


def test_partitioning_of_joins_has_both_sides_names() -> None:
    joined = POINTS.join(SPANS.rename({"k": "j"}), left_on="k", right_on="j")
    assert keys_of(joined.plan) == [{"k", "j"}]
    assert keys_of(joined.drop("k").plan) == [{"j"}]


def test_single_partitions() -> None:
    one = Stream.from_items({"k": "int64"}, [event(1, k=1)], partitions=1)
    assert partitioning(one.plan).is_single
    assert partitioning(one.select("k").plan).is_single
    assert not partitioning(POINTS.plan).is_single


@pytest.mark.parametrize(
    ("keys", "group", "covers", "is_by"),
    [
        (None, ("a",), False, False),
        ((), ("a",), True, False),
        (({"a"},), ("a",), True, True),
        (({"a"},), ("a", "b"), True, False),
        (({"a"}, {"b"}), ("a",), False, False),
        (({"a"}, {"b"}), ("b", "a"), True, False),
        (({"a", "c"}, {"b"}), ("c", "b"), True, True),
    ],
)
def test_covers_and_is_by(
    keys: tuple[set[str], ...] | None, group: tuple[str, ...], covers: bool, is_by: bool
) -> None:
    facts = Partitioning(None if keys is None else tuple(frozenset(names) for names in keys))
    assert facts.covers(group) is covers
    assert facts.is_by(group) is is_by
