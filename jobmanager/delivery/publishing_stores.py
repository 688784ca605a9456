"""Publishes a complete result into an object store, which cannot replace a folder atomically.

Publishing has these steps. A successor repeats the step that failed, and continues from there:

    _draft-<job>/...            written: the new files, under names that table readers ignore
    _PUBLISHING-<job>           written, the plan: lists the new files; all drafts are there
    _PUBLISHING-<job>           written again, if no other job has a plan: lists also the old files
    (old files are deleted, new ones are copied to their names within the store)
    _PUBLISHED                  written: publishing is done; ids of this job and of earlier jobs
    (plan and drafts are deleted)

Until the plan lists the old files, the folder is unchanged. After that, the job or a successor
completes the publishing. While files are copied, a reader sees a part of the result.

Invariant: if two jobs publish into one folder at the same time, at least one fails and changes
nothing, because each writes its plan before it checks for another. So two results never mix.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobmanager.errors import CannotPublishError
from rstream.store.blobs import copy_blob
from rvertex.sources.formats.rstream import CLAIM

if TYPE_CHECKING:
    from collections.abc import Callable

    from rstream.store.protocol import BlobStore

MARK = "_PUBLISHED"
_PLAN, _DRAFT = "_PUBLISHING-", "_draft-"
_DRAFT_ENDING = ".draft"
_NAME_DIGITS = 12
#: Most job ids in ``_PUBLISHED``.
_JOBS_MAX = 1_000


def check_store(store: BlobStore, mode: str, job_id: str) -> None:
    """Check, when the job starts, that it may write the folder when it ends.

    Raises:
        CannotPublishError: the folder has other files, or the mode does not allow replacing it.
    """
    if is_published(store, job_id) or store.exists(_PLAN + job_id):
        return
    names = [name for name in store.list() if not name.startswith(_DRAFT)]
    if names and mode == "error":
        raise CannotPublishError(store.uri, 'it already exists; mode="overwrite" replaces it')
    if CLAIM in names:
        raise CannotPublishError(store.uri, "it is the output of a job, which would be damaged")
    for name in names:
        if not _is_hidden(name) and not name.endswith(".parquet"):
            raise CannotPublishError(store.uri, f"it contains {name}, which is not a Parquet file")


def publish_to_store(store: BlobStore, job_id: str, write: Callable[[], str]) -> None:
    """Replace the files of the folder by a table, unless this job has done so before.

    ``write`` writes the table into a local folder and returns its path. It must write the same rows
    each time.
    """
    if not is_published(store, job_id):
        if not store.exists(_PLAN + job_id):
            _draft(store, job_id, write())
        _begin(store, job_id)
        _take_place(store, job_id)
    _tidy(store, job_id)


def mark(job_id: str, former: bytes | None) -> bytes:
    """Return the content of ``_PUBLISHED`` for this job. ``former``: the previous content."""
    before = [known for known in _published(former) if known != job_id]
    return json.dumps({"id": job_id, "before": before[: _JOBS_MAX - 1]}).encode()


def is_marked(content: bytes | None, job_id: str) -> bool:
    """Return whether the content ``content`` of ``_PUBLISHED`` has this job's id."""
    return job_id in _published(content)


def is_published(store: BlobStore, job_id: str) -> bool:
    """Return whether this job has published here, even if a later job replaced its result."""
    return is_marked(_read(store, MARK), job_id)


def _read(store: BlobStore, name: str) -> bytes | None:
    try:
        return store.get(name)
    except FileNotFoundError:
        return None


def _published(content: bytes | None) -> list[str]:
    """Return the job ids in the content of ``_PUBLISHED``, the newest first."""
    try:
        document: Any = json.loads(content or b"{}")
        return [document["id"], *document.get("before", ())]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _draft(store: BlobStore, job_id: str, folder: str) -> None:
    """Write all new files as drafts, then the plan that lists them."""
    new: dict[str, str] = {}
    for path, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".parquet"):
                continue
            full = os.path.relpath(f"{path}/{name}", folder)
            draft = f"{_DRAFT}{job_id}/{full}{_DRAFT_ENDING}"
            with pa.memory_map(f"{path}/{name}") as file:
                store.put(draft, file.read_buffer())
            stem = full.removesuffix(".parquet")
            new[draft] = f"{stem}-{job_id[:_NAME_DIGITS]}.parquet"
    store.put(_PLAN + job_id, json.dumps({"new": new}).encode())


def _begin(store: BlobStore, job_id: str) -> None:
    """Add the old files, which will be replaced, to the plan, unless another job has a plan there.

    Raises:
        CannotPublishError: another job has a plan; the folder was not changed.
    """
    plan = json.loads(store.get(_PLAN + job_id))
    if "former" in plan:
        return
    names = store.list()
    others = [n for n in names if n.startswith(_PLAN) and n != _PLAN + job_id]
    if others:
        _tidy(store, job_id)
        other = others[0].removeprefix(_PLAN)
        raise CannotPublishError(
            store.uri,
            f"job {other} is replacing this folder, or died meanwhile. Resume this job when that "
            f"one has finished; if it cannot finish, first delete {others[0]} in the folder",
        )
    former = {n for n in names if n.endswith(".parquet") and not _is_hidden(n)}
    plan["former"] = sorted(former - set(plan["new"].values()))
    store.put(_PLAN + job_id, json.dumps(plan).encode())


def _tidy(store: BlobStore, job_id: str) -> None:
    """Delete plan and drafts. The plan is first, because it promises that all drafts exist."""
    store.delete(_PLAN + job_id)
    for name in store.list(_DRAFT + job_id):
        store.delete(name)


def _take_place(store: BlobStore, job_id: str) -> None:
    plan = json.loads(store.get(_PLAN + job_id))
    for name in plan["former"]:
        store.delete(name)
    for draft, name in plan["new"].items():
        copy_blob(store, draft, name)
    store.put(MARK, mark(job_id, _read(store, MARK)))


def _is_hidden(name: str) -> bool:
    """Return whether readers of tables ignore a file of this name."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))
