"""Drafts a change: a savepoint of the cut, and the files of the next generation.

Nothing here commits. :func:`draw_change` writes files that no process reads before the commit, so
it may run while the hosts still end. Fences (files that hide later rows of a former generation from
readers) hide rows at once. So :func:`draft_change` puts them, after the hosts have ended and the
ends of the outputs were checked (:func:`.cut.read_cut`).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.compare import compare
from jobmanager.driver.running.changes.copies import Draft
from jobmanager.driver.running.changes.cut import read_cut
from jobmanager.driver.running.changes.ends import (
    end_of,
    fence_off,
    in_generation,
    outputs_of,
)
from jobmanager.driver.running.changes.errors import ChangeRefusedError, NotACutError
from jobmanager.driver.running.changes.generation import Builder
from jobmanager.driver.running.changes.rescaled import Rescaler
from jobmanager.driver.running.changes.snapshots import read_snapshot, rest_items, time_of_input
from jobmanager.errors import NoJobError
from jobmanager.state.messages import LOG_CODEC
from jobmanager.storage import savepoints
from jobmanager.storage.documents import (
    pickle_document,
    read_pickle_document,
)
from jobmanager.storage.places import plan_in, plan_without_place
from jobmanager.storage.root import GENERATION, JOB, PLAN, QUERY, UNDO, UNDONE, display_uri
from jobmanager.storage.savepoints import (
    Savepoint,
    before_name,
    folder_of,
    generation_after,
    read_savepoint,
    settings_at,
)
from rstream.errors import OperatingError
from rstream.log.durable import DurableLog
from rstream.types import INF_TIME

if TYPE_CHECKING:
    from jobmanager.driver.running.changes.cut import Cut
    from jobmanager.driver.running.changes.generation import Generation
    from jobmanager.driver.running.changes.pending import Change
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan


def save(root: JobRoot, name: str, now_us: int) -> Savepoint:
    """Take a savepoint of a stopped job. Once complete, it replaces one of the same name.

    Raises:
        NoJobError: the root has no job that has started.
        NotACutError: the job did not stop cleanly.
    """
    savepoints.check_name(name)
    plan = root.read_plan()
    if plan is None:
        raise NoJobError(display_uri(root.uri))
    draft = Draft(root)
    savepoint = complete(draft, save_cut(draft, plan, read_cut(root, plan), name, now_us))
    savepoints.delete_replaced(root.store, savepoint)
    return savepoint


def complete(draft: Draft, savepoint: Savepoint) -> Savepoint:
    """Make all files of the draft durable, and then complete its savepoint.

    Raises:
        JobRunningError: another job manager has taken over.
    """
    root = draft.synced()
    root.check_owner()
    savepoints.complete(root.store, savepoint)
    return savepoint


def check_files(root: JobRoot, savepoint: Savepoint) -> None:
    """Check that all files exist that a savepoint names.

    Raises:
        NotACutError: one is deleted.
    """
    for name in sorted(savepoint.files):
        if not root.store.exists(name):
            raise NotACutError(display_uri(root.uri), f"{name} was deleted meanwhile")


def discard(root: JobRoot, name: str) -> None:
    """Delete the files of this owner's incomplete savepoints, as far as the store works."""
    with contextlib.suppress(OperatingError):
        for path in savepoints.incomplete(root.store):
            if path.startswith(f"{folder_of(name)}/{root.epoch:010d}."):
                root.store.delete(path)


def save_cut(draft: Draft, plan: PhysicalPlan, cut: Cut, name: str, now_us: int) -> Savepoint:
    """Write the files of a savepoint of the cut; :func:`complete` completes it."""
    root = draft.final
    store, version = root.store, savepoints.new_version(root.store, name, root.epoch)
    folder = f"{folder_of(name)}/{version}"
    times = [
        time_of_input(read_snapshot(store, plan.vertex(vertex), ref.name))
        for vertex, ref in cut.refs.items()
        if plan.vertex(vertex).source is not None
    ]
    for rest in cut.rests:  # only one stream's items are in memory
        log = DurableLog(draft.root.store.child(f"{folder}/{rest.stream}"), rest.stream)
        for items in rest_items(root.open_store(rest.uri), rest):
            log.write(items)
    for file in (PLAN, QUERY, JOB):
        draft.root.store.put(f"{folder}/{file}", root.read_file(file))
    return Savepoint(
        name=name,
        created_us=now_us,
        time_us=min(times, default=int(INF_TIME)),
        plan_hash=plan.plan_hash,
        epoch=cut.job.epoch,
        takeovers=cut.job.takeovers,
        checkpointed_us=cut.job.checkpointed_us,
        vertices=tuple(_saved(cut, vertex.id) for vertex in plan.vertices),
        rests=tuple(savepoints.SavedRest(r.stream, r.lo, r.hi) for r in cut.rests),
        version=version,
    )


