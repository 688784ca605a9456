"""Lifecycle of a running plan: start, track, recover, collect, report."""

from jobmanager.batch.validate import Comparison, collect_batch
from jobmanager.config import JobConfig
from jobmanager.delivery.answer import read_table
from jobmanager.driver.job import Job
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
    "head",
    "read_dead_letters",
    "read_late",
    "read_table",
    "resume",
    "run",
    "show",
]
