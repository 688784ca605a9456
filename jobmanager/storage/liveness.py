"""Checks whether the process that wrote a status is still alive."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from jobmanager.state.job_state import OPEN_STATES

#: After this time without an update, us, a status belongs to a job manager that is dead or has lost
#: its store.
STATUS_STALE_US = 15_000_000


def is_owned(
    status: dict[str, Any], now_us: int, *, pid: int | None = None, machine: str | None = None
) -> bool:
    """Return whether the job manager of ``status`` still works on the job, in another process."""
    if status.get("state") not in OPEN_STATES:
        return False
    if not {"machine", "pid", "written_us"} <= status.keys():
        return False
    if status["machine"] == (machine or socket.gethostname()):
        owner, written_us = status["pid"], status["written_us"]
        is_other = owner != (os.getpid() if pid is None else pid)
        return is_other and _is_alive(owner) and _started_us(owner) <= written_us
    return bool(now_us - status["written_us"] < STATUS_STALE_US)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A process in these states has ended, and its parent has not yet waited for it.
    return _stat(pid)[:1] not in (["Z"], ["X"])


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` after the name; empty if it cannot be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def _started_us(pid: int) -> int:
    """Return when the process started, us UTC; 0 if the system does not report it.

    A process that started after the status was written is not the job manager. It only got the
    same process id later.
    """
    try:
        ticks = int(_stat(pid)[19])
        lines = Path("/proc/stat").read_text().splitlines()
        (boot_s,) = (int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, IndexError):
        return 0
    return (boot_s + ticks // os.sysconf("SC_CLK_TCK")) * 1_000_000
