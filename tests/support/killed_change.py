"""Runs a job in a process that kills itself in one phase of a change.

``python -m tests.support.killed_change ROOT QUERY_FILE PHASE [EXECUTOR]``
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jobmanager
from jobmanager.driver.driver import Driver
from jobmanager.driver.job_deliveries import JobDeliveries
from jobmanager.driver.running import legs, run
from jobmanager.driver.running.changes import apply, drafting, pending, stopped
from jobmanager.storage.query_file import load_query, query_file
from tests.support.changed_jobs import QUICK
from tests.support.jobs import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.driver.engine import ExecutorName

#: By phase: owner and name of a function, and whether the process dies before or after it.
PHASES: dict[str, tuple[Any, str, str]] = {
    "asked to save": (Driver, "save", "after"),
    "asked to stop": (Driver, "stop", "after"),
    "drawn": (stopped, "draw_ahead", "after"),
    "stopped": (run, "leg_after", "before"),
    "delivering the rest": (JobDeliveries, "drain", "before"),
    "all delivered": (JobDeliveries, "drain", "after"),
    "reading the cut": (apply, "read_cut", "before"),
    "saving": (drafting, "save_cut", "before"),
    "saved": (drafting, "save_cut", "after"),
    "manifest written": (drafting, "complete", "after"),
    "fencing": (drafting, "fence_off", "before"),
    "fenced": (drafting, "fence_off", "after"),
    "built": (apply, "_commit", "before"),
    "committed": (apply, "roll_forward", "before"),
    "plan replaced": (apply, "renew_claim", "before"),
    "new log": (apply, "begin_log", "before"),
    "log begun": (apply, "begin_log", "after"),
    "channels deleted": (apply, "_delete_channels", "after"),
    "recorded": (pending, "record", "after"),
    "closed": (pending, "tidy", "after"),
    "before the next leg": (legs, "open_for_job", "before"),
    "next leg": (run, "leg_after", "after"),
}
#: From this phase on the change is committed, so it must be finished.
FIRST_COMMITTED = "committed"


#: Phases that only a savepoint has, and phases that a change of this kind does not have.
ONLY_SAVED = ("asked to save", "manifest written")
WITHOUT = {
    "rescale": ONLY_SAVED,
    "deploy": ONLY_SAVED,
    "rollback": (*ONLY_SAVED, "saving", "saved"),
    "savepoint": (
        "asked to stop",
        "drawn",
        "stopped",
        "delivering the rest",
        "all delivered",
        "reading the cut",
        "before the next leg",
        "next leg",
        "fencing",
        "fenced",
        "built",
        "committed",
        "plan replaced",
        "new log",
        "log begun",
        "channels deleted",
    ),
}


def plant(phase: str) -> None:
    """Make this process die in the phase."""
    owner, name, when = PHASES[phase]
    inner: Callable[..., Any] = getattr(owner, name)

    def dying(*arguments: Any, **named: Any) -> Any:
        if when == "after":
            inner(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, dying)


def main(root: str, path: str, phase: str, executor: ExecutorName = "local") -> None:
    """Run the job until it dies."""
    plant(phase)
    if Path(root).exists():
        jobmanager.resume(root, config=QUICK).wait(WAIT_S)
        return
    query = load_query(path)
    file = query_file(path)
    job = jobmanager.run(query, root=root, query_file=file, executor=executor, config=QUICK)
    job.wait(WAIT_S)


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
