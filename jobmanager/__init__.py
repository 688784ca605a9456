"""Lifecycle of a running plan: start, track, recover, collect, report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rstream.lazy import lazy

if TYPE_CHECKING:
    from jobmanager.config import JobConfig
    from jobmanager.delivery.answer import read_table
    from jobmanager.driver.job import Job
    from jobmanager.driver.running.batch.validate import Comparison, collect_batch
    from jobmanager.driver.running.collecting import collect
    from jobmanager.driver.running.rows import head, show
    from jobmanager.driver.running.run import resume, run
    from jobmanager.driver.running.side_output import read_dead_letters, read_late
    from jobmanager.errors import (
        BadRowsWarning,
        JobExistsError,
        JobFailedError,
        JobFormatError,
        JobRunningError,
        LateRowsWarning,
        NoJobError,
        OutputTakenError,
    )
    from jobmanager.replay.replaying import replay
    from jobmanager.replay.rows.diffing import diff
    from jobmanager.replay.rows.whys import why
    from jobmanager.replay.state_at import read_state
    from jobmanager.storage.shown import status

__all__ = [
    "BadRowsWarning",
    "Comparison",
    "Job",
    "JobConfig",
    "JobExistsError",
    "JobFailedError",
    "JobFormatError",
    "JobRunningError",
    "LateRowsWarning",
    "NoJobError",
    "OutputTakenError",
    "collect",
    "collect_batch",
    "diff",
    "head",
    "read_dead_letters",
    "read_late",
    "read_state",
    "read_table",
    "replay",
    "resume",
    "run",
    "show",
    "status",
    "why",
]
#: The module that defines each public name; it is imported when one of its names is first used.
_HOMES = {
    "jobmanager.storage.shown": ("status",),
    "jobmanager.driver.running.batch.validate": ("Comparison", "collect_batch"),
    "jobmanager.config": ("JobConfig",),
    "jobmanager.delivery.answer": ("read_table",),
    "jobmanager.driver.job": ("Job",),
    "jobmanager.driver.running.collecting": ("collect",),
    "jobmanager.driver.running.rows": ("head", "show"),
    "jobmanager.driver.running.run": ("resume", "run"),
    "jobmanager.driver.running.side_output": ("read_dead_letters", "read_late"),
    "jobmanager.replay.replaying": ("replay",),
    "jobmanager.replay.state_at": ("read_state",),
    "jobmanager.replay.rows.diffing": ("diff",),
    "jobmanager.replay.rows.whys": ("why",),
    "jobmanager.errors": (
        "BadRowsWarning",
        "JobExistsError",
        "JobFailedError",
        "JobFormatError",
        "JobRunningError",
        "LateRowsWarning",
        "NoJobError",
        "OutputTakenError",
    ),
}
__getattr__, __dir__ = lazy(__name__, _HOMES)
