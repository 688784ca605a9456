"""Selects where the vertices of a job run: on Spark, or on threads of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from jobmanager.config import SPARK_DAEMON
from jobmanager.options import check_hosts, replicas_max
from jobmanager.storage.output_claim import refuse_taken_output
from rstream.errors import UsageError
from rstream.transport.tls import check_tls
from rvertex.host.executor import Executor, LocalExecutor
from rvertex.user_code.modules import shipped_modules

if TYPE_CHECKING:
    from jobmanager.config import JobConfig
    from planner.physical.plan import PhysicalPlan
    from rvertex.vertex.spec import VertexSpec

ExecutorName = Literal["spark", "local"]
#: Most hosts in one process. Many more cause a segmentation fault.
LOCAL_HOSTS_MAX = 128


def check_executor(name: str, root: str) -> None:
    """Check that the executor exists, and that its processes can reach the root and each other.

    Raises:
        UsageError: the check failed.
    """
    if name not in ("spark", "local"):
        raise UsageError(f"executor {name!r}: choose spark or local")
    if name == "spark" and root.startswith("memory:"):
        raise UsageError(
            f"root {root}: memory is not shared between processes; use executor='local', "
            "or a root on disk"
        )
    check_tls()


def open_executor(
    name: ExecutorName,
    plan: PhysicalPlan,
    master: str | None,
    config: JobConfig,
    fallback: str | None,
    former: Executor | None = None,
) -> Executor:
    """Open the executor for ``plan``. ``spark_context`` documents masters.

    ``former``: the job's previous executor, whose processes may wait for other hosts.

    Raises:
        UsageError, OperatingError: Spark is missing, does not start, or has another master.
    """
    vertices: dict[str, VertexSpec] = {v.id: v for v in plan.vertices}
    if name == "local":
        hosts = config.hosts or replicas_max(plan)
        if hosts > LOCAL_HOSTS_MAX:
            raise UsageError(
                f"hosts={hosts}: one process has room for {LOCAL_HOSTS_MAX}, each with its threads "
                "and a server; give fewer --hosts, or --executor spark"
            )
        return LocalExecutor(vertices, hosts=hosts)
    from rvertex.host.spark import SparkExecutor, spark_context  # not every command needs it

    former = former if isinstance(former, SparkExecutor) else None
    # Waiting processes have imported the user's modules already
    if former is None or not former.has_parked:
        context = spark_context(master, SPARK_DAEMON, fallback=fallback)
        for archive in shipped_modules(config.py_files):
            context.addPyFile(archive)
    return SparkExecutor(
        vertices,
        master=master,
        hosts=config.hosts,
        daemon_module=SPARK_DAEMON,
        fallback=fallback,
        former=former,
    )


def warm_up(name: ExecutorName, master: str | None, fallback: str | None) -> None:
    """Start Spark and its Python workers ahead of time. ``spark_context`` documents masters.

    Raises:
        OperatingError: Spark is missing or does not start.
    """
    if name == "local":
        return
    from rvertex.host.spark import spark_context  # not every command needs Java

    context = spark_context(master, SPARK_DAEMON, fallback=fallback)
    slots = context.defaultParallelism
    context.parallelize(range(slots), slots).foreach(lambda _: None)


def open_for_job(
    plan: PhysicalPlan,
    executor: ExecutorName,
    master: str | None,
    config: JobConfig,
    job_id: str,
    fallback: str | None = None,
    *,
    has_claimed: bool = False,
    former: Executor | None = None,
) -> Executor:
    """Open the executor for a job, after all checks. ``has_claimed``: the job has run before.

    ``former``: see :func:`open_executor`.
    """
    for output in plan.of_outputs:
        refuse_taken_output(output.output, plan.root, job_id, has_claimed=has_claimed)
    runner = open_executor(executor, plan, master, config, fallback, former)
    check_hosts(plan, runner.hosts)
    return runner


def master_of(runner: Executor, requested: str | None) -> str | None:
    """Return the master to record: Spark's actual master; with a local executor the given one."""
    master: str | None = getattr(runner, "master", requested)
    return master
