"""Runs queries: :func:`run` starts a job, :func:`resume` continues one.

This is the composition root: the only module that connects a plan, an executor, a root and a
driver. A *continued* job processes the files that exist and stops with its state kept. Its next run
processes the files that arrived since (:mod:`jobmanager.driver.running.days`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from jobmanager.config import JobConfig
from jobmanager.delivery.publishing import check_publishing
from jobmanager.driver.engine import ExecutorName, check_executor, master_of, open_for_job
from jobmanager.driver.job import Job
from jobmanager.driver.job_run import JobRun, Leg, StatusCallback
from jobmanager.driver.notes import FINISHED, Notes, warn_of
from jobmanager.driver.running import days
from jobmanager.driver.running.added_partitions import (
    with_added_partitions,
)
from jobmanager.driver.running.changes.scaling.widths import check_policy
from jobmanager.driver.running.changes.stopped import change_now
from jobmanager.driver.running.deploying import rescale_stopped
from jobmanager.driver.running.inputs import has_inputs, lowered, with_inputs_in
from jobmanager.driver.running.legs import leg_after, leg_of
from jobmanager.errors import OutputTakenError
from jobmanager.options import (
    RunOptions,
    applied,
    configured,
    for_plan,
    merged,
    planned,
    recorded,
)
from jobmanager.state.job_state import OPEN_STATES
from jobmanager.storage.output_check import OutputCheck
from jobmanager.storage.output_claim import claim_output, is_complete
from jobmanager.storage.ownership import owned, upgrade
from jobmanager.storage.places import DEFAULT_JOBS_FOLDER, unplaced
from jobmanager.storage.query_file import changed_note, folders_of
from jobmanager.storage.root import DRAIN, FINISH, JobRoot, delivery_id, display_uri
from planner import Query, Stream
from planner.logical.growing_files import with_growing_files
from planner.logical.query import together
from rstream.clock import SystemClock
from rstream.errors import StreamEngineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobmanager.storage.query_file import QueryFile
    from planner.cost.parallelism import Parallelism
    from rvertex.host.executor import Executor

#: Queries of one job.
Several = Mapping[str, Query | Stream] | list[Query | Stream] | tuple[Query | Stream, ...]
_STILL_ASKED = "a request to {what} the job was pending when its job manager died; it is done now"
_GO_ON = "; resume it again to continue"


def run(
    query: Query | Stream | Several | None = None,
    *,
    root: str | None = None,
    executor: ExecutorName | None = None,
    master: str | None = None,
    parallelism: Parallelism | None = None,
    hosts: int | None = None,
    paced: float | None = None,
    config: JobConfig | None = None,
    on_status: StatusCallback | None = None,
    query_file: QueryFile | None = None,
    continue_: bool = False,
    finish: bool = False,
    **options: Unpack[RunOptions],
) -> Job:
    """Start a job and return at once.

    ``query``: one query. A list of queries, or a dict from names to queries, is one job with an
    output for each. Shared sources and stages run once. The output folders are ``output-1``,
    ``output-2``, or ``output-NAME``; :meth:`Job.outputs` reads them.
    ``root``: folder (any fsspec uri) for checkpoints, streams and, by default, the output; default:
    a new folder below ``./streamscope-jobs``. ``parallelism``: vertices per keyed stage; "auto":
    the cost model chooses a number per stage from the data. ``master``: default: that of the active
    SparkContext, of spark-submit, or of Spark's configuration. ``paced``: replay the sources this
    many times faster than real time. ``options``: recovery, checks and retention
    (:class:`jobmanager.options.RunOptions`). ``query_file``: the file of the query; ``resume``
    reports whether it has changed since.

    ``continue_=True``: run day by day. The job processes the files that exist and stops with its
    state kept, so open windows stay open. The next run with the same ``root`` processes the files
    that arrived since; ``query`` is then optional. The results of all days together equal those of
    one run over all files. ``finish=True`` on the last day ends the sources, so windows close.

    Raises:
        UsageError: an error in the query, the root or the output; nothing has run.
    """
    given = None if query is None else _query_of(query)
    launch = _Launch(executor, master, on_status, options)
    if days.is_begun(root, continue_=continue_, finish=finish, has_query=given is not None):
        assert root is not None
        day = days.Day(given, finish)
        return _go_on(JobRoot(root), launch, hosts, config, day=day)
    if given is None:
        raise UsageError("run() needs a query unless continue_=True")
    query = with_growing_files(given) if continue_ else given
    config = applied(configured(config or JobConfig(), parallelism, hosts, paced), options)
    config = config.until_end("finish" if finish else "stop") if continue_ else config
    job_root = JobRoot(root or f"{DEFAULT_JOBS_FOLDER}/{_fresh_name()}")
    kept = None if query_file is None else query_file.to_json()
    folders = folders_of(query_file)
    settings = {"query_file": kept, "folders": folders, days.SETTING: continue_}
    return _begin(query, job_root, launch, config, settings)


def resume(
    root: str,
    *,
    executor: ExecutorName | None = None,
    master: str | None = None,
    hosts: int | None = None,
    config: JobConfig | None = None,
    on_status: StatusCallback | None = None,
    parallelism: int | None = None,
    trust: bool = False,
    accept_changed_inputs: bool = False,
    **options: Unpack[RunOptions],
) -> Job:
    """Continue a job that was stopped or cancelled, has failed, or whose job manager died.

    A finished job stays as it is, and nothing is started. The job continues with the query of its
    start and with the input files of its plan. If one of these files has changed, the call fails,
    unless you set ``accept_changed_inputs``. Do that only if you corrected rows that the job could
    not read. ``trust``: run the code in the root even if others may have written it.
    ``parallelism``: a new number of vertices per keyed stage, if the job stopped cleanly.

    Raises:
        NoJobError: the root holds no job.
        NotByKeyError, NotACutError: stages cannot get another number of vertices.
        UntrustedRootError: others may have written files of the root.
        BrokenFileError: a necessary file is missing or broken.
        JobFormatError: another version of StreamScope stored the job.
        JobRunningError: a live job manager works on the root.
    """
    job_root = JobRoot(root, trust=trust)
    if parallelism is not None:
        rescale_stopped(job_root, parallelism)
    launch = _Launch(executor, master, on_status, options)
    return _go_on(job_root, launch, hosts, config, accept_changed_inputs=accept_changed_inputs)


@dataclass(frozen=True, slots=True)
class _Launch:
    """The caller's choice of executor and options, and where statuses go."""

    executor: ExecutorName | None
    master: str | None
    on_status: StatusCallback | None
    options: RunOptions


