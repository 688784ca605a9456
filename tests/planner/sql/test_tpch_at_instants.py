"""The TPC-H queries over growing tables: at each instant the result equals DuckDB's.

Rows arrive at random instants and never end. The plan emits rows at their start
(:mod:`planner.optimizer.rules.open_rows`), and the rows that are valid at an instant are compared.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner import Stream, sql
from planner.physical.lower import lower
from rstream.items.edges import paired
from tests.support.plan_runner import answer
from tests.support.tpch.queries import QUERIES
from tests.support.tpch.tables import tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

INSTANTS, SPAN = 20, 1_000


@pytest.fixture(scope="module")
def dated() -> dict[str, pa.Table]:
    """The tables, with the arrival instant of each row."""
    rng = np.random.default_rng(7)
    found = {}
    for name, table in tables().items():
        since = np.sort(rng.integers(0, SPAN, table.num_rows))
        found[name] = table.append_column("since", pa.array(since, pa.timestamp("us")))
    return found


@pytest.fixture(scope="module")
def streams(
    dated: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Stream]:
    folder = tmp_path_factory.mktemp("growing")
    return {name: _stream(folder / f"{name}.parquet", table) for name, table in dated.items()}


def _stream(path: Path, table: pa.Table) -> Stream:
    pq.write_table(table, path)
    return Stream.from_parquet(str(path), vs="since", delay="0s").for_ever().drop("since")


@pytest.fixture(scope="module")
def connection(dated: dict[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        for name, table in dated.items():
            found.register(f"{name}_all", table)
        yield found


@pytest.mark.parametrize("name", QUERIES)
def test_tpch_results_before_the_end(
    name: str,
    streams: dict[str, Stream],
    dated: dict[str, pa.Table],
    connection: duckdb.DuckDBPyConnection,
) -> None:
    stream = sql(QUERIES[name], streams)
    assert isinstance(stream, Stream)
    query = stream.to_parquet(technical_columns=True)
    query = replace(query, plan=replace(query.plan, changes=True))
    plan = lower(query, root="memory://tpch", parallelism=2)
    assert any("rows at once" in line for stage in plan.stages for line in stage.operators)
    found = paired(answer(plan))
    vs, ve = found.column("_vs").to_numpy(), found.column("_ve").to_numpy()
    payload = found.select(stream.schema.names)
    for at in sorted(Random(name).sample(range(SPAN), INSTANTS)):
        for table in dated:
            columns = ", ".join(n for n in dated[table].column_names if n != "since")
            connection.execute(
                f"CREATE OR REPLACE VIEW {table} AS SELECT {columns} FROM {table}_all "
                f"WHERE epoch_us(since) <= {at}"
            )
        alive = payload.filter(pa.array((vs <= at) & (at < ve)))
        rows = sorted(map(_plain, (row.values() for row in alive.to_pylist())))
        expected = connection.execute(QUERIES[name]).fetchall()
        if not rows and expected == [(None,)]:
            continue  # an aggregate without rows returns no row here
        assert rows == sorted(map(_plain, expected)), at


def _plain(row: Any) -> tuple[str, ...]:
    """Decimals and doubles to ten digits, because their types differ.

    As text, so nulls can be sorted.
    """
    return tuple(
        f"{float(v):.10g}" if isinstance(v, float) or hasattr(v, "as_tuple") else str(v)
        for v in row
    )
