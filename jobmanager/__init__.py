"""Lifecycle of a running plan: start, track, recover, collect, report."""

from jobmanager.batch.validate import Comparison, collect_batch
from jobmanager.config import JobConfig
from jobmanager.driver.collecting import collect
from jobmanager.driver.job import Job, resume, run
from jobmanager.errors import (
    JobExistsError,
    JobFailedError,
    JobFormatError,
    JobRunningError,
    LateRowsWarning,
    NoJobError,
    OutputTakenError,
)
from jobmanager.storage.side_output import read_dead_letters, read_late

__all__ = [
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
    "read_dead_letters",
    "read_late",
    "resume",
    "run",
]
