"""A result replaces a folder atomically: readers see all old rows or all new rows.

Not covered: a power loss during the replacement.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import jobmanager
from jobmanager.delivery import publishing
from jobmanager.errors import CannotPublishError
from jobmanager.storage.output_claim import is_complete
from jobmanager.storage.root import JobRoot
from planner import Query, Stream, event
from planner.errors import InvalidPlanError, UnknownColumnError
from rstream.errors import UsageError
from tests.rooms import ROOT
from tests.support.jobs import WAIT_S
from tests.support.power import Disk

if TYPE_CHECKING:
    from pathlib import Path

    from planner.physical.plan import PhysicalPlan

ROWS = 100


def rows_of(first: int) -> Stream:
    items = [event(first + k, x=first + k, day=f"d{k % 3}") for k in range(ROWS)]
    return Stream.from_items({"x": "int64", "day": "string"}, items)


def run(query: Query, root: Path) -> jobmanager.Job:
    job = jobmanager.run(query, root=str(root), executor="local")
    job.wait(WAIT_S)
    return job


def values(table: Path) -> list[int]:
    return sorted(ds.dataset(table, partitioning="hive").to_table()["x"].to_pylist())


def test_a_folder_is_replaced_atomically(tmp_path: Path) -> None:
    table, seen, is_over = tmp_path / "table", set(), threading.Event()

    def read() -> None:
        while not is_over.is_set():
            held = os.open(table, os.O_RDONLY)
            names = sorted(n for n in os.listdir(held) if n.endswith(".parquet"))
            # otherwise it is being removed
            is_there = os.stat(table).st_ino == os.fstat(held).st_ino
            os.close(held)
            seen.add(tuple(names) != () or not is_there)

    run(rows_of(0).to_parquet(str(table), mode="overwrite"), tmp_path / "one")
    assert values(table) == list(range(ROWS))
    reader = threading.Thread(target=read)
    reader.start()
    job = run(rows_of(500).to_parquet(str(table), mode="overwrite"), tmp_path / "two")
    is_over.set()
    reader.join()
    assert seen == {True}, "there was a folder with rows at any time"
    assert values(table) == list(range(500, 500 + ROWS))
    assert pq.read_schema(next(table.glob("*.parquet"))).equals(job.to_arrow().schema)
    assert sorted(os.listdir(tmp_path)) == ["one", "table", "two"], "nothing is left"


def test_a_job_has_finished_only_after_its_answer_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An incomplete result is not published either: a successor would write more files to it."""
    table, seen = tmp_path / "table", []

    def complete_before(plan: PhysicalPlan, *given: Any) -> None:
        assert is_complete(plan.output)
        publishing.publish(plan, *given)

    monkeypatch.setattr("jobmanager.driver.job_run.publish", complete_before)
    monkeypatch.setattr("jobmanager.driver.job_run._REPORT_EVERY_S", 0.0)

    def note(status: dict[str, Any]) -> None:
        seen.append((status["state"], table.exists()))

    query = rows_of(0).to_parquet(str(table), mode="overwrite")
    job = jobmanager.run(query, root=str(tmp_path / "job"), executor="local", on_status=note)
    assert job.wait(WAIT_S)["state"] == "finished"
    assert ("finished", False) not in seen
    assert seen[-1] == ("finished", True)
    assert JobRoot(job.root).read_status()["state"] == "finished"


