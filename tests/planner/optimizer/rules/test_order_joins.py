"""Chains of inner joins, in every order that the rule may choose: the same rows."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, strategies as st

from planner import Stream, col, event
from planner.optimizer.optimizer import RULES
from planner.optimizer.rules import order_joins
from planner.physical.lower import lower
from tests.support.budget import examples
from tests.support.naive_plan import naive_rows
from tests.support.plan_runner import answer, sorted_rows

MODULE = sys.modules[order_joins.__module__]


def leaf(name: str, rows: int, values: int, lifetime: int) -> Stream:
    """Events with columns ``a`` and ``b`` of few values, including nulls, and one unique column."""
    items = [
        event(i * 3, i * 3 + lifetime, a=i % values or None, b=i % 2, **{name: i})
        for i in range(rows)
    ]
    schema = {"a": "int64", "b": "int64", name: "int64"}
    return Stream.from_items(schema, items, partitions=2)


@st.composite
def chains(draw: st.DrawFn) -> Stream:
    """Three or four streams joined on a, b or both, with selections and filters in between."""
    shapes = st.tuples(st.integers(2, 9), st.integers(1, 4), st.integers(2, 12))
    stream = leaf("x0", *draw(shapes))
    for k in range(1, draw(st.integers(3, 4))):
        other = leaf(f"x{k}", *draw(shapes))
        if draw(st.booleans()):
            other = other.filter(col(f"x{k}") > 1)
        if draw(st.booleans()):
            stream = stream.join(
                other, on=draw(st.sampled_from(["a", "b", ["a", "b"], ["b", "a"]]))
            )
        else:
            other = other.rename({"a": f"a{k}", "b": f"b{k}"})
            pairs = [(["a"], [f"a{k}"]), (["b"], [f"b{k}"]), (["b", "a"], [f"b{k}", f"a{k}"])]
            mine, its = draw(st.sampled_from(pairs))
            stream = stream.join(other, left_on=mine, right_on=its)
        kept = [n for n in stream.schema.names if n in ("a", "b") or n.startswith("x")]
        stream = stream.select(*kept)
    return stream


@examples(10)
@given(chains(), st.integers(1, 3), st.sampled_from([0.2, -1e9]))
def test_any_join_order_returns_the_same_rows(
    stream: Stream, parallelism: int, gain: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "GAIN_MIN", gain)
        plan = lower(stream.to_parquet(), root="r", parallelism=parallelism)
    expected = naive_rows(stream.plan)
    expected.sort(key=lambda row: (row["_vs"], row["_ve"], repr(row)))
    assert sorted_rows(answer(plan)) == expected


def chain(*, last: Stream) -> Stream:
    one, two = leaf("x0", 40, 2, 60), leaf("x1", 40, 2, 60)
    return one.join(two, on="b").select("a", "b", "x0", "x1").join(last, on="a")


def fired(stream: Stream) -> bool:
    trace = lower(stream.to_parquet(), root="r").plan_trace
    assert trace is not None
    return any(step.rule == "order_joins" for step in trace.steps)


def test_which_reorderings_are_worthwhile() -> None:
    rare = leaf("x2", 2, 2, 1)
    assert fired(chain(last=rare))
    few = leaf("x0", 4, 2, 2).join(leaf("x1", 4, 2, 1), on="b").select("a", "x0", "x1")
    assert not fired(few.join(leaf("x2", 40, 2, 60), on="a"))


def test_named_or_shared_joins_are_not_reordered() -> None:
    rare = leaf("x2", 2, 2, 1)
    both = leaf("x0", 40, 2, 60).join(leaf("x1", 40, 2, 60), on="b").select("a", "x0", "x1")
    assert fired(both.join(rare, on="a"))
    assert not fired(both.name("pairs").join(rare, on="a"))
    again = both.select("a", x=col("x0") + 1)
    assert not fired(both.join(rare, on="a").select("a", x=col("x0")).union(again))


@pytest.mark.parametrize("keys", [(["a", "b"], ["q", "q"]), (["a", "a"], ["q", "r"])])
def test_a_condition_on_two_columns_of_one_side_is_evaluated_there(
    keys: tuple[list[str], list[str]],
) -> None:
    """The two columns are equal only through a third one."""
    rows = leaf("x0", 40, 2, 60).join(leaf("x1", 40, 2, 60), on="b").select("a", "b", "x0", "x1")
    rare = leaf("x2", 4, 2, 9).select("x2", q=col("b"), r=col("x2") % 3)
    stream = rows.join(rare, left_on=keys[0], right_on=keys[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "GAIN_MIN", -1e9)
        plan = lower(stream.to_parquet(), root="r")
    expected = naive_rows(stream.plan)
    expected.sort(key=lambda row: (row["_vs"], row["_ve"], repr(row)))
    assert len(expected) > 2
    assert sorted_rows(answer(plan)) == expected


def test_without_statistics_nothing_is_reordered() -> None:
    query = chain(last=leaf("x2", 2, 2, 1)).to_parquet()
    told = lower(query, root="r")
    untold = lower(query, root="r", look=lambda spec, units: None)
    assert told.plan_hash != untold.plan_hash
    rules = tuple(rule for rule in RULES if rule is not order_joins)
    assert untold.plan_hash == lower(query, root="r", rules=rules).plan_hash
