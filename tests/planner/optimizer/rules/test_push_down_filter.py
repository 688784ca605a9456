"""The steps that filters may not move past. Not covered: a guard without a case here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from planner import Expr, Stream, agg, col, event, tumbling, when
from planner.logical.text import logical_text
from planner.optimizer.rules import push_down_filter
from tests.support.budget import one_in
from tests.support.rule_cases import (
    assert_left_alone,
    assert_same_answer,
    counts,
    failing,
    plans_around,
    readings,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def zeros(partitions: int = 3) -> Stream:
    """Events with 0.0 and with -0.0, which are one key."""
    rows = [event(2 * i, k=i % 5, f=-0.0 if i % 3 else 0.0) for i in range(60)]
    return Stream.from_items({"k": "int64", "f": "double"}, rows, partitions=partitions)


def as_text() -> Expr:
    """True for 0.0 and false for -0.0."""
    return col("f").try_cast(str) == "0"


#: Steps that change lifetimes, or drop rows.
STEPS: dict[str, Callable[[Stream], Stream]] = {
    "a join": lambda rows: rows.join(counts().select("k", "n"), on="k"),
    "a left join": lambda rows: rows.join(counts().select("k", "n"), on="k", how="left"),
    "an anti join": lambda rows: rows.join(counts().filter(col("n") > 2), on="k", how="anti"),
    "an as-of join": lambda rows: rows.join_asof(counts().select("k", "n"), by="k"),
    "a clip": lambda rows: rows.clip(counts("y").select("y"), on="y"),
    "a stitch": lambda rows: rows.stitch(on=["s", "k"]),
    "a change of lifetimes": lambda rows: rows.set_duration(5),
}


#: Filters that are not moved. All queries have results.
def _near(how: str, name: str) -> Stream:
    """Readings joined with those close in time, filtered by a column of one side."""
    mine, others = readings().select("k", "x"), readings(2).select("y", j=col("k"))
    joined = mine.join(others, left_on="k", right_on="j", within=(-2, 3), how=how)
    return joined.filter(col(name).is_null() | (col(name) > 1))


UNTOUCHED: dict[str, Callable[[], Stream]] = {
    "an aggregate's result": (lambda: counts().filter(col("n") > 2)),
    "a key and a result": (lambda: counts().filter((col("k") < 3) | (col("n") > 2))),
    "a computed column": (
        lambda: readings().select("k", z=col("x") + col("y")).filter(col("z") > 4)
    ),
    "the right side of a left join": (
        lambda: (
            readings()
            .join(counts().select("k", "n"), on="k", how="left")
            .filter(col("n").is_null() | (col("n") > 2))
        )
    ),
    "the right key of a left join, null without a match": (
        lambda: (
            readings(2)
            .join(
                counts().filter(col("n") > 2).select("n", j=col("k")),
                left_on="k",
                right_on="j",
                how="left",
            )
            .filter(col("j").is_null())
        )
    ),
    **{
        f"a side that may be missing, past a {how} interval join: {name}": partial(_near, how, name)
        for how, name in (("left", "y"), ("right", "x"), ("full", "x"), ("full", "y"))
    },
    "the exploded column": (
        lambda: readings().with_columns(s=col("s").str.split()).explode("s").filter(col("s") != "1")
    ),
    "a lifetime that is about to change": (
        lambda: readings().set_duration(5).filter(col("_ve") % 3 != 0)
    ),
    "a start that is about to change": (lambda: readings().shift(3).filter(col("_vs") % 3 != 0)),
    "what may fail, past an aggregate": (
        lambda: readings().group_by("s").window(tumbling(10)).agg(n=agg.count()).filter(failing())
    ),
    "what may fail, past a filter": (lambda: readings().filter(failing()).filter(failing("s"))),
    "what may fail, past an explode that leaves rows out": (
        lambda: (
            readings()
            .with_columns(w=when(col("y") < 2).then(col("s")).otherwise(None).str.split())
            .explode("w")
            .filter(failing())
        )
    ),
    "what may fail, behind a condition that stays": (
        lambda: readings().select("s", z=col("x") + col("y")).filter((col("z") > 4) & failing())
    ),
    "no key of what is stitched": (
        lambda: readings(spans=True).stitch(on=["k"]).filter(col("x") > 4)
    ),
    **{
        f"{what}, past {name}": partial(
            lambda step, test: step(readings(spans=True)).filter(test), step, test
        )
        for name, step in STEPS.items()
        for what, test in {"a lifetime": col("_ve") % 2 == 0, "what may fail": failing()}.items()
    },
    "what tells equal keys apart, past an aggregate": (
        lambda: zeros().group_by("f").window(tumbling(10)).agg(n=agg.count()).filter(as_text())
    ),
    "what tells equal keys apart, past a stitch": (
        lambda: zeros().stitch(on=["f"]).filter(as_text())
    ),
    "a subplan that others read": (lambda: readings().filter(col("y") < 2).union(readings())),
    "what an as-of join finds": (
        lambda: (
            readings()
            .join_asof(counts().select("k", "n"), by="k", how="left")
            .filter(col("n").is_null() | (col("n") > 2))
        )
    ),
    "past the first rows of a key, of which others would be the first": (
        lambda: readings().deduplicate("k", within=9).filter(col("x") > 4)
    ),
}


@pytest.mark.parametrize("name", one_in(2, UNTOUCHED))
def test_a_filter_stays_above_nodes_it_may_not_pass(name: str) -> None:
    assert_left_alone(push_down_filter, UNTOUCHED[name])


def test_a_condition_that_distinguishes_equal_keys_stays_on_its_side_of_a_join() -> None:
    made = zeros().join(zeros(2).for_ever().select("f", j=col("k")), on="f").filter(as_text())
    before, after = plans_around(made, push_down_filter)
    assert logical_text(after) != logical_text(before)
    assert logical_text(after).count("filter") == 1
    assert_same_answer(lambda: made)


@pytest.mark.parametrize(
    ("how", "name", "filters"),
    [("inner", "x", 1), ("inner", "y", 1), ("left", "x", 1), ("right", "y", 1), ("semi", "x", 1)],
)
def test_a_filter_moves_to_the_preserved_side_of_an_interval_join(
    how: str, name: str, filters: int
) -> None:
    made = _near(how, name)
    before, after = plans_around(made, push_down_filter)
    lines = logical_text(after).splitlines()
    assert logical_text(after) != logical_text(before)
    assert "interval" in lines[0] + lines[1]
    assert logical_text(after).count("filter") == filters
    assert_same_answer(lambda: made)
