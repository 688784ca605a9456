"""Requests changes of a job from any process: savepoint, deployment, rollback, rescale.

For a running job this module writes a request file, and the job manager carries out the change. A
stopped job is changed in this process; ``resume`` starts it again.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jobmanager.config import JobConfig
from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.apply import carry_out, last_change
from jobmanager.driver.running.changes.compare import compare
from jobmanager.driver.running.changes.errors import (
    ChangeRefusedError,
    ChangeUndoneError,
    ChangeWaitsError,
    NotACutError,
    NotApprovedError,
)
from jobmanager.driver.running.changes.pending import new_change
from jobmanager.driver.running.changes.scaling.ranges import ANY, merge_ranges, split_range
from jobmanager.driver.running.changes.scaling.widths import RescaleError, widths_for
from jobmanager.driver.running.inputs import lowered, with_inputs_in
from jobmanager.errors import JobRunningError, NoJobError
from jobmanager.options import applied, configured, merged, planned
from jobmanager.state.job_state import OPEN_STATES, US_PER_S
from jobmanager.storage.ownership import give_back, owned
from jobmanager.storage.query_file import folders_of, load_file
from jobmanager.storage.root import CHANGE, JobRoot, display_uri
from jobmanager.storage.savepoints import check_new_name
from jobmanager.storage.shown import INTERRUPTED, shown_status
from planner import Query, Stream
from rstream.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobmanager.driver.running.changes.compare import Comparison
    from jobmanager.driver.running.changes.pending import Change
    from jobmanager.storage.query_file import LoadedFile, QueryFile
    from planner.physical.plan import PhysicalPlan

#: Least and most seconds between two checks of a change in another process. Each check lists the
#: store, so the pauses grow: each is ``LOOK_SHARE`` of the wait so far.
LOOK_S, LOOK_MAX_S, LOOK_SHARE = 0.1, 5.0, 0.1
#: A job manager that has ended a job completes or ends its pending change within this time. After
#: that, the process that waits for the change attempts it.
ENDED_WAIT_S = 20.0
#: Seconds between two looks of that process at the job's state.
ENDED_LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment: its comparison; and its outcome, None if the comparison was only shown."""

    comparison: Comparison
    loaded: LoadedFile
    outcome: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return comparison and outcome in JSON types."""
        rows = [asdict(row) for row in self.comparison.rows]
        refused = list(self.comparison.refusals)
        head = {"hash": self.comparison.hash, "stages": rows, "refused": refused}
        return {**head, "outcome": self.outcome}


def next_plan(
    root: JobRoot, query: Query | Stream, like: JobRoot | None = None
) -> tuple[Query, PhysicalPlan]:
    """Return the next query of a job, bound to its root, and its plan.

    ``like``: the root whose settings apply; default: ``root``.
    """
    query = query.to_parquet() if isinstance(query, Stream) else query
    settings = (like or root).readable_settings()
    options = merged(settings.get("options", {}), {})
    config = configured(JobConfig(), settings["parallelism"], None, settings["paced"])
    query = with_inputs_in(query, root)
    plan = planned(lowered(query, root, applied(config, options)), options, is_new=True)
    return query, plan


def compared(root: JobRoot, query: Query | Stream) -> Comparison:
    """Compare the plan of a job with that of its next query."""
    return compare(_plan_of(root), next_plan(root, query)[1])


def deploy(
    target: str | LoadedFile,
    root: str,
    *,
    yes: bool = False,
    approve: str = "",
    dry_run: bool = False,
    trust: bool = False,
    wait_s: float = 600.0,
    on_compared: Callable[[Comparison], None] = lambda _: None,
) -> Deployment:
    """Stop a job at a cut and continue it with the query of a file.

    ``on_compared``: called with the comparison, before any check or change.

    Raises:
        ChangeRefusedError: the job does not allow this change.
        NotApprovedError: neither ``yes`` nor the hash of the comparison was given.
        ChangeUndoneError: the change could not be carried out; the job continues unchanged.
        ChangeWaitsError: the change is not done after ``wait_s``.
    """
    job_root = JobRoot(root, trust=trust)
    job_root.check_trusted()
    old = _plan_of(job_root)
    loaded = load_file(target)
    query, plan = next_plan(job_root, loaded.query)
    comparison = compare(old, plan)
    on_compared(comparison)
    if dry_run:
        return Deployment(comparison, loaded)
    if comparison.refusals:
        raise ChangeRefusedError(display_uri(job_root.uri), comparison.refusal)
    if not yes and approve != comparison.hash:
        raise NotApprovedError(display_uri(job_root.uri), comparison.hash, approve)
    change = change_to(loaded.file, comparison)
    return Deployment(comparison, loaded, _done(job_root, change, query, plan, wait_s))


def change_to(file: QueryFile, comparison: Comparison) -> Change:
    """Return the change to the query of a file."""
    settings = {"query_file": file.to_json(), "folders": folders_of(file)}
    return new_change("deploy", approved=comparison.hash, settings=settings)


def take_savepoint(
    root: str, name: str, *, at_us: int | None = None, trust: bool = False, wait_s: float = 600.0
) -> dict[str, Any]:
    """Take a savepoint of a running or stopped job. Return the outcome.

    Raises:
        NotACutError: the job has ended without a clean stop.
    """
    job_root = JobRoot(root, trust=trust)
    job_root.check_trusted()
    _plan_of(job_root)
    change = new_change("savepoint", savepoint=check_new_name(name), at_us=at_us)
    return _done(job_root, change, None, None, wait_s)


def roll_back(root: str, *, trust: bool = False, wait_s: float = 600.0) -> dict[str, Any]:
    """Return a job to the query before its last change, at the same cut.

    After a rollback, another one undoes the change before.

    Raises:
        ChangeRefusedError: no change is left to roll back, or its savepoint is gone.
        ChangeUndoneError: the change cannot be rolled back; the job continues unchanged.
        ChangeWaitsError: the rollback is not completed after ``wait_s``.
    """
    job_root = JobRoot(root, trust=trust)
    job_root.check_trusted()
    _plan_of(job_root)
    change = new_change("rollback", savepoint=last_change(job_root))
    return _done(job_root, change, None, None, wait_s)


def rescale(
    root: str,
    *,
    parallelism: int | None = None,
    stages: Mapping[str, int] | None = None,
    split: str | None = None,
    merge: str | None = None,
    dry_run: bool = False,
    trust: bool = False,
    wait_s: float = 600.0,
) -> dict[str, Any]:
    """Change the number of vertices of a job's stages, running or stopped. Return the outcome.

    ``parallelism``: vertices of each keyed stage. ``stages``: vertices by stage; a key is the name
    of a stage, or a prefix of it. ``split``, ``merge``: instead, one range of keys is split or two
    are joined, in a stage, of a vertex, or where the load is greatest or least (``""``).
    ``dry_run``: only return what would change.

    Raises:
        NotByKeyError, ChangeRefusedError, RescaleError: the job does not allow this change.
        ChangeUndoneError: the change could not be carried out; the job continues unchanged.
        ChangeWaitsError: the change is not completed after ``wait_s``.
    """
    job_root = JobRoot(root, trust=trust)
    job_root.check_trusted()
    plan, wishes = _plan_of(job_root), (parallelism, stages or None, split, merge)
    fields: dict[str, Any] = {}
    if split is not None or merge is not None:
        if sum(wish is not None for wish in wishes) > 1:
            raise RescaleError("split or join one range at a time, without another change")
        status = shown_status(job_root, SystemClock().now_us())
        choose, where = (split_range, split) if merge is None else (merge_ranges, merge)
        change = choose(plan, status, where or ANY)
        fields, shown = {"bounds": change.bounds}, change.to_json()
    else:
        widths = widths_for(plan, parallelism, stages or {})
        fields, shown = {"widths": widths}, {"widths": widths}
        if not widths:
            reason = "nothing would change: set --parallelism or --stage to other numbers"
            raise RescaleError(reason)
    if dry_run:
        return {"state": "shown", "kind": "rescale", **shown}
    return shown | _done(job_root, new_change("rescale", **fields), None, None, wait_s)


def rescale_stopped(root: JobRoot, parallelism: int) -> None:
    """Rescale a job that is about to be resumed. Do nothing if it runs; ``resume`` reports that.

    Raises:
        NotACutError: the job has ended without a clean stop.
        NotByKeyError, ChangeRefusedError, RescaleError: the job does not allow this change.
    """
    root.check_trusted()
    if shown_status(root, SystemClock().now_us())["state"] in (*OPEN_STATES, "finished"):
        return
    if widths := widths_for(_plan_of(root), parallelism, {}):
        # Request it only once the root is owned: a job that was resumed meanwhile must not carry it
        # out.
        change = new_change("rescale", widths=widths)
        outcome = _carried_out_here(root, change, is_requested=False)
        if outcome is not None and outcome["state"] != "done":
            raise ChangeUndoneError(display_uri(root.uri), outcome["reason"])


def _plan_of(root: JobRoot) -> PhysicalPlan:
    plan = root.read_plan()
    if plan is None:
        raise NoJobError(display_uri(root.uri))
    return plan


def _done(
    root: JobRoot,
    change: Change,
    query: Query | None,
    plan: PhysicalPlan | None,
    wait_s: float,
) -> dict[str, Any]:
    """Request the change, and wait until it is done or undone."""
    clock = SystemClock()
    state = _state_of(root, change)
    pending.request(root, change, query, plan)
    begun_s = clock.monotonic_s()
    outcome = None if state in OPEN_STATES else _carried_out_here(root, change)
    if outcome is None:
        root.request(CHANGE)
        outcome = _awaited(root, change, wait_s)
    outcome["seconds"] = round(clock.monotonic_s() - begun_s, 3)
    if outcome["state"] != "done":
        raise ChangeUndoneError(display_uri(root.uri), outcome["reason"])
    return outcome


def _state_of(root: JobRoot, change: Change) -> str:
    """Return the state of the job.

    Raises:
        ChangeRefusedError: the job has finished.
    """
    state: str = shown_status(root, SystemClock().now_us())["state"]
    if state == "finished":
        reason = "it has finished: run the query in another root"
        if change.kind == "savepoint":
            reason = "it has finished, so it has no state to save; its output is complete"
        raise ChangeRefusedError(display_uri(root.uri), reason)
    return state


def _has_ended(root: JobRoot, now_us: int) -> bool:
    """Return whether the job ended ``ENDED_WAIT_S`` ago. Resume continues an interrupted one."""
    status = shown_status(root, now_us)
    is_open = status["state"] in (*OPEN_STATES, INTERRUPTED)
    return not is_open and now_us - status.get("written_us", 0) > ENDED_WAIT_S * US_PER_S


def _carried_out_here(
    root: JobRoot, change: Change, *, is_requested: bool = True
) -> dict[str, Any] | None:
    """Change a job that has no job manager. The status file is not changed.

    Returns None if the job was resumed meanwhile. Its job manager carries out a requested change.
    """
    status = root.read_status()
    try:
        with owned(root):
            try:
                if not is_requested:
                    pending.request(root, change, None, None)
                return carry_out(root) or pending.outcome_of(root.store, change.id)
            except NotACutError:
                undone = {"state": "undone", "reason": "no cut"}
                pending.close(root.store, change.id, undone, root.epoch)
                raise
            finally:
                root.write_status(status)
                give_back(root)
    except JobRunningError:
        return None


def _awaited(root: JobRoot, change: Change, wait_s: float) -> dict[str, Any]:
    """Return the outcome. If the job ends meanwhile and leaves the change pending, attempt it here.

    Raises:
        ChangeWaitsError: there is no outcome after ``wait_s``.
        ChangeRefusedError: the job has finished.
        NotACutError: the job has ended without a clean stop.
    """
    clock, pause = SystemClock(), threading.Event()
    begun_s = now_s = clock.monotonic_s()
    until_s, look_s = now_s + wait_s, now_s + ENDED_LOOK_S
    while (outcome := pending.outcome_of(root.store, change.id)) is None:  # ends at until_s
        now_s = clock.monotonic_s()
        if now_s > until_s:
            raise ChangeWaitsError(display_uri(root.uri), wait_s)
        if now_s > look_s:
            look_s = now_s + ENDED_LOOK_S
            if _has_ended(root, clock.now_us()):
                _state_of(root, change)
                if (outcome := _carried_out_here(root, change)) is not None:
                    return outcome
        pause_s = min(max(LOOK_SHARE * (now_s - begun_s), LOOK_S), LOOK_MAX_S)
        pause.wait(min(pause_s, max(until_s - now_s, 0.0)))
    return outcome
