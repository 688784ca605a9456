"""The current table while retention deletes items, and when the page reads it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import streamscope as ss
from jobmanager.cli.page.board import Board
from jobmanager.config import JobConfig
from jobmanager.delivery.answer import CurrentTable
from jobmanager.delivery.retention import OutputRetention
from jobmanager.delivery.wiring import ThreadWiring
from jobmanager.errors import BeginningDeletedError, NoJobError
from jobmanager.storage.root import JobRoot
from rstream.clock import ManualClock, SystemClock
from rstream.log.durable import DurableLog
from rstream.log.retention import collect
from rstream.store.blobs import open_store
from rstream.types import INF_TIME
from tests.jobmanager.delivery.test_changes import SECOND, prices
from tests.jobmanager.delivery.test_retention import COLLECTING, PACE, kept_from
from tests.support.jobs import WAIT_S, write_events
from tests.support.live import Watch

if TYPE_CHECKING:
    import pyarrow as pa

    from rvertex.messages import Mark
    from tests.support.postgres_server import PostgresServer


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A job that emits rows at their start; its output has many small files."""
    current = prices(2).upserts("item", deleted=ss.col("gone")).select("item", "price")
    query = current.deliver(ss.sinks.parquet(str(tmp_path / "changes"), roll="0s", changes=True))
    root, config = str(tmp_path / "jobs" / "prices"), ss.JobConfig(table_copy_items_min=1)
    ss.run(query, root=root, executor="local", parallelism=2, config=config).wait()
    return root


def look(root: str, *, copy_items_min: int = 1) -> list[Mark]:
    """Run one retention check with a short retention. Return the deleted items."""
    job, told = JobRoot(root), list[tuple["Mark", ...]]()
    plan, wiring = job.read_plan(), ThreadWiring()
    assert plan is not None
    wiring.clock = ManualClock(1_000_000)
    config = JobConfig(retention_us=0, table_copy_items_min=copy_items_min)
    kept = OutputRetention(
        plan, job.store, config, needed=dict[int, int], tell=told.append, wiring=wiring
    )
    kept.look()
    kept.look()
    uris = dict(plan.sink_streams())
    for mark in told[-1] if told else ():
        log = DurableLog(open_store(uris[mark.stream]), mark.stream)
        log.keeps_digest = True
        collect(log, mark.seq)
    return list(told[-1]) if told else []


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_the_table_keeps_rows_whose_items_were_deleted(root: str) -> None:
    before = ss.read_table(root)
    assert before.num_rows > 0
    assert sum(mark.seq for mark in look(root)) > 50
    assert rows_of(ss.read_table(root)) == rows_of(before)
    assert len(list((Path(root) / "table").rglob("*.arrow"))) == 2
    look(root)
    assert rows_of(ss.read_table(root)) == rows_of(before)


def test_items_with_edges_are_kept_until_a_copy_replaces_them(root: str) -> None:
    assert look(root, copy_items_min=1_000_000) == []
    assert not (Path(root) / "table").exists()


def test_each_read_continues_at_the_end_of_the_last_one(root: str) -> None:
    plan = JobRoot(root).read_plan()
    assert plan is not None
    table = CurrentTable(plan)
    first = rows_of(table.read())
    look(root)
    assert rows_of(table.read()) == first
    at = rows_of(ss.read_table(root, at=20 * SECOND))
    assert rows_of(table.read(20 * SECOND)) == at
    assert rows_of(table.read()) == first


def test_the_page_reads_current_and_past_tables(root: str) -> None:
    board = Board(str(Path(root).parent), SystemClock())
    board.look()
    for _ in range(2):
        assert board.current("prices").equals(ss.read_table(root))
    assert len(board.table("prices", "table", 100)["rows"]) == ss.read_table(root).num_rows
    at = "1970-01-01T00:00:20Z"
    assert board.current("prices", at).equals(ss.read_table(root, at=20 * SECOND))
    shutil.rmtree(root)
    board.look()
    with pytest.raises(NoJobError):
        board.current("prices")


@pytest.mark.slow
def test_a_job_with_retention_keeps_its_table_after_a_stop(
    tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    """Totals in PostgreSQL, with retention: at the end both tables equal the rows of the result."""
    events, root = write_events(tmp_path / "events.parquet"), str(tmp_path / "job")
    stream = ss.Stream.from_parquet(str(events), vs="t", delay="1s")
    totals = stream.group_by("key").agg(n=ss.agg.count(), total=ss.agg.sum("x"))
    table = f"{postgres_schema}.retained"
    query = totals.to_postgres(postgres.dsn, table, mode="upsert", key="key")
    config, watch = replace(COLLECTING, table_copy_items_min=20), Watch()
    job = ss.run(
        query, root=root, executor="local", parallelism=2, paced=PACE, config=config,
        on_status=watch, fsync=False, retention="delivered",
    )  # fmt: skip
    watch.until(lambda status: bool(kept_from(status)) and min(kept_from(status)) > 0)
    rows = ss.read_table(root)
    assert len(set(rows.column("key").to_pylist())) == rows.num_rows > 0
    with pytest.raises(BeginningDeletedError):
        ss.read_table(root, at=0)
    job.stop()
    job.wait(WAIT_S)
    assert set(rows_of(ss.read_table(root).select(["key"]))) >= set(rows_of(rows.select(["key"])))
    status = ss.resume(root, config=config, on_status=watch).wait(WAIT_S)
    assert status["state"] == "finished"
    found = ss.read_table(root).select(["key", "n", "total"])
    here = [tuple(row.values()) for row in found.to_pylist()]
    there = [tuple(row) for row in postgres.query(f"SELECT key, n, total FROM {table}")]
    whole = ss.collect(totals, executor="local").to_pylist()
    alive = [(r["key"], r["n"], r["total"]) for r in whole if r["_ve"] == INF_TIME]
    assert sorted(here) == sorted(there) == sorted(alive)
