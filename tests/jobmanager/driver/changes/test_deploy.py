"""A job that continues with another query: it keeps its state, and loses or repeats no row.

Not covered: hosts in separate processes (tests/spark), a broker (tests of live Kafka jobs).
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from jobmanager.cli.verbs.change import savepoints
from jobmanager.driver.running.changes.errors import (
    ChangeRefusedError,
    ChangeUndoneError,
    NotApprovedError,
)
from jobmanager.driver.running.deploying import (
    compared,
    deploy,
    rescale,
    roll_back,
    take_savepoint,
)
from jobmanager.storage.query_file import load_query
from jobmanager.storage.root import GENERATION, PLAN, JobRoot
from jobmanager.storage.savepoints import ReservedNameError, complete, read_savepoint
from tests.support.changed_jobs import ChangedJob, batch, whole_answer, whole_job
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from tests.support.postgres_server import PostgresServer

WINDOW = 'rows.group_by("key").window(ss.tumbling("700ms"))'
COUNTS = f"{WINDOW}.agg(n=ss.agg.count())"
TOTALS = (
    f'{WINDOW}.agg(n=ss.agg.count(), total=ss.agg.sum("x")).with_columns(twice=ss.col("n") * 2)'
)


def verdicts(changed: ChangedJob, path: str) -> list[tuple[str, str]]:
    found = compared(JobRoot(changed.root), load_query(path))
    return [(row.stage, row.verdict) for row in found.rows]


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in names} for row in rows]


@pytest.mark.slow
def test_an_aggregate_and_a_column_are_added_to_a_running_job(tmp_path: Path) -> None:
    """Open windows survive: columns that both queries have equal those of one job over all rows."""
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    new = changed.query("totals", TOTALS)
    with pytest.raises(NotApprovedError) as refused:
        deploy(new, changed.root)
    assert verdicts(changed, new) == [("s01-log", "converted"), ("s02-agg", "converted")]
    done = deploy(new, changed.root, approve=refused.value.hash, wait_s=WAIT_S)
    assert done.outcome is not None
    assert done.outcome["state"] == "done"
    changed.append(3)
    changed.has_read_all()
    rows = changed.finish()
    assert without(rows, "total", "twice") == whole_answer(changed, COUNTS)
    late = [row for row in rows if row["window_start"].timestamp() >= 2.1]
    whole = changed.folder / "all"
    whole.mkdir()
    assert late
    assert all(row["twice"] == 2 * row["n"] for row in late)
    assert all(row["total"] is None for row in rows if row["window_start"].timestamp() < 1.4)
    assert JobRoot(changed.root).settings()[GENERATION] == 1


@pytest.mark.slow
def test_an_aggregate_is_added_to_rows_that_are_delivered_by_key(
    tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    """Tables of the state are numbered by aggregate; the added aggregate is not the last."""
    changed, table = ChangedJob(tmp_path), f"{postgres_schema}.live"
    places = f"ss.sinks.postgres({postgres.dsn!r}, {table!r}, mode='upsert', key='key')"

    def totals(*aggregates: str) -> str:
        return f'rows.group_by("key").agg({", ".join(aggregates)}).deliver({places})'

    n, most, total = "n=ss.agg.count()", 'most=ss.agg.max("t")', 'total=ss.agg.sum("x")'
    changed.append(2)
    changed.run(changed.query("old", totals(n, total)))
    changed.has_read_all()
    new = changed.query("new", totals(n, most, total))
    deploy(new, changed.root, yes=True, wait_s=WAIT_S)
    changed.append(2)
    changed.has_read_all()
    changed.finish()
    rows = [row for k in range(4) for row in batch(k).to_pylist()]
    expected = []
    for key in range(5):
        own = [row for row in rows if row["key"] == key]
        most = max(row["t"] for row in own)
        expected.append((key, len(own), most, sum(row["x"] for row in own)))
    columns = "key, n, most, total"
    assert postgres.query(f"SELECT {columns} FROM {table} ORDER BY key") == expected


@pytest.mark.slow
def test_a_rolled_back_job_has_the_rows_of_an_unchanged_one(tmp_path: Path) -> None:
    changed = ChangedJob(tmp_path)
    changed.append(2)
    changed.run(changed.query("counts", COUNTS))
    changed.has_read_all()
    begun_s = time.monotonic()
    deploy(changed.query("totals", TOTALS), changed.root, yes=True, wait_s=WAIT_S)
    changed.append(1)
    changed.has_read_all()
    rescale(changed.root, parallelism=3, wait_s=WAIT_S)
    changed.append(1)
    changed.has_read_all()
    store = JobRoot(changed.root).store
    plan = f"{read_savepoint(store, 'before-0002').folder}/{PLAN}"
    data = store.get(plan)
    store.delete(plan)  # another process expires the savepoint at this moment
    with pytest.raises(ChangeUndoneError, match="No such file"):
        roll_back(changed.root, wait_s=WAIT_S)
    store.put(plan, data)
    for name in ("before-0002", "before-0001"):  # each undoes one change
        assert roll_back(changed.root, wait_s=WAIT_S)["savepoint"] == name
    with pytest.raises(ChangeRefusedError, match="it has no change to roll back"):
        roll_back(changed.root)
    changed.append(1)
    changed.has_read_all()
    past_s = time.monotonic() - begun_s
    assert changed.finish() == whole_answer(changed, COUNTS)
    assert changed.job is not None
    assert changed.job.status()["elapsed_s"] >= round(past_s, 3), "a change restarted the clock"


def no_target_is_lost(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A rollback without the savepoint from before the change is refused, with the reason."""
    with pytest.raises(ReservedNameError, match="'before-0001': stops and changes"):
        take_savepoint(root, "before-0001")
    take_savepoint(root, "before-friday")
    store = JobRoot(root).store
    later = read_savepoint(store, "before-friday")
    for path in store.list(later.folder):
        store.put(path.replace("before-friday", "before-0001"), store.get(path))
    complete(store, replace(later, name="before-0001"))
    with pytest.raises(ChangeRefusedError, match="before-0001 was replaced after the change"):
        roll_back(root)
    savepoints(root, expired=["before-0001", "before-friday"])
    assert capsys.readouterr().err == (
        f"deleted before-0001: deploy --rollback {root} cannot undo the last change now\n"
    )
    with pytest.raises(ChangeRefusedError, match="before-0001, which its last change took, was"):
        roll_back(root)


