"""Folders that grow while a job reads them, and functions that wait for a status."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from rstream import read_events
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jobmanager import Job

#: Rows of a file, and the seconds of event time that it covers.
FILE_ROWS, FILE_S = 200, 1


def write_file(folder: Path, number: int) -> None:
    """Write a file of JSON lines, which gets its name when it is complete."""
    rng = np.random.default_rng(number)
    lo = number * FILE_S * 1_000_000
    times = np.sort(rng.integers(lo, lo + FILE_S * 1_000_000, FILE_ROWS))
    lines = [json.dumps({"t": int(t), "key": int(t) % 5}) for t in times]
    temporary = folder / f".{number:04d}"
    temporary.write_text("\n".join(lines) + "\n")
    os.rename(temporary, folder / f"{number:04d}.json")


class Watch:
    """Waits for statuses; pass it as ``on_status``."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.status: dict[str, Any] = {}

    def __call__(self, status: dict[str, Any]) -> None:
        with self._changed:
            self.status = status
            self._changed.notify_all()

    def forget(self) -> None:
        """From now on, wait for statuses of the next job manager."""
        with self._changed:
            self.status = {}

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status for which ``holds`` is true."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: bool(self.status) and (holds(self.status) or self._has_failed), WAIT_S
            )
            assert found, self.status
            assert not self._has_failed or holds(self.status), self.status
            return self.status

    @property
    def _has_failed(self) -> bool:
        return self.status.get("state") == "failed"


def has_read(rows: int) -> Callable[[dict[str, Any]], bool]:
    return lambda status: status["events_in"] >= rows


def finish(job: Job) -> dict[str, Any]:
    """End the job's sources at their positions, and wait for its end."""
    assert job._run.driver is not None
    job._run.driver.finish()
    return job.wait(WAIT_S)


def answer_rows(job: Job) -> list[dict[str, Any]]:
    """The rows of the result, sorted."""
    rows = [row for _, uri in job.plan.sink_streams() for row in read_events(uri).to_pylist()]
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])
