"""``max_by`` and ``min_by``: any cuts, against a naive search, in one or two phases, in snapshots.

Not covered: ranks of types that the payload here does not have (see the types below).
"""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import jobmanager
import planner
from planner import Stream, agg, col, event, tumbling
from planner.errors import InvalidPlanError
from planner.expressions.functions import FUNCTIONS
from rstream.items.batch import VS, event_schema, int64_column
from rvertex.aggregates.accumulators import Rows
from rvertex.aggregates.ranked.arg_extremes import Ranked, ranked_type
from rvertex.aggregates.spec import AggregateSpec
from rvertex.events.run import Run
from rvertex.operators.windows.hopping import WindowAggregate
from rvertex.operators.windows.snapshots.window import SnapshotAggregate
from tests.support.budget import examples
from tests.support.exact import assert_same_items
from tests.support.operator_harness import assert_cut_invariant
from tests.support.strategies import runs, splits, times

RANKED = pa.schema(
    [
        ("k", pa.int64()),
        ("by_x", ranked_type(pa.float64(), pa.string())),
        ("by_n", ranked_type(pa.int64(), pa.float64())),
        ("also_by_n", ranked_type(pa.int64(), pa.string())),
        ("by_s", ranked_type(pa.string(), pa.float64())),
        ("by_d", ranked_type(pa.decimal128(19, 0), pa.string())),
    ]
)
AGGREGATES = (
    AggregateSpec("max_by", "by_x", "s_of_max"),
    AggregateSpec("min_by", "by_x", "s_of_min"),
    AggregateSpec("max_by", "by_n", "x_of_max"),
    AggregateSpec("min_by", "by_n", "x_of_min"),
    AggregateSpec("max_by", "also_by_n", "s_of_greatest_n"),
    AggregateSpec("max_by", "by_s", "x_of_last_s"),
    AggregateSpec("min_by", "by_s", "x_of_first_s"),
    AggregateSpec("max_by", "by_d", "s_of_max_d"),
    AggregateSpec("min_by", "by_d", "s_of_min_d"),
    AggregateSpec("count", None, "rows"),
)
Runs = st.one_of(runs(distinct_keys=2), runs(duration_max=9, times=times(-9, 9)))


def ranked(run: Run) -> Run:
    """The run with structs as payload."""
    rows = run.events
    vs = rows.column(VS)
    pairs = [("x", "s"), ("n", "x"), ("n", "s"), ("s", "x"), ("n", "s")]
    ranks = [rows.column(rank) for rank, _ in pairs]
    ranks[-1] = ranks[-1].cast(RANKED.field("by_d").type.field(0).type)
    columns = [
        pa.StructArray.from_arrays([rank, vs, rows.column(value)], ["rank", "vs", "value"])
        for rank, (_, value) in zip(ranks, pairs, strict=True)
    ]
    arrays = [*rows.columns[:2], rows.column("k"), *columns]
    return Run(pa.RecordBatch.from_arrays(arrays, schema=event_schema(RANKED)), run.ctis)


def order_of(value: Any) -> tuple[bool, Any]:
    """NaN is greatest; text is ordered by its bytes."""
    if isinstance(value, str):
        return (False, value.encode())
    return (True, 0.0) if math.isnan(value) else (False, value)


def naive(rows: list[dict[str, Any]], column: str, *, is_max: bool) -> Any:
    """The value of the first row with the best rank."""
    known = [row[column] for row in rows if row[column]["rank"] is not None]
    if not known:
        return None
    ranks = [order_of(struct["rank"]) for struct in known]
    best = max(ranks) if is_max else min(ranks)
    return next(s["value"] for s, rank in zip(known, ranks, strict=True) if rank == best)


@examples(3)
@given(run=Runs, cuts=splits(), keys=st.sampled_from([(), ("k",)]))
def test_windows_with_max_by_and_min_by(run: Run, cuts: list[int], keys: tuple[str, ...]) -> None:
    run = Run(run.events, np.append(run.ctis[run.ctis < 2**62], 2**62))
    ends = run.events.column(1).to_numpy() if run.events.num_rows else np.empty(0, np.int64)
    points = bool((ends == int64_column(run.events, VS) + 1).all())
    spec = WindowAggregate(keys, 6, 2, AGGREGATES, points=points)
    run = ranked(run)
    out = assert_cut_invariant(spec, [run], [RANKED], cuts)
    partial, final = spec.phases
    middle = partial.open([RANKED]).process([run])
    two = final.open([partial.output_schema([RANKED])]).process([middle])
    assert_same_items(two.events, out.events, "two phases")
    rows = run.events.to_pylist()
    for row in out.events.to_pylist():
        inside = [
            r for r in rows
            if r["_vs"] < row["_ve"] and r["_ve"] > row["_vs"] and (not keys or r["k"] == row["k"])
        ]  # fmt: skip
        assert row["rows"] == len(inside)
        for spec_ in AGGREGATES[:-1]:
            assert spec_.column is not None
            expected = naive(inside, spec_.column, is_max=spec_.function == "max_by")
            assert repr(row[spec_.output]) == repr(expected), spec_


