"""A job syncs what it reports as durable: every file of its root except the status.

For the durability of a completed put see tests/rstream/store/test_local_files.py; for jobs after a
power loss, the simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import jobmanager
from planner import Stream
from tests.support.jobs import ROWS, WAIT_S, exchanges_of, write_events
from tests.support.power import Disk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("fsync", [True, False])
def test_every_file_of_a_job_is_synced_or_none(
    fsync: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes the query's input table and the output outside of the root."""
    events = pq.read_table(write_events(tmp_path / "in.parquet", 20 * ROWS))
    (tmp_path / "in.parquet").unlink()
    disk = Disk(tmp_path, monkeypatch)
    query = exchanges_of(Stream.from_arrow(events, vs="t", delay="1s"))
    root, table = tmp_path / "job", tmp_path / "new" / "deeper" / "table"
    job = jobmanager.run(
        query.to_parquet(str(table), mode="overwrite"),
        root=str(root),
        executor="local",
        checkpoint_interval="1ms",
        verify=True,
        fsync=fsync,
    )
    job.wait(WAIT_S)
    kinds = {path.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file()}
    needed = {"job.json", "plan.pkl", "epochs", "notices", "checkpoints", "output", "inputs"}
    assert needed <= kinds
    if fsync:
        assert set(disk.named_too_early) == {f"{root}/status.json"}
        assert disk.lost() == {f"{root}/status.json"}
        assert any(path.startswith(f"{table}/") for path in disk.survivors())
    else:
        kept = {path for path, data in disk.survivors().items() if data}
        assert not [path for path in kept if path.startswith(f"{root}/") and "/output/" not in path]
