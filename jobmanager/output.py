"""Sinks: who owns an output folder, and the mark that says it is complete.

An output folder is claimed by a job before the first item is written, so that two jobs never mix
their segments. Files whose names begin with ``_`` are ignored by Spark, pyarrow and DuckDB
datasets. ``_SUCCESS`` names the files that make up the answer: an instance that was given up may
still wake up and flush what is in other files already.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jobmanager.errors import OutputTakenError
from rstream.blobs import open_store
from rstream.overlap import seal

if TYPE_CHECKING:
    from collections.abc import Sequence

CLAIM = "_JOB"
SUCCESS = "_SUCCESS"


def refuse_taken_output(uri: str, job_id: str) -> bool:
    """Whether the folder belongs to this job already; if not, it is free.

    Raises:
        OutputTakenError: it belongs to another job, or holds files that are not ours.
    """
    store = open_store(uri)
    if store.exists(CLAIM):
        owner = json.loads(store.get(CLAIM))
        if owner["id"] != job_id:
            raise OutputTakenError(uri, owner["job"])
        return True
    if store.list():
        raise OutputTakenError(uri, "(unknown: the folder is not empty)")
    return False


def claim_output(uri: str, job: str, job_id: str) -> None:
    """Claim the folder for ``job`` (its root's uri); a second claim by the same job is fine.

    ``job_id`` tells it from another job that had the same root before.

    Raises:
        OutputTakenError: it belongs to another job, or holds files that are not ours.
    """
    if not refuse_taken_output(uri, job_id):
        open_store(uri).put(CLAIM, json.dumps({"job": job, "id": job_id}).encode())


def is_complete(uri: str) -> bool:
    """Whether the output was marked as complete."""
    return open_store(uri).exists(SUCCESS)


def mark_success(uri: str, summary: dict[str, Any], streams: Sequence[str] = ()) -> None:
    """Say that the output is complete, and which files it is: those of ``streams`` (folders).

    Readers of these folders see no other files from then on.
    """
    files = [f"{_below(uri, stream)}{name}" for stream in streams for name in seal(stream)]
    summary = {**summary, "files": files} if streams else summary
    open_store(uri).put(SUCCESS, json.dumps(summary, indent=1).encode())


def answer_files(uri: str) -> list[str]:
    """The files of a complete answer, relative to its folder, by partition and seq.

    Raises:
        FileNotFoundError: it is not complete.
    """
    found: list[str] = json.loads(open_store(uri).get(SUCCESS)).get("files", [])
    return found


def _below(uri: str, stream: str) -> str:
    """The path of a stream's folder below ``uri``, with a slash at its end unless it is empty."""
    folder = open_store(stream).uri.removeprefix(open_store(uri).uri).strip("/")
    return f"{folder}/" if folder else ""
