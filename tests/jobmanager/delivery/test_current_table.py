"""The current table while retention deletes items, and as the page reads it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import streamscope as ss
from jobmanager.cli.page.board import Board
from jobmanager.config import JobConfig
from jobmanager.delivery.answer import CurrentTable
from jobmanager.delivery.retention import OutputRetention
from jobmanager.delivery.wiring import ThreadWiring
from jobmanager.errors import NoJobError
from jobmanager.storage.root import JobRoot
from rstream.clock import ManualClock, SystemClock
from rstream.log.durable import DurableLog
from rstream.log.retention import collect
from rstream.store.blobs import open_store
from tests.jobmanager.delivery.test_changes import SECOND, prices

if TYPE_CHECKING:
    import pyarrow as pa

    from rvertex.messages import Mark


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A job whose rows come when they begin; its output has many small files."""
    current = prices(2).upserts("item", deleted=ss.col("gone")).select("item", "price")
    query = current.deliver(ss.sinks.parquet(str(tmp_path / "changes"), roll="0s", changes=True))
    root, config = str(tmp_path / "jobs" / "prices"), ss.JobConfig(table_copy_items_min=1)
    ss.run(query, root=root, executor="local", parallelism=2, config=config).wait()
    return root


def look(root: str, *, copy_items_min: int = 1) -> list[Mark]:
    """What one look of the retention lets go, of a job that keeps nothing for long."""
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


def test_the_table_outlives_the_items_that_retention_deletes(root: str) -> None:
    before = ss.read_table(root)
    assert before.num_rows > 0
    assert sum(mark.seq for mark in look(root)) > 50
    assert rows_of(ss.read_table(root)) == rows_of(before)
    assert len(list((Path(root) / "table").rglob("*.arrow"))) == 2
    look(root)
    assert rows_of(ss.read_table(root)) == rows_of(before)


def test_items_with_edges_stay_until_a_copy_stands_for_them(root: str) -> None:
    assert look(root, copy_items_min=1_000_000) == []
    assert not (Path(root) / "table").exists()


def test_each_read_continues_where_the_last_one_ended(root: str) -> None:
    plan = JobRoot(root).read_plan()
    assert plan is not None
    table = CurrentTable(plan)
    first = rows_of(table.read())
    look(root)
    assert rows_of(table.read()) == first
    at = rows_of(ss.read_table(root, at=20 * SECOND))
    assert rows_of(table.read(20 * SECOND)) == at
    assert rows_of(table.read()) == first


def test_the_page_reads_the_table_on_and_at_a_time(root: str) -> None:
    board = Board(str(Path(root).parent), SystemClock())
    board.look()
    for _ in range(2):
        assert board.current("prices").equals(ss.read_table(root))
    assert len(board.table("prices", "table", 100)) == ss.read_table(root).num_rows
    at = "1970-01-01T00:00:20Z"
    assert board.current("prices", at).equals(ss.read_table(root, at=20 * SECOND))
    shutil.rmtree(Path(root).parent)
    board.look()
    with pytest.raises(NoJobError):
        board.current("prices")
