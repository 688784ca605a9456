"""Running queries: :func:`run`, :func:`resume`, and the :class:`Job` they give.

This is the composition root: the only place where a plan, an executor, a root and a driver meet.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from jobmanager.config import JobConfig
from jobmanager.delivery.output_tap import Endpoints
from jobmanager.driver.driver import Driver
from jobmanager.driver.engine import ExecutorName, check_executor, master_of, open_for_job
from jobmanager.driver.finishing import check_can_finish
from jobmanager.driver.job_deliveries import JobDeliveries
from jobmanager.driver.notes import FINISHED, Notes, warn_of
from jobmanager.driver.subscription import Subscription
from jobmanager.errors import JobFailedError, OutputTakenError, as_job_failure
from jobmanager.manager.manager import JobManager
from jobmanager.options import (
    RunOptions,
    applied,
    configured,
    merged,
    planned,
    recorded,
)
from jobmanager.state.topology import Topology
from jobmanager.storage.output_check import OutputCheck
from jobmanager.storage.output_claim import (
    claim_output,
    complete_output,
    is_complete,
)
from jobmanager.storage.ownership import give_back, owned
from jobmanager.storage.places import plan_at_absolute_paths, unplaced
from jobmanager.storage.query_file import changed_note
from jobmanager.storage.root import JobRoot, display_uri
from planner import Query, Stream
from planner.physical.lower import lower
from rstream.clock import SystemClock
from rstream.errors import OperatingError, StreamEngineError, UsageError

if TYPE_CHECKING:
    from jobmanager.storage.query_file import QueryFile
    from planner.cost.options import Parallelism
    from planner.physical.plan import PhysicalPlan
    from rvertex.host.executor import Executor

StatusCallback = Callable[[dict[str, Any]], None]
DEFAULT_JOBS_FOLDER = "streamscope-jobs"
#: An interrupt that arrives just as a wait begins is noticed when that ends.
_WAIT_SLICE_S = 0.5


class Job:
    """A job that runs in the background of this process."""

    def __init__(
        self,
        root: JobRoot,
        plan: PhysicalPlan,
        on_status: StatusCallback | None,
        *,
        status: dict[str, Any] | None = None,
        created_s: float = 0.0,
        notes: Notes | None = None,
    ) -> None:
        self.root = display_uri(root.uri)
        self.plan = plan
        self._root = root
        self._on_status = on_status
        self._status = status or {"job": root.name, "state": "starting", "error": ""}
        self._notes = (notes or Notes()).to_json()
        self._status |= self._notes
        self._clock = SystemClock()
        self._created_s = created_s
        #: Not a join of the thread: an interrupted join takes the thread for dead.
        self._ended = threading.Event()
        if status is not None:
            self._ended.set()
        self._driver: Driver | None = None
        self._deliveries: JobDeliveries | None = None
        #: The driver's own view, without deliveries.
        self._computed: dict[str, Any] = {}
        self._crash: BaseException | None = None

    @property
    def output(self) -> str:
        """The folder of the answer."""
        return display_uri(self.plan.output)

    def status(self) -> dict[str, Any]:
        """The latest status; see ``jobmanager status``."""
        return dict(self._status)

    def cancel(self) -> None:
        """Ask the job to end; :meth:`wait` returns when it has. Afterwards nothing happens."""
        if self._driver is not None:
            self._driver.cancel()
        if self._deliveries is not None:
            self._deliveries.cancel()

    def stop(self, *, finish: bool = False) -> None:
        """Ask the job to stop; :meth:`wait` returns when it has. ``resume`` goes on with it.

        Its vertices take a last checkpoint, and what they wrote becomes durable. ``finish``: its
        sources end where their logs end by now, so that windows close and the job finishes.

        Raises:
            CannotFinishError: a source cannot end before its input does.
        """
        if finish:
            check_can_finish(self.plan, self.root)
        if self._driver is not None:
            self._driver.finish() if finish else self._driver.stop()
        if self._deliveries is not None and self._driver is not None and self._driver.ended_s:
            self._deliveries.cancel()  # they alone go on

    def subscribe(
        self, *, start: Mapping[int, int] | None = None, progress: bool = False
    ) -> Subscription:
        """The output as it becomes visible, from the first event on: an iterator of Arrow batches.

        It goes on through failures without gap or repeat, and ends with the job; of a job that has
        ended it gives what is durable. ``start``: by partition, the seq to begin with
        (``positions`` of an earlier subscription). ``progress``: CTIs too.
        """
        driver = self._driver
        return Subscription(
            self.plan,
            endpoints=Endpoints() if driver is None else driver.endpoints,
            secret="" if driver is None else driver.secret,
            has_ended=self._ended.is_set,
            raise_failure=lambda: self.wait(0),
            start=start or {},
            progress=progress,
        )

    def wait(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait until the job has ended and give its last status.

        Raises:
            JobFailedError: it failed; ``jobmanager resume`` can go on with it.
            TimeoutError: it is still running after ``timeout_s``.
        """
        ends_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        slice_s = _WAIT_SLICE_S if timeout_s is None else min(_WAIT_SLICE_S, timeout_s)
        while not self._ended.wait(slice_s):
            if ends_s is not None and self._clock.monotonic_s() >= ends_s:
                raise TimeoutError(f"job {self._root.name} still runs after {timeout_s} s")
        if self._crash is not None:
            raise as_job_failure(self._root.name, self._crash)
        if self._status["state"] == "failed":
            raise JobFailedError(self._root.name, self._status["error"])
        return self.status()

    def _start(self, driver: Driver, deliveries: JobDeliveries, *, resumed: bool) -> None:
        def body() -> None:
            try:
                deliveries.start()
                driver.run(resumed=resumed)
                self._finish(deliveries)
            except BaseException as error:
                self._crash = error
                self._status = {**self._status, "state": "failed", "error": str(error)}
                self._root.record_failure(str(error), self._clock.now_us())
            finally:
                deliveries.stop()
                give_back(self._root)
                self._ended.set()

        self._driver, self._deliveries = driver, deliveries
        threading.Thread(target=body, name=f"driver-{self._root.name}", daemon=True).start()

    def _take_status(self, status: dict[str, Any]) -> None:
        """The driver's view, with what only the job knows added; also written to the root."""
        assert self._driver is not None
        assert self._deliveries is not None
        self._computed = status
        now_s = self._clock.monotonic_s()
        started_s = self._driver.started_s or now_s
        self._status = {
            "job": self._root.name,
            **status,
            **self._deliveries.view(status),
            "elapsed_s": round((self._driver.ended_s or now_s) - started_s, 3),
            "startup_s": round(started_s - self._created_s, 3),
            "root": self.root,
            "output": self.output,
            **self._notes,
        }
        if self._on_status is not None:
            self._on_status(self.status())
        self._root.write_status(self._status)

    def _finish(self, deliveries: JobDeliveries) -> None:
        if self._computed["state"] == "finished":
            complete_output(self.plan, self._status)
            deliveries.finish(self._report_again)
        else:
            deliveries.stop()
        if self.plan.deliveries:
            self._report_again()

    def _report_again(self) -> None:
        """Write the status with the deliveries as they are now.

        Raises:
            JobRunningError: another job manager has taken over.
        """
        with contextlib.suppress(OperatingError):  # the next tick, or resume, tries again
            self._root.check_owner()
            self._take_status({**self._computed, "written_us": self._clock.now_us()})


