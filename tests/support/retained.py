"""Finished jobs with retained checkpoints and streams, and the contents of a root."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jobmanager
from jobmanager import JobConfig
from tests.support.jobs import WAIT_S, with_limits

if TYPE_CHECKING:
    from pathlib import Path

    from planner import Query


def retained_job(query: Query, root: Path) -> str:
    """A finished job that has kept all its checkpoints."""
    config = with_limits(JobConfig(tick_s=0.02), step_rows_max=200)
    job = jobmanager.run(
        query,
        root=str(root),
        executor="local",
        config=config,
        retain="all",
        checkpoint_bytes=4096,
    )
    job.wait(WAIT_S)
    return str(root)


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder: its modification time and its bytes."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