def _saved(cut: Cut, vertex: str) -> savepoints.SavedVertex:
    ref, state = cut.refs.get(vertex), cut.job.vertices[vertex]
    if ref is None:
        digests = tuple(digest.hex() for digest in state.digests)
        return savepoints.SavedVertex(vertex, "", (), (), state.ends, True, digests)
    return savepoints.SavedVertex(vertex, ref.name, ref.parts, ref.inputs, ref.outputs)


@dataclass(frozen=True, slots=True)
class Drafted:
    """A change that can be committed: its files are written, and outputs are fenced off.

    ``settings``: fields of ``job.json`` that change. ``ends``: per uri, the seq to truncate a
    stream at; None: the outputs continue at their ends.
    """

    draft: Draft
    savepoint: Savepoint
    settings: dict[str, Any] = field(default_factory=dict)
    ends: dict[str, int] | None = None


class _Built(NamedTuple):
    savepoint: Savepoint
    made: Generation
    settings: dict[str, Any]
    ends: dict[str, int] | None = None


class Drawn(NamedTuple):
    """The files of a change, without fences. ``basis``: see :func:`basis_of`.

    ``plan``: the next one; None: the change is a savepoint.
    """

    draft: Draft
    savepoint: Savepoint
    basis: tuple[object, ...]
    plan: PhysicalPlan | None = None
    settings: dict[str, Any] = {}  # noqa: RUF012
    ends: dict[str, int] | None = None


def basis_of(cut: Cut, change: Change, number: int) -> tuple[object, ...]:
    """Return what a drawn change depends on. It can be used at a cut with an equal basis."""
    job = cut.job
    ended = {v: (s.ends, tuple(s.digests)) for v, s in job.vertices.items() if s.is_finished}
    counts = job.epoch, job.takeovers, job.checkpointed_us
    return change.id, number, *counts, dict(cut.refs), cut.rests, ended


def draw_change(
    root: JobRoot, plan: PhysicalPlan, cut: Cut, change: Change, number: int, now_us: int
) -> Drawn:
    """Write files for the commit of a change. ``number``: of the next generation.

    Raises:
        ChangeRefusedError, NotByKeyError, CannotConvertError: the change is not possible.
        NotACutError: rows between two vertices are gone, or not written yet.
    """
    draft, basis = Draft(root), basis_of(cut, change, number)
    if change.kind == "savepoint":
        return Drawn(draft, save_cut(draft, plan, cut, change.savepoint, now_us), basis)
    draw = {"deploy": _deployed, "rescale": _rescaled, "rollback": _rolled_back}[change.kind]
    savepoint, built, settings, ends = draw(draft, plan, cut, change, number, now_us)
    plan, store = in_generation(built.plan, number), draft.root.store
    folder = change.drawn_folder(root.epoch)
    if change.kind == "rescale":
        query = root.read_file(QUERY)
    elif change.kind == "deploy":
        query = store.get(f"{change.folder}/{pending.NEXT_QUERY}")
    else:
        query = store.get(f"{savepoint.folder}/{QUERY}")
    store.put(f"{folder}/{pending.NEXT_QUERY}", query)
    store.put(f"{folder}/{pending.PLACED}", pickle_document(plan_without_place(plan)))
    store.put(f"{folder}/{pending.COPY}", LOG_CODEC.encode(built.copy))
    settings = {UNDO: savepoint.name, **settings, GENERATION: number, "plan": plan.plan_hash}
    return Drawn(draft, savepoint, basis, plan, settings, ends)


def draft_change(
    drawn: Drawn, plan: PhysicalPlan, cut: Cut, change: Change, number: int
) -> Drafted:
    """Fence off the outputs, and make all files durable, as the last step before the commit.

    The hosts must have ended.

    Raises:
        NotACutError: a suspended host has written beyond the cut.
    """
    draft, savepoint, _, new, settings, ends = drawn
    if new is None:
        return Drafted(draft, savepoint)
    fence_off(draft.root, (plan, new), cut, number, ends or {})
    draft.synced()
    return Drafted(draft, savepoint, settings, ends)


