"""A job delivers to every destination that needs no service, and to a PostgreSQL server.

Not covered: failures (tests/rvertex/sinks, tests/jobmanager/delivery).
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import streamscope as ss
from planner.api import sinks

if TYPE_CHECKING:
    import pyarrow as pa
    import pytest

    from tests.support.postgres_server import PostgresServer

EVENTS = [ss.event(1_000_000 * t, k="ab"[t % 2], x=t) for t in range(20)]


def totals() -> ss.Stream:
    events = ss.Stream.from_items({"k": "string", "x": "int64"}, EVENTS)
    return events.group_by("k").window(ss.tumbling("10s")).agg(total=ss.agg.sum("x"))


WANTED = sorted([("a", 20), ("b", 25), ("a", 70), ("b", 75)])


def keep(folder: str, first_seq: int, batch: pa.RecordBatch, stream: str) -> None:
    """Write a file for each call."""
    name = f"{stream.replace('/', '.')}-{first_seq}.json"
    rows = [[row["k"], row["total"]] for row in batch.to_pylist()]
    (Path(folder) / name).write_text(json.dumps(rows))


def run(tmp_path: Path, *specs: Any) -> None:
    query = totals().deliver(*specs)
    ss.run(query, root=str(tmp_path / "root"), executor="local").wait()


def test_function_console_and_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls, table = tmp_path / "calls", tmp_path / "table"
    calls.mkdir()
    function = functools.partial(keep, str(calls))
    run(tmp_path, sinks.function(function), sinks.console(), sinks.parquet(str(table)))
    called = [json.loads(path.read_text()) for path in calls.iterdir()]
    assert sorted((k, total) for rows in called for k, total in rows) == WANTED
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted((row["k"], row["total"]) for row in printed) == WANTED
    rows = pq.read_table(table).to_pylist()
    assert sorted((row["k"], row["total"]) for row in rows) == WANTED
    assert list(rows[0]) == ["window_start", "window_end", "k", "total"]


def test_a_job_delivers_its_rows_to_two_postgres_tables(
    tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    names = [f"{postgres_schema}.{name}" for name in ("all", "newest")]
    run(
        tmp_path,
        sinks.postgres(postgres.dsn, names[0]),
        sinks.postgres(postgres.dsn, names[1], mode="upsert", key="k"),
    )
    assert sorted(postgres.query(f"SELECT k, total FROM {names[0]}")) == WANTED
    assert sorted(postgres.query(f"SELECT k, total FROM {names[1]}")) == [("a", 70), ("b", 75)]