@examples(4)
@given(run=Runs, cuts=splits())
def test_snapshots_do_not_depend_on_batch_boundaries(run: Run, cuts: list[int]) -> None:
    assert_cut_invariant(SnapshotAggregate(("k",), AGGREGATES), [ranked(run)], [RANKED], cuts)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.uint64(), [2**63 + 1, 1, 2**64 - 1, 0]),
        (pa.int8(), [-128, 127, 0, 5]),
        (pa.int64(), [2**53, 2**53 + 1, -(2**53) - 1, -(2**53)]),
        (pa.bool_(), [False, True, False, True]),
        (pa.timestamp("us"), [datetime(2026, 1, d) for d in (3, 1, 4, 2)]),  # noqa: DTZ001
        (pa.float32(), [-0.0, 0.0, -1.5, float("inf")]),
        (pa.float64(), [float("-inf"), float("nan"), 1.0, -2.0]),
    ],
)
def test_ranks_of_any_ordered_type(kind: pa.DataType, values: list[Any]) -> None:
    vs = pa.array([0, 1, 2, 3])
    structs = pa.StructArray.from_arrays([pa.array(values, kind), vs, vs], ["rank", "vs", "value"])
    batch = pa.record_batch({VS: vs, "c": structs})

    def order(value: Any) -> Any:
        return order_of(float(value)) if pa.types.is_floating(kind) else value

    for is_max in (False, True):
        accumulator = Ranked("c", structs.type, is_max=is_max)
        accumulator.update(Rows(np.zeros(4, np.int64), 1, batch))
        (column,) = accumulator.columns()
        best = max(values, key=order) if is_max else min(values, key=order)
        assert values[column[0].as_py()["value"]] is best


def test_columns_that_share_a_rank_for_a_while() -> None:
    """Each accumulator keeps its own rows, also after the other had different ones."""
    vs = pa.array([0, 1, 2])
    first, then, other = (pa.array(ranks) for ranks in ([5, 7, 1], [6, 8, 7], [9, 1, 2]))

    def rows(a: pa.Array, b: pa.Array) -> Rows:
        structs = [
            pa.StructArray.from_arrays([rank, vs, vs], ["rank", "vs", "value"]) for rank in (a, b)
        ]
        batch = pa.record_batch({VS: vs, "a": structs[0], "b": structs[1]})
        return Rows(np.zeros(3, np.int64), 1, batch)

    for steps, expected in (
        (((first, first), (then, then)), (8, 8)),
        (((first, other), (then, then)), (8, 9)),
        (((other, first), (then, then), (other, other)), (9, 9)),
    ):
        kind = ranked_type(pa.int64(), pa.int64())
        both = [Ranked(name, kind, is_max=True) for name in "ab"]
        for a, b in steps:
            batch = rows(a, b)
            for accumulator in both:
                accumulator.update(batch)
        assert tuple(r.columns()[0][0].as_py()["rank"] for r in both) == expected


def test_max_by_in_a_query() -> None:
    stream = Stream.from_items(
        {"who": "string", "price": "int64"},
        [event(1, who="a", price=5), event(2, who="b", price=9), event(3, who="c", price=9)],
    )
    best = stream.window(tumbling(10)).agg(
        high=agg.max_by("who", "price"), low=agg.min_by("who", by="price")
    )
    assert jobmanager.collect(best).to_pylist() == [{"_vs": 0, "_ve": 10, "high": "b", "low": "a"}]
    last = stream.window(tumbling(10)).agg(price=agg.max_by("price", "who"))
    assert jobmanager.collect(last).to_pylist() == [{"_vs": 0, "_ve": 10, "price": 9}]
    with pytest.raises(InvalidPlanError, match=r"'max_by' cannot compare by list<item: string>"):
        stream.window(tumbling(10)).agg(high=agg.max_by("price", col("who").str.split("/")))
    assert "ranked" in FUNCTIONS


def test_text_by_a_decimal_in_sql() -> None:
    kinds = {"s": "string", "d": pa.decimal128(10, 2)}
    items = [event(t, s=s, d=Decimal(d)) for t, s, d in [(1, "a", "0.10"), (2, "b", "9.95")]]
    best = planner.sql(
        "SELECT MAX_BY(s, d) AS s, MIN_BY(d, s) AS d FROM t GROUP BY TUMBLE(INTERVAL '1' SECOND)",
        {"t": Stream.from_items(kinds, items)},
    )
    assert isinstance(best, Stream)
    (row,) = jobmanager.collect(best).to_pylist()
    assert (row["s"], row["d"]) == ("b", Decimal("0.10"))


def taken(ranks: list[Any], kind: pa.DataType, *, is_max: bool) -> int | None:
    """The position of the chosen value, given the ranks of one group in order."""
    struct = ranked_type(kind, pa.int64())
    arrays = [pa.array(ranks, kind), *(pa.array(range(len(ranks)), pa.int64()) for _ in range(2))]
    column = pa.StructArray.from_arrays(arrays, fields=list(struct))
    found = Ranked("r", struct, is_max=is_max)
    for at in range(len(ranks)):
        batch = pa.record_batch([pa.array([at]), column.slice(at, 1)], [VS, "r"])
        found.update(Rows(np.zeros(1, np.int64), 1, batch))
    value: int | None = found.columns()[0][0].as_py()["value"]
    return value


INTEGERS = [pa.int8(), pa.int64(), pa.uint8(), pa.uint64()]


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_ranks_at_the_limits_of_their_type_count(kind: pa.DataType) -> None:
    least = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (kind.bit_width - 1))
    greatest = least + 2**kind.bit_width - 1
    for end, other in ((least, greatest), (greatest, least)):
        assert taken([end], kind, is_max=True) == taken([end], kind, is_max=False) == 0
        assert taken([end, other], kind, is_max=True) == int(other > end)
        assert taken([end, other], kind, is_max=False) == int(other < end)


@pytest.mark.parametrize("is_max", [True, False])
def test_the_first_of_equal_ranks_wins_for_both_zeros_and_all_nans(is_max: bool) -> None:
    for equal in ([0.0, -0.0], [float("nan"), -float("nan")]):
        assert taken(equal, pa.float64(), is_max=is_max) == 0
        assert taken(equal[::-1], pa.float64(), is_max=is_max) == 0