def _deployed(
    draft: Draft, plan: PhysicalPlan, cut: Cut, change: Change, number: int, now_us: int
) -> _Built:
    root = draft.root
    new = _next_plan(root, change)
    comparison = compare(plan, new)
    if comparison.refusals:
        raise ChangeRefusedError(display_uri(root.uri), comparison.refusal)
    if change.approved and change.approved != comparison.hash:
        reason = "the job has changed since the comparison was approved; deploy again"
        raise ChangeRefusedError(display_uri(root.uri), reason)
    savepoint = save_cut(draft, plan, cut, before_name(number), now_us)
    built = Builder(root, savepoint, (plan, comparison.plan), comparison.links, number).build()
    return _Built(savepoint, built, change.settings or {})


def _rescaled(
    draft: Draft, plan: PhysicalPlan, cut: Cut, change: Change, number: int, now_us: int
) -> _Built:
    root = draft.root
    savepoint = save_cut(draft, plan, cut, before_name(number), now_us)
    built = Rescaler(root, savepoint, plan, change.new_bounds, number).build()
    return _Built(savepoint, built, {})


def _rolled_back(
    draft: Draft, plan: PhysicalPlan, cut: Cut, change: Change, number: int, now_us: int
) -> _Built:
    """Return to a savepoint: truncate the result at its ends, and restore its query."""
    del now_us
    root = draft.root
    savepoint = read_savepoint(root.store, change.savepoint)
    # Names of hosts and checkpoints since the savepoint must not be given again.
    savepoint = replace(savepoint, epoch=cut.job.epoch, takeovers=cut.job.takeovers)
    former = plan_in(
        read_pickle_document(root.store.get(f"{savepoint.folder}/{PLAN}"), to_run=True),
        display_uri(root.uri),
    )
    ends = _ends(savepoint, former)
    ends = {**dict.fromkeys((uri for _, uri in outputs_of(plan)), 0), **ends}
    beyond = [
        stream
        for output in plan.of_outputs
        for stream, uri in output.sink_streams()
        if output.deliveries and end_of(cut, stream) > ends.get(uri, 0)
    ]
    if beyond:
        reason = (
            f"rows of {', '.join(beyond)} were delivered since the change, and cannot be taken "
            "back; deploy the former query instead"
        )
        raise ChangeRefusedError(display_uri(root.uri), reason)
    settings = settings_before(root, savepoint)
    links = {stage.name: stage.name for stage in former.stages}
    built = Builder(root, savepoint, (former, former), links, number).build()
    kept: dict[str, Any] = {
        name: settings[name] for name in ("query_file", "folders") if name in settings
    }
    kept[UNDO] = settings.get(UNDO, "")  # so the next rollback undoes the change before
    undone = [int(settings.get(GENERATION, 0)) + 1, number - 1]
    kept[UNDONE] = [*draft.final.settings().get(UNDONE, ()), undone]
    return _Built(savepoint, built, kept, ends)


def _ends(savepoint: Savepoint, plan: PhysicalPlan) -> dict[str, int]:
    """Return per uri the end (seq) at the savepoint of each stream that users read."""
    outputs = {row.vertex: row.outputs for row in savepoint.vertices}
    ends = {}
    for vertex in plan.vertices:
        at = 0
        for edge in vertex.outputs:
            for uri in edge.uris:
                if edge.is_sink or edge.side:
                    ends[uri] = outputs[vertex.id][at]
                at += 1
    return ends


def settings_before(root: JobRoot, savepoint: Savepoint) -> dict[str, Any]:
    """Return the job's settings at a savepoint.

    Raises:
        ChangeRefusedError: a savepoint with this name is taken before a change, but this one was
            taken later, so it has the changed query.
    """
    settings = settings_at(root.store, savepoint)
    number = generation_after(savepoint.name)
    if number is not None and int(settings.get(GENERATION, 0)) != number - 1:
        reason = (
            f"savepoint {savepoint.name} was replaced after the change, so it has not the former "
            "query; deploy the former query instead"
        )
        raise ChangeRefusedError(display_uri(root.uri), reason)
    return settings


def _next_plan(root: JobRoot, change: Change) -> PhysicalPlan:
    data = root.store.get(f"{change.folder}/{pending.NEXT_PLAN}")
    plan: PhysicalPlan = read_pickle_document(data, to_run=True)
    return plan_in(plan, display_uri(root.uri))
