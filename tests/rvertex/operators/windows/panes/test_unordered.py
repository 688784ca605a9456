"""A source that does not sort, before unordered panes, against a source that sorts.

Rows in any order, late ones among them, cut anywhere, with restores from snapshots between any two
pieces: the partial rows and CTIs equal those of sorted rows, item by item.

Not covered: an aggregate with the same error in both (see ``test_aggregate.py``).
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from planner import Stream, agg, col, tumbling, udf
from planner.physical.lower import lower
from rstream.items.batch import event_schema
from rvertex.aggregates.ranked.arg_extremes import ranked_type
from rvertex.aggregates.spec import AggregateSpec
from rvertex.operators.windows.arithmetic import Windows
from rvertex.operators.windows.hopping import PartialAggregate, WindowAggregate
from rvertex.vertex.reorder import Reorder
from tests.support.budget import examples
from tests.support.exact import assert_same_items
from tests.support.operator_harness import check_output, items_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rvertex.events.run import Run
    from rvertex.sources.spec import LatePolicy

PAYLOAD = pa.schema(
    [("k", pa.int64()), ("n", pa.int64()), ("by_n", ranked_type(pa.int64(), pa.int64()))]
)
AGGREGATES = (
    AggregateSpec("count", None, "rows"),
    AggregateSpec("count", "n", "numbers"),
    AggregateSpec("sum", "n", "total"),
    AggregateSpec("mean", "n", "mean"),
    AggregateSpec("min", "n", "least"),
    AggregateSpec("max_by", "by_n", "first_of_greatest"),
    AggregateSpec("min_by", "by_n", "first_of_least"),
)
DELAY = 6
#: (size, every): panes shorter and longer than a batch, windows that overlap, gaps between them.
WINDOWS = [(40, 40), (10, 10), (3, 3), (12, 4), (7, 10)]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from([0, 1, 2, None]),
        st.sampled_from([-1, 0, 5, None]),
    ),
    max_size=40,
)


def events(rows: Sequence[tuple[int, int | None, int | None]]) -> pa.RecordBatch:
    """Point events, ``rows[i][0]`` before or after a time that grows by two per row."""
    vs = [2 * i + shift - 6 for i, (shift, _, _) in enumerate(rows)]
    n = [number for _, _, number in rows]
    ranked = [{"rank": x, "vs": t, "value": i} for i, (x, t) in enumerate(zip(n, vs, strict=True))]
    columns = [vs, [t + 1 for t in vs], [k for _, k, _ in rows], n, ranked]
    schema = event_schema(PAYLOAD)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def outputs(
    spec: PartialAggregate | WindowAggregate,
    rows: pa.RecordBatch,
    cuts: Sequence[int],
    *,
    late: LatePolicy,
    restore: bool,
) -> list[Run]:
    """The operator's output after a source of these rows, up to each cut."""

    def opened() -> tuple[Reorder, Any]:
        unit = Windows(spec.size_us, spec.every_us).pane.size
        source = Reorder(
            PAYLOAD,
            delay_us=DELAY,
            late=late,
            cti_every_us=min(unit, 5),
            sorts=not spec.any_order,
        )
        return source, spec.open([PAYLOAD])

    source, operator = opened()
    found: list[Run] = []

    def step() -> None:
        run = source.release()
        if run is not None:
            found.append(operator.process([run]))

    for lo, hi in itertools.pairwise([0, *sorted(c for c in cuts if c < len(rows)), len(rows)]):
        source.offer(lo, rows.slice(lo, hi - lo))
        if restore:
            states = source.snapshot(), operator.snapshot()
            source, operator = opened()
            source.load(states[0])
            operator.load(states[1])
        step()
    source.end()
    step()
    return found


