"""Random windows and joins against DuckDB, in the fluent interface and in SQL.

Not covered: late events and cuttings (tests/planner/test_random_plans.py has them).
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from planner import Stream, agg, col, cti, event, hopping, sql
from planner.physical.lower import lower
from rstream.types import INF_TIME
from tests.support.budget import scaled
from tests.support.ducks import duck
from tests.support.plan_runner import answer

SEED = int(os.environ.get("DIFFERENTIAL_SEED", "11"))
CASES = scaled(25)
COLUMNS = {"k": "string", "x": "int64", "f": "float64"}


def rows_of(rng: Random) -> list[dict[str, Any]]:
    rows = []
    for vs in sorted(rng.randrange(60) for _ in range(rng.randrange(2, 30))):
        length = rng.choice([1, 1, 5, 20])
        x = rng.choice([None, rng.randint(-9, 9)])
        k, f = rng.choice(["a", "b", "c", None]), rng.choice([None, 0.5, -2.25, 8.0])
        rows.append({"_vs": vs, "_ve": vs + length, "k": k, "x": x, "f": f})
    return rows


def stream_of(rows: list[dict[str, Any]]) -> Stream:
    events = [event(r["_vs"], r["_ve"], **{n: r[n] for n in COLUMNS}) for r in rows]
    return Stream.from_items(COLUMNS, [*events, cti(INF_TIME)])


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    kinds = {"_vs": pa.int64(), "_ve": pa.int64(), "k": pa.string(), "x": pa.int64()}
    return pa.Table.from_pylist(rows, pa.schema([*kinds.items(), ("f", pa.float64())]))


def answers(stream: Any, parallelism: int) -> list[tuple[Any, ...]]:
    found = answer(lower(stream.to_parquet(), root="memory://job", parallelism=parallelism))
    columns = [found[name].to_pylist() for name in found.column_names]
    return sorted(zip(*columns, strict=True), key=repr)


def asked(query: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    connection = duck()
    for name, table in tables.items():
        connection.register(name, table)
    return sorted(connection.execute(query).fetchall(), key=repr)


@pytest.mark.slow
def test_random_windows_return_the_rows_of_duckdb() -> None:
    for case in range(CASES):
        rng = Random(f"{SEED}-windows-{case}")
        rows, every = rows_of(rng), rng.choice([3, 5, 10])
        size, least = every * rng.choice([1, 2, 3]), rng.choice([-9, 0, 3])
        stream = stream_of(rows)
        fluent = (
            stream.filter((col("x") >= least) | col("x").is_null())
            .group_by("k")
            .window(hopping(size, every))
            .agg(
                n=agg.count(),
                m=agg.count("x"),
                t=agg.sum("x"),
                lo=agg.min("f"),
                hi=agg.max("x"),
                mean=agg.mean("f"),
                d=agg.count_distinct("x"),
            )
        )
        text = (
            "SELECT k, count(*) AS n, count(x) AS m, sum(x) AS t, min(f) AS lo, max(x) AS hi, "
            "avg(f) AS mean, count(DISTINCT x) AS d FROM s "
            f"WHERE x >= {least} OR x IS NULL GROUP BY k, HOP({size}, {every})"
        )
        theirs = asked(
            f"""SELECT w * {every}, w * {every} + {size}, k, count(*), count(x), sum(x)::BIGINT,
                min(f), max(x), avg(f), count(DISTINCT x)
            FROM s, unnest(range(-40, 100)) AS u(w)
            WHERE (x >= {least} OR x IS NULL) AND _vs < w * {every} + {size} AND _ve > w * {every}
            GROUP BY w, k""",
            s=table_of(rows),
        )
        for ours in (fluent, sql(text, {"s": stream})):
            assert answers(ours, rng.choice([1, 2])) == theirs, (case, text)


@pytest.mark.slow
def test_random_joins_return_the_rows_of_duckdb() -> None:
    for case in range(CASES):
        rng = Random(f"{SEED}-joins-{case}")
        left, right = rows_of(rng), rows_of(rng)
        offset = rng.choice([-3, 0, 4])
        a, b = stream_of(left), stream_of(right)
        pairs = a.join(b, on="k").filter(col("x") + offset < col("x_right"))
        fluent = pairs.select("k", "x", "f", y=col("x_right"))
        text = f"SELECT a.k, a.x, a.f, b.x AS y FROM a JOIN b ON a.k = b.k AND a.x + {offset} < b.x"
        theirs = asked(
            f"""SELECT greatest(a._vs, b._vs), least(a._ve, b._ve), a.k, a.x, a.f, b.x
            FROM a JOIN b ON a.k = b.k AND a._vs < b._ve AND b._vs < a._ve
            AND a.x + {offset} < b.x""",
            a=table_of(left),
            b=table_of(right),
        )
        for ours in (fluent, sql(text, {"a": a, "b": b})):
            assert answers(ours, rng.choice([1, 2])) == theirs, (case, text)