@pytest.mark.parametrize("has_exchange", [True, False])
def test_a_published_answer_survives_a_power_failure(
    has_exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes the parent folders, and a table that replaces another one."""
    if not has_exchange:
        monkeypatch.setattr(publishing, "_EXCHANGE", 1 << 30)  # a flag that no system has
    table, disk = tmp_path / "new" / "deep" / "table", Disk(tmp_path, monkeypatch)
    exchange = publishing._exchange

    def checked(draft: str, path: str, former: str) -> None:
        assert disk.is_durable(draft), "it is all on the disk before it is in its place"
        exchange(draft, path, former)

    monkeypatch.setattr(publishing, "_exchange", checked)
    query = rows_of(0).to_parquet(str(table), partition_by="day")
    run(query, tmp_path / "one")
    assert {path.name for path in table.glob("day=*")} == {"day=d0", "day=d1", "day=d2"}
    assert values(table) == list(range(ROWS))
    assert not [path for path in disk.lost() if path.startswith(f"{table}/")]
    with pytest.raises(CannotPublishError, match='mode="overwrite" replaces it'):
        run(query, tmp_path / "two")
    run(rows_of(500).to_parquet(str(table), mode="overwrite"), tmp_path / "three")
    assert values(table) == list(range(500, 500 + ROWS))
    assert not [path for path in disk.lost() if path.startswith(f"{table}/")]
    assert sorted(os.listdir(table.parent)) == ["table"]
    assert not [path for path in disk.named_too_early if not path.endswith("/status.json")]


def test_appended_rows_are_added_to_those_of_other_jobs(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for k, root in enumerate(("one", "two")):
        run(rows_of(k * ROWS).to_parquet(str(table), mode="append"), tmp_path / root)
    assert values(table) == list(range(2 * ROWS))


@pytest.mark.slow
def test_a_resumed_job_publishes_if_it_died_before_publishing(tmp_path: Path) -> None:
    table, root = tmp_path / "table", tmp_path / "job"
    run(rows_of(0).to_parquet(str(table), mode="overwrite"), tmp_path / "before")
    code = (
        "import os, signal, jobmanager.driver.job_run as j\n"
        "import tests.jobmanager.delivery.test_publishing as t\nfrom pathlib import Path\n"
        "j.publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"t.run(t.rows_of(500).to_parquet({str(table)!r}, mode='overwrite'), Path({str(root)!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=WAIT_S)
    assert done.returncode == -9
    assert values(table) == list(range(ROWS))
    jobmanager.resume(str(root)).wait(WAIT_S)
    assert values(table) == list(range(500, 500 + ROWS))


def test_a_folder_that_is_not_a_table_is_not_replaced(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    with pytest.raises(CannotPublishError, match=r"letter\.txt, which is not a Parquet file"):
        run(rows_of(0).to_parquet(str(home), mode="overwrite"), tmp_path / "job")
    other = run(rows_of(0).to_parquet(str(tmp_path / "other")), tmp_path / "owner")
    with pytest.raises(CannotPublishError, match="the output of a job"):
        run(rows_of(0).to_parquet(other.output, mode="overwrite"), tmp_path / "job2")
    assert (home / "letter.txt").exists()
    assert not (tmp_path / "job").exists(), "it is said before anything runs"


def test_an_answer_with_deleted_parts_is_not_published(tmp_path: Path) -> None:
    query = rows_of(0).to_parquet(str(tmp_path / "table"), mode="overwrite")
    with pytest.raises(UsageError, match="leave out retention="):
        jobmanager.run(query, root=str(tmp_path / "job"), executor="local", retention="1h")


def test_files_of_a_dead_process_are_deleted(tmp_path: Path) -> None:
    table, root = tmp_path / "table", tmp_path / "one"
    job = run(rows_of(0).to_parquet(str(table), mode="overwrite"), root)
    job_id = JobRoot(str(root)).settings()["id"]
    left = f".table.{job_id}"
    for name in (left, f"{left}.former"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-0.parquet").touch()
    publishing.publish(job.plan, job_id, lambda: None)
    assert sorted(os.listdir(tmp_path)) == ["one", "table"]
    assert values(table) == list(range(ROWS))


def test_a_finished_job_does_not_replace_the_answer_of_a_later_one(
    tmp_path: Path,
) -> None:
    table = tmp_path / "table"
    run(rows_of(0).to_parquet(str(table), mode="overwrite"), tmp_path / "one")
    run(rows_of(500).to_parquet(str(table), mode="overwrite"), tmp_path / "two")
    jobmanager.resume(str(tmp_path / "one")).wait(WAIT_S)
    assert values(table) == list(range(500, 500 + ROWS))


@pytest.mark.parametrize("place", ["{}/table", "memory://{}/table"])
def test_a_resumed_job_does_not_replace_the_answer_of_a_later_one(
    place: str, tmp_path: Path
) -> None:
    """A job died after it had published. Before its resume, a later job published its result."""
    uri = place.format(tmp_path)
    first = run(rows_of(0).to_parquet(uri, mode="overwrite"), tmp_path / "one")
    for first_x, root in ((500, "two"), (900, "three")):
        run(rows_of(first_x).to_parquet(uri, mode="overwrite"), tmp_path / root)
    publishing.publish(first.plan, JobRoot(str(tmp_path / "one")).settings()["id"], lambda: None)
    found = jobmanager.collect(
        Stream.from_parquet(f"{uri}/*.parquet", vs="start"), executor="local"
    )
    assert sorted(found["x"].to_pylist()) == list(range(900, 900 + ROWS))


def test_a_job_that_published_in_between_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, exchange = str(tmp_path / "table"), publishing._exchange
    run(rows_of(0).to_parquet(table, mode="overwrite"), tmp_path / "one")
    between: list[jobmanager.Job] = []

    def late(draft: str, path: str, former: str) -> None:
        if not between:
            monkeypatch.setattr(publishing, "_exchange", exchange)
            between.append(run(rows_of(500).to_parquet(table, mode="overwrite"), tmp_path / "two"))
        exchange(draft, path, former)

    monkeypatch.setattr(publishing, "_exchange", late)
    run(rows_of(900).to_parquet(table, mode="overwrite"), tmp_path / "three")
    (two,) = between
    publishing.publish(two.plan, JobRoot(str(tmp_path / "two")).settings()["id"], lambda: None)
    assert values(tmp_path / "table") == list(range(900, 900 + ROWS))


def test_invalid_requests_are_rejected() -> None:
    stream = rows_of(0)
    with pytest.raises(InvalidPlanError, match="mode='add'"):
        stream.to_parquet("t", mode="add")  # type: ignore[arg-type]
    with pytest.raises(InvalidPlanError, match="needs the path"):
        stream.to_parquet(mode="overwrite")
    with pytest.raises(InvalidPlanError, match='needs mode="overwrite"'):
        stream.to_parquet("t", mode="append", partition_by="day")
    with pytest.raises(UnknownColumnError):
        stream.to_parquet("t", partition_by="month")