def _begin(
    query: Query, job_root: JobRoot, launch: _Launch, config: JobConfig, settings: dict[str, Any]
) -> Job:
    """Start a new job."""
    executor, master, options = launch.executor or "spark", launch.master, launch.options
    check_executor(executor, job_root.uri)
    clock, job_id = SystemClock(), uuid.uuid4().hex
    created_s, now_us = clock.monotonic_s(), clock.now_us()
    if not config.host.fsync:
        job_root.without_fsync()
    job_root.check_free(now_us)
    if not config.shared_root and has_inputs(query):
        job_root.make_private()
    query = with_inputs_in(query, job_root)
    plan = lowered(query, job_root, config)
    plan = planned(plan, options, is_new=True)
    config = for_plan(config, options, plan)
    check_policy(config.autoscale, plan)
    for output in plan.of_outputs:
        check_publishing(output, job_id)
    try:
        runner = open_for_job(plan, executor, master, config, job_id)
    except OutputTakenError:
        job_root.check_free(now_us)  # another run with this root may have been faster
        raise
    settings = {
        "job": job_root.name,
        "id": job_id,
        "created_us": now_us,
        "parallelism": config.parallelism,
        "executor": executor,
        "master": master_of(runner, master),
        "paced": config.host.pace or None,
        "options": recorded(options),
        "output": unplaced(plan.output, plan.root),
        "plan": plan.plan_hash,
        **settings,
    }
    if not config.shared_root:
        job_root.make_private()
    with owned(job_root):
        job_root.create(query, settings, now_us=now_us)
        notes = Notes(plan.notes)
        run = JobRun(job_root, plan, job_id, notes, launch.on_status, created_s)
        return _launch(run, runner, config, resumed=False)


