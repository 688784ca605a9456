"""Savepoints are exported to empty folders only.

Cannot catch: two exports to the same folder at the same moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobmanager.cli.branching import export as exporting
from jobmanager.cli.branching.export import export
from jobmanager.storage.root import VERSIONS, JobRoot
from jobmanager.storage.savepoints import STOP
from rstream.errors import StoreError, UsageError
from tests.support.changed_jobs import COUNTS, ChangedJob

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_an_export_does_not_mix_with_former_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that were killed before their plan was stored left versions, which would count."""
    changed, other = ChangedJob(tmp_path), str(tmp_path / "other")
    changed.run_and_stop(2, "counts", COUNTS)
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
    changed.close()
