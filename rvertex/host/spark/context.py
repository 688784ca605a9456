"""The SparkContext of a process: started at the first use, and left running for the next job."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import threading
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from rstream.clock import SystemClock
from rstream.errors import OperatingError, UsageError, error_class
from rstream.store.local_files import private_opener
from rvertex.host.spark.connections import (
    is_local,
    local_sockets,
    loopback_settings,
    silence_dead_java,
)

_CONF = {
    "spark.scheduler.mode": "FAIR",
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.python.worker.idleTimeoutSeconds": "0",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.heartbeatInterval": "2s",
    # jemalloc returns freed memory within a second; Arrow's default allocator keeps freed memory
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
    # Keep freed array memory for the next arrays: returning it and touching new pages costs more.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "spark.executorEnv.MALLOC_TOP_PAD_": str(16 << 20),
}
#: Added to the options of the driver's JVM: use only the first compiler tier. This JVM moves
#: messages and no rows, so compiling for the second tier would cost most of its time.
_JAVA_OPTIONS = ("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
#: Environment variable set by spark-submit: the port of the JVM that started this process.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
ALL_CORES = "local[*]"
LOG_KEPT_US = 7 * 86_400_000_000
#: Longest wait until a cluster has a task slot for each requested host.
EXECUTORS_WAIT_S = 60.0
_REASON_CHARS_MAX = 500
_lock = threading.Lock()
#: The context that this module has started. It stops only this one, never a context of the user.
_started: SparkContext | None = None


@error_class
class SparkUnavailableError(OperatingError):
    """Spark could not be started."""

    master: str
    reason: str
    log: str

    def __str__(self) -> str:
        return (
            f"Spark at {self.master} could not be started: {self.reason.rstrip('.')}. It needs "
            "Java 17 or newer, on the PATH or in JAVA_HOME, and a master that answers; its own log "
            f"is {self.log}"
        )


@error_class
class SparkGoneError(OperatingError):
    """The JVM that starts hosts has ended, or its SparkContext was stopped."""

    master: str
    log: str

    message = (
        "Spark at {master} is gone: its Java was killed, ran out of memory, or was "
        "stopped; its log is {log}"
    )


@error_class
class WrongMasterError(UsageError):
    """This process runs Spark on another master, in the user's context or for a running job."""

    running: str
    wanted: str

    message = (
        "this process already runs Spark on {running}; it cannot also use {wanted}: "
        "give no master, or that one, or stop that SparkContext first"
    )


def spark_log_path() -> str:
    """Return the file that Spark's own log is written to."""
    return os.path.join(tempfile.gettempdir(), f"streamscope-spark-{os.getpid()}.log")


def remove_old_logs(now_us: int) -> None:
    """Delete logs of processes that have ended, except files of other users."""
    for path in Path(tempfile.gettempdir()).glob("streamscope-spark-*.log"):
        with contextlib.suppress(OSError, ValueError):
            if path.stat().st_mtime_ns // 1_000 < now_us - LOG_KEPT_US:
                try:
                    os.kill(int(path.stem.rpartition("-")[2]), 0)
                except ProcessLookupError:
                    path.unlink()


def spark_context(
    master: str | None, daemon_module: str, *, fallback: str | None = None
) -> SparkContext:
    """Return the process's SparkContext on ``master``; start it, or move it there if it is ours.

    A context of ours moves only while it is idle. Without ``master`` the active context is used. If
    there is none, the master is the first of: the option of spark-submit, ``fallback``, Spark's
    configuration, all cores of this machine. ``daemon_module``: the module from whose process Spark
    forks Python workers.

    Raises:
        SparkUnavailableError: no Java, or the master does not answer.
        WrongMasterError: the context has another master, and it is the user's or has running jobs.
    """
    global _started
    with _lock:
        active = SparkContext._active_spark_context
        if active is not None and not _answers(active):
            _forget(active)
            active = None
        if active is not None:
            if master is None or active.master == master:
                _use_this_python(active)
                return active
            if active is not _started or active.statusTracker().getActiveJobsIds():
                raise WrongMasterError(str(active.master), master)
            active.stop()
        silence_dead_java()
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault(*_JAVA_OPTIONS)
        try:
            context = SparkContext(conf=_configured(master, daemon_module, fallback))
        except (PySparkException, Py4JError, OSError, RuntimeError) as error:
            where = master or fallback or "the configured master"
            raise SparkUnavailableError(where, reason_of(error), spark_log_path()) from error
        context.setLogLevel("WARN")
        _started = context
        return context


def _answers(context: SparkContext) -> bool:
    """Return whether the context's JVM is alive and the context was not stopped."""
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False


def _use_this_python(context: SparkContext) -> None:
    """Let workers on this machine run this process's interpreter, unless the user has set another.

    In a Spark session of the user, workers run the ``python3`` on the PATH. Without an activated
    virtual environment, that interpreter lacks the packages of this one.
    """
    if "PYSPARK_PYTHON" not in os.environ and is_local(str(context.master)):
        context.pythonExec = sys.executable


def _forget(context: SparkContext) -> None:
    """Discard the context of a JVM that has died, so that a new one can be started."""
    with contextlib.suppress(Exception):  # every call fails: the connection is broken
        context.stop()
    if SparkContext._gateway is not None:
        SparkContext._gateway.shutdown()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None


def _configured(master: str | None, daemon_module: str, fallback: str | None) -> SparkConf:
    """Launch the JVM.

    Return the settings of a new context; options of spark-submit take precedence.
    """
    if _SUBMITTED in os.environ:
        _launch(SparkConf())  # a JVM that spark-submit started has its options already
    elif master is None:
        master = fallback
    conf = SparkConf().setAppName("streamscope")
    if master is not None:
        conf.setMaster(master)
    conf.setIfMissing("spark.python.daemon.module", daemon_module)
    for key, value in _CONF.items():
        conf.setIfMissing(key, value)
    _launch(conf)
    if master is None:
        master = SparkConf().get("spark.master", ALL_CORES)
        conf.setIfMissing("spark.master", master)
    known = SparkConf()
    near = loopback_settings(master, lambda key: known.contains(key) or conf.contains(key))
    for key, value in {**local_sockets(master), **near}.items():
        conf.setIfMissing(key, value)
    return conf


def _launch(conf: SparkConf) -> None:
    """Start the JVM once per process; its output goes to a file."""
    if SparkContext._gateway is not None:
        return
    remove_old_logs(SystemClock().now_us())
    with open(spark_log_path(), "ab", opener=private_opener) as log:
        gateway = launch_gateway(conf, popen_kwargs={"stdout": log, "stderr": log})
    SparkContext._gateway = gateway
    SparkContext._jvm = gateway.jvm


_CAUSE = re.compile(
    r"^(?:: |Caused by: )?(?:[\w$]+\.)*(\w+(?:Error|Exception): \S.*)$", re.MULTILINE
)


def reason_of(error: BaseException) -> str:
    """Return the cause in one line: the innermost of nested Java and Python errors."""
    causes: list[str] = _CAUSE.findall(str(error))
    text = causes[-1] if causes else str(error).strip().partition("\n")[0]
    return text[:_REASON_CHARS_MAX] or type(error).__name__
