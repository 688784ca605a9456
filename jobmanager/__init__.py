"""Lifecycle of a running plan: start, track, recover, collect, report."""

from jobmanager.aside import read_dead_letters, read_late
from jobmanager.collecting import collect
from jobmanager.config import JobConfig
from jobmanager.errors import (
    JobExistsError,
    JobFailedError,
    JobFormatError,
    JobRunningError,
    LateRowsWarning,
    NoJobError,
    OutputTakenError,
)
from jobmanager.job import Job, resume, run
from jobmanager.validate import Comparison, collect_batch

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
