"""A standby: a process with Spark and all code loaded, which resumes a job when its driver dies.

It calls :func:`jobmanager.driver.running.run.resume`, which allows one job manager per root. So any
number of standbys may wait for one job, and one of them resumes it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from jobmanager.driver.engine import check_executor, warm_up
from jobmanager.driver.running.run import resume
from jobmanager.errors import JobRunningError
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.root import JobRoot
from jobmanager.storage.shown import INTERRUPTED, UNKNOWN, shown_status
from rstream.clock import SystemClock
from rstream.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.driver.engine import ExecutorName
    from jobmanager.driver.job import Job
    from jobmanager.driver.job_run import StatusCallback

#: Seconds between two checks of whether the job's driver is alive; if not, the standby tries to
#: resume the job.
LOOK_EVERY_S = 0.5
_log = logging.getLogger(__name__)


def stand_by(
    root: str,
    *,
    executor: ExecutorName | None = None,
    master: str | None = None,
    hosts: int | None = None,
    trust: bool = False,
    on_waiting: Callable[[dict[str, Any]], None] = lambda status: None,
    on_status: StatusCallback | None = None,
) -> Job | None:
    """Resume a job once its driver has died. None: the job has ended, and nothing was started.

    The options are those of ``resume``. ``on_waiting``: called with the status each time the
    standby starts to wait for another process that works on the job. It also waits while the store
    does not answer.

    Raises:
        NoJobError: the root contains no job.
        UntrustedRootError: others may have written files of the root.
    """
    job_root = JobRoot(root, trust=trust)
    job_root.check_trusted()
    settings = job_root.readable_settings()
    name = executor or settings["executor"]
    check_executor(name, job_root.uri)
    warm_up(name, master, settings["master"])
    while True:  # ends when the job has ended, or this process has resumed it
        status = _orphaned_or_ended(job_root, on_waiting)
        if status["state"] not in (INTERRUPTED, UNKNOWN):
            return None
        try:
            return resume(
                root,
                executor=executor,
                master=master,
                hosts=hosts,
                trust=trust,
                on_status=on_status,
            )
        except (JobRunningError, StoreError) as error:  # another was faster, or the store is away
            _log.info("the job cannot be taken over yet", extra={"reason": str(error)})
            time.sleep(LOOK_EVERY_S)


def _orphaned_or_ended(
    root: JobRoot, on_waiting: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    is_reported = is_away = False
    while True:  # ends when the job's driver does
        try:
            status = shown_status(root, SystemClock().now_us())
            is_away = False
        except StoreError as error:
            if not is_away:
                _log.warning("the root cannot be read; the standby waits: %s", error)
            status, is_away = {}, True
        if status and status["state"] not in OPEN_STATES:
            return status
        if status and not is_reported:
            on_waiting(status)
            is_reported = True
        time.sleep(LOOK_EVERY_S)
