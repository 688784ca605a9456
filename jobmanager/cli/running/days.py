"""``run --continue``: its checks before a day, and its report after the day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.cli.view import print_lost_rows
from jobmanager.storage.root import JobRoot
from rstream.errors import UsageError

if TYPE_CHECKING:
    from jobmanager.driver.job import Job


def check_call(
    target: str | None, root: str | None, continue_root: str | None, *, batch: bool, finish: bool
) -> int | None:
    """Check that the arguments of ``run`` are compatible.

    Returns how many events a continued job had before this day; None if it has no days.

    Raises:
        UsageError: two arguments exclude each other, or one is missing.
    """
    if target is None and continue_root is None:
        raise UsageError("run takes the file of a query: jobmanager run FILE.py --root ROOT")
    if batch and (target is None or continue_root is not None):
        raise UsageError("--batch takes FILE.py and no --continue: a batch keeps no state")
    if finish and continue_root is None:
        raise UsageError("--finish needs --continue ROOT")
    if root is not None and continue_root is not None:
        raise UsageError("--continue ROOT already names the root: leave out --root")
    if continue_root is None:
        return None
    return int(JobRoot(continue_root).read_status().get("events_in", 0))


def print_day(job: Job, before: int) -> None:
    """Print the result of one day of a job that can be continued."""
    status = job.status()
    print(
        f"{status['job']}: {status['events_in'] - before:,} events in today, "
        f"{status['events_in']:,} so far, {status['events_out']:,} out, "
        f"{status['restarts']} restarts, {status['elapsed_s']:.1f} s\noutput: "
        f"{status['output']}\nopen windows stay open, and rows wait while earlier rows "
        f"may follow; continue with: jobmanager run --continue {job.root}"
    )
    print_lost_rows(status)
