"""Branches of a job: another query in a separate root, from the state of the job.

The branch reads the same sources from the positions of that state. Its deliveries are switched off,
its output is in its own root, and no file is written to the root of the job. The branch begins as a
copy of the job; then it is changed to the other query at a cut, as ``deploy`` changes a job.
"""

from __future__ import annotations

import contextlib
import math
import uuid
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from jobmanager.cli.branching.export import discard, fill, saved_plan, write_job
from jobmanager.cli.branching.image import NotRetainedError, PresentPlan, copy_image, find_image
from jobmanager.driver.running import run as jobs
from jobmanager.driver.running.changes import pending
from jobmanager.driver.running.changes.compare import compare
from jobmanager.driver.running.changes.errors import ChangeRefusedError, ChangeUndoneError
from jobmanager.driver.running.deploying import LOOK_S, change_to, next_plan
from jobmanager.errors import JobFailedError, NoCheckpointError
from jobmanager.storage.documents import json_document, pickle_document
from jobmanager.storage.places import plan_in, plan_without_place, unplaced, with_uris
from jobmanager.storage.query_file import load_file
from jobmanager.storage.root import JOB, PLAN, QUERY, JobRoot, display_uri
from jobmanager.storage.savepoints import list_with_undone
from jobmanager.storage.shown import shown_status
from planner.logical.query import OUTPUT
from planner.physical.outputs import PlanOfOutputs
from rstream.clock import SystemClock
from rstream.errors import UsageError
from rvertex.errors import CorruptCheckpointError
from rvertex.sinks.spec import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobmanager.config import JobConfig
    from jobmanager.driver.engine import ExecutorName
    from jobmanager.driver.job import Job
    from jobmanager.driver.job_run import StatusCallback
    from jobmanager.driver.running.changes.compare import Comparison
    from jobmanager.driver.running.changes.pending import Change
    from jobmanager.storage.query_file import LoadedFile
    from jobmanager.storage.savepoints import Savepoint
    from planner.physical.plan import PhysicalPlan

#: Options of a job that its branch does not inherit: they refer to its deliveries, or rescale it.
_OF_JOB = ("retention", "side_retention", "autoscale")


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch that can be started. ``time_us``: event time that all sources had reached."""

    root: JobRoot
    comparison: Comparison
    change: Change
    time_us: int
    #: Names of the deliveries that are switched off.
    switched_off: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return its place, its time and its comparison in JSON types."""
        stages = [asdict(row) for row in self.comparison.rows]
        known = {"root": display_uri(self.root.uri), "time_us": self.time_us}
        off = list(self.switched_off)
        return {**known, "hash": self.comparison.hash, "stages": stages, "switched_off": off}

    def start(
        self,
        *,
        executor: ExecutorName | None = None,
        master: str | None = None,
        hosts: int | None = None,
        config: JobConfig | None = None,
        on_status: StatusCallback | None = None,
        until_s: float = math.inf,
    ) -> Job:
        """Start the branch. Return when its query runs. A branch that cannot start is deleted.

        ``until_s``: the monotonic time at which to give up.

        Raises:
            ChangeUndoneError: the state cannot be converted for the query.
            JobFailedError: the branch failed before its query ran.
            TimeoutError: its query did not run before ``until_s``.
        """
        try:
            job = jobs.resume(
                display_uri(self.root.uri),
                executor=executor,
                master=master,
                hosts=hosts,
                config=config,
                on_status=on_status,
            )
            self._await_query(job, until_s)
        except BaseException:
            self.delete()
            raise
        return job

    def delete(self) -> None:
        """Delete the root of the branch. No process may be working on it."""
        discard(self.root)

    def _await_query(self, job: Job, until_s: float) -> None:
        clock = SystemClock()
        try:
            while (outcome := pending.outcome_of(self.root.store, self.change.id)) is None:
                with contextlib.suppress(TimeoutError):
                    status = job.wait(LOOK_S)
                    raise JobFailedError(job.root, status["error"] or f"it was {status['state']}")
                if clock.monotonic_s() > until_s:
                    raise TimeoutError
            if outcome["state"] != "done":
                raise ChangeUndoneError(job.root, outcome["reason"])
        except BaseException:
            job.cancel()
            with contextlib.suppress(JobFailedError):
                job.wait()
            raise


