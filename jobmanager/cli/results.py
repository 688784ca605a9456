"""Output and exit status of the verbs that run a job, after the job has ended."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING

import typer

from jobmanager.cli.exits import EXIT_DEGRADED, EXIT_FAILED, EXIT_INTERRUPTED
from jobmanager.cli.running import days
from jobmanager.cli.running.frozen import ended_if_frozen
from jobmanager.cli.view import print_lost_rows, reason_lines
from jobmanager.config import JobConfig
from jobmanager.errors import JobFailedError

if TYPE_CHECKING:
    from jobmanager.driver.job import Job

#: The keys of the status that ``run --json`` prints.
SUMMARY = (
    "job",
    "state",
    "error",
    "health",
    "reasons",
    "events_in",
    "events_out",
    "late_events",
    "late",
    "bad_rows",
    "bad",
    "poisoned_events",
    "restarts",
    "elapsed_s",
    "startup_s",
    "root",
    "output",
    "output_digest",
    "notes",
    "query_changed",
)


def follow(job: Job) -> bool:
    """Wait for the job's end.

    An interrupt cancels the job. Return whether there was an interrupt.
    """
    is_interrupted = False
    with ended_if_frozen(JobConfig().step_wait_s), contextlib.suppress(JobFailedError):
        try:
            job.wait()
        except KeyboardInterrupt:
            is_interrupted = True
            job.cancel()
            job.wait()
    return is_interrupted


def print_result(job: Job, *, as_json: bool, is_interrupted: bool) -> None:
    status = job.status()
    if as_json:
        print(json.dumps({k: status.get(k) for k in SUMMARY}))
    elif status["state"] == "finished":
        print(
            f"{status['job']}: {status['events_in']:,} events in, {status['events_out']:,} out, "
            f"{status['restarts']} restarts, {status['elapsed_s']:.1f} s\n"
            f"output: {status['output']}\ndigest: {status['output_digest']}"
        )
        print_lost_rows(status)
    if status["state"] == "failed":
        hint = f"resume with: {_again(job)}; it continues with the stored query"
        raise JobFailedError(status["job"], f"{status['error']} ({hint})")
    if status["state"] == "stopped":
        print(f"{status['job']}: stopped (resume with: {_again(job)})", file=sys.stderr)
        for line in reason_lines(status):
            print(line, file=sys.stderr)
        if status.get("health") == "degraded":
            raise typer.Exit(EXIT_DEGRADED)
    if status["state"] == "cancelled":
        print(f"{status['job']}: cancelled (resume with: {_again(job)})", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED if is_interrupted else EXIT_FAILED)


def _again(job: Job) -> str:
    return f"jobmanager resume {job.root}"


def print_end(job: Job, before: int | None, *, as_json: bool, is_interrupted: bool) -> None:
    """Print the end of a run. ``before``: for a continued job, the events of earlier days."""
    if before is None or as_json or job.status()["state"] != "stopped":
        print_result(job, as_json=as_json, is_interrupted=is_interrupted)
    else:
        days.print_day(job, before)
