"""Reads the files of one job for page and doctor: its status, its log, the disk of its root."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any

from jobmanager.cli.page.doctor import Case
from jobmanager.driver.running.changes.pending import pending
from jobmanager.storage.notice_log import read_notices
from jobmanager.storage.root import JobRoot
from jobmanager.storage.shown import shown_status, status_or_broken
from rstream.errors import StreamEngineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.state.messages import Notice

    ReadLog = Callable[[], list[tuple[int, Notice]]]

Status = dict[str, Any]


def look_at(root: str, now_us: int, *, must_exist: bool = False) -> Status:
    """Return the status, with ``change``: the id and the kind of a requested change.

    ``must_exist``: raise the errors of :func:`shown_status`; otherwise a broken job gets a status
    with the error.
    """
    job_root = JobRoot(root)
    status = shown_status(job_root, now_us) if must_exist else status_or_broken(root, now_us)
    with contextlib.suppress(StreamEngineError):
        change = pending(job_root.store)
        if change is not None:
            status["change"] = {"id": change.id, "kind": change.kind}
    return status


def case_of(root: str, before: Status, status: Status, now_us: int, read: ReadLog) -> Case:
    """Return a job with two successive statuses for the doctor.

    The log is missing if it is broken.
    """
    notices: list[tuple[int, Notice]] = []
    with contextlib.suppress(StreamEngineError):
        notices = read()
    return Case(before, status, now_us, notices, _disks(status.get("root", root), status))


def log_of(root: str) -> list[tuple[int, Notice]]:
    """Return the job's log. Raises StreamEngineError if it cannot be read."""
    return read_notices(JobRoot(root).store)


def _disks(root: str, status: Status) -> dict[str, tuple[int, int]]:
    """Return free and total bytes of the root's and outputs' local disks, each disk once."""
    disks = {}
    for folder in (root, status.get("output", "")):
        path = folder.removeprefix("file://")
        if os.path.isdir(path):
            usage = shutil.disk_usage(path)
            if (os.stat(path).st_dev, usage.total) not in disks:
                disks[os.stat(path).st_dev, usage.total] = folder, (usage.free, usage.total)
    return dict(disks.values())
