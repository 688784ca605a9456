"""Sinks: who owns an output folder, and the mark that says it is complete.

An output folder is claimed by a job before the first item is written, so that two jobs never mix
their segments. Files whose names begin with ``_`` are ignored by Spark, pyarrow and DuckDB
datasets.
"""

from __future__ import annotations

import json
from typing import Any

from jobmanager.errors import OutputTakenError
from rstream.blobs import open_store

CLAIM = "_JOB"
SUCCESS = "_SUCCESS"


def claim_output(uri: str, job: str) -> None:
    """Claim the folder for ``job`` (its root's uri); a second claim by the same job is fine.

    Raises:
        OutputTakenError: it belongs to another job, or holds files that are not ours.
    """
    store = open_store(uri)
    if store.exists(CLAIM):
        owner = json.loads(store.get(CLAIM))["job"]
        if owner != job:
            raise OutputTakenError(uri, owner)
        return
    if store.list():
        raise OutputTakenError(uri, "(unknown: the folder is not empty)")
    store.put(CLAIM, json.dumps({"job": job}).encode())


def mark_success(uri: str, summary: dict[str, Any]) -> None:
    """Say that the output is complete."""
    open_store(uri).put(SUCCESS, json.dumps(summary, indent=1).encode())