def _go_on(
    job_root: JobRoot,
    launch: _Launch,
    hosts: int | None,
    config: JobConfig | None,
    *,
    accept_changed_inputs: bool = False,
    day: days.Day | None = None,
) -> Job:
    """Resume a job, or run the next day of a continued job."""
    job_root.check_trusted()
    settings = job_root.readable_settings()
    config = configured(config or JobConfig(), settings["parallelism"], hosts, settings["paced"])
    options, executor = merged(settings.get("options", {}), launch.options), launch.executor
    config = days.configured_for(applied(config, options), settings, day)
    if not config.host.fsync:
        job_root.without_fsync()
    check_executor(executor or settings["executor"], job_root.uri)
    file_note = changed_note(settings.get("query_file"), display_uri(job_root.uri))
    finished = _finished(job_root, file_note)
    days.check_continued(settings, job_root, day, is_over=finished is not None)
    if finished is not None:
        return finished
    created_s, job_id = SystemClock().monotonic_s(), settings["id"]
    _check_options(job_root, config, options, day, launch.options)
    if day is not None and day.query is not None:
        file_note = ""  # the file may have changed, but its query is equivalent
    is_open = job_root.read_status().get("state") in OPEN_STATES
    too_late = () if is_open else job_root.requests()
    with owned(job_root):
        still_requested = _undone_requests(job_root, too_late)
        try:
            change_now(job_root)
            plan = job_root.read_plan(to_run=True)
            has_started = plan is not None
            notes: tuple[str, ...] = ()
            if plan is None:
                plan = lowered(job_root.read_query(), job_root, config)
            else:
                plan, notes = job_root.with_inputs(plan, accepts_changes=accept_changed_inputs)
                grown, more = with_added_partitions(plan, job_root, lease_s=config.host.lease_s)
                if more:
                    job_root.replace_plan(grown)
                    plan, notes = grown, (*notes, *more)
            if accept_changed_inputs:
                plan = days.accepting_changes(plan)
            plan = planned(plan, options, is_new=not has_started)
            config = for_plan(config, options, plan)
            name, old = executor or settings["executor"], settings["master"]
            runner = open_for_job(
                plan, name, launch.master, config, job_id, old, has_claimed=has_started
            )
            upgrade(job_root)
        except StreamEngineError as error:
            job_root.record_failure(str(error), SystemClock().now_us())
            raise
        job_notes = Notes((*plan.notes, *notes, *still_requested), file_note)
        delivers_as = delivery_id(settings)
        run = JobRun(job_root, plan, job_id, job_notes, launch.on_status, created_s, delivers_as)
        return _launch(run, runner, config, resumed=has_started)


def _undone_requests(root: JobRoot, too_late: Sequence[str]) -> tuple[str, ...]:
    """Return notes on requests that a dead job manager left undone, and that are done now.

    ``too_late``: requests made after the job's end, which are deleted.
    """
    undone = []
    for request in root.requests():
        # A host to drain has shut down together with its job manager.
        if request in too_late or request.startswith(DRAIN):
            root.forget_request(request)
        else:
            undone.append(request)
    notes = (_STILL_ASKED.format(what=what) for what in undone)
    return tuple(notes) if FINISH in undone else tuple(note + _GO_ON for note in notes)


def _check_options(
    root: JobRoot,
    config: JobConfig,
    options: RunOptions,
    day: days.Day | None,
    given: RunOptions,
) -> None:
    """Check options and query against the stored plan, before the job is changed.

    ``given``: the options of this call. A stored policy may name stages of a former query.

    Raises:
        QueryChangedError: the query of the day is not equivalent to the stored query.
        UsageError: an option does not fit the plan.
    """
    then, query = root.read_plan(), None if day is None else day.query
    if then is None and query is None:
        return  # the query is planned after this process has claimed the root
    then = then or lowered(root.read_query(), root, config)
    for_plan(config, options, then)
    if given.get("autoscale") is not None:
        check_policy(config.autoscale, then)
    if query is not None:
        days.check_query(root, then, lowered(with_growing_files(query), root, config))


def _query_of(given: Query | Stream | Several) -> Query:
    if isinstance(given, Mapping):
        return together({str(name): _query_of(one) for name, one in given.items()})
    if isinstance(given, list | tuple):
        return together({str(k): _query_of(one) for k, one in enumerate(given, 1)})
    query = given.to_parquet() if isinstance(given, Stream) else given
    if not isinstance(query, Query):
        raise UsageError(f"run() takes a Query or a Stream, not {given!r}")
    return query


def _finished(root: JobRoot, file_note: str | None) -> Job | None:
    """Return the job if it has finished and its output is still complete; else None."""
    status, plan = root.read_status(), root.read_plan()
    if plan is None or status.get("state") != "finished":
        return None
    if not all(is_complete(output.output) for output in plan.of_outputs):
        return None
    if not OutputCheck(plan).is_intact():
        return None
    return Job(JobRun.over(root, plan, status, Notes((*plan.notes, FINISHED), file_note)))


def _launch(run: JobRun, runner: Executor, config: JobConfig, *, resumed: bool) -> Job:
    try:
        for output in run.plan.of_outputs:
            claim_output(
                output.output,
                display_uri(run.root.uri),
                run.job_id,
                streams=[uri for _, uri in output.sink_streams()],
                columns=output.schema,
                has_claimed=resumed,
            )
        if not resumed:
            run.root.write_plan(run.plan)  # with this file the job counts as started
        leg = leg_of(run, run.plan, runner, config, resumed=resumed)
    except StreamEngineError as error:
        run.root.record_failure(str(error), SystemClock().now_us())
        raise
    if run.on_status is None:
        warn_of(run.notes["notes"])  # a warning may be an error, so warn before anything runs

    def follow(leg: Leg, state: str) -> Leg | None:
        return leg_after(run, leg, state, config)

    run.start(leg, follow)
    return Job(run)


def _fresh_name() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
