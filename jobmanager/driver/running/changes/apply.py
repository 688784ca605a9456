"""Carries out a change of a job that has stopped at a cut. The caller must own the root.

Theory of operation. First, this module writes everything that the next generation needs to new
files: a savepoint of the cut, the first checkpoints, the first items of channels. Then it writes
its commit. Any successor can repeat the later steps: complete the savepoint, replace the plan, the
query and the settings, and start the log with a copy of the new state.

Invariants: (1) before the commit, the job can continue unchanged; (2) after it, no job manager
starts before all steps are done; (3) a repeated step changes nothing.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jobmanager.config import JobConfig
from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.compare import compare
from jobmanager.driver.running.changes.copies import Draft
from jobmanager.driver.running.changes.cut import read_cut
from jobmanager.driver.running.changes.ends import (
    end_of,
    fence_off,
    in_generation,
    next_generation,
    outputs_of,
    truncate,
    withdraw_fences,
)
from jobmanager.driver.running.changes.errors import ChangeRefusedError, NotACutError
from jobmanager.driver.running.changes.generation import Builder
from jobmanager.driver.running.changes.rescaled import Rescaler
from jobmanager.driver.running.changes.saving import complete, save_cut
from jobmanager.state.messages import LOG_CODEC, StateCopied
from jobmanager.storage.documents import (
    json_document,
    pickle_document,
    read_json_document,
    read_pickle_document,
)
from jobmanager.storage.notice_log import NoticeLog
from jobmanager.storage.output_claim import renew_claim
from jobmanager.storage.places import plan_in, plan_without_place
from jobmanager.storage.root import GENERATION, JOB, PLAN, QUERY, STREAMS, display_uri
from jobmanager.storage.savepoints import MANIFEST, folder_of, list_savepoints, read_savepoint
from rstream.clock import SystemClock
from rstream.errors import StreamEngineError
from rstream.log.background import InlineBackground
from rstream.store.sync_later import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.driver.running.changes.cut import Cut
    from jobmanager.driver.running.changes.generation import Generation
    from jobmanager.driver.running.changes.pending import Change
    from jobmanager.state.job_state import JobState
    from jobmanager.storage.root import JobRoot
    from jobmanager.storage.savepoints import Savepoint
    from planner.physical.plan import PhysicalPlan
    from rstream.clock import Clock
    from rstream.log.background import Background

#: Files of a change: the plan that replaces the job's plan; and the copy of the job's state.
_PLACED, _COPY = "next-plan.pkl", "state"


class Following:
    """State that the next driver in this process takes over, instead of reading it.

    ``job``: the state of the job at the cut. ``log``: its log; all notices in it are durable.
    """

    def __init__(self, job: JobState, log: NoticeLog) -> None:
        self.job, self.log = job, log
        #: Whether the log has started again, with the copy of the next generation's state.
        self.has_begun = False
        #: Deletes obsolete files. If the process dies before, the next change deletes them.
        self.tidy: list[Callable[[], object]] = []


class Shell(NamedTuple):
    """The clock, and the threads that flush the log (None: the caller's thread).

    ``following`` None: the next driver, if any, reads its state from the root.
    """

    clock: Clock = SystemClock()
    background: Background | None = None
    following: Following | None = None

    def later(self, work: Callable[[], object]) -> None:
        """Do the work once the output flows again. If the job does not continue here, do it now."""
        if self.following is None:
            work()
        else:
            self.following.tidy.append(work)


SHELL = Shell()


def before_stop(root: JobRoot) -> None:
    """Prepare a change that puts fences, while the job still runs. The caller owns the root.

    Raises:
        OperatingError: the store failed.
    """
    plan = root.read_plan()
    assert plan is not None
    withdraw_fences(root, plan, next_generation(root))


def carry_out(root: JobRoot, shell: Shell = SHELL) -> dict[str, Any] | None:
    """Carry out the pending change, if any. Return its outcome; None: no change is pending.

    Raises:
        NotACutError: the job has not stopped at a cut; it must continue and stop again.
        StreamEngineError: the change is committed, and a step after that failed; ``resume`` repeats
            these steps.
        JobRunningError: another job manager has taken over.
    """
    if (commit := pending.committed(root.store)) is not None:
        return roll_forward(root, commit, shell)
    change = pending.pending(root.store)
    done = None if change is None else pending.outcome_of(root.store, change.id)
    if change is None or done is not None:
        _close_again(root, change, done)
        return done
    plan = root.read_plan(to_run=True)
    assert plan is not None
    if shell.following is None:  # a suspended job manager may be about to commit this change
        pending.commit(root.store, root.epoch, None)
    number, draft = next_generation(root), Draft(root)
    if change.kind != "savepoint":  # of a failed attempt; savepoints have none
        withdraw_fences(draft.root, plan, number)
    cut = read_cut(root, plan, None if shell.following is None else shell.following.job)
    try:
        match change.kind:
            case "savepoint":
                return _saved(draft, plan, cut, change, shell)
            case "deploy":
                return _deployed(draft, plan, cut, change, shell)
            case "rescale":
                return _rescaled(draft, plan, cut, change, shell)
            case "rollback":
                return _rolled_back(draft, plan, cut, change, shell)
    except StreamEngineError as error:
        root.check_owner()
        if pending.committed(root.store) is not None:
            raise  # a successor completes the change
        if (done := pending.outcome_of(root.store, change.id)) is not None:
            # only the deletion of files had failed
            pending.close(root.store, change.id, done, root.epoch)
            return done
        withdraw_fences(root, plan, number)
        if isinstance(error, NotACutError):
            raise
        outcome = {"state": "undone", "kind": change.kind, "reason": str(error)}
        pending.close(root.store, change.id, outcome, root.epoch)
        return outcome


def _close_again(root: JobRoot, change: Change | None, done: dict[str, Any] | None) -> None:
    """Close the last change again: its job manager may have died before it deleted all files."""
    if change is not None and done is not None:
        pending.record(root.store, change.id, done, root.epoch)
        pending.forget(root.store, change.id)
    if pending.left_by_changes(root.store):
        if (plan := root.read_plan()) is not None:
            _delete_channels(root, plan)
        pending.tidy(root.store)


def _saved(
    draft: Draft, plan: PhysicalPlan, cut: Cut, change: Change, shell: Shell
) -> dict[str, Any]:
    made = complete(draft, save_cut(draft, plan, cut, change.savepoint, shell.clock.now_us()))
    outcome = {"state": "done", "kind": "savepoint", "savepoint": made.name, "time": made.time_us}
    _close(draft.final, change.id, outcome, shell)
    return outcome


def _deployed(
    draft: Draft, plan: PhysicalPlan, cut: Cut, change: Change, shell: Shell
) -> dict[str, Any]:
    root = draft.root
    number = next_generation(root)
    new = _next_plan(root, change)
    comparison = compare(plan, new)
    if comparison.refusals:
        raise ChangeRefusedError(display_uri(root.uri), comparison.refusal)
    if change.approved and change.approved != comparison.hash:
        reason = "the job has changed since the comparison was approved; deploy again"
        raise ChangeRefusedError(display_uri(root.uri), reason)
    savepoint = save_cut(draft, plan, cut, before_name(number), shell.clock.now_us())
    built = Builder(root, savepoint, (plan, comparison.plan), comparison.links, number).build()
    fence_off(root, (plan, built.plan), cut, number, {})
    settings = {**(change.settings or {}), GENERATION: number}
    return _commit(draft, change, savepoint, built, settings, shell)


def _rescaled(
    draft: Draft, plan: PhysicalPlan, cut: Cut, change: Change, shell: Shell
) -> dict[str, Any]:
    root = draft.root
    number = next_generation(root)
    savepoint = save_cut(draft, plan, cut, before_name(number), shell.clock.now_us())
    built = Rescaler(root, savepoint, plan, change.new_bounds, number).build()
    root.store.put(f"{change.folder}/{pending.NEXT_QUERY}", root.store.get(QUERY))
    fence_off(root, (plan, built.plan), cut, number, {})
    return _commit(draft, change, savepoint, built, {GENERATION: number}, shell)


def _commit(
    draft: Draft,
    change: Change,
    savepoint: Savepoint,
    built: Generation,
    settings: dict[str, Any],
    shell: Shell,
    ends: dict[str, int] | None = None,
) -> dict[str, Any]:
    """Commit the change, then do its steps. ``ends``: per uri, the seq at which to truncate."""
    root, folder = draft.root, change.folder
    plan = in_generation(built.plan, settings[GENERATION])
    root.store.put(f"{folder}/{_PLACED}", pickle_document(plan_without_place(plan)))
    root.store.put(f"{folder}/{_COPY}", LOG_CODEC.encode(built.copy))
    root = draft.synced()
    root.check_owner()
    commit = {
        "id": change.id,
        "kind": change.kind,
        "savepoint": savepoint.name,
        "time": savepoint.time_us,
        "settings": {**settings, "plan": plan.plan_hash},
        "ends": ends or {},
        "manifest": savepoint.to_json() if ends is None else None,  # a rollback takes no savepoint
    }
    pending.commit(root.store, root.epoch, commit)
    return roll_forward(root, commit, shell)


def _rolled_back(
    draft: Draft, plan: PhysicalPlan, cut: Cut, change: Change, shell: Shell
) -> dict[str, Any]:
    """Return to a savepoint: truncate the result at its ends, and restore its query."""
    root = draft.root
    savepoint = read_savepoint(root.store, change.savepoint)
    # Names of hosts and checkpoints since the savepoint must not be used again.
    savepoint = replace(savepoint, epoch=cut.job.epoch, takeovers=cut.job.takeovers)
    former = plan_in(
        read_pickle_document(root.store.get(f"{folder_of(savepoint.name)}/{PLAN}"), to_run=True),
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
    settings = read_json_document(root.store.get(f"{folder_of(savepoint.name)}/{JOB}"))
    number = next_generation(root)
    links = {stage.name: stage.name for stage in former.stages}
    built = Builder(root, savepoint, (former, former), links, number).build()
    query = root.store.get(f"{folder_of(savepoint.name)}/{QUERY}")
    root.store.put(f"{change.folder}/{pending.NEXT_QUERY}", query)
    kept: dict[str, Any] = {
        name: settings[name] for name in ("query_file", "folders") if name in settings
    }
    fence_off(root, (plan, built.plan), cut, number, ends)
    return _commit(draft, change, savepoint, built, {**kept, GENERATION: number}, shell, ends)


def _ends(savepoint: Savepoint, plan: PhysicalPlan) -> dict[str, int]:
    """Return, per uri, the end (seq) at the savepoint of each stream that users read."""
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


def before_name(number: int) -> str:
    """Return the name of the savepoint that is taken before generation ``number`` starts."""
    return f"before-{number:04d}"


def _next_plan(root: JobRoot, change: Change) -> PhysicalPlan:
    data = root.store.get(f"{change.folder}/{pending.NEXT_PLAN}")
    plan: PhysicalPlan = read_pickle_document(data, to_run=True)
    return plan_in(plan, display_uri(root.uri))


def roll_forward(root: JobRoot, commit: dict[str, Any], shell: Shell) -> dict[str, Any]:
    """Do all steps of a committed change.

    Raises:
        JobRunningError: another job manager has taken over.
    """
    store, folder = root.store, f"{pending.FOLDER}/{commit['id']}"
    if shell.following is None:
        root.claim(shell.clock.now_us(), after=root.epoch)
    else:  # the owner's log continues, with the copy
        root.check_owner()
    for uri, end in commit["ends"].items():
        truncate(root.open_store(uri), end, commit["settings"][GENERATION])
        root.check_owner()
    placed = store.get(f"{folder}/{_PLACED}")
    query = store.get(f"{folder}/{pending.NEXT_QUERY}")
    settings = {**root.settings(), **commit["settings"]}
    blobs = {PLAN: placed, QUERY: query, JOB: json_document(settings)}
    if (manifest := commit.get("manifest")) is not None:
        blobs[f"{folder_of(commit['savepoint'])}/{MANIFEST}"] = json_document(manifest)
    plan = plan_in(read_pickle_document(placed), display_uri(root.uri))
    copy = LOG_CODEC.decode(store.get(f"{folder}/{_COPY}"))
    assert isinstance(copy, StateCopied), copy

    def renew() -> None:
        for output in plan.of_outputs:
            place = root.open_store(output.output)
            renew_claim(place, output, display_uri(root.uri), settings["id"])

    def begin() -> None:
        begin_log(root, replace(copy, epoch=max(copy.epoch, 1)), shell)

    puts = [partial(store.put, path, data) for path, data in blobs.items()]
    side_by_side(store, [*puts, renew, begin])
    shell.later(lambda: _delete_channels(root, plan))
    outcome = {"state": "done", **{k: commit[k] for k in ("kind", "savepoint", "time")}}
    _close(root, commit["id"], outcome, shell)
    return outcome


def _close(root: JobRoot, change_id: str, outcome: dict[str, Any], shell: Shell) -> None:
    """Record the outcome, and allow the next change to be requested, even if no host starts."""
    pending.record(root.store, change_id, outcome, root.epoch)
    pending.forget(root.store, change_id)
    shell.later(lambda: pending.tidy(root.store))


def begin_log(root: JobRoot, copy: StateCopied, shell: Shell = SHELL) -> None:
    """Start the log of the next driver, or a new log of a root, with a copy of the state.

    The caller owns the root. To start a new log, it has just claimed the root.
    """
    following = shell.following
    if following is None:
        log = NoticeLog(root, shell.clock, JobConfig(), shell.background or InlineBackground())
    else:
        log = following.log
    with contextlib.ExitStack() as closing:
        closing.callback(log.close)
        log.begin_with(copy)
        root.check_owner()
        obsolete = log.truncate()
        if following is not None:
            following.has_begun = True
            closing.pop_all()

    def delete() -> None:
        for name in obsolete:
            root.store.delete(name)

    shell.later(delete)


def _delete_channels(root: JobRoot, plan: PhysicalPlan) -> None:
    """Delete the channels of former generations, and of attempts that were not committed.

    The savepoints have the unconsumed items of these channels.
    """
    prefix = f"{plan.root}/"
    kept = tuple(f"{c.uri.removeprefix(prefix)}/" for v in plan.vertices for c in v.inputs)
    obsolete = [name for name in root.store.list(STREAMS) if not name.startswith(kept)]
    root.check_owner()  # after the list: so it has no channel of a successor's change
    for name in obsolete:
        root.store.delete(name)


def last_change(root: JobRoot) -> str | None:
    """Return the savepoint before the job's last change; None: the job was never changed."""
    number = int(root.settings().get(GENERATION, 0))
    names = {savepoint.name for savepoint in list_savepoints(root.store)}
    return before_name(number) if before_name(number) in names else None
