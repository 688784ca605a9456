"""Publishes a complete answer into a store of objects, which replaces no folder at once.

In steps that a successor repeats, or goes on with:

    _draft-<job>/...            the new files, under names that nobody reads as a table
    _PUBLISHING-<job>           all drafts are there; which files are new, which ones they replace
    (the former files go, the new ones are copied to their places within the store)
    _PUBLISHED                  it is done: the job's id
    (drafts and plan go)

Until the plan is there the folder is as it was; from then on the answer is sure to come. In between
a reader sees a part, for as long as the copying takes.
"""

from __future__ import annotations

import contextlib
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
        _take_place(store, job_id)
    for name in store.list(_DRAFT + job_id):
        store.delete(name)
    store.delete(_PLAN + job_id)


def is_published(store: BlobStore, job_id: str) -> bool:
    """Whether the answer of the job is what the folder holds."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        found: dict[str, Any] = json.loads(store.get(MARK))
        return found.get("id") == job_id
    return False


def _draft(store: BlobStore, job_id: str, folder: str) -> None:
    """Put all new files aside, then the plan."""
    former = [n for n in store.list() if n.endswith(".parquet") and not _is_hidden(n)]
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
    plan = {"former": sorted(set(former) - set(new.values())), "new": new}
    store.put(_PLAN + job_id, json.dumps(plan).encode())


def _take_place(store: BlobStore, job_id: str) -> None:
    plan = json.loads(store.get(_PLAN + job_id))
    for name in plan["former"]:
        store.delete(name)
    for draft, name in plan["new"].items():
        copy_blob(store, draft, name)
    store.put(MARK, json.dumps({"id": job_id}).encode())


def _is_hidden(name: str) -> bool:
    """Whether readers of tables pass it over."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))