def run(
    query: Query | Stream,
    *,
    root: str | None = None,
    executor: ExecutorName = "spark",
    master: str | None = None,
    parallelism: Parallelism | None = None,
    hosts: int | None = None,
    paced: float | None = None,
    config: JobConfig | None = None,
    on_status: StatusCallback | None = None,
    query_file: QueryFile | None = None,
    **options: Unpack[RunOptions],
) -> Job:
    """Start a job and return at once.

    ``root``: folder (any fsspec uri) for checkpoints, streams and, by default, the output; a new
    one below ``./streamscope-jobs`` if not given. ``parallelism``: vertices per keyed stage;
    "auto": per stage what the cost model recommends, which follows from the data alone. ``master``:
    without it, that of the active SparkContext, of spark-submit, or of Spark's configuration.
    ``paced``: replay the sources this many times faster than real time. ``options``: how it
    recovers, checks and remembers (:class:`jobmanager.options.RunOptions`). ``query_file``: where
    the query was read from; ``resume`` says if the file has changed since.

    Raises:
        UsageError: what is wrong with the query, the root or the output, before anything runs.
    """
    config = applied(configured(config or JobConfig(), parallelism, hosts, paced), options)
    job_root = JobRoot(root or f"{DEFAULT_JOBS_FOLDER}/{_fresh_name()}")
    check_executor(executor, job_root.uri)
    query = _query_of(query)
    clock, job_id = SystemClock(), uuid.uuid4().hex
    created_s, now_us = clock.monotonic_s(), clock.now_us()
    if not config.host.fsync:
        job_root.without_fsync()
    job_root.check_free(now_us)
    plan = _lowered(query, job_root, config)
    plan = planned(plan, options, is_new=True)
    try:
        runner = open_for_job(plan, executor, master, config, job_id)
    except OutputTakenError:
        job_root.check_free(now_us)  # it may be another run of this root that was faster
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
        "query_file": None if query_file is None else query_file.to_json(),
    }
    with owned(job_root):
        job_root.create(query, settings, now_us=now_us)
        job = Job(job_root, plan, on_status, created_s=created_s, notes=Notes(plan.notes))
        return _launch(job, runner, config, job_id, resumed=False)


