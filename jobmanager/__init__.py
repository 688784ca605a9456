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

__all__ = [
    "Job",
    "JobConfig",
    "JobExistsError",
    "JobFailedError",
    "JobRunningError",
    "NoJobError",
    "OutputTakenError",
    "collect",
    "resume",
    "run",
]