@pytest.mark.slow
def test_a_stopped_job_is_changed_at_its_position(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = ChangedJob(tmp_path)
    changed.run_and_stop(2, "counts", COUNTS)
    dropped = changed.query("dropped", f'{COUNTS}.select("key", m=ss.col("n"))')
    with pytest.raises(ChangeRefusedError, match="column 'n' of the output would be removed"):
        deploy(dropped, changed.root, yes=True)
    deploy(changed.query("totals", TOTALS), changed.root, yes=True)
    no_target_is_lost(changed.root, capsys)
    changed.append(2)
    changed.resume()
    changed.has_read_all()
    rows = changed.finish()
    assert without(rows, "total", "twice") == whole_answer(changed, COUNTS)
    with pytest.raises(ChangeRefusedError, match="it has finished"):
        deploy(changed.query("again", TOTALS), changed.root, yes=True)
    with pytest.raises(ChangeRefusedError, match="so it has no state to save"):
        take_savepoint(changed.root, "late")


@pytest.mark.slow
def test_a_destination_gets_each_row_once_across_changes(
    tmp_path: Path, postgres: PostgresServer, postgres_schema: str
) -> None:
    """Rows with columns that are new to the destination are delivered, too."""
    changed, folder = ChangedJob(tmp_path), str(tmp_path / "delivered")
    table = f"{postgres_schema}.counts"
    first = f'ss.sinks.parquet({folder!r}, roll="0s")'
    to = f".deliver({first}, ss.sinks.postgres({postgres.dsn!r}, {table!r}))"
    changed.append(2)
    changed.run(changed.query("counts", f"{COUNTS}{to}"))
    changed.has_read_all()
    new = changed.query("totals", f"{TOTALS}{to}")
    deploy(new, changed.root, yes=True, wait_s=WAIT_S)
    changed.append(2)
    changed.has_emitted_all()
    with pytest.raises(ChangeUndoneError, match="were delivered since the change"):
        roll_back(changed.root, wait_s=WAIT_S)
    changed.append(1)
    changed.has_read_all()
    rows = changed.finish()
    files = [pq.read_table(path).to_pylist() for path in Path(folder).rglob("*.parquet")]
    delivered = without([row for file in files for row in file], "total", "twice")
    assert sorted(delivered, key=str) == sorted(without(rows, "total", "twice"), key=str)
    names = ("key", "n", "total", "twice")
    in_table = postgres.query(f"SELECT {', '.join(names)} FROM {table}")
    assert Counter(in_table) == Counter(tuple(row[name] for name in names) for row in rows)
    assert without(rows, "total", "twice") == whole_answer(changed, COUNTS)


@pytest.mark.slow
def test_an_aggregate_is_added_to_one_of_several_outputs(tmp_path: Path) -> None:
    """Each output continues where it ends, also two that one stage and its reader write."""
    changed, folder = ChangedJob(tmp_path), str(tmp_path / "delivered")
    few = f'{WINDOW}.agg(n=ss.agg.count(), m=ss.agg.max("x"))'
    high = 'rows.filter(ss.col("x") > 60).select("key", "x")'
    to = f'.deliver(ss.sinks.parquet({folder!r}, roll="0s"))'

    def several(counts: str, to: str) -> str:
        again = f'{high}.select("key", y=ss.col("x"))'
        return f"{{'high': {high}, 'counts': {counts}{to}, 'again': {again}}}"

    changed.append(2)
    changed.run(changed.query("old", several(few, to)))
    changed.has_read_all()
    new = several(few.replace("m=", 't=ss.agg.sum("x"), m='), to)
    deploy(changed.query("new", new), changed.root, yes=True, wait_s=WAIT_S)
    changed.append(2)
    changed.has_read_all()
    job = changed.job
    assert job is not None
    job.stop(finish=True)
    assert job.wait(WAIT_S)["state"] == "finished"
    changed.close()
    expected = whole_job(changed, several(few, "")).outputs
    for name, output in job.outputs.items():
        whole = expected[name].to_arrow()
        rows = output.to_arrow().select(whole.column_names).to_pylist()
        assert sorted(rows, key=str) == sorted(whole.to_pylist(), key=str), name
    files = [pq.read_table(path).to_pylist() for path in Path(folder).rglob("*.parquet")]
    delivered = without([row for file in files for row in file], "t")
    counts = without(job.outputs["counts"].to_arrow().to_pylist(), "t")
    assert sorted(delivered, key=str) == sorted(counts, key=str)
