"""All 22 TPC-H queries as the specification writes them: results and order equal DuckDB's.

Tables are small and random (:mod:`tests.support.tpch.tables`); all their rows are valid for one
interval. Not covered: effects at the benchmark's sizes only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner import Stream, sql
from planner.physical.lower import lower
from tests.support.plan_runner import answer
from tests.support.tpch.queries import QUERIES
from tests.support.tpch.tables import tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNTIL = 1_000_000


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stream]:
    folder = tmp_path_factory.mktemp("tpch")
    return {name: _stream(folder / f"{name}.parquet", table) for name, table in tables().items()}


def _stream(path: Path, table: pa.Table) -> Stream:
    for name, at in (("since", 0), ("until", UNTIL)):
        table = table.append_column(name, pa.array([at] * table.num_rows, pa.timestamp("us")))
    pq.write_table(table, path)
    stream = Stream.from_parquet(str(path), vs="since", ve="until", delay="0s")
    return stream.drop("since", "until")


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        for name, table in tables().items():
            found.register(name, table)
        yield found


@pytest.mark.slow
def test_all_tpch_queries_return_the_rows_of_duckdb(
    streams: dict[str, Stream], connection: duckdb.DuckDBPyConnection
) -> None:
    assert len(QUERIES) == 22
    for name, text in QUERIES.items():
        assert_same(name, text, streams, connection)


@pytest.mark.parametrize("name", ["q6", "q13", "q22"])
def test_some_tpch_queries_return_the_rows_of_duckdb(
    name: str, streams: dict[str, Stream], connection: duckdb.DuckDBPyConnection
) -> None:
    assert_same(name, QUERIES[name], streams, connection)


def assert_same(
    name: str, text: str, streams: dict[str, Stream], connection: duckdb.DuckDBPyConnection
) -> None:
    stream = sql(text, streams)
    assert isinstance(stream, Stream)
    plan = lower(stream.to_parquet(), root="memory://tpch", parallelism=1)
    found = answer(plan)
    assert set(zip(*found.select(["_vs", "_ve"]).to_pydict().values(), strict=True)) == {(0, UNTIL)}
    rows = [_plain(row.values()) for row in found.select(stream.schema.names).to_pylist()]
    expected = [_plain(row) for row in connection.execute(text).fetchall()]
    assert expected, name
    assert rows == expected, name


def _plain(row: Any) -> tuple[Any, ...]:
    """Decimals and doubles to ten digits, because their types differ."""
    return tuple(
        float(f"{float(v):.9e}") if isinstance(v, float) or hasattr(v, "as_tuple") else v
        for v in row
    )
