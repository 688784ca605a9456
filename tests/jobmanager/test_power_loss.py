"""What a job makes durable it has synced before it says so: every file of its root but the status.

That a put which returned survives is shown in tests/rstream/store/test_local_files.py; that jobs
go on after a loss of power, in the simulation.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import jobmanager
from tests.support.jobs import WAIT_S, two_exchanges, write_events


def synced_files(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """The files that are synced from now on, under the names that they get afterwards."""
    contents: set[str] = set()
    files: set[Path] = set()
    fsync, replace, link = os.fsync, os.replace, os.link

    def record(handle: int) -> None:
        contents.add(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    def named(old: str, new: str) -> None:
        if old in contents:
            files.add(Path(new))

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(os, "replace", lambda old, new: (replace(old, new), named(old, new)))
    monkeypatch.setattr(os, "link", lambda old, new: (link(old, new), named(old, new)))
    return files


@pytest.mark.parametrize("fsync", [True, False])
def test_every_file_of_a_job_is_synced_or_none(
    fsync: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = two_exchanges(write_events(tmp_path / "in.parquet"))
    files = synced_files(monkeypatch)
    root = tmp_path / "job"
    job = jobmanager.run(
        query,
        root=str(root),
        executor="local",
        checkpoint_interval="10ms",
        verify=True,
        fsync=fsync,
    )
    job.wait(WAIT_S)
    there = {path for path in root.rglob("*") if path.is_file()}
    kinds = {path.relative_to(root).parts[0] for path in there}
    assert {"job.json", "plan.pkl", "epochs", "notices", "checkpoints", "output"} <= kinds
    shown = {root / "status.json"}
    if fsync:
        assert there - files == shown
    else:
        assert {path for path in there & files if "output" not in path.parts} == set()
