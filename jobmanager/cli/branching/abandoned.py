"""Records of canaries in the root of their job, by which roots of killed canaries are deleted.

    canaries/<name>.json    the root of a canary, and when it began

A canary deletes its root and its record at its end. If it was killed, or could not delete its root,
the next canary of the job, or ``gc``, deletes both, once the record is older than ``LEFT_S`` and no
job manager works there. A record stays as long as its root has files.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from jobmanager.cli.branching.export import discard
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.documents import BrokenDocumentError, json_document, read_json_document
from jobmanager.storage.root import JobRoot, display_uri
from jobmanager.storage.shown import shown_status
from rstream.errors import OperatingError, StreamEngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "canaries"
#: Age from which the root of a canary may be deleted if no job manager works on it. Before its
#: first job manager starts, the state of the job is copied there.
LEFT_S = 3600.0
#: Only such roots are ever deleted.
_NAME = re.compile(r"[^/]+-canary-[0-9a-f]{6}")


@contextlib.contextmanager
def recorded(job: JobRoot, canary: str, now_us: int) -> Iterator[None]:
    """Record the root of a canary in the root of its job until the body has deleted it."""
    root = JobRoot(canary)
    uri = display_uri(root.uri)
    path = f"{FOLDER}/{uri.rstrip('/').rpartition('/')[2]}.json"
    job.store.put(path, json_document({"root": uri, "created_us": now_us}))
    try:
        yield
    finally:
        with contextlib.suppress(OperatingError):  # the branch is deleted later, with its root
            _forget(job, path, root)


def _forget(job: JobRoot, path: str, root: JobRoot) -> bool:
    """Delete the record of a canary if its root has no files. Return whether it has none."""
    is_empty = not root.store.list()
    if is_empty:
        job.store.delete(path)
    return is_empty


def delete_abandoned(job: JobRoot, now_us: int, *, is_dry_run: bool = False) -> list[str]:
    """Delete the roots of canaries that were killed. Return them. ``job``: must be trusted."""
    found = []
    for path in job.store.list(FOLDER):
        try:
            record = read_json_document(job.store.get(path))
        except (FileNotFoundError, BrokenDocumentError):
            continue  # the canary of this branch has just ended, or is just beginning
        uri = str(record["root"]).rstrip("/")
        is_old = now_us - int(record["created_us"]) > LEFT_S * 1e6
        if not is_old or not _NAME.fullmatch(uri.rpartition("/")[2]):
            continue
        root = JobRoot(uri)
        try:
            if shown_status(root, now_us)["state"] in OPEN_STATES:
                continue
        except OperatingError:
            continue  # the store failed: unknown now
        except StreamEngineError:
            pass  # no job was started there, or its files are broken
        if not is_dry_run:
            discard(root)
        if is_dry_run or _forget(job, path, root):
            found.append(uri)
    return found
