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
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jobmanager.config import JobConfig
from jobmanager.delivery.claim import BEHIND, DeliveryClaim
from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.cut import read_cut
from jobmanager.driver.running.changes.drafting import (
    basis_of,
    complete,
    draft_change,
    draw_change,
    settings_before,
)
from jobmanager.driver.running.changes.ends import (
    end_of,
    next_generation,
    truncate,
    withdraw_fences,
)
from jobmanager.driver.running.changes.errors import ChangeRefusedError, NotACutError
from jobmanager.state.messages import LOG_CODEC, StateCopied
from jobmanager.storage.documents import BrokenDocumentError, json_document, read_pickle_document
from jobmanager.storage.notice_log import NoticeLog
from jobmanager.storage.output_claim import delete_former_claims, renew_claim
from jobmanager.storage.places import plan_in
from jobmanager.storage.root import (
    GENERATION,
    JOB,
    PLAN,
    QUERY,
    STREAMS,
    UNDO,
    UNDONE,
    display_uri,
)
from jobmanager.storage.savepoints import (
    NoSavepointError,
    delete_replaced,
    from_json,
    read_savepoint,
)
from rstream.clock import SystemClock
from rstream.errors import StreamEngineError
from rstream.log.background import InlineBackground
from rstream.store.sync_later import side_by_side
from rvertex.sinks.spec import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.driver.running.changes.cut import Cut
    from jobmanager.driver.running.changes.drafting import Drafted, Drawn
    from jobmanager.driver.running.changes.pending import Change
    from jobmanager.state.job_state import JobState
    from jobmanager.storage.root import JobRoot
    from planner.physical.plan import PhysicalPlan
    from rstream.clock import Clock
    from rstream.log.background import Background

_log = logging.getLogger(__name__)


class Following:
    """State that the next driver in this process takes over, instead of reading it.

    ``job``: the state of the job at the cut. ``log``: has its notices, all of them durable.
    ``drawn_ahead``: waits for the files of the change, drawn while the hosts ended, if there are
    any. ``on_committed``: called with the next plan and state, to start the hosts of the next
    driver.
    """

    def __init__(
        self,
        job: JobState,
        log: NoticeLog,
        drawn_ahead: Callable[[], Drawn | None] = lambda: None,
        on_committed: Callable[[PhysicalPlan, StateCopied], object] = lambda plan, copy: None,
    ) -> None:
        self.job, self.log = job, log
        self.drawn_ahead, self.on_committed = drawn_ahead, on_committed
        #: Whether the log has begun again, with the copy of the next generation's state.
        self.has_begun = False
        #: Deletes obsolete files. If the process dies before, the next change deletes them.
        self.tidy: list[Callable[[], object]] = []


class Shell(NamedTuple):
    """The clock, and the threads that flush the log (None: the caller's thread).

    ``following`` None: the next driver, if any, reads its state from the root.
    ``stopped_because``: why a savepoint needed a stop.
    """

    clock: Clock = SystemClock()
    background: Background | None = None
    following: Following | None = None
    stopped_because: str = ""

    def later(self, work: Callable[[], object]) -> None:
        """Do the work once the output flows again. If the job does not continue here, do it now."""
        if self.following is None:
            work()
        else:
            self.following.tidy.append(work)


SHELL = Shell()


def before_stop(root: JobRoot) -> None:
    """Remove fences of earlier failed attempts while the job still runs. The caller owns the root.

    Raises:
        OperatingError: the store failed.
    """
    plan = root.read_plan()
    assert plan is not None
    withdraw_fences(root, plan, next_generation(root))


