"""Savepoints are exported to empty folders only; those of undone changes only by name.

Not covered: two exports to the same folder at the same moment.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from jobmanager.cli.branching import export as exporting
from jobmanager.cli.branching.branch import prepare
from jobmanager.cli.branching.export import export
from jobmanager.cli.page.answers import savepoints_of
from jobmanager.cli.verbs.change import savepoints
from jobmanager.driver.running.changes.errors import ChangeRefusedError
from jobmanager.driver.running.deploying import deploy, roll_back, take_savepoint
from jobmanager.storage.output_check import verify_output
from jobmanager.storage.root import VERSIONS, JobRoot
from jobmanager.storage.savepoints import STOP
from rstream.errors import StoreError, UsageError
from tests.support.changed_jobs import COUNTS, ChangedJob
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_an_export_does_not_mix_with_former_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that were killed before their plan was stored left versions, which would count."""
    changed, other = ChangedJob(tmp_path), str(tmp_path / "other")
    changed.append(2)
    job = changed.run(changed.query("counts", COUNTS))
    changed.has_emitted_all()
    job.stop()
    job.wait(WAIT_S)
    root = JobRoot(changed.root)
    for _ in range(2):
        killed = JobRoot(other)
        killed.claim(0)
        killed.create(root.read_query(), root.settings(), now_us=0)
    assert JobRoot(other).store.list(VERSIONS)
    with pytest.raises(UsageError, match="is not empty: choose another folder"):
        export(root, STOP, other)
    free, write_job = str(tmp_path / "free"), exporting.write_job

    def fail(*arguments: object, **named: object) -> None:
        assert JobRoot(free).store.list()
        raise StoreError(free, "the disk is full")

    monkeypatch.setattr(exporting, "write_job", fail)
    with pytest.raises(StoreError, match="the disk is full"):
        export(root, STOP, free)
    assert not JobRoot(free).store.list()
    monkeypatch.setattr(exporting, "write_job", write_job)
    export(root, STOP, free)
    assert JobRoot(free).settings()["id"] != root.settings()["id"]
    changed.append(1)
    job = changed.resume(free)
    job.stop(finish=True)
    assert job.wait(WAIT_S)["state"] == "finished"
    assert 0 < verify_output(JobRoot(free))["events"] < job.status()["events_out"]
    changed.close()


@pytest.mark.slow
def test_a_savepoint_of_an_undone_change_is_not_the_newest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An export from it would compute the undone query, from where the former output ends later."""
    changed, total = ChangedJob(tmp_path), COUNTS.replace("n=ss", 't=ss.agg.sum("x"), n=ss')
    changed.run_and_stop(2, "counts", COUNTS)
    old, new = changed.query("counts", COUNTS), changed.query("totals", total)
    newer = changed.query("more", total.replace("n=ss", "k=ss.agg.count(), n=ss"))
    root = changed.root
    deploy(new, root, yes=True)
    take_savepoint(root, "later")
    deploy(newer, root, yes=True)
    take_savepoint(root, "latest")

    def undone() -> set[str]:
        return {row["name"] for row in savepoints_of(root) if row["undone"]}

    def exported(to: str, name: str | None = None) -> tuple[str, str]:
        savepoints(root, export_to=str(tmp_path / to), name=name, as_json=True)
        out, err = capsys.readouterr()
        return json.loads(out)["savepoint"], err

    assert (undone(), exported("a")) == (set(), ("latest", ""))
    roll_back(root)
    assert undone() == {"latest"}
    made, err = exported("b")
    assert made == "before-0002"
    assert err == f"savepoint before-0002 is from before a change of the job: it contains {new}\n"
    roll_back(root)
    assert undone() == {"latest", "before-0002", "later"}
    assert exported("c")[0] == "before-0001"
    savepoints(root)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {line[0] for line in lines if line[-1] == "undone"} == undone()
    assert exported("d", "later") == (
        "later",
        f"savepoint later is of an undone change of the job: it contains {new}\n",
    )
    with pytest.raises(ChangeRefusedError, match="no change to roll back: each one was rolled"):
        roll_back(root)
    branch = prepare(old, root, at_us=10**15)
    assert all(row.verdict == "kept" for row in branch.comparison.rows)
    take_savepoint(root, "last")
    assert exported("e") == ("last", "")
    root = str(tmp_path / "e")  # an export starts without undone changes
    deploy(new, root, yes=True)
    take_savepoint(root, "changed")
    assert len(savepoints_of(root)) == 2
    assert not undone()
    changed.close()
