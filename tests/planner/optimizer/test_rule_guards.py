"""Guards of the optimizer's rules: the queries that each rule must not change.

Each guard of a rule has a case here. The rule returns the plan unchanged, and the result with all
rules equals the result without any. Not covered: a guard that nobody wrote.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from planner import Stream, agg, col, event, lit, tumbling, when
from planner.api.expressions import as_node
from planner.cost.options import PlanOptions
from planner.errors import EvaluationError
from planner.expressions.nodes import Literal, resolve
from planner.logical.text import logical_text
from planner.optimizer.rules import (
    exchange_once,
    keep_extremes,
    merge_projects,
    order_joins,
    partial_aggregation,
    place_exchange,
    remove_merges,
)
from planner.optimizer.rules.fold_constants import folded
from planner.physical.lower import lower
from rstream.items.batch import event_schema
from tests.support.budget import examples, one_in
from tests.support.plan_runner import answer, sorted_rows
from tests.support.rule_cases import (
    assert_left_alone,
    assert_same_answer,
    counts,
    plans_around,
    readings,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.api.agg import Agg
    from planner.logical.nodes import LogicalNode
    from planner.optimizer.optimizer import Rule


def with_best(
    best: Stream, how: str = "inner", value: str = "n", rows: Stream | None = None
) -> Stream:
    rows = counts() if rows is None else rows
    return rows.join(best, left_on=value, right_on="best", how=how)


def halves() -> Stream:
    return counts().with_columns(half=col("n") * 0.5)


def shared_selection(partitions: int = 3) -> tuple[Stream, Stream]:
    """A stream with a second reader, which keeps it shared."""
    both = readings(partitions).filter(col("x") > 2)
    return both, both.select("k", z=col("y"))


#: Queries per rule that it must not change. All queries have results.
UNTOUCHED: dict[str, tuple[Rule, Callable[[], Stream]]] = {
    "extremes: another aggregate needs the rows that are not the greatest": (
        keep_extremes,
        lambda: with_best(counts().window(tumbling(10)).agg(best=agg.max("n"), rows=agg.count())),
    ),
    "extremes: the greatest of a column that holds no integers": (
        keep_extremes,
        lambda: with_best(
            halves().window(tumbling(10)).agg(best=agg.max("half")), value="half", rows=halves()
        ),
    ),
    "extremes: the least beside the greatest": (
        keep_extremes,
        lambda: with_best(counts().window(tumbling(10)).agg(best=agg.max("n"), low=agg.min("n"))),
    ),
    "extremes: the greatest of another column": (
        keep_extremes,
        lambda: with_best(
            counts().window(tumbling(10)).agg(best=agg.max("n"), other=agg.max("total"))
        ),
    ),
    "extremes: the greatest of one column, joined on another": (
        keep_extremes,
        lambda: with_best(
            counts().with_columns(m=col("n")).window(tumbling(10)).agg(best=agg.min("m")),
            rows=counts().with_columns(n=col("total") % 5),
        ),
    ),
    "extremes: the greatest per key": (
        keep_extremes,
        lambda: with_best(counts().group_by("k").window(tumbling(10)).agg(best=agg.max("n"))),
    ),
    "extremes: rows without a partner are kept too": (
        keep_extremes,
        lambda: with_best(counts("y").window(tumbling(10)).agg(best=agg.min("n")), how="left"),
    ),
    "extremes: neither the greatest nor the least": (
        keep_extremes,
        lambda: with_best(counts("y").window(tumbling(10)).agg(best=agg.count_distinct("n"))),
    ),
    "extremes: rows that go on without the greatest": (
        keep_extremes,
        lambda: with_best(counts().window(tumbling(10)).agg(best=agg.max("n")), how="anti"),
    ),
    "merges: a branch that others read": (
        remove_merges,
        lambda: _union_of_shared(),
    ),
    "merges: what has a name": (
        remove_merges,
        lambda: readings().union(readings(2)).filter(col("x") > 2).name("seen"),
    ),
    "projections: a computed column that is read twice": (
        merge_projects,
        lambda: readings().select("k", z=col("x") * 3).select(a=col("z") + 1, b=col("z") + 2),
    ),
    "projections: what clips picks no columns, and its left side has the answer's": (
        merge_projects,
        lambda: (lambda rows: rows.select("k", "y").clip(rows.filter(col("x") > 2), on="k"))(
            readings()
        ),
    ),
    "order of joins: too little is known": (
        order_joins,
        lambda: readings()
        .join(counts().select("k", "n"), on="k")
        .join(counts("y").select("y", m=col("n")), on="y"),
    ),
    "exchange once: too few values": (
        exchange_once,
        lambda: readings()
        .group_by("k", "y")
        .window(tumbling(10))
        .agg(n=agg.count())
        .group_by("k")
        .window(tumbling(10))
        .agg(m=agg.max("n")),
    ),
    "two phases: an aggregate that needs all rows": (
        partial_aggregation,
        lambda: readings().group_by("k").window(tumbling(10)).agg(m=agg.quantile("x", 0.5)),
    ),
    "two phases: no exchange below": (
        partial_aggregation,
        lambda: counts().group_by("k").window(tumbling(20)).agg(m=agg.max("n")),
    ),
}  # fmt: skip


def _union_of_shared() -> Stream:
    both, selected = shared_selection()
    narrow = both.select("k", z=col("x"))
    others = narrow.select("k", w=col("z"))
    return narrow.union(selected).filter(col("z") > 1).join(others, on="k", within=(0, 0))


@pytest.mark.parametrize("name", one_in(2, UNTOUCHED))
def test_a_rule_does_not_change_plans_it_does_not_apply_to(name: str) -> None:
    assert_left_alone(*UNTOUCHED[name])


@pytest.mark.parametrize("extreme", [agg.max, agg.min])
def test_rows_that_cannot_be_the_maximum_or_minimum_are_left_out(
    extreme: Callable[[str], Agg],
) -> None:
    made = with_best(counts().window(tumbling(10)).agg(best=extreme("n")))
    before, after = plans_around(made, keep_extremes)
    assert logical_text(after) != logical_text(before)
    query = made.to_parquet()
    plain = answer(lower(query, root="r", rules=(place_exchange,)))
    assert plain.num_rows > 2
    assert sorted_rows(answer(lower(query, root="r"))) == sorted_rows(plain)


def union_with_unpartitioned() -> Stream:
    """A union of results partitioned by ``k`` and events without a partitioning."""
    return counts().select("k", x=col("total")).union(readings().select("k", "x"))


def test_a_union_is_partitioned_if_every_branch_is() -> None:
    by_k = counts().to_parquet().plan
    by_k = place_exchange(by_k, PlanOptions()).inputs[0]
    assert by_k.partitioning.keys == (frozenset(["k"]),)
    unions = {
        "alike": (Stream(by_k).union(Stream(by_k).filter(col("k") > 1)), True),
        "an unpartitioned branch last": (Stream(by_k).union(_like(readings(), by_k)), False),
        "an unpartitioned branch first": (_like(readings(), by_k).union(Stream(by_k)), False),
        "a branch on one vertex": (Stream(by_k).union(_like(readings(1), by_k)), False),
    }
    for name, (union, lies_by_k) in unions.items():
        expected = (frozenset(["k"]),) if lies_by_k else None
        assert union.plan.partitioning.keys == expected, name


def _like(stream: Stream, node: LogicalNode) -> Stream:
    """The stream with the columns of a node."""
    names = node.schema.names
    return stream.select(**{name: col("k" if name == "k" else "x") for name in names})


def test_equal_keys_of_a_union_meet_although_a_branch_is_not_partitioned() -> None:
    grouped = union_with_unpartitioned().group_by("k").window(tumbling(20))
    query = grouped.agg(n=agg.count(), total=agg.sum("x")).to_parquet()
    expected = sorted_rows(answer(lower(query, root="r", parallelism=1)))
    assert len(expected) == len({(row["_vs"], row["k"]) for row in expected})
    for parallelism in (2, 3):
        plan = lower(query, root="r", parallelism=parallelism)
        assert sorted_rows(answer(plan)) == expected


def test_sides_partitioned_by_different_keys_are_exchanged() -> None:
    """The sides of a join are partitioned by different subsets of its keys, so it repartitions."""

    def joined() -> Stream:
        by_k = readings().group_by("k").window(tumbling(10)).agg(y=agg.min("y"))
        by_y = readings(2).group_by("y").window(tumbling(10)).agg(k=agg.min("k"))
        return by_k.join(by_y, on=["k", "y"])

    assert_same_answer(joined)


CONDITIONS: list[Any] = [
    lit(True),
    lit(False),
    lit(None).cast(bool),
    col("x") > 2,
    col("x").is_null(),
    col("b"),
    col("s").cast(int) > 1,
    col("x") * 2**62 > 1,
    lit(3) > lit(2),
]
#: Rows on which the cast succeeds, rows on which it fails, and no rows.
ROWS = [
    [{"_vs": 0, "_ve": 1, "x": 3, "b": True, "s": "7"}, {"_vs": 1, "_ve": 2, "x": None, "b": None}],
    [{"_vs": 0, "_ve": 1, "x": 1, "b": False, "s": "word"}],
    [],
]


@st.composite
def conditions(draw: st.DrawFn) -> Any:
    """Trees of and, or, not and when over conditions that are true, false, null or fail."""
    parts = st.recursive(
        st.sampled_from(CONDITIONS),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
            st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
            inner.map(lambda one: ~one),
            st.tuples(inner, inner, inner).map(lambda t: when(t[0]).then(t[1]).otherwise(t[2])),
            st.tuples(inner, inner, inner, inner, inner).map(
                lambda t: when(t[0]).then(t[1]).when(t[2]).then(t[3]).otherwise(t[4])
            ),
        ),
        max_leaves=6,
    )
    return draw(parts)


FAILS = [
    col("s").cast(int) > 1,
    col("x") * 2**62 > 1,
    ~(col("s").cast(int) > 1),
    (col("s").cast(int) > 1).fill_null(False),
    col("b") & (col("s").cast(int) > 1),
]


@pytest.mark.parametrize("fails", FAILS, ids=str)
@pytest.mark.parametrize("decided", [lit(False), lit(True), lit(2) < lit(1), lit(2) > lit(1)])
def test_a_deciding_operand_does_not_remove_a_failure(fails: Any, decided: Any) -> None:
    """Sides are evaluated from left to right. Only sides before the deciding one can fail."""
    stream = Stream.from_items({"x": "int64", "b": "bool", "s": "string"}, [event(0)])
    rows = [{"_vs": 0, "_ve": 1, "x": 3, "b": True, "s": "word"}]
    batch = pa.RecordBatch.from_pylist(rows, schema=event_schema(stream.plan.schema))
    for made in (fails & decided, decided & fails, fails | decided, decided | fails):
        node = resolve(as_node(made), stream.plan.schema)
        assert outcome(folded(node), batch) == outcome(node, batch), str(node)


@examples(75)
@given(conditions())
def test_folding_keeps_values_and_failures(condition: Any) -> None:
    """A folded condition has the same value on every row, and fails exactly where it did before."""
    schema = Stream.from_items({"x": "int64", "b": "bool", "s": "string"}, [event(0)]).plan.schema
    plan: Any = (
        Stream.from_items({"x": "int64", "b": "bool", "s": "string"}, [event(0)])
        .select(c=condition)
        .plan
    )
    (_, node), *_ = plan.columns
    for rows in ROWS:
        batch = pa.RecordBatch.from_pylist(rows, schema=event_schema(schema))
        assert outcome(folded(node), batch) == outcome(node, batch), (str(node), rows)


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_within_pythons_range_are_folded(unit: str) -> None:
    at, day = datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=1)
    schema = pa.schema([("x", pa.int64())])
    for value, kind in ((at, pa.timestamp(unit, "UTC")), (day, pa.duration(unit))):
        node = resolve(as_node(lit(value).cast(kind) + day), schema)
        assert isinstance(folded(node), Literal) == (unit == "us"), kind


def test_times_outside_of_pythons_range_are_not_folded() -> None:
    late = (lit(datetime(9999, 12, 31, tzinfo=UTC)) + timedelta(days=1)).dt.year()
    early = (lit(datetime(1, 1, 1, tzinfo=UTC)) - timedelta(days=1)).dt.floor("year")
    stream = Stream.from_items({"x": "int64"}, [event(0, x=1)])
    query = stream.select(late=late, is_early=early < datetime(1, 1, 1, tzinfo=UTC))
    (row,) = sorted_rows(answer(lower(query.to_parquet("out"), root="r")))
    assert (row["late"], row["is_early"]) == (10_000, True)


def outcome(node: Any, batch: pa.RecordBatch) -> Any:
    """The values, or "fails"."""
    try:
        return node.evaluate(batch).to_pylist()
    except EvaluationError:
        return "fails"
