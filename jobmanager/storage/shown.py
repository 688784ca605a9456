"""The status of a job for other processes, rebuilt if its file is lost or broken."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from jobmanager.errors import CannotListError
from jobmanager.state.health import with_health
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.liveness import is_owned
from jobmanager.storage.ownership import is_live_here
from jobmanager.storage.places import placed
from jobmanager.storage.root import FORMAT, JOB, OLDEST_FORMAT, STATUS, JobRoot, display_uri
from rstream.clock import SystemClock
from rstream.errors import StreamEngineError

_LOCAL = "file://"
#: A process that uses such a share of its limit is about to be killed.
SHORT_OF_MEMORY = 0.85
#: How a list shows a job whose files cannot be read.
BROKEN = "broken"
#: The state of an open job whose manager is gone; of a job of which no file tells the state, and on
#: which nobody works.
INTERRUPTED, UNKNOWN = "interrupted", "unknown"
#: What is taken over from the mark of a complete output, which has no checksum.
_OF_AN_ANSWER = ("events_out", "output_digest")


def shown_status(root: JobRoot, now_us: int) -> dict[str, Any]:
    """The last status; an open job whose manager is gone is shown as ``interrupted``.

    Raises:
        NoJobError: the root holds no job.
        BrokenFileError: it does, but the file that says so cannot be read.
    """
    settings = root.settings()
    found = root.read_status() or _rebuilt(root, settings, now_us)
    is_open = found["state"] in OPEN_STATES
    if is_open and "written_us" in found and not _is_worked_on(root, found, now_us):
        found["state"] = INTERRUPTED
        memory = memory_shortage(found)
        resumed = f"jobmanager resume {display_uri(root.uri)}"
        found["error"] = f"its job manager is gone{memory}; {resumed}"
    return with_health(found)


def memory_shortage(status: dict[str, Any]) -> str:
    """Explain the end of a job manager with hosts in its process by its last status.

    The kernel ends such a process by SIGKILL, so it cannot report it.
    """
    for host in status.get("hosts", ()):
        memory = host.get("memory")
        if memory is None or host.get("pid") != status.get("pid"):
            continue
        if memory["used_bytes"] >= SHORT_OF_MEMORY * memory["limit_bytes"] > 0:
            used, limit = (memory[name] >> 20 for name in ("used_bytes", "limit_bytes"))
            return (
                f"; it last used {used:,} of {limit:,} MiB, so the kernel has probably ended it "
                "for lack of memory: allow it more (docs/howto/size-memory.md)"
            )
    return ""


def status(root: str) -> dict[str, Any]:
    """Where the job in the folder ``root`` stands, from any process and without its plan.

    Raises:
        NoJobError: the root holds no job.
        BrokenFileError: a file that says so cannot be read.
    """
    return shown_status(JobRoot(root), SystemClock().now_us())


def _is_worked_on(root: JobRoot, status: dict[str, Any], now_us: int) -> bool:
    return is_live_here(root) or is_owned(status, now_us)


def row_of(root: str, now_us: int) -> dict[str, Any]:
    """A job as a list shows it."""
    found = status_or_broken(root, now_us)
    row = {"job": found["job"], "state": found["state"], "root": root}
    if found["state"] == BROKEN:
        row["error"] = found["error"]
    return {**row, "health": found["health"], "reasons": found["reasons"]}


def status_or_broken(root: str, now_us: int) -> dict[str, Any]:
    """The status; of a job whose files cannot be read what keeps no other from its place."""
    try:
        return shown_status(JobRoot(root), now_us)
    except StreamEngineError as error:
        broken = {"job": JobRoot(root).name, "state": BROKEN, "root": root, "error": str(error)}
        return with_health(broken)


def _rebuilt(root: JobRoot, settings: dict[str, Any], now_us: int) -> dict[str, Any]:
    """What the other files tell: who works on the job, its answer, its log."""
    here = display_uri(root.uri)
    found = {"job": root.name, "state": UNKNOWN, "error": "", "root": here}
    owner = root.owner()
    if _is_worked_on(root, owner, now_us):
        return {**found, **owner}
    if "output" in settings:
        from jobmanager.storage.output_claim import read_success

        found["output"] = placed(settings["output"], here)
        success = read_success(found["output"])
        if success is not None:
            told = {key: success[key] for key in _OF_AN_ANSWER if key in success}
            return {**found, **told, "state": "finished"}
    if OLDEST_FORMAT <= settings.get("format", 0) <= FORMAT:
        found["state"] = _requested_end(root) or found["state"]
    found["error"] = (
        f"{here}/{STATUS} is gone or broken, and nobody works on the job; "
        f"jobmanager resume {here} goes on with it"
    )
    return found


def _requested_end(root: JobRoot) -> str:
    """How the job ended if a user asked for it; empty if none did or the log cannot be read."""
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
    """The roots, and the folders that may be some, by why they cannot be looked into.

    Raises:
        CannotListError: the folder itself cannot be, or is no local one.
    """
    folder = folder.removeprefix(_LOCAL)
    if "://" in folder:
        raise CannotListError(folder, "it is no local folder; jobmanager status ROOT shows one job")
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
    """Whether it is a folder, or cannot be asked what it is."""
    try:
        return entry.is_dir()
    except OSError:
        return True
