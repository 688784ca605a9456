"""A moved root works in its new place; files outside of it stay where they are.

Not covered: a root that is moved while a job manager works on it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import jobmanager
from jobmanager import JobConfig
from jobmanager.cli.main import app
from jobmanager.storage.places import placed, plan_in, plan_without_place, unplaced
from jobmanager.storage.root import JobRoot
from planner import Query, Stream, agg, tumbling
from planner.physical.lower import lower
from rstream.store.blobs import open_store
from tests.support.budget import one_in, seeds
from tests.support.jobs import ROWS, WAIT_S, outcome, with_limits, write_events
from tests.support.queries import stateless
from tests.support.trouble import run_and_cancel

if TYPE_CHECKING:
    from tests.support.trouble import Gate

CONFIG = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.05, step_rows_max=200)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


def totals(events: Path, output: str | None = None) -> Query:
    rows = Stream.from_parquet(str(events), vs="t", delay="1s")
    return rows.group_by("key").window(tumbling("2s")).agg(x=agg.sum("x")).to_parquet(output)


def move(old: str, new: str) -> None:
    """Move a root with ``mv``, or as in an object store: copy each file, then delete."""
    if "://" not in old:
        Path(old).rename(new)
        return
    before, after = open_store(old), open_store(new)
    for name in before.list():
        after.put(name, before.get(name))
        before.delete(name)


def cli_json(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("store", one_in(2, ["", "memory://"]))
@pytest.mark.parametrize("is_elsewhere", one_in(2, [True, False]))
@pytest.mark.slow
def test_a_moved_root_continues_in_its_new_place(
    events: Path, gate: Gate, tmp_path: Path, store: str, is_elsewhere: bool
) -> None:
    base = f"{store}{str(tmp_path).lstrip('/')}" if store else str(tmp_path)
    calm = jobmanager.run(totals(events), root=f"{base}/calm", executor="local").wait(WAIT_S)
    old, new, aside = (f"{base}/{name}" for name in ("old", "jobs/new", "answer"))
    Path(tmp_path, "jobs").mkdir()
    query = totals(events, aside if is_elsewhere else None)
    run_and_cancel(query, gate, ROWS // 2, root=old, config=CONFIG)
    move(old, new)
    output = aside if is_elsewhere else f"{new}/output"
    for told in (cli_json("status", new), JobRoot(new).read_status()):
        assert (told["job"], told["state"], told["root"]) == ("new", "cancelled", new)
        assert told["output"] == output
    if not store:
        (row,) = cli_json("list", tmp_path / "jobs")["jobs"]
        said = {name: row[name] for name in ("job", "state", "root")}
        assert said == {"job": "new", "state": "cancelled", "root": new}
    cli_json("gc", new)
    told = cli_json("resume", new)
    assert (told["root"], told["output"]) == (new, output)
    assert outcome(told) == outcome(calm)
    assert not open_store(old).list(), "nothing is written where it was"
    move(new, old)
    assert cli_json("resume", old)["root"] == old, "also when it has finished"


def test_a_stored_plan_contains_no_paths_of_the_root() -> None:
    plan = lower(stateless(), root="/jobs/a", parallelism=2)
    stored = plan_without_place(plan)
    assert "/jobs/a" not in repr(stored.vertices) + stored.root + stored.output
    assert plan_in(stored, "/jobs/a") == plan
    assert plan_in(stored, "s3://b/c/").output == "s3://b/c/output"
    assert plan_in(stored, "/elsewhere").plan_hash == plan.plan_hash


@pytest.mark.parametrize("uri", ["/jobs/ab", "/jobs", "s3://jobs/a", "{x}/y", "/jobs/a b/c"])
def test_paths_outside_of_the_root_are_kept(uri: str) -> None:
    assert unplaced(uri, "/jobs/a") == placed(uri, "/new") == uri
    assert placed(unplaced("/jobs/a/x", "/jobs/a"), "/new") == "/new/x"


@pytest.mark.slow
def test_a_relative_output_belongs_to_the_folder_where_the_job_started(
    events: Path, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "first")
    query = totals(events, "answer")
    run_and_cancel(query, gate, ROWS // 2, root="job", config=CONFIG)
    monkeypatch.chdir(tmp_path / "second")
    assert cli_json("resume", tmp_path / "first" / "job")["state"] == "finished"
    assert not list((tmp_path / "second").iterdir())
    assert (tmp_path / "first" / "answer" / "_SUCCESS").exists()


RACE = """
import sys
import jobmanager
from planner import Stream, agg, tumbling
from rstream.errors import UsageError
rows = Stream.from_parquet(sys.argv[1], vs="t", delay="1s")
query = rows.group_by("key").window(tumbling("2s")).agg(x=agg.sum("x")).to_parquet(*sys.argv[3:])
try:
    print(jobmanager.run(query, root=sys.argv[2], executor="local").wait()["state"])
except UsageError as error:
    print("refused:", error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_one_root", [False, True])
def test_the_loser_of_a_concurrent_start_is_not_told_to_delete_files(
    events: Path, tmp_path: Path, is_one_root: bool
) -> None:
    """Processes start in the same moment, with one root or with one output."""
    for k in seeds(0, 1):
        roots = [tmp_path / f"{k}-{'' if is_one_root else i}" for i in range(3)]
        more = [] if is_one_root else [str(tmp_path / f"{k}-answer")]
        runs = [
            subprocess.Popen(
                [sys.executable, "-c", RACE, str(events), str(root), *more],
                stdout=subprocess.PIPE,
                text=True,
            )
            for root in roots
        ]
        told = sorted(run.communicate(timeout=WAIT_S)[0].strip() for run in runs)
        assert told[0] == "finished", told
        for line in told[1:]:
            assert line.startswith("refused: "), told
            assert "remove" not in line
            # Only a process that starts after the winner's end gets the advice to delete the
            # folder.
            assert "delete" not in line or "already holds a job (finished)" in line


def test_tables_of_the_caller_move_with_the_root(tmp_path: Path) -> None:
    rows = Stream.from_arrow(pa.table({"t": [1, 2], "x": [3, 4]}), vs="t")
    old, new = tmp_path / "old", tmp_path / "new"
    jobmanager.run(rows.to_parquet(), root=str(old), executor="local").wait(WAIT_S)
    old.rename(new)
    plan = JobRoot(str(new)).read_plan()
    assert plan is not None
    kept = {
        path
        for vertex in plan.vertices
        if vertex.source is not None
        for path in (vertex.source.spec.path, *(unit.path for unit in vertex.source.units))
    }
    assert kept
    assert all(Path(path).is_file() and Path(path).is_relative_to(new) for path in kept), kept