def resume(
    root: str,
    *,
    executor: ExecutorName | None = None,
    master: str | None = None,
    hosts: int | None = None,
    config: JobConfig | None = None,
    on_status: StatusCallback | None = None,
    trust: bool = False,
    accept_changed_inputs: bool = False,
    **options: Unpack[RunOptions],
) -> Job:
    """Go on with a job that was stopped, cancelled, failed, or lost its job manager.

    A job that has finished stays as it is; nothing is started for it. It goes on with the query as
    it was when it began, and with the input files of its plan: one that has changed since is
    refused, unless you ``accept_changed_inputs``, as you have only mended rows that it could not
    read. ``trust``: run the code in the root though others may have written there.

    Raises:
        NoJobError: the root holds no job.
        UntrustedRootError: others may have written there.
        BrokenFileError: a file that is needed is gone or broken.
        JobFormatError: it holds one of another version.
        JobRunningError: a live job manager works on it.
    """
    job_root = JobRoot(root, trust=trust)
    job_root.check_trusted()
    settings = job_root.readable_settings()
    config = configured(config or JobConfig(), settings["parallelism"], hosts, settings["paced"])
    options = merged(settings.get("options", {}), options)
    config = applied(config, options)
    if not config.host.fsync:
        job_root.without_fsync()
    check_executor(executor or settings["executor"], job_root.uri)
    file_note = changed_note(settings.get("query_file"))
    if (finished := _finished(job_root, file_note)) is not None:
        return finished
    created_s, job_id = SystemClock().monotonic_s(), settings["id"]
    with owned(job_root):
        for request in job_root.requests():
            job_root.forget_request(request)
        try:
            plan = job_root.read_plan()
            has_started = plan is not None
            notes: tuple[str, ...] = ()
            if plan is None:
                plan = _lowered(job_root.read_query(), job_root, config)
            else:
                plan, notes = job_root.with_inputs(plan, accepts_changes=accept_changed_inputs)
            plan = planned(plan, options, is_new=not has_started)
            name, old = executor or settings["executor"], settings["master"]
            runner = open_for_job(plan, name, master, config, job_id, old, has_claimed=has_started)
        except StreamEngineError as error:
            job_root.record_failure(str(error), SystemClock().now_us())
            raise
        told = Notes((*plan.notes, *notes), file_note)
        job = Job(job_root, plan, on_status, created_s=created_s, notes=told)
        return _launch(job, runner, config, job_id, resumed=has_started)


def _query_of(given: Query | Stream) -> Query:
    query = given.to_parquet() if isinstance(given, Stream) else given
    if not isinstance(query, Query):
        raise UsageError(f"run() takes a Query or a Stream, not {given!r}")
    return query


def _lowered(query: Query, root: JobRoot, config: JobConfig) -> PhysicalPlan:
    uri, is_paced = display_uri(root.uri), config.host.pace > 0
    plan = lower(query, root=uri, parallelism=config.parallelism, is_paced=is_paced)
    return plan_at_absolute_paths(plan)


def _finished(root: JobRoot, file_note: str | None) -> Job | None:
    """The job if it has finished, and its output is marked as complete and still is."""
    status, plan = root.read_status(), root.read_plan()
    if plan is None or status.get("state") != "finished" or not is_complete(plan.output):
        return None
    if not OutputCheck(plan).is_intact():
        return None
    notes = Notes((*plan.notes, FINISHED), file_note)
    return Job(root, plan, None, status=status, notes=notes)


def _launch(job: Job, runner: Executor, config: JobConfig, job_id: str, *, resumed: bool) -> Job:
    try:
        claim_output(job.plan.output, job.root, job_id, has_claimed=resumed)
        if not resumed:
            job._root.write_plan(job.plan)  # from here on the root holds a job that has started
        driver = Driver(
            root=job._root,
            manager=JobManager(Topology(job.plan.vertices), config, checks_output=True),
            executor=runner,
            config=config,
            clock=SystemClock(),
            on_status=job._take_status,
            check_outputs=OutputCheck(job.plan),
        )
        deliveries = JobDeliveries(job.plan, job._root, job_id, driver, config)
    except StreamEngineError as error:
        job._root.record_failure(str(error), SystemClock().now_us())
        raise
    if job._on_status is None:
        warn_of(job._notes["notes"])  # may raise, so nothing runs yet
    job._start(driver, deliveries, resumed=resumed)
    return job


def _fresh_name() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
