"""Lifecycle of a running plan: start, track, recover, collect, report."""

from jobmanager.config import JobConfig
from jobmanager.errors import (
    JobExistsError,
    JobFailedError,
    JobRunningError,
    NoJobError,
    OutputTakenError,
)
from jobmanager.job import Job, collect, resume, run
from jobmanager.validate import Comparison, collect_batch

__all__ = [
    "Comparison",
    "Job",
    "JobConfig",
    "JobExistsError",
    "JobFailedError",
    "JobRunningError",
    "NoJobError",
    "OutputTakenError",
    "collect",
    "collect_batch",
    "resume",
    "run",
]
