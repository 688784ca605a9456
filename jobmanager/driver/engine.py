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
#: Hosts in one process: many more end it with a segmentation fault.
LOCAL_HOSTS_MAX = 128


def check_executor(name: str, root: str) -> None:
    """There is such an executor, its processes can reach the root, and each other.

    Raises:
        UsageError: not so.
    """
    if name not in ("spark", "local"):
        raise UsageError(f"executor {name!r}: choose spark or local")
    if name == "spark" and root.startswith("memory:"):
        raise UsageError(
            f"root {root}: memory is not shared between processes; it serves executor local only"
        )
    check_tls()


def open_executor(
    name: ExecutorName,
    plan: PhysicalPlan,
    master: str | None,
    config: JobConfig,
    fallback: str | None,
) -> Executor:
    """The executor for ``plan``; ``spark_context`` says what masters mean.

    Raises:
        UsageError, OperatingError: Spark is not to be had, or not so.
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
    from rvertex.host.spark import SparkExecutor, spark_context  # not for every command

    context = spark_context(master, SPARK_DAEMON, fallback=fallback)
    for archive in shipped_modules(config.py_files):
        context.addPyFile(archive)
    return SparkExecutor(
        vertices,
        master=master,
        hosts=config.hosts,
        daemon_module=SPARK_DAEMON,
        fallback=fallback,
    )


def warm_up(name: ExecutorName, master: str | None, fallback: str | None) -> None:
    """Have what a job will run on: Spark with its Python workers; ``spark_context`` says where.

    Raises:
        OperatingError: Spark is not to be had.
    """
    if name == "local":
        return
    from rvertex.host.spark import spark_context  # starting Java is not for every command

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
) -> Executor:
    """What is to run the plan; refused before anything runs. ``has_claimed``: it has run before."""
    for output in plan.of_outputs:
        refuse_taken_output(output.output, plan.root, job_id, has_claimed=has_claimed)
    runner = open_executor(executor, plan, master, config, fallback)
    check_hosts(plan, runner.hosts)
    return runner


def master_of(runner: Executor, asked: str | None) -> str | None:
    """The master to record: the one that Spark has; of a local executor the one that was named."""
    found: str | None = getattr(runner, "master", asked)
    return found
