"""Verbs that the page runs for a viewer, each in a separate process.

A recomputation runs the code of the job and may take long. In a separate process it cannot block or
crash the server. At most :data:`RUNS_MAX` processes run at a time, each at most :data:`RUN_S_MAX`.
"""

from __future__ import annotations

import subprocess
import sys
import threading

from rstream.errors import OperatingError, UsageError, error_class

RUNS_MAX, RUN_S_MAX = 2, 120.0
_PREFIX = "jobmanager: error: "
#: Exit statuses of completed commands, also of commands that report differences or lost state.
_DONE = (0, 1, 2, 3)


@error_class
class RecomputationError(OperatingError):
    """A verb that the page ran has failed."""

    verb: str
    reason: str

    message = "{verb}: {reason}"


_free = threading.BoundedSemaphore(RUNS_MAX)


def run_verb(verb: str, *arguments: str, run_s: float = RUN_S_MAX) -> list[str]:
    """Run a command in a process. Return the lines that it prints with ``--json``.

    Raises:
        UsageError: ``RUNS_MAX`` commands run already.
        RecomputationError: the command failed or took longer than ``run_s``.
    """
    if not _free.acquire(timeout=run_s):
        raise UsageError(f"{RUNS_MAX} recomputations run already; try again later")
    try:
        process = subprocess.run(
            [sys.executable, "-m", "jobmanager", verb, *arguments, "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=run_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RecomputationError(verb, f"no answer within {run_s:g} s (RUN_S_MAX)") from None
    finally:
        _free.release()
    error = next((line for line in process.stderr.splitlines() if line.startswith(_PREFIX)), "")
    if error or process.returncode not in _DONE:
        reason = error.removeprefix(_PREFIX) or process.stderr.strip()[-500:]
        raise RecomputationError(verb, reason)
    return process.stdout.splitlines()
