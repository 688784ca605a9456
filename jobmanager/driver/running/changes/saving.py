"""Takes a savepoint of a job that has stopped at a cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobmanager.delivery.claim import recorded_position
from jobmanager.driver.running.changes.copies import Draft
from jobmanager.driver.running.changes.cut import read_cut
from jobmanager.driver.running.changes.snapshots import read_snapshot, rest_items, time_of_input
from jobmanager.errors import NoJobError
from jobmanager.storage import savepoints
from jobmanager.storage.root import JOB, PLAN, QUERY, display_uri
from rstream.log.durable import DurableLog
from rstream.types import INF_TIME
from rvertex.sinks.spec import name_of

if TYPE_CHECKING:
    from jobmanager.driver.running.changes.cut import Cut
    from jobmanager.storage.root import JobRoot
    from jobmanager.storage.savepoints import Savepoint
    from planner.physical.plan import PhysicalPlan


def save(root: JobRoot, name: str, now_us: int) -> Savepoint:
    """Take a savepoint of a stopped job. It replaces a savepoint of the same name.

    Raises:
        NoJobError: the root has no job that has started.
        NotACutError: the job did not stop cleanly.
    """
    savepoints.check_name(name)
    plan = root.read_plan()
    if plan is None:
        raise NoJobError(display_uri(root.uri))
    draft = Draft(root)
    return complete(draft, save_cut(draft, plan, read_cut(root, plan), name, now_us))


def complete(draft: Draft, savepoint: Savepoint) -> Savepoint:
    """Make all files of the draft durable, and then write the manifest of its savepoint."""
    savepoints.write_manifest(draft.synced().store, savepoint)
    return savepoint


def save_cut(draft: Draft, plan: PhysicalPlan, cut: Cut, name: str, now_us: int) -> Savepoint:
    """Write the files of a savepoint of the cut. :func:`complete` completes it."""
    root = draft.final
    store, folder = root.store, savepoints.folder_of(name)
    if store.exists(f"{folder}/{savepoints.MANIFEST}"):
        savepoints.expire(store, name)
    root.check_owner()
    for path in store.list(folder):  # delete files of an incomplete savepoint
        store.delete(path)
    times = [
        time_of_input(read_snapshot(store, plan.vertex(vertex), ref.name))
        for vertex, ref in cut.refs.items()
        if plan.vertex(vertex).source is not None
    ]
    for rest in cut.rests:
        log = DurableLog(draft.root.store.child(f"{folder}/{rest.stream}"), rest.stream)
        for items in rest_items(root.open_store(rest.uri), rest):
            log.write(items)
    for file in (PLAN, QUERY, JOB):
        draft.root.store.put(f"{folder}/{file}", store.get(file))
    return savepoints.Savepoint(
        name=name,
        created_us=now_us,
        time_us=min(times, default=int(INF_TIME)),
        plan_hash=plan.plan_hash,
        epoch=cut.job.epoch,
        takeovers=cut.job.takeovers,
        checkpointed_us=cut.job.checkpointed_us,
        vertices=tuple(_saved(cut, vertex.id) for vertex in plan.vertices),
        rests=tuple(savepoints.SavedRest(r.stream, r.lo, r.hi) for r in cut.rests),
        deliveries=_delivered(root, plan),
    )


def _saved(cut: Cut, vertex: str) -> savepoints.SavedVertex:
    ref, state = cut.refs.get(vertex), cut.job.vertices[vertex]
    if ref is None:
        digests = tuple(digest.hex() for digest in state.digests)
        return savepoints.SavedVertex(vertex, "", (), (), state.ends, True, digests)
    return savepoints.SavedVertex(vertex, ref.name, ref.parts, ref.inputs, ref.outputs)


def _delivered(root: JobRoot, plan: PhysicalPlan) -> tuple[tuple[str, int, int], ...]:
    partitions = range(len(plan.sink_streams()))
    names = [name_of(spec) for spec in plan.deliveries]
    return tuple((n, k, recorded_position(root.store, n, k)) for n in names for k in partitions)
