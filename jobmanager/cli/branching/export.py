"""Exports a savepoint to another folder: the root of a new job that starts from it.

The folder contains the plan, the query, a checkpoint of each vertex and a log that starts with
them. So it is a stopped job, which ``resume`` starts. Its output has no rows at first, except those
that may still have to be delivered (:mod:`.moved_deliveries`), and gets only the rows that the new
job computes. The new job reads the same sources from the positions of the savepoint.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobmanager.cli.branching.moved_deliveries import check_deliveries, ends_of, move_deliveries
from jobmanager.driver.running.changes.apply import begin_log
from jobmanager.driver.running.changes.ends import in_generation
from jobmanager.driver.running.changes.errors import ChangeRefusedError
from jobmanager.driver.running.changes.generation import Builder
from jobmanager.storage.documents import (
    json_document,
    pickle_document,
    read_pickle_document,
)
from jobmanager.storage.places import plan_in, plan_without_place
from jobmanager.storage.root import (
    DELIVERS_AS,
    EPOCHS,
    GENERATION,
    JOB,
    PLAN,
    QUERY,
    UNDO,
    UNDONE,
    JobRoot,
    delivery_id,
    display_uri,
)
from jobmanager.storage.savepoints import read_savepoint, settings_at
from rstream.clock import SystemClock
from rstream.errors import OperatingError, UsageError
from rstream.store.blobs import open_store
from rstream.store.marks import put_beginning, raise_mark
from rvertex.sources.versions import local_path

if TYPE_CHECKING:
    from jobmanager.state.messages import StateCopied
    from jobmanager.storage.savepoints import Savepoint
    from planner.physical.plan import PhysicalPlan

_OUTPUT = "output"


def export(root: JobRoot, name: str, uri: str) -> str:
    """Export the savepoint ``name`` to the folder ``uri``. Return the savepoint's name.

    Raises:
        NoSavepointError: there is no savepoint of that name.
        JobExistsError: the folder contains a job.
        UsageError: the folder has other files, for example of a killed export.
        ChangeRefusedError: the job's output is not below its root, or its inputs are; or the new
            job could not continue its deliveries.
    """
    target = JobRoot(uri)
    target.check_free(SystemClock().now_us())
    if target.store.list():
        raise UsageError(f"{display_uri(target.uri)} is not empty: choose another folder")
    try:
        return fill(root, name, target, delivers=True)
    except BaseException:
        with contextlib.suppress(OperatingError):
            if not target.store.list(EPOCHS):  # else another process may start a job there
                discard(target)
        raise


def discard(root: JobRoot) -> None:
    """Delete a root with all its files."""
    folder = local_path(root.uri)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in root.store.list():
        root.store.delete(path)


def fill(root: JobRoot, name: str, target: JobRoot, *, delivers: bool) -> str:
    """Write the files of an export to a new root. Return the savepoint's name.

    ``delivers``: the new job continues the deliveries; otherwise the caller removes them.

    Raises:
        NoSavepointError, ChangeRefusedError: see :func:`export`.
    """
    root.check_trusted()
    savepoint = read_savepoint(root.store, name)
    plan = saved_plan(root, savepoint, display_uri(root.uri))
    if plan.output != f"{plan.root}/{_OUTPUT}":
        reason = f"its output goes to {plan.output}, which two jobs cannot share"
        if len(plan.of_outputs) > 1:
            reason = "it has several outputs"
        raise ChangeRefusedError(display_uri(root.uri), reason)
    if any(v.source is not None and v.source.spec.files.given == "copy" for v in plan.vertices):
        reason = "it reads tables below its root"
        raise ChangeRefusedError(display_uri(root.uri), reason)
    store, folder = root.store, savepoint.folder
    saved = settings_at(store, savepoint)
    delivers = delivers and bool(plan.deliveries)
    if delivers:
        check_deliveries(root, plan, saved, name)
    there = saved_plan(root, savepoint, display_uri(target.uri))
    links = {stage.name: stage.name for stage in plan.stages}
    built = Builder(root, savepoint, (plan, there), links, 1, target.store).build()
    seqs: dict[str, int] = {}
    for row in savepoint.vertices:
        seqs |= zip(there.vertex(row.vertex).output_streams, row.outputs, strict=True)
    for stream, uri in (pair for pairs in there.side_streams().values() for pair in pairs):
        if seqs[stream]:
            raise_mark(open_store(uri), seqs[stream], ())
    ends = ends_of(root, there, savepoint)
    if delivers:
        move_deliveries(root, target, (plan, there), ends)
    else:  # the output begins where it ends in the job of the savepoint; `verify` needs the digest
        for stream, uri in there.sink_streams():
            if ends[stream][0]:
                put_beginning(open_store(uri), *ends[stream])
    first = in_generation(built.plan, 0)
    copy = replace(built.copy, takeovers=0)
    settings, query = {**saved, GENERATION: 0}, store.get(f"{folder}/{QUERY}")
    delivers_as = delivery_id(saved) if delivers else ""
    write_job(target, first, copy, query, settings, delivers_as=delivers_as)
    return savepoint.name


def write_job(
    target: JobRoot,
    plan: PhysicalPlan,
    copy: StateCopied,
    query: bytes,
    settings: dict[str, Any],
    *,
    delivers_as: str = "",
) -> None:
    """Complete a root as a new, stopped job with this plan and state.

    ``query``: its pickle. ``delivers_as``: the job whose deliveries it continues, by id.
    """
    now_us = SystemClock().now_us()
    renewed: dict[str, Any] = {"job": target.name, "id": uuid.uuid4().hex, "created_us": now_us}
    renewed |= {UNDO: "", UNDONE: [], DELIVERS_AS: delivers_as}
    target.make_private()
    target.store.put(QUERY, query)
    target.store.put(PLAN, pickle_document(plan_without_place(plan)))
    target.claim(now_us)
    begin_log(target, copy)
    status = {"job": target.name, "state": "stopped", "error": "", "written_us": now_us}
    target.store.put(JOB, json_document({**settings, **renewed}))
    target.write_status(status)


def saved_plan(root: JobRoot, savepoint: Savepoint, place: str) -> PhysicalPlan:
    """Return the plan of a savepoint, with ``place`` as its root."""
    plan: PhysicalPlan = read_pickle_document(root.store.get(f"{savepoint.folder}/{PLAN}"))
    return plan_in(plan, place)
