"""Window functions by time over rows with equal starts, against DuckDB, at any parallelism."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from planner import InvalidPlanError, SqlError, Stream, agg, col, desc, event, sql
from planner.logical.text import logical_text
from planner.physical.lower import lower
from rstream.types import INF_TIME
from tests.support.budget import one_in
from tests.support.ducks import duck
from tests.support.plan_runner import Schedule, answer

if TYPE_CHECKING:
    import duckdb

SCHEMA = {"k": "string", "n": "int64", "x": "int64", "f": "float64"}
START = datetime(2026, 1, 1, tzinfo=UTC)
QUERIES = (
    "SUM(x) OVER (PARTITION BY k ORDER BY ts)",
    "COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE UNBOUNDED PRECEDING)",
    "SUM(x) OVER (PARTITION BY k ORDER BY ts RANGE INTERVAL 2 SECOND PRECEDING)",
    "SUM(x) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 9 SECOND PRECEDING AND "
    "INTERVAL 1 SECOND PRECEDING)",
    "COUNT(DISTINCT x) OVER (ORDER BY ts RANGE INTERVAL 5 SECOND PRECEDING)",
    "SUM(x) OVER (PARTITION BY k ORDER BY ts, n ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)",
    "MAX(f) OVER (PARTITION BY k ORDER BY ts, x DESC NULLS FIRST, n ROWS 2 PRECEDING)",
    "LAG(x, 3, n) OVER (PARTITION BY k ORDER BY ts, n)",
    "ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts, f NULLS LAST, n)",
    "COUNT(DISTINCT x) OVER (PARTITION BY k ORDER BY ts, n ROWS UNBOUNDED PRECEDING)",
    # Peers are equal in all columns of ORDER BY.
    "SUM(n) OVER (PARTITION BY k ORDER BY ts, x NULLS FIRST)",
    "COUNT(*) OVER (ORDER BY ts, f * 2 DESC NULLS LAST, k NULLS FIRST RANGE UNBOUNDED PRECEDING)",
    "COUNT(DISTINCT x) OVER (PARTITION BY k ORDER BY ts, x DESC NULLS LAST)",
)


def rows_of(seed: int) -> list[dict[str, Any]]:
    rng = Random(seed)
    at = START
    rows = []
    for n in range(60):
        at += timedelta(seconds=rng.choice([0, 0, 0, 1, 2, 7]))
        row = {"k": rng.choice(["a", "b", None]), "n": n, "x": rng.choice([None, 1, 2, 3, -5])}
        rows.append({"ts": at, **row, "f": rng.choice([None, 0.5, 1.5, -2.0])})
    return rows


def stream_of(rows: list[dict[str, Any]], partitions: int = 2) -> Stream:
    us = [(r["ts"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for r in rows]
    items = [event(t, **{c: r[c] for c in SCHEMA}) for t, r in zip(us, rows, strict=True)]
    return Stream.from_items(SCHEMA, items, partitions=partitions)


@pytest.fixture(scope="module")
def both() -> tuple[Stream, duckdb.DuckDBPyConnection]:
    rows = rows_of(41)
    found = duck()
    plain = [{**row, "ts": row["ts"].replace(tzinfo=None)} for row in rows]
    found.register("t", pa.Table.from_pylist(plain))
    return stream_of(rows), found


@pytest.mark.parametrize("asked", one_in(3, QUERIES))
def test_rows_with_equal_times(asked: str, both: tuple[Stream, duckdb.DuckDBPyConnection]) -> None:
    stream, ducks = both
    query = f"SELECT n, {asked} AS v FROM t"
    found = sql(query.replace("ts", "vs()"), {"t": stream})
    assert isinstance(found, Stream)
    wanted = sorted(ducks.execute(query).fetchall())
    plans = [lower(found.to_parquet(), root="memory://o", parallelism=n) for n in (1, 3)]
    for plan in plans:
        for schedule in (Schedule((0,)), Schedule((3, 0, 1), rows_max=4, restores=True)):
            table = answer(plan, schedule=schedule)
            assert sorted(zip(*(table.column(c).to_pylist() for c in "nv"), strict=True)) == wanted


def test_python_has_the_same_results() -> None:
    stream = stream_of(rows_of(7))
    frames = stream.group_by("k").rolling(rows=5, order_by=[desc("x"), "n"])
    mine = frames.with_columns(v=agg.sum("x"), w=agg.lag(col("x") + 1, 2, default=0))
    order = "OVER (PARTITION BY k ORDER BY vs(), x DESC, n"
    said = sql(
        f"SELECT *, SUM(x) {order} ROWS 4 PRECEDING) AS v, LAG(x + 1, 2, 0) {order}) AS w FROM t",
        {"t": stream},
    )
    assert isinstance(said, Stream)
    tables = [
        answer(lower(s.to_parquet(), root="memory://p", parallelism=2)).sort_by("n")
        for s in (mine, said)
    ]
    assert tables[0].to_pylist() == tables[1].to_pylist()
    whole = stream.group_by("k").rolling(period="2s").with_columns(v=agg.count())
    plan = lower(whole.to_parquet(), root="memory://w", parallelism=1)
    assert answer(plan).num_rows == 60


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("SUM(x) OVER (ORDER BY vs() ROWS BETWEEN 1 PRECEDING AND 3 PRECEDING)", "before it ends"),
        ("SUM(x) OVER (ORDER BY vs(), n RANGE INTERVAL 1 SECOND PRECEDING)", "the time alone"),
        ("MEDIAN(x) OVER (ORDER BY vs())", "the frame needs a beginning"),
    ],
)
def test_unsupported_over_clauses_are_rejected_with_a_hint(asked: str, hint: str) -> None:
    with pytest.raises(SqlError, match=hint):
        sql(f"SELECT n, {asked} AS v FROM t", {"t": stream_of(rows_of(1))})


def test_frames_in_python_are_checked() -> None:
    grouped = stream_of(rows_of(1)).group_by("k")
    with pytest.raises(InvalidPlanError, match="not both"):
        grouped.rolling(rows=2, period="1s")
    with pytest.raises(InvalidPlanError, match="an int between 1"):
        grouped.rolling(rows=0)
    with pytest.raises(InvalidPlanError, match="needs a beginning"):
        grouped.rolling().with_columns(v=agg.quantile("x", 0.5))
    with pytest.raises(InvalidPlanError, match="needs a column"):
        grouped.rolling(rows=2).with_columns()


def test_the_first_row_of_a_key_is_emitted_at_once() -> None:
    query = """SELECT k, n FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY vs()) AS r FROM t) WHERE r = 1"""
    rows = rows_of(5)
    found = sql(query, {"t": stream_of(rows, 1)})
    assert isinstance(found, Stream)
    assert "deduplicate by" in logical_text(found.plan)
    table = answer(lower(found.to_parquet(), root="memory://f", parallelism=2))
    first: dict[str | None, int] = {}
    for row in rows:
        first.setdefault(row["k"], row["n"])
    assert dict(zip(*(table.column(c).to_pylist() for c in "kn"), strict=True)) == first
    assert set(table.column("_ve").to_pylist()) == {INF_TIME}


@pytest.mark.parametrize(
    ("function", "order", "lifetimes", "wanted"),
    [
        ("ROW_NUMBER", "vs(), n DESC", [(0, 1), (0, 1)], [(0, INF_TIME, 1)]),
        ("RANK", "vs()", [(0, 1), (0, 1)], [(0, INF_TIME, 0), (0, INF_TIME, 1)]),
        ("ROW_NUMBER", "vs()", [(0, 2), (1, 9)], [(0, 2, 0), (2, 9, 1)]),
    ],
    ids=["another may come before it", "several are the first", "it ends"],
)
def test_the_first_row_of_a_key_that_is_not_known_at_once(
    function: str,
    order: str,
    lifetimes: list[tuple[int, int]],
    wanted: list[tuple[int, int, int]],
) -> None:
    rows = [event(*lifetime, k=1, n=n) for n, lifetime in enumerate(lifetimes)]
    over = f"{function}() OVER (PARTITION BY k ORDER BY {order})"
    query = f"SELECT n FROM (SELECT *, {over} AS r FROM t) WHERE r = 1"
    found = sql(query, {"t": Stream.from_items({"k": "int64", "n": "int64"}, rows)})
    assert isinstance(found, Stream)
    made = answer(lower(found.to_parquet(), root="memory://g", parallelism=1)).to_pylist()
    assert sorted((row["_vs"], row["_ve"], row["n"]) for row in made) == wanted


def test_set_operations_at_each_instant() -> None:
    left = [event(0, 10, x=1.0), event(2, 4, x=None), event(3, 6, x=1.0)]
    right = [event(4, 6, x=1.0), event(3, 9, x=None), event(20, 21, x=1.0)]
    streams = {
        name: Stream.from_items({"x": "float64"}, rows)
        for name, rows in (("a", left), ("b", right))
    }
    for kind, wanted in (
        ("EXCEPT", {(0, 4, 1.0), (6, 10, 1.0), (2, 3, None)}),
        ("INTERSECT", {(4, 6, 1.0), (3, 4, None)}),
    ):
        found = sql(f"SELECT x FROM a {kind} SELECT x FROM b", streams)
        assert isinstance(found, Stream)
        for parallelism in (1, 2):
            plan = lower(found.to_parquet(), root="memory://e", parallelism=parallelism)
            rows = answer(plan).to_pylist()
            assert {tuple(row.values()) for row in rows} == wanted
            assert len(rows) == len(wanted)
