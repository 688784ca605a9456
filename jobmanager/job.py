"""Running queries: :func:`run`, :func:`resume`, :func:`collect`, and the :class:`Job` they give.

This is the composition root: the only place where a plan, an executor, a root and a driver meet.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from jobmanager.config import JobConfig
from jobmanager.driver import Driver
from jobmanager.errors import JobFailedError, JobRunningError
from jobmanager.manager import JobManager
from jobmanager.options import (
    RunOptions,
    applied,
    check_hosts,
    configured,
    merged,
    planned,
    recorded,
)
from jobmanager.options import replicas_max as replicas_of
from jobmanager.output import claim_output, is_complete, mark_success, refuse_taken_output
from jobmanager.ownership import give_back, owned
from jobmanager.root import JobRoot, display_uri
from jobmanager.subscription import Sites, Subscription
from jobmanager.topology import Topology
from planner import Query, Stream
from planner.lower import lower
from rstream import read_events
from rstream.batch import VS
from rstream.clock import SystemClock
from rstream.errors import OperatingError, StreamEngineError, UsageError
from rstream.overlap import remove_overlap
from rvertex.executor import Executor, LocalExecutor

if TYPE_CHECKING:
    from planner.options import Parallelism
    from planner.physical import PhysicalPlan
    from rvertex.types import VertexSpec

ExecutorName = Literal["spark", "local"]
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
    ) -> None:
        self.root = display_uri(root.uri)
        self.plan = plan
        self._root = root
        self._on_status = on_status
        self._status = status or {"job": root.name, "state": "starting", "error": ""}
        self._clock = SystemClock()
        self._created_s = created_s
        #: Not a join of the thread: an interrupted join takes the thread for dead.
        self._ended = threading.Event()
        if status is not None:
            self._ended.set()
        self._driver: Driver | None = None
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
            sites=Sites() if driver is None else driver.sites,
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
            raise _failure(self._root.name, self._crash)
        if self._status["state"] == "failed":
            raise JobFailedError(self._root.name, self._status["error"])
        return self.status()

    def _start(self, driver: Driver, *, resumed: bool) -> None:
        def body() -> None:
            try:
                driver.run(resumed=resumed)
                self._finish()
            except BaseException as error:
                self._crash = error
                self._status = {**self._status, "state": "failed", "error": str(error)}
                _record_failure(self._root, str(error))
            finally:
                give_back(self._root)
                self._ended.set()

        self._driver = driver
        threading.Thread(target=body, name=f"driver-{self._root.name}", daemon=True).start()

    def _take_status(self, status: dict[str, Any]) -> None:
        """The driver's view, with what only the job knows added; also written to the root."""
        assert self._driver is not None
        now_s = self._clock.monotonic_s()
        started_s = self._driver.started_s or now_s
        self._status = {
            "job": self._root.name,
            **status,
            "elapsed_s": round((self._driver.ended_s or now_s) - started_s, 3),
            "startup_s": round(started_s - self._created_s, 3),
            "root": self.root,
            "output": self.output,
        }
        if self._on_status is not None:
            self._on_status(self.status())
        self._root.write_status(self._status)

    def _finish(self) -> None:
        if self._status["state"] == "finished":
            sides = [pair for pairs in self.plan.side_streams().values() for pair in pairs]
            for _, uri in (*self.plan.sink_streams(), *sides):
                remove_overlap(uri)
            keys = ("job", "events_out", "output_digest")
            sinks = [uri for _, uri in self.plan.sink_streams()]
            mark_success(self.output, {k: self._status[k] for k in keys}, sinks)


def _failure(job: str, crash: BaseException) -> BaseException:
    """What ended a job manager, as its caller must take it: what the outside did can be resumed."""
    if isinstance(crash, OperatingError) and not isinstance(crash, JobFailedError):
        return JobFailedError(job, f"{crash} (jobmanager resume goes on with it)")
    return crash


def run(
    query: Query | Stream,
    *,
    root: str | None = None,
    executor: ExecutorName = "spark",
    master: str = "local[*]",
    parallelism: Parallelism | None = None,
    hosts: int | None = None,
    paced: float | None = None,
    config: JobConfig | None = None,
    on_status: StatusCallback | None = None,
    **options: Unpack[RunOptions],
) -> Job:
    """Start a job and return at once.

    ``root``: folder (any fsspec uri) for checkpoints, streams and, by default, the output; a new
    one below ``./streamscope-jobs`` if not given. ``parallelism``: vertices per keyed stage;
    "auto": per stage what the cost model recommends, which follows from the data alone.
    ``paced``: replay the sources this many times faster than real time. ``options``: how it
    recovers, checks and remembers (:class:`jobmanager.options.RunOptions`).

    Raises:
        UsageError: what is wrong with the query, the root or the output, before anything runs.
    """
    config = applied(configured(config or JobConfig(), parallelism, hosts, paced), options)
    job_root = JobRoot(root or f"{DEFAULT_JOBS_FOLDER}/{_fresh_name()}")
    _check_executor(executor, job_root.uri)
    query = query.to_parquet() if isinstance(query, Stream) else query
    if not isinstance(query, Query):
        raise UsageError(f"run() takes a Query or a Stream, not {query!r}")
    created_s, now_us, job_id = (
        SystemClock().monotonic_s(),
        SystemClock().now_us(),
        uuid.uuid4().hex,
    )
    job_root.check_free(now_us)
    plan = _lowered(query, job_root, config)
    plan = planned(plan, options, is_new=True)
    runner = _runner(plan, executor, master, config, job_id)
    settings = {
        "job": job_root.name,
        "id": job_id,
        "created_us": now_us,
        "parallelism": config.parallelism,
        "executor": executor,
        "master": master,
        "paced": config.host.pace or None,
        "options": recorded(options),
    }
    with owned(job_root):
        job_root.create(query, settings, now_us=now_us)
        job = Job(job_root, plan, on_status, created_s=created_s)
        return _launch(job, runner, config, job_id, resumed=False)