@examples(30)
@given(
    rows=ROWS,
    cuts=st.lists(st.integers(0, 39), max_size=6),
    keys=st.sampled_from([(), ("k",)]),
    window=st.sampled_from(WINDOWS),
    late=st.sampled_from(["drop", "adjust"]),
    restore=st.booleans(),
)
def test_the_unordered_aggregate_equals_the_sorted_one(
    rows: list[tuple[int, int | None, int | None]],
    cuts: list[int],
    keys: tuple[str, ...],
    window: tuple[int, int],
    late: LatePolicy,
    restore: bool,
) -> None:
    batch = events(rows)
    ordered = PartialAggregate(keys, *window, AGGREGATES, points=True)
    assert ordered.is_order_free(PAYLOAD)
    payload = ordered.output_schema([PAYLOAD])
    expected = outputs(ordered, batch, [], late=late, restore=False)
    found = outputs(replace(ordered, any_order=True), batch, cuts, late=late, restore=restore)
    check_output(found, payload)
    assert_same_items(items_of(found, payload), items_of(expected, payload), "unordered")


@pytest.mark.slow
def test_both_phases_in_one_vertex() -> None:
    rows = events([((7 * i) % 13, i % 3, i % 5) for i in range(300)])
    ordered = WindowAggregate(("k",), 12, 4, AGGREGATES, points=True)
    payload = ordered.output_schema([PAYLOAD])
    expected = outputs(ordered, rows, [], late="drop", restore=False)
    for cuts in ([], list(range(300)), [150]):
        found = outputs(replace(ordered, any_order=True), rows, cuts, late="drop", restore=True)
        assert_same_items(items_of(found, payload), items_of(expected, payload), str(cuts))


COUNT = {"c": agg.count()}


@pytest.mark.parametrize(
    ("aggregates", "delay", "is_unordered"),
    [
        (COUNT, "1s", True),
        ({"t": agg.sum("n"), "m": agg.mean("n"), "b": agg.max_by("x", "n")}, "1s", True),
        ({"t": agg.sum("x")}, "1s", False),
        ({"t": agg.max("x")}, "1s", False),
        ({"t": agg.first("n")}, "1s", False),
        ({"t": agg.count_distinct("n")}, "1s", False),
        (COUNT, "1h", False),
        (COUNT, "p99", False),
    ],
)
def test_which_sources_do_not_sort(
    tmp_path: Path, aggregates: dict[str, Any], delay: str, is_unordered: bool
) -> None:
    table = pa.table({"t": np.arange(5), "k": np.arange(5), "n": np.arange(5), "x": np.ones(5)})
    pq.write_table(table, tmp_path / "rows.parquet")
    rows = Stream.from_parquet(str(tmp_path), vs="t", delay=delay).filter(col("n") >= 1)
    query = rows.group_by("k").window(tumbling("2s")).agg(**aggregates).to_parquet()
    plan = lower(query, root="memory://unordered", parallelism=2)
    first = plan.vertex(plan.topological_order()[0])
    assert first.source is not None
    assert first.source.spec.sorts is not is_unordered
    found = [op for op in first.operators if isinstance(op, PartialAggregate | WindowAggregate)]
    assert [op.any_order for op in found] in ([is_unordered], [])


def test_user_code_gets_sorted_rows(tmp_path: Path) -> None:
    """User code may keep state, so it must get the same rows together for any files."""
    table = pa.table({"t": np.arange(5), "k": np.arange(5), "n": np.arange(5)})
    pq.write_table(table, tmp_path / "rows.parquet")
    twice = udf(lambda n: 2 * n, returns="int64")
    rows = Stream.from_parquet(str(tmp_path), vs="t", delay="1s")
    for seen in (rows.filter(twice(col("n")) > 1), rows.select("k", n=twice(col("n")))):
        query = seen.group_by("k").window(tumbling("2s")).agg(**COUNT, t=agg.sum("n"))
        plan = lower(query.to_parquet(), root="memory://unordered", parallelism=2)
        first = plan.vertex(plan.topological_order()[0])
        assert first.source is not None
        assert first.source.spec.sorts
