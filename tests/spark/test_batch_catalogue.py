"""The SQL functions of the catalogue, as a stream and as Spark SQL compute them.

Not covered: an error that both share; the catalogue itself is compared with DuckDB.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from planner import Stream, agg, col, desc, event, lit, sql
from planner.batch.spark_sql import BatchDataError, UnsupportedInBatchError
from tests.planner.expressions.functions.test_entries import ROWS, VARIED
from tests.spark.batches import assert_twins, batched
from tests.support.catalogue import aggregates, over, scalars
from tests.support.catalogue.entry import streams

pytestmark = pytest.mark.spark
#: Functions with zones: a batch refuses them, because Java has another release of the zone rules.
NOT_IN_SPARK = {"AT TIME ZONE", "EXTRACT in a zone"}
#: Regular expressions of columns: those of Java have another syntax.
NO_COLUMN_IN_SPARK = ("REGEXP_",)
SHOWN = [e for e in scalars.ENTRIES if e.hint is None and e.name not in NOT_IN_SPARK]


@pytest.mark.parametrize("part", range(4))
def test_the_functions_have_the_same_values_in_spark(part: int) -> None:
    entries = SHOWN[part::4]
    listed = ", ".join(f"{entry.ours} AS v{at}" for at, entry in enumerate(entries))
    stream = sql(f"SELECT n, {listed} FROM t", streams())
    assert isinstance(stream, Stream)
    assert_twins(stream)


def test_options_that_are_columns() -> None:
    kinds = {field.name: str(field.type) for field in ROWS.schema}
    rows = [event(n, **row) for n, row in enumerate(ROWS.to_pylist())]
    stream = Stream.from_items(kinds, rows)
    calls = [call for call in VARIED if not call.startswith(NO_COLUMN_IN_SPARK)]
    calls += ["CHR(m * 40000 + 300)", "[n, m, 7][n:m]", "[[n], [m]]", "SPACE(n)"]
    calls.append(r"SPLIT(s, CASE WHEN m > 0 THEN '\E' ELSE p END)")
    listed = ", ".join(f"{call} AS v{at}" for at, call in enumerate(calls))
    made = sql(f"SELECT {listed} FROM t", {"t": stream})
    assert isinstance(made, Stream)
    s, n, m = col("s"), col("n"), col("m")
    parts = (s.str.slice(n, m), s.str.slice(1, n), s.str.slice(n), s.str.extract("(a)(b)?", m % 2))
    sliced = stream.select(**{f"v{at}": part for at, part in enumerate(parts)})
    later = stream.select(v=lit(datetime(2024, 1, 31, tzinfo=UTC)).dt.add_months(n * 7))
    for one in (made, sliced, later):
        assert_twins(one)
    for call in ("REGEXP_LIKE(s, p)", "REGEXP_REPLACE(s, 'a', p)", "JSON_VALUE(s, p)"):
        made = sql(f"SELECT {call} AS v FROM t", {"t": stream})
        assert isinstance(made, Stream)
        with pytest.raises(UnsupportedInBatchError, match="literal"):
            batched(made)


def test_the_aggregates_have_the_same_values_in_spark() -> None:
    shown = [e for e in aggregates.ENTRIES if e.hint is None]
    values = [e.ours.partition(" AS a, ")[2].partition(" AS v FROM ")[0] for e in shown]
    listed = ", ".join(f"{value} AS v{at}" for at, value in enumerate(values))
    stream = sql(f"SELECT k, {listed} FROM t GROUP BY k, TUMBLE('1 minute')", streams())
    assert isinstance(stream, Stream)
    assert_twins(stream)


def test_window_functions_by_time() -> None:
    """Functions over whole partitions have no batch: Spark cannot express their list of structs."""
    shown = [e for e in over.ENTRIES if e.hint is None and not e.is_running]
    values = [e.ours.removeprefix("SELECT n, ").removesuffix(" AS v FROM t") for e in shown]
    listed = ", ".join(f"{value} AS v{at}" for at, value in enumerate(values))
    stream = sql(f"SELECT n, {listed} FROM t", streams())
    assert isinstance(stream, Stream)
    assert_twins(stream)


def test_frames_of_rows_that_start_together() -> None:
    rows = [event(at // 4, k=at % 3, x=at * 7 % 5, n=at) for at in range(40)]
    stream = Stream.from_items({"k": "int64", "x": "int64", "n": "int64"}, rows)
    grouped = stream.group_by("k")
    frames = (
        grouped.rolling(rows=3),
        grouped.rolling(period=2),
        grouped.rolling(order_by=[desc("x"), "n"]),
    )
    for frame in frames:
        assert_twins(frame.with_columns(v=agg.sum("n"), w=agg.lag("x"), u=agg.count_distinct("x")))
    peers = sql(
        "SELECT n, SUM(n) OVER (PARTITION BY k ORDER BY vs(), x) AS v FROM t", {"t": stream}
    )
    assert isinstance(peers, Stream)
    assert_twins(peers)
    together = stream.union(stream.filter(col("n") < 0))
    assert_twins(together.group_by("k").rolling(rows=3, order_by="n").with_columns(v=agg.sum("x")))
    with pytest.raises(BatchDataError, match="known to the stream only"):
        batched(together.group_by("k").rolling(rows=3).with_columns(v=agg.sum("x")))
