"""Reads the status of a job from another process; rebuilds it if the file is lost or broken."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Any

from jobmanager.errors import CannotListError
from jobmanager.manager.memory import FREE_SHARE_MIN
from jobmanager.state.health import with_health
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.liveness import is_owned
from jobmanager.storage.ownership import is_live_here
from jobmanager.storage.places import placed
from jobmanager.storage.root import FORMAT, JOB, OLDEST_FORMAT, STATUS, JobRoot, display_uri
from rstream.clock import SystemClock
from rstream.errors import StreamEngineError

_LOCAL = "file://"
#: A process that uses this share of its memory limit is likely to be killed.
SHORT_OF_MEMORY = 0.85
_ALLOW_MORE = "allow it more (docs/howto/size-memory.md)"
#: The state that a list shows for a job whose files cannot be read.
BROKEN = "broken"
#: The state of an open job whose job manager is dead; and of a job without a job manager whose
#: files do not contain its state.
INTERRUPTED, UNKNOWN = "interrupted", "unknown"
#: Fields that a rebuilt status takes from ``_SUCCESS``, a file without a checksum.
_OF_AN_ANSWER = ("events_out", "output_digest")


def shown_status(root: JobRoot, now_us: int) -> dict[str, Any]:
    """Return the last status; state ``interrupted`` for an open job whose job manager is dead.

    Raises:
        NoJobError: the root holds no job.
        BrokenFileError: ``job.json`` cannot be read.
    """
    settings = root.settings()
    status = root.read_status()
    # ``gc`` adds the number of bytes that it freed, even to a status without other fields.
    if "state" not in status:
        status = {**_rebuilt(root, settings, now_us), **status}
    is_open = status["state"] in OPEN_STATES
    if is_open and "written_us" in status and not _has_job_manager(root, status, now_us):
        status["state"] = INTERRUPTED
        status["error"] = f"{_ending(status)}; jobmanager resume {display_uri(root.uri)}"
    return with_health(status)


def interruption(root: str) -> str:
    """Return how the job manager of an interrupted job ended; empty for other jobs."""
    last = status(root)
    return _ending(last) if last["state"] == INTERRUPTED else ""


def _ending(status: dict[str, Any]) -> str:
    return f"its job manager is gone{memory_shortage(status)}"


def memory_shortage(status: dict[str, Any]) -> str:
    """Return a note if a dead job manager or its container was short of memory at the last status.

    The kernel kills such a process with SIGKILL, so the process itself cannot report it.
    """
    from rvertex.host.allocator import killed_for_memory

    kills = 0
    if "kernel_kills" in status and status.get("machine") == socket.gethostname():
        kills = killed_for_memory() - status["kernel_kills"]
    if kills > 0:  # after a reboot the number is negative
        what = "a process" if kills == 1 else f"{kills} processes"
        return (
            f"; since its last status the kernel of this machine has ended {what} for lack of "
            f"memory, {'probably' if kills == 1 else 'perhaps'} this one: {_ALLOW_MORE}"
        )
    for host in status.get("hosts", ()):
        memory = host.get("memory")
        if memory is None or host.get("machine") != status.get("machine"):
            continue
        used, free, limit = (memory[f"{name}_bytes"] >> 20 for name in ("used", "free", "limit"))
        if host.get("pid") == status.get("pid") and used >= SHORT_OF_MEMORY * limit > 0:
            usage = f"it last used {used:,} of {limit:,} MiB"
        elif free < FREE_SHARE_MIN * limit:  # of the machine or the container of both
            usage = f"its machine or container last had {free:,} of {limit:,} MiB free"
        else:
            continue
        return f"; {usage}, so the kernel has probably ended it for lack of memory: {_ALLOW_MORE}"
    return ""


def status(root: str) -> dict[str, Any]:
    """Return the status of the job in the folder ``root``, from any process.

    Raises:
        NoJobError: the root holds no job.
        BrokenFileError: ``job.json`` cannot be read.
    """
    return shown_status(JobRoot(root), SystemClock().now_us())


def _has_job_manager(root: JobRoot, status: dict[str, Any], now_us: int) -> bool:
    return is_live_here(root) or is_owned(status, now_us)


def row_of(root: str, now_us: int) -> dict[str, Any]:
    """Return the row of a job in a list."""
    status = status_or_broken(root, now_us)
    row = {"job": status["job"], "state": status["state"], "root": root}
    if status["state"] == BROKEN:
        row["error"] = status["error"]
    return {**row, "health": status["health"], "reasons": status["reasons"]}


def status_or_broken(root: str, now_us: int) -> dict[str, Any]:
    """Return the status, or a row with the state ``broken`` if the job's files are unreadable."""
    try:
        return shown_status(JobRoot(root), now_us)
    except StreamEngineError as error:
        broken = {"job": JobRoot(root).name, "state": BROKEN, "root": root, "error": str(error)}
        return with_health(broken)


def _rebuilt(root: JobRoot, settings: dict[str, Any], now_us: int) -> dict[str, Any]:
    """Return a status made from other files: the owner's claim, ``_SUCCESS``, the log."""
    here = display_uri(root.uri)
    status = {"job": root.name, "state": UNKNOWN, "error": "", "root": here}
    owner = root.owner()
    if _has_job_manager(root, owner, now_us):
        return {**status, **owner}
    if "output" in settings:
        from jobmanager.storage.output_claim import read_success

        status["output"] = placed(settings["output"], here)
        success = read_success(status["output"])
        if success is not None:
            facts = {key: success[key] for key in _OF_AN_ANSWER if key in success}
            return {**status, **facts, "state": "finished"}
    if OLDEST_FORMAT <= settings.get("format", 0) <= FORMAT:
        status["state"] = _requested_end(root) or status["state"]
    status["error"] = (
        f"{here}/{STATUS} is gone or broken, and no job manager is running; jobmanager "
        f"resume {here} continues the job"
    )
    return status


def _requested_end(root: JobRoot) -> str:
    """Return the final state that a user requested; empty if none, or if the log is unreadable."""
    from jobmanager.state.messages import CancelRequested, JobResumed, JobStarted, StopRequested
    from jobmanager.storage.notice_log import read_notices

    last: object = None
    with contextlib.suppress(StreamEngineError):
        for _, notice in read_notices(root.store):
            if isinstance(notice, CancelRequested | StopRequested | JobStarted | JobResumed):
                last = notice
    if isinstance(last, StopRequested):
        return "stopped"
    return "cancelled" if isinstance(last, CancelRequested) else ""


def roots_in(folder: str) -> tuple[list[str], dict[str, str]]:
    """Return the roots in a folder, and unreadable folders that may be roots, with the reasons.

    Raises:
        CannotListError: the folder itself cannot be read, or is not local.
    """
    folder = folder.removeprefix(_LOCAL)
    if "://" in folder:
        raise CannotListError(
            folder, "it is not a local folder; jobmanager status ROOT shows one job"
        )
    roots, unread, here = [], {}, Path(folder)
    try:
        folders = [here, *sorted(here / entry.name for entry in os.scandir(here) if _may_be(entry))]
    except FileNotFoundError:
        return [], {}
    except OSError as error:
        raise CannotListError(folder, error.strerror or str(error)) from error
    for path in folders:
        try:
            (path / JOB).stat()
            roots.append(str(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            unread[str(path)] = error.strerror or str(error)
    return roots, unread


def _may_be(entry: os.DirEntry[str]) -> bool:
    """Return whether the entry may be a folder: it is one, or its type cannot be read."""
    try:
        return entry.is_dir()
    except OSError:
        return True
