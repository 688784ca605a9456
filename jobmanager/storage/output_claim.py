"""The claim on an output folder, and the mark of a complete output.

A job claims its output folder before it writes the first item, so two jobs never mix their
segments. Spark, pyarrow and DuckDB ignore files whose names begin with ``_``. ``_SUCCESS`` lists
the files of the result, because a replaced instance that was suspended may still flush other files.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from jobmanager.errors import BrokenClaimError, OutputTakenError
from jobmanager.storage.documents import (
    BrokenDocumentError,
    json_document,
    read_json_document,
)
from jobmanager.storage.output_check import SUCCESS
from jobmanager.storage.root import GENERATION
from rstream.log.overlap import remove_overlap, seal
from rstream.store.blobs import open_store
from rstream.store.part_files import place_of, split_part
from rvertex.sources.formats.rstream import CLAIM, CLAIM_SCHEMA, CLAIM_STREAMS, CLAIMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from planner.physical.plan import PhysicalPlan
    from rstream.store.protocol import BlobStore


def refuse_taken_output(uri: str, job: str, job_id: str, *, has_claimed: bool = False) -> bool:
    """Check that the job may write the folder. Return whether the job has claimed it already.

    ``job``: the uri of its root. ``has_claimed``: whether the job claimed the folder in an earlier
    run. If that claim is missing and the folder is in the root, the job claims it again.

    Raises:
        OutputTakenError: the folder belongs to another job, which may be writing at this moment, or
            has files that no job has claimed.
        BrokenClaimError: the claim is broken or missing, and the folder is not in the root.
    """
    store = open_store(uri)
    may_renew = has_claimed and store.uri.startswith(f"{open_store(job).uri}/")
    reason = "it is gone"
    if store.exists(CLAIM):
        try:
            owner = read_json_document(store.get(CLAIM), may_be_plain=True)
            if owner["id"] == job_id:
                return True
            raise OutputTakenError(uri, str(owner["job"]))
        except BrokenDocumentError as error:
            reason = str(error)
        except KeyError:
            reason = "it names no job"
    elif not store.list():
        return False
    elif not has_claimed:
        raise OutputTakenError(uri, "")
    if not may_renew:
        claim = json.dumps({"job": job, "id": job_id})
        raise BrokenClaimError(f"{uri}/{CLAIM}", reason, claim if has_claimed else "its job and id")
    return False


def claim_output(
    uri: str,
    job: str,
    job_id: str,
    *,
    streams: Sequence[str] = (),
    columns: pa.Schema | None = None,
    has_claimed: bool = False,
) -> None:
    """Claim the folder for ``job`` (its root's uri). A second claim by the same job is allowed.

    ``job_id`` distinguishes it from an earlier job in the same root. ``streams`` (uris) and
    ``columns`` (payload) are for readers that follow the output while it grows.

    Raises:
        OutputTakenError, BrokenClaimError: see :func:`refuse_taken_output`.
    """
    if refuse_taken_output(uri, job, job_id, has_claimed=has_claimed):
        return
    store, claim = open_store(uri), _claim(job, job_id, streams, columns)
    if has_claimed:
        store.put(CLAIM, claim)
    elif not store.put_new(CLAIM, claim):
        refuse_taken_output(uri, job, job_id)


def _claim(job: str, job_id: str, streams: Sequence[str], columns: pa.Schema | None) -> bytes:
    claim: dict[str, Any] = {"job": job, "id": job_id}
    if columns is not None:
        claim[CLAIM_STREAMS] = [split_part(stream)[1] for stream in streams]
        claim[CLAIM_SCHEMA] = base64.b64encode(columns.serialize().to_pybytes()).decode()
    return json_document(claim)


def renew_claim(
    output: BlobStore, plan: PhysicalPlan, job: str, settings: Mapping[str, Any]
) -> None:
    """Write the streams and columns of a new generation, for readers that follow the output.

    Each generation has its own file, so a job manager that was suspended replaces no later one.
    """
    streams = [uri for _, uri in plan.sink_streams()]
    claim = _claim(job, settings["id"], streams, plan.schema)
    output.put(f"{CLAIMS}/{settings[GENERATION]:010d}", claim)


def delete_former_claims(output: BlobStore) -> None:
    """Delete the claims of former generations, except the first."""
    for path in sorted(output.list(CLAIMS))[:-1]:
        output.delete(path)


def is_complete(uri: str) -> bool:
    """Return whether the output was marked as complete."""
    return read_success(uri) is not None


def complete_output(plan: PhysicalPlan, status: Mapping[str, Any]) -> None:
    """Delete duplicate segments of a finished job's output, and mark it as complete."""
    tidy_output(plan)
    summary = {key: status[key] for key in ("job", "events_out", "output_digest")}
    counts = {row["output"]: row["events_out"] for row in status.get("outputs", ())}
    for output in plan.of_outputs:
        shown = {**summary, "events_out": counts.get(output.name, summary["events_out"])}
        mark_success(output.output, shown, [uri for _, uri in output.sink_streams()])


def tidy_output(plan: PhysicalPlan) -> None:
    """Delete segments of a job's output whose rows are in other segments too.

    No process may be writing the output.
    """
    sides = [pair for pairs in plan.side_streams().values() for pair in pairs]
    for _, uri in (*plan.sink_streams(), *sides):
        remove_overlap(uri)


def mark_success(uri: str, summary: dict[str, Any], streams: Sequence[str] = ()) -> None:
    """Mark the output as complete, with the list of its files: those in ``streams`` (folders).

    After that, readers of these folders ignore all other files.
    """
    files = [name for stream in streams for name in _below(uri, stream)]
    summary = {**summary, "files": files} if streams else summary
    open_store(uri).put(SUCCESS, json.dumps(summary, indent=1).encode())


def read_success(uri: str) -> dict[str, Any] | None:
    """Return the content of ``_SUCCESS``; None if it is missing or cannot be read."""
    try:
        return read_json_document(open_store(uri).get(SUCCESS), may_be_plain=True)
    except (FileNotFoundError, BrokenDocumentError):
        return None


def answer_files(uri: str) -> list[str]:
    """Return the files of a complete result, relative to its folder, by partition and seq.

    Raises:
        FileNotFoundError: the result is not complete.
    """
    files: list[str] = json.loads(open_store(uri).get(SUCCESS)).get("files", [])
    return files


def _below(uri: str, stream: str) -> list[str]:
    """Return the segments of a complete stream, as paths relative to ``uri``."""
    folder = f"{open_store(uri).uri.rstrip('/')}/"
    store = open_store(stream)
    return [place_of(store, name).removeprefix(folder) for name in seal(stream)]