def draw_ahead(root: JobRoot, job: JobState, change: Change, clock: Clock) -> Drawn | None:
    """Draw the pending change while the hosts of the stopped job still end.

    Return None if this fails; the change is then drawn again after the hosts have ended. ``job``:
    the state of the job, from durable notices only.
    """
    try:
        plan, number = root.read_plan(to_run=True), next_generation(root)
        assert plan is not None
        if change.kind != "savepoint":
            withdraw_fences(root, plan, number)
        cut = read_cut(root, plan, job)
        drawn = draw_change(root, plan, cut, change, number, clock.now_us())
        drawn.draft.synced()
        return drawn
    except Exception as error:  # it is drawn again, with all consequences
        _log.info("the change is not drawn ahead: %s", error)
        return None


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
    if change is None:
        _clean_up(root)
        return None
    plan = root.read_plan(to_run=True)
    assert plan is not None
    if shell.following is None:  # a suspended job manager may be about to commit this change
        done = pending.cancel_commits(root.store, root.epoch, change.id)
        if done is not None:
            pending.close(root.store, change.id, done, root.epoch)
            return done
    number, following = next_generation(root), shell.following
    drawn = None if following is None else following.drawn_ahead()
    if drawn is None and change.kind != "savepoint":  # an attempt may have died
        withdraw_fences(root, plan, number)
    # before a draft, because its fences hide rows beyond the cut
    cut = read_cut(root, plan, None if following is None else following.job)
    try:
        if following is None and change.kind != "savepoint":
            _check_deliveries(root, plan, cut)
        if drawn is None or drawn.basis != basis_of(cut, change, number):
            drawn = draw_change(root, plan, cut, change, number, shell.clock.now_us())
        drafted = draft_change(drawn, plan, cut, change, number)
        if change.kind == "savepoint":
            return _saved(drafted, change, shell)
        return _commit(drafted, change, shell)
    except (StreamEngineError, FileNotFoundError, BrokenDocumentError) as error:
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


def _check_deliveries(root: JobRoot, plan: PhysicalPlan, cut: Cut) -> None:
    """Check that the output of a stopped job has all delivered items.

    It lacks some if the job was killed, resumed, and stopped before it computed them again. The
    changed job would compute other items in their place, in other partitions.

    Raises:
        ChangeRefusedError: it lacks some, or a destination was not asked since the job started.
    """
    streams = dict(enumerate(stream for stream, _ in plan.sink_streams()))
    names = {name_of(spec) for spec in plan.deliveries}
    rows = [row for row in root.read_status().get("deliveries", ()) if row["delivery"] in names]
    is_behind = bool(names) and root.store.exists(BEHIND)
    for row in rows:
        k, seq = row["partition"], row["delivered_seq"]
        is_unknown = not seq and DeliveryClaim(root.store, row["delivery"], k).has_begun()
        is_behind |= is_unknown or (k in streams and seq > end_of(cut, streams[k]))
    if is_behind:
        reason = (
            "its output lacks rows that were delivered before it was exported or restarted; resume "
            "it as it is, and change it while it runs"
        )
        raise ChangeRefusedError(display_uri(root.uri), reason)


def _clean_up(root: JobRoot) -> None:
    """Delete what the last change has left: its job manager may have died meanwhile."""
    pending.forget_commits(root.store, root.epoch)
    if pending.left_by_changes(root.store):
        if (plan := root.read_plan()) is not None:
            _delete_channels(root, plan)
        pending.tidy(root.store)


def _saved(drafted: Drafted, change: Change, shell: Shell) -> dict[str, Any]:
    made = complete(drafted.draft, drafted.savepoint)
    outcome = {"state": "done", "kind": "savepoint", "savepoint": made.name, "time": made.time_us}
    outcome["stopped_because"] = shell.stopped_because
    root = drafted.draft.final
    _close(root, change.id, outcome, shell)
    shell.later(lambda: delete_replaced(root.store, made))
    return outcome