def prepare(
    file: str | LoadedFile,
    root: str,
    *,
    at_us: int | None = None,
    new_root: str | None = None,
    trust: bool = False,
    on_compared: Callable[[Comparison], None] = lambda _: None,
) -> Branch:
    """Copy the state of a job to another root, for the query of a file.

    ``at_us``: the newest savepoint or retained checkpoint at or before this event time; default:
    the present state. ``on_compared``: called with the comparison before any file is copied.

    Raises:
        ChangeRefusedError: the query cannot continue the state, or the job has finished.
        NotRetainedError: no state from that time is left.
        UsageError: the new root is not empty.
    """
    job_root = JobRoot(root, trust=trust)
    job_root.check_trusted()
    here, target = display_uri(job_root.uri), JobRoot(new_root or fresh_root(root, "branch"))
    place = display_uri(target.uri)
    present = PresentPlan.read(job_root)
    if shown_status(job_root, SystemClock().now_us())["state"] == "finished":
        raise ChangeRefusedError(here, "it has finished: run the query in another root")
    if target.store.list():
        raise UsageError(f"{place} is not empty: choose another --root")
    saved = None if at_us is None else _savepoint_at(present, at_us)
    old = present.plan if saved is None else saved_plan(job_root, saved, here)
    there = isolated(plan_in(plan_without_place(old), place))
    try:
        target.make_private()
        loaded = load_file(file)
        query, new = next_plan(target, loaded.query, like=job_root)
        comparison = compare(there, isolated(new))
        on_compared(comparison)
        if comparison.refusals:
            raise ChangeRefusedError(here, comparison.refusal)
        change = change_to(loaded.file, comparison)
        if saved is None:
            time_us = _fill_from_image(present, target, there, at_us)
        else:
            time_us = _fill_from_savepoint(job_root, saved, target)
        pending.request(target, change, query, isolated(new))
    except BaseException:
        discard(target)
        raise
    names = {name_of(spec) for plan in (old, new) for spec in plan.deliveries}
    return Branch(target, comparison, change, time_us, tuple(sorted(names)))


def isolated(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan without deliveries, and with its outputs below its root."""
    outside = {
        o.output: f"{plan.root}/{OUTPUT}" + (f"-{o.name}" if o.name != OUTPUT else "")
        for o in plan.of_outputs
        if not o.output.startswith(f"{plan.root}/")
    }

    def inside(uri: str) -> str:
        for output, to in outside.items():
            if uri == output or uri.startswith(f"{output}/"):
                return to + uri[len(output) :]
        return uri

    plan = replace(with_uris(plan, inside), deliveries=(), publishing=None)
    if isinstance(plan, PlanOfOutputs):
        parts = tuple(replace(part, deliveries=(), publishing=None) for part in plan.parts)
        plan = replace(plan, parts=parts)
    return plan


def fresh_root(root: str, what: str) -> str:
    """Return a new root in the folder that contains the root of the job."""
    return f"{root.rstrip('/')}-{what}-{uuid.uuid4().hex[:6]}"


def _savepoint_at(present: PresentPlan, at_us: int) -> Savepoint | None:
    """Return the newest savepoint at or before a time; None if a checkpoint is newer."""
    listed = list_with_undone(present.root)
    early = [one for one, is_undone in listed if not is_undone and one.time_us <= at_us]
    newest = max(early, key=lambda one: (one.time_us, one.created_us), default=None)
    if newest is not None:
        with contextlib.suppress(NotRetainedError, NoCheckpointError, CorruptCheckpointError):
            if find_image(present, at_us).time_us > newest.time_us:
                return None
    return newest


def _fill_from_image(
    present: PresentPlan, target: JobRoot, there: PhysicalPlan, at_us: int | None
) -> int:
    root = present.root
    # The settings of this plan, which the copy checks
    query, settings = root.read_file(QUERY), root.settings()
    image = copy_image(present, target, there, at_us)
    write_job(target, there, image.copied, query, _settings(settings, there))
    return image.time_us


def _fill_from_savepoint(root: JobRoot, savepoint: Savepoint, target: JobRoot) -> int:
    fill(root, savepoint.name, target, delivers=False)
    plan = target.read_plan()
    assert plan is not None
    plan = isolated(plan)
    target.store.put(PLAN, pickle_document(plan_without_place(plan)))
    target.store.put(JOB, json_document(_settings(target.settings(), plan)))
    return savepoint.time_us


def _settings(settings: dict[str, Any], plan: PhysicalPlan) -> dict[str, Any]:
    options = {k: v for k, v in settings["options"].items() if k not in _OF_JOB}
    return {**settings, "options": options, "output": unplaced(plan.output, plan.root)}