def resume(
    root: str,
    *,
    executor: ExecutorName | None = None,
    master: str | None = None,
    hosts: int | None = None,
    config: JobConfig | None = None,
    on_status: StatusCallback | None = None,
    **options: Unpack[RunOptions],
) -> Job:
    """Go on with a job that failed, was cancelled, or lost its job manager.

    A job that has finished stays as it is; nothing is started for it.

    Raises:
        NoJobError: the root holds no job.
        JobFormatError: it holds one of another version.
        JobRunningError: a live job manager works on it.
    """
    job_root = JobRoot(root)
    settings = job_root.readable_settings()
    config = configured(config or JobConfig(), settings["parallelism"], hosts, settings["paced"])
    options = merged(settings.get("options", {}), options)
    config = applied(config, options)
    _check_executor(executor or settings["executor"], job_root.uri)
    finished = _finished(job_root)
    if finished is not None:
        return finished
    created_s, job_id = SystemClock().monotonic_s(), settings["id"]
    with owned(job_root):
        for request in job_root.requests():
            job_root.forget_request(request)
        try:
            plan = job_root.read_plan()
            has_started = plan is not None
            if plan is None:
                query = job_root.read_query()
                plan = _lowered(query, job_root, config)
            plan = planned(plan, options, is_new=not has_started)
            where = executor or settings["executor"], master or settings["master"]
            runner = _runner(plan, *where, config, job_id)
        except StreamEngineError as error:
            _record_failure(job_root, str(error))
            raise
        job = Job(job_root, plan, on_status, created_s=created_s)
        return _launch(job, runner, config, job_id, resumed=has_started)


def _lowered(query: Query, root: JobRoot, config: JobConfig) -> PhysicalPlan:
    uri, is_paced = display_uri(root.uri), config.host.pace > 0
    return lower(query, root=uri, parallelism=config.parallelism, is_paced=is_paced)


def _finished(root: JobRoot) -> Job | None:
    """The job if it has finished and its output is marked as complete."""
    status, plan = root.read_status(), root.read_plan()
    if plan is None or status.get("state") != "finished" or not is_complete(plan.output):
        return None
    return Job(root, plan, None, status=status)


def _runner(
    plan: PhysicalPlan, executor: ExecutorName, master: str, config: JobConfig, job_id: str
) -> Executor:
    """What is to run the plan; refused before anything runs."""
    refuse_taken_output(plan.output, job_id)
    runner = _open_executor(executor, plan, master, config)
    check_hosts(plan, runner.hosts)
    return runner


def _launch(job: Job, runner: Executor, config: JobConfig, job_id: str, *, resumed: bool) -> Job:
    try:
        claim_output(job.plan.output, job.root, job_id)
        if not resumed:
            job._root.write_plan(job.plan)  # from here on the root holds a job that has started
        driver = Driver(
            root=job._root,
            manager=JobManager(Topology(job.plan.vertices), config),
            executor=runner,
            config=config,
            clock=SystemClock(),
            on_status=job._take_status,
        )
    except StreamEngineError as error:
        _record_failure(job._root, str(error))
        raise
    job._start(driver, resumed=resumed)
    return job


def _open_executor(
    name: ExecutorName, plan: PhysicalPlan, master: str, config: JobConfig
) -> Executor:
    vertices: dict[str, VertexSpec] = {v.id: v for v in plan.vertices}
    if name == "local":
        return LocalExecutor(vertices, hosts=config.hosts or replicas_of(plan))
    from rvertex.spark import SparkExecutor  # starting Java is not for every command

    return SparkExecutor(
        vertices, master=master, hosts=config.hosts, daemon_module="jobmanager.spark_daemon"
    )


def _check_executor(name: str, root: str) -> None:
    if name not in ("spark", "local"):
        raise UsageError(f"executor {name!r}: choose spark or local")
    if name == "spark" and root.startswith("memory:"):
        raise UsageError(
            f"root {root}: memory is not shared between processes; it serves executor local only"
        )


def _record_failure(root: JobRoot, error: str) -> None:
    """Write it to the status, unless the root is another's by now, or the store what failed."""
    with contextlib.suppress(JobRunningError, OperatingError):
        root.check_owner()
        status = {**root.read_status(), "job": root.name, "state": "failed", "error": error}
        root.write_status(
            {"root": display_uri(root.uri), "written_us": SystemClock().now_us(), **status}
        )


def _fresh_name() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"


def collect(
    stream: Stream,
    *,
    executor: ExecutorName = "local",
    master: str = "local[*]",
    parallelism: Parallelism | None = None,
    config: JobConfig | None = None,
) -> pa.Table:
    """Run ``stream`` on its finite sources and give its events.

    Columns ``_vs, _ve`` and the payload, in sequence order: the sink vertices' streams are merged
    as MERGE would, by (_vs, sink vertex, seq).
    """
    if not isinstance(stream, Stream):
        raise UsageError(
            f"collect() takes a Stream (without .to_parquet()), not a {type(stream).__name__}; "
            ".window(...).agg(...) makes one of a group_by"
        )
    with tempfile.TemporaryDirectory(prefix="streamscope-") as folder:
        job = run(
            stream.to_parquet(),
            root=f"{folder}/collect",
            executor=executor,
            master=master,
            parallelism=parallelism,
            config=config,
        )
        job.wait()
        tables = [read_events(uri) for _, uri in job.plan.sink_streams()]
    table = pa.concat_tables(tables)
    order = pc.sort_indices(table[VS].combine_chunks()) if table.num_rows else None
    return table if order is None else table.take(order)