def _commit(drafted: Drafted, change: Change, shell: Shell) -> dict[str, Any]:
    """Commit the change, then do its steps."""
    root, savepoint, ends = drafted.draft.final, drafted.savepoint, drafted.ends
    root.check_owner()
    commit = {
        "id": change.id,
        "kind": change.kind,
        "drawn": change.drawn_folder(root.epoch),
        "savepoint": savepoint.name,
        "time": savepoint.time_us,
        "settings": drafted.settings,
        "ends": ends or {},
        "manifest": savepoint.to_json() if ends is None else None,  # a rollback takes no savepoint
    }
    pending.commit(root.store, root.epoch, commit)
    return roll_forward(root, commit, shell)


def roll_forward(root: JobRoot, commit: dict[str, Any], shell: Shell) -> dict[str, Any]:
    """Do all steps of a committed change.

    Raises:
        JobRunningError: another job manager has taken over.
    """
    store = root.store
    # a former release writes the files into the folder of the change
    drawn = commit.get("drawn", f"{pending.FOLDER}/{commit['id']}")
    if shell.following is None:
        root.claim(shell.clock.now_us(), after=root.epoch)
    else:  # the owner's log continues, with the copy
        root.check_owner()
    for uri, end in commit["ends"].items():
        truncate(root.open_store(uri), end, commit["settings"][GENERATION])
        root.check_owner()
    placed = store.get(f"{drawn}/{pending.PLACED}")
    query = store.get(f"{drawn}/{pending.NEXT_QUERY}")
    settings = {**root.settings(), **commit["settings"]}
    blobs = {PLAN: placed, QUERY: query, JOB: json_document(settings)}
    blobs = {root.own_path(name): data for name, data in blobs.items()}
    if (manifest := commit.get("manifest")) is not None:
        blobs[from_json(manifest).manifest] = json_document(manifest)
    plan = plan_in(read_pickle_document(placed), display_uri(root.uri))
    copy = LOG_CODEC.decode(store.get(f"{drawn}/{pending.COPY}"))
    assert isinstance(copy, StateCopied), copy
    copy = replace(copy, epoch=max(copy.epoch, 1))
    if shell.following is not None:
        shell.following.on_committed(plan, copy)

    outputs = [(output, root.open_store(output.output)) for output in plan.of_outputs]

    def renew() -> None:
        for output, place in outputs:
            renew_claim(place, output, display_uri(root.uri), settings)

    def delete_replaced_files() -> None:
        root.delete_replaced()
        for _, place in outputs:
            delete_former_claims(place)

    def begin() -> None:
        begin_log(root, copy, shell)

    puts = [partial(store.put, path, data) for path, data in blobs.items()]
    side_by_side(store, [begin, *puts, renew])  # the beginning takes longest
    shell.later(lambda: _delete_channels(root, plan))
    shell.later(delete_replaced_files)
    if manifest is not None:
        shell.later(lambda: delete_replaced(store, from_json(manifest)))
    outcome = {"state": "done", **{k: commit[k] for k in ("kind", "savepoint", "time")}}
    _close(root, commit["id"], outcome, shell)
    return outcome


def _close(root: JobRoot, change_id: str, outcome: dict[str, Any], shell: Shell) -> None:
    """Record the outcome, so that the next change can be requested, even if no host starts."""
    pending.record(root.store, change_id, outcome, root.epoch)
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


def last_change(root: JobRoot) -> str:
    """Return the savepoint from before the newest change that is not rolled back.

    Raises:
        ChangeRefusedError: there is no such change, or a rollback cannot use its savepoint.
    """
    place, settings = display_uri(root.uri), root.settings()
    name = settings.get(UNDO, "")
    if not name:
        rest = ": each one was rolled back already" if settings.get(UNDONE) else ""
        raise ChangeRefusedError(place, f"it has no change to roll back{rest}")
    try:
        settings_before(root, read_savepoint(root.store, name))
    except (NoSavepointError, FileNotFoundError) as error:  # or it expires at this moment
        reason = (
            f"savepoint {name}, which its last change took, was deleted; deploy the former query "
            "instead"
        )
        raise ChangeRefusedError(place, reason) from error
    return str(name)
