"""Publishes a complete answer into a store of objects, which replaces no folder at once.

In steps that a successor repeats, or goes on with:

    _draft-<job>/...            the new files, under names that nobody reads as a table
    _PUBLISHING-<job>           all drafts are there; which files are new
    _PUBLISHING-<job>           no other job's is there; which ones they replace, too
    (the former files go, the new ones are copied to their places within the store)
    _PUBLISHED                  it is done: the job's id, and those of the jobs before it
    (drafts and plan go)

Until the plan says what is replaced the folder is as it was; from then on the answer is sure to
come. In between a reader sees a part, for as long as the copying takes.

Invariant: of two jobs that put their answers there at once, at least one leaves without a change,
as each writes its plan before it looks for another's. So no answer is mixed with another.
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
#: Jobs that are remembered to have put their answers into a folder.
_JOBS_MAX = 1_000


def check_store(store: BlobStore, mode: str, job_id: str) -> None:
    """The folder may be written when the job has finished.

    Raises:
        CannotPublishError: it holds something else, or is not to be replaced.
    """
    if is_published(store, job_id) or store.exists(_PLAN + job_id):
        return
    names = [name for name in store.list() if not name.startswith(_DRAFT)]
    if names and mode == "error":
        raise CannotPublishError(store.uri, 'it is there already; mode="overwrite" replaces it')
    if CLAIM in names:
        raise CannotPublishError(store.uri, "it is the output of a job, which would be damaged")
    for name in names:
        if not _is_hidden(name) and not name.endswith(".parquet"):
            raise CannotPublishError(store.uri, f"it holds {name}, which is no Parquet file")


def publish_to_store(store: BlobStore, job_id: str, write: Callable[[], str]) -> None:
    """Put a table in the place of what the folder holds, unless that was done.

    ``write`` writes the table into a local folder, which it returns; the same rows each time.
    """
    if not is_published(store, job_id):
        if not store.exists(_PLAN + job_id):
            _draft(store, job_id, write())
        _begin(store, job_id)
        _take_place(store, job_id)
    _tidy(store, job_id)


def mark(job_id: str, former: bytes | None) -> bytes:
    """What says that an answer was published, given what the one before it says."""
    before = [known for known in _published(former) if known != job_id]
    return json.dumps({"id": job_id, "before": before[: _JOBS_MAX - 1]}).encode()


def is_marked(found: bytes | None, job_id: str) -> bool:
    """Whether the answer of the job was published there, whatever has taken its place since."""
    return job_id in _published(found)


def is_published(store: BlobStore, job_id: str) -> bool:
    """Whether the answer of the job was put into the folder, be it still there or not."""
    return is_marked(_read(store, MARK), job_id)


def _read(store: BlobStore, name: str) -> bytes | None:
    try:
        return store.get(name)
    except FileNotFoundError:
        return None


def _published(found: bytes | None) -> list[str]:
    """The ids in a mark, the newest first."""
    try:
        told: Any = json.loads(found or b"{}")
        return [told["id"], *told.get("before", ())]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _draft(store: BlobStore, job_id: str, folder: str) -> None:
    """Put all new files aside, then the plan."""
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
    """Settle what is replaced, unless another job is about it.

    Raises:
        CannotPublishError: it is; the folder was not changed.
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
            f"job {other} is putting its own there, or died over it. Resume this job when that one "
            f"has finished; if it never will, delete {others[0]} in the folder before",
        )
    former = {n for n in names if n.endswith(".parquet") and not _is_hidden(n)}
    plan["former"] = sorted(former - set(plan["new"].values()))
    store.put(_PLAN + job_id, json.dumps(plan).encode())


def _tidy(store: BlobStore, job_id: str) -> None:
    """Take plan and drafts away; the plan first, because it says that all drafts are there."""
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
    """Whether readers of tables pass it over."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))
