"""Spark as the engine: an instance host is the body of a ``mapPartitions`` over one partition.

Every process of hosts is one Spark job, submitted from its own thread in its own job group, with
one attempt per task: a lost worker fails just that job. The body drains its input first, because
otherwise Spark ends the Python worker. Then it runs :class:`rvertex.host.host.Host` until the host
is stopped, and further hosts if the process waits for them (:mod:`rvertex.host.parking`).
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.util import InheritableThread

from rstream.clock import SystemClock
from rstream.errors import OperatingError, UsageError
from rstream.transport.flight import ALL_INTERFACES
from rvertex.host.parking import TAKEN_WAIT_S, Parking, Processes
from rvertex.host.spark.body import SparkHostBody
from rvertex.host.spark.connections import LOOPBACK, check_encrypted, is_local
from rvertex.host.spark.context import (
    SparkGoneError,
    SparkUnavailableError,
    reason_of,
    spark_context,
    spark_log_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark import SparkContext

    from rvertex.host.host import HostSpec
    from rvertex.vertex.spec import VertexSpec

#: Longest wait until a cluster has a task slot for each requested host.
EXECUTORS_WAIT_S = 60.0
#: Longest wait until parked processes that are not needed have exited, s.
RELEASE_WAIT_S = 10.0


class _Task:
    """A Spark job with one task, whose process runs one host after another."""

    def __init__(self, group: str, on_exit: Callable[[str, str], None]) -> None:
        """Make the record of a Spark job.

        ``on_exit`` belongs to the host that the process runs now.
        """
        self.group, self.on_exit = group, on_exit


class SparkExecutor:
    """Runs each host in the process of a Spark job with one partition.

    Invariant: the lock ``_changed`` is held while the set of processes changes, and never while a
    callback runs.
    """

    def __init__(
        self,
        vertices: Mapping[str, VertexSpec],
        *,
        master: str | None,
        hosts: int | None,
        daemon_module: str,
        fallback: str | None = None,
        former: SparkExecutor | None = None,
    ) -> None:
        """Connect to Spark. ``master``, ``fallback``, ``daemon_module``: see :func:`spark_context`.

        ``former`` is the job's executor so far. This one takes its parked processes for new hosts.
        """
        # Parked processes mean that their Spark is alive
        if former is not None and former.has_parked:
            self._context: SparkContext = former._context
            self.master: str = former.master
        else:
            self._context = spark_context(master, daemon_module, fallback=fallback)
            self.master = str(self._context.master)
            check_encrypted(self.master, self._context.getConf().get)
        self._plan = cloudpickle.dumps(dict(vertices))
        wanted = hosts or 1
        self._parking: Parking | None = None
        self._inherited = None if former is None else former._parking
        if former is None or self._inherited is None:
            self._slots = self._found_slots(wanted)
            self._changed, self._processes = threading.Condition(), Processes[_Task]()
        else:  # the processes of ``former`` occupy task slots
            self._slots, self._changed, self._processes = (
                former._slots,
                former._changed,
                former._processes,
            )
        if wanted > self._slots.total:
            raise UsageError(
                f"the plan's {len(vertices)} vertices on {wanted} hosts need as many task slots, "
                f"but Spark at {self.master} has {self._slots.total}; add slots or ask for fewer "
                "hosts"
            )
        self._hosts = wanted if hosts else min(self._slots.default_hosts, len(vertices))
        self._dismiss(keep=self._hosts)

    @property
    def has_parked(self) -> bool:
        """Whether processes wait for hosts of another executor."""
        with self._changed:
            return self._processes.has_parked

    @property
    def hosts(self) -> int:
        """Return how many hosts a job should have on this Spark."""
        return self._hosts

    @property
    def bind(self) -> str:
        """Return the address that hosts listen at: loopback for a local master, else any."""
        return LOOPBACK if is_local(self.master) else ALL_INTERFACES

    def _found_slots(self, wanted: int) -> _Slots:
        match = re.fullmatch(r"local(?:\[([0-9]+|\*)(?:,\s*[0-9]+)?\])?", self.master)
        if match is not None:
            cores = match.group(1) or "1"
            total = os.cpu_count() or 1 if cores == "*" else int(cores)
            return _Slots(total, total)
        try:
            executors, total = self._registered(wanted)
        except (PySparkException, Py4JError) as error:
            raise SparkUnavailableError(self.master, reason_of(error), spark_log_path()) from error
        spare = total // executors if executors > 1 else 0
        return _Slots(total, max(1, total - spare))

    def _registered(self, wanted: int) -> tuple[int, int]:
        """Wait for enough task slots; return the numbers of registered executors and slots."""
        # Returns once the first executor has registered
        self._context.parallelize([0], 1).foreach(lambda _: None)
        tracker = self._context._jsc.sc().statusTracker()
        clock = SystemClock()
        deadline_s = clock.monotonic_s() + EXECUTORS_WAIT_S
        while self._context.defaultParallelism < wanted and clock.monotonic_s() < deadline_s:
            self._context.parallelize([0], 1).foreach(lambda _: None)
        executors = max(1, len(tracker.getExecutorInfos()) - 1)
        return executors, self._context.defaultParallelism

    def start(self, spec: HostSpec, on_exit: Callable[[str, str], None]) -> None:
        """Run the host in a parked process, or submit a Spark job for it from a separate thread.

        Raises:
            SparkGoneError: the JVM or its context has ended.
        """
        self._take_back(spec.replaces)
        with self._changed:
            task, former = self._processes.take(spec.host)
            if task is not None:
                task.on_exit = on_exit
        if task is None:
            self._submit(spec, on_exit)
            return
        assert self._inherited is not None
        try:
            self._inherited.send(former, spec, self._plan)
        except OperatingError:  # the parked process is ending, or cannot read its plan
            self._cancel(task)
            return
        hangs = threading.Timer(TAKEN_WAIT_S, self._cancel_unless_taken, (spec.host, task))
        hangs.daemon = True
        hangs.start()

    def _cancel_unless_taken(self, host: str, task: _Task) -> None:
        with self._changed:
            has_taken = self._processes.has_taken(host)
        if not has_taken:
            self._cancel(task)

    def _submit(self, spec: HostSpec, on_exit: Callable[[str, str], None]) -> None:
        body = SparkHostBody(spec, self._plan)
        # The description is unique within this context
        task = _Task(f"{spec.root} {spec.host}", on_exit)

        def submit() -> None:
            how = "failed"
            try:
                self._context.setJobGroup(task.group, f"streamscope {spec.host}")
                rows = self._context.parallelize([0], 1).mapPartitions(body).collect()
                how = rows[0]
            except Exception as error:
                how = reason_of(error)
            finally:
                self._ended(task, how)

        thread = InheritableThread(target=submit, name=spec.host, daemon=True)
        with self._changed:
            self._processes.began(task, spec.host)
        try:
            # The new thread copies this thread's properties from Java, so set them first
            thread.start()
        except (Py4JError, OSError, AttributeError) as error:
            with self._changed:
                self._processes.end(task)
            raise SparkGoneError(self.master, spark_log_path()) from error

    def _ended(self, task: _Task, how: str) -> None:
        """Report the end of a process that runs a host."""
        with self._changed:
            host, on_exit = self._processes.end(task), task.on_exit
        if host:
            on_exit(host, how)
        with self._changed:
            self._changed.notify_all()

    def park(self, secret: str) -> str:
        """Open the place where the processes of stopping hosts wait; see Executor."""
        self._dismiss_unused()
        try:
            self._parking = Parking(secret, self.bind, self._parked, self._left)
        except OperatingError:  # no free port: the processes exit, and a rescale takes longer
            return ""
        return self._parking.address

    def _parked(self, host: str) -> None:
        with self._changed:
            self._processes.park(host)
            self._changed.notify_all()

    def _left(self, host: str) -> None:
        """Cancel the Spark job of a parked process whose connection has ended: it may hang."""
        with self._changed:
            task = self._processes.lose(host)
        if task is not None:
            self._cancel(task)

    def close(self, wait_s: float) -> None:
        """Wait until each process has ended or is parked; the context stays for the next job."""
        self._dismiss_unused()
        with self._changed:
            self._changed.wait_for(lambda: not self._processes.running, wait_s)
            hanging = self._processes.running
        for task in hanging:  # a hanging task would occupy its slot forever
            self._cancel(task)
            with self._changed:
                self._processes.end(task)

    def _dismiss_unused(self) -> None:
        """Let parked processes exit that came from the former executor and have no host here."""
        inherited, self._inherited = self._inherited, None
        if inherited is not None:
            with self._changed:
                self._processes.dismiss(keep=0)
            inherited.close()

    def release(self) -> None:
        """Let the parked processes exit, and wait for their end."""
        self._dismiss_unused()
        self._inherited, self._parking = self._parking, None
        self.close(RELEASE_WAIT_S)

    def _dismiss(self, keep: int) -> None:
        with self._changed:
            leaving = self._processes.dismiss(keep)
        for host in leaving:
            with contextlib.suppress(OperatingError):  # the process exits already
                assert self._inherited is not None
                self._inherited.dismiss(host)

    def _take_back(self, host: str) -> None:
        """Cancel the Spark job of a host that hangs: it would occupy its task slot for ever."""
        with self._changed:
            task = self._processes.of(host)
        if task is not None:
            self._cancel(task)

    def _cancel(self, task: _Task) -> None:
        with contextlib.suppress(Py4JError, OSError, AttributeError):  # Spark is gone
            self._context.cancelJobGroup(task.group)


class _Slots:
    """The number of task slots, and of hosts to start by default (some slots stay free)."""

    def __init__(self, total: int, default_hosts: int) -> None:
        self.total = total
        self.default_hosts = default_hosts
