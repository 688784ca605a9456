"""Legs of a job. A leg runs the job from one change to the next, in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jobmanager.driver.driver import Driver
from jobmanager.driver.engine import open_for_job
from jobmanager.driver.input_positions import InputPositions
from jobmanager.driver.job_deliveries import JobDeliveries
from jobmanager.driver.job_run import Leg
from jobmanager.driver.running.added_partitions import may_continue, note_ends
from jobmanager.driver.running.changes.apply import Following, Shell
from jobmanager.driver.running.changes.pending import pending
from jobmanager.driver.running.changes.scaling.autoscaler import Autoscaler
from jobmanager.driver.running.changes.stopped import (
    CHANGE_TRIES_MAX,
    Changing,
    Tidying,
    change_now,
    save_at_stop,
)
from jobmanager.driver.running.growing_topics import GrowingTopics
from jobmanager.driver.running.new_columns import NewColumns
from jobmanager.manager.manager import JobManager
from jobmanager.state.topology import Topology
from jobmanager.storage.output_check import OutputCheck
from rstream.clock import SystemClock

if TYPE_CHECKING:
    from jobmanager.config import JobConfig
    from jobmanager.driver.job_run import Beside, JobRun
    from jobmanager.state.messages import PartitionsAdded, StateCopied
    from jobmanager.storage.notice_log import NoticeLog
    from planner.physical.plan import PhysicalPlan
    from rvertex.host.executor import Executor


class _Begun(NamedTuple):
    """The first parts of a leg. ``beside``: parts for the driver to call at each tick."""

    runner: Executor
    driver: Driver
    beside: list[Beside]


def _begun(
    run: JobRun,
    plan: PhysicalPlan,
    runner: Executor,
    config: JobConfig,
    former: Leg | None = None,
    log: NoticeLog | None = None,
) -> _Begun:
    beside: list[Any] = []
    driver = Driver(
        root=run.root,
        manager=JobManager(Topology(plan.vertices), config, checks_output=True),
        executor=runner,
        config=config,
        clock=SystemClock(),
        on_status=run.take_status,
        check_outputs=OutputCheck(plan),
        on_tick=lambda manager: [one.note(manager) for one in beside],
        log=log,
    )
    if former is not None:  # open subscriptions hold a reference to these
        driver.endpoints, driver.secret = former.driver.endpoints, former.driver.secret
        driver.endpoints.forget()
    return _Begun(runner, driver, beside)


def leg_of(
    run: JobRun, plan: PhysicalPlan, runner: Executor, config: JobConfig, *, resumed: bool
) -> Leg:
    """Assemble the parts that run a job until its end or first change."""
    return _completed(run, plan, _begun(run, plan, runner, config), config, resumed=resumed)


def _completed(
    run: JobRun,
    plan: PhysicalPlan,
    begun: _Begun,
    config: JobConfig,
    *,
    resumed: bool,
    former: Leg | None = None,
    following: Following | None = None,
    is_at_cut: bool = False,
) -> Leg:
    runner, driver, beside = begun
    inputs = InputPositions(plan, run.job_id)
    tidying = Tidying(run.root, () if following is None else following.tidy)

    def take_in(grown: PhysicalPlan, added: PartitionsAdded) -> None:
        run.plan = grown
        driver.add_partitions(added)

    topics = GrowingTopics(plan, run.root, SystemClock(), take_in)
    columns = NewColumns(plan, SystemClock())
    scalers = [one for one in former.beside if isinstance(one, Autoscaler)] if former else []
    decided = [note for one in scalers for note in one.notes]
    scaler = Autoscaler(
        run.root,
        plan,
        config.autoscale,
        SystemClock(),
        on_request=lambda: changing.note_request(),
        notes=decided,
    )
    deliveries = JobDeliveries(
        plan,
        run.root,
        run.delivers_as,
        driver,
        config,
        is_moved=run.delivers_as != run.job_id,
        is_resumed=resumed and former is None,
    )
    if former is not None:
        deliveries.keep_for_those_of(former.deliveries)
    changing = Changing(run.root, deliveries, run.begin_change)
    beside += [inputs, topics, columns, tidying, scaler, changing]
    changing.watch(driver)

    def at_end(state: str) -> None:
        topics.stop(state)
        if may_continue(state, plan) and not run.is_changing:
            ended_s = driver.ended_s or SystemClock().monotonic_s()
            note_ends(plan, run.root, leases_end_s=ended_s + config.host.lease_s)

    return Leg(plan, driver, runner, deliveries, beside, resumed, at_end, is_at_cut)


def leg_after(run: JobRun, leg: Leg, state: str, config: JobConfig) -> Leg | None:
    """Carry out the change for which the job stopped.

    Return the next leg (the run up to the next change); None: the job ends.
    """
    if state == "stopped" and not run.is_changing:
        save_at_stop(run.root)
    if state != "stopped" or not run.is_changing or not run.deliver_rest(leg):
        run.is_changing = False
        return None
    changing = next(one for one in leg.beside if isinstance(one, Changing))
    begun: list[_Begun] = []
    try:
        return _changed(run, leg, config, changing, begun)
    except BaseException:
        for one in begun:
            one.driver.dismiss_hosts()
        raise


def _changed(
    run: JobRun, leg: Leg, config: JobConfig, changing: Changing, begun: list[_Begun]
) -> Leg:
    """Carry out the change, and return the next leg. ``begun`` gets its first parts."""
    root, job_id = run.root, run.job_id

    def go_on(plan: PhysicalPlan, log: NoticeLog | None) -> _Begun:
        settings = root.settings()
        name, master = settings["executor"], settings["master"]
        runner = open_for_job(
            plan, name, master, config, job_id, has_claimed=True, former=leg.executor
        )
        begun.append(_begun(run, plan, runner, config, leg, log))
        return begun[0]

    def call_hosts(plan: PhysicalPlan, state: StateCopied) -> None:
        if changing.keeps_code:
            go_on(plan, leg.driver.log).driver.call_hosts(state)

    following = Following(leg.driver.job, leg.driver.log, changing.drawn, call_hosts)
    following.tidy.append(leg.driver.delete_obsolete)
    left = CHANGE_TRIES_MAX - run.changes_tried
    shell = Shell(following=following, stopped_because=changing.stopped_because)
    outcome = change_now(root, tries_left=left, shell=shell)
    is_open = outcome is None and pending(root.store) is not None
    run.changes_tried = run.changes_tried + 1 if is_open else 0
    plan = root.read_plan(to_run=True)
    assert plan is not None
    if not following.has_begun:  # close the log, so that the next driver can read it
        following.log.close(flush=False)
        root.claim(SystemClock().now_us(), after=root.epoch)
    first = begun[0] if begun else go_on(plan, following.log if following.has_begun else None)
    run.is_changing = False
    is_at_cut = outcome is not None and outcome["state"] == "done"
    return _completed(
        run,
        plan,
        first,
        config,
        resumed=True,
        former=leg,
        following=following,
        is_at_cut=is_at_cut,
    )
