"""The processes to kill and suspend: a job's drivers and hosts, its broker, its database server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jobmanager.storage.root import JobRoot
from tests.kills.feed import Feed
from tests.kills.life import FINISH, RUN
from tests.kills.queries import EVENTS, TIME_OF
from tests.rooms import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kills.log_feed import LogFeed
    from tests.kills.queries import JobSpec
    from tests.support.brokers import Broker
    from tests.support.postgres_server import PostgresServer

#: The time limit for starting Spark and Java, even on a heavily overloaded machine.
START_S_MAX = 600.0
#: The time limit from the last fault until rows of later events are delivered.
RECOVERY_S_MAX = 600.0
FINISH_S_MAX = 600.0
#: The time limit for a suspended driver with a successor to end after it wakes up.
ZOMBIE_S_MAX = 300.0
POLL_S = 0.05
#: Java that transfers few bytes and compiles little.
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
RESUMES_MAX = 4
_NO_STATUS: dict[str, Any] = {"state": "starting", "hosts": [], "vertices": [], "deliveries": []}


class WrongError(Exception):
    """A job broke a guarantee."""


class Frozen:
    """A suspended process. It can be woken up, but not another process that has got its pid."""

    def __init__(self, pid: int) -> None:
        self._handle = os.pidfd_open(pid)
        self._is_open = True
        signal.pidfd_send_signal(self._handle, signal.SIGSTOP)

    def thaw(self) -> None:
        """Idempotent."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGCONT)
            os.close(self._handle)


class Life:
    """A driver: a process that runs jobs, and the lines that it prints."""

    def __init__(self, log: Path, changed: threading.Condition, *, machine: str = "") -> None:
        """``machine``: the name of the machine that the process believes to run on."""
        command = [sys.executable, "-m", "tests.kills.life"]
        if machine:
            renamed = 'hostname "$0" && exec "$@"'
            command = ["unshare", "--uts", "sh", "-c", renamed, machine, *command]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment |= {"JDK_JAVA_OPTIONS": JAVA}
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                env=environment,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self._changed = changed
        #: The newest, by name of the job.
        self.statuses: dict[str, dict[str, Any]] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def order(self, verb: str, given: object) -> None:
        """Send a line; a driver that was just killed ignores it."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({verb: given}) + "\n")
            self.process.stdin.flush()

    def close(self) -> None:
        """Let it end after its jobs."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def kill(self) -> None:
        """Idempotent."""
        self.process.kill()
        self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                status = json.loads(line)
                self.statuses[status["job"]] = status
                self._changed.notify_all()


class Processes:
    """The processes that jobs share: their drivers, a broker, a database server.

    Several threads may use it.
    """

    def __init__(self, broker: Broker, server: PostgresServer, folder: Path) -> None:
        self.broker, self.server = broker, server
        self._log = folder / "driver.log"
        #: The jobs that the driver runs, and those of them that are to end.
        self._specs: dict[str, JobSpec] = {}
        self._ending: set[str] = set()
        #: Held while a strike on a shared process is done.
        self.striking = threading.RLock()
        self._changed = threading.Condition(threading.RLock())
        self._is_replaced = False
        self._lives: list[Life] = []
        self._machine = ""
        self._asleep: list[Frozen] = []
        self._restart: threading.Timer | None = None

    @property
    def life(self) -> Life:
        """The newest driver."""
        return self._lives[-1]

    def begin_life(self, *, machine: str = "") -> Life:
        """Start a driver of all jobs."""
        with self._changed:
            self._machine = (
                machine or self._machine
            )  # the next one is known to be beside a dead one
            self._lives.append(Life(self._log, self._changed, machine=self._machine))
            for spec in self._specs.values():
                self.life.order(RUN, asdict(spec))
            for name in self._ending:
                self.life.order(FINISH, name)
            self._is_replaced = False
            return self.life

    def replace_life(self, pause_s: float) -> None:
        """Kill the driver; another one begins after a pause."""
        with self._changed:
            self._is_replaced = True
        self.life.kill()
        time.sleep(pause_s)
        self.begin_life()

    def run(self, spec: JobSpec) -> None:
        """Start a job."""
        with self._changed:
            self._specs[spec.name] = spec
            self.life.order(RUN, asdict(spec))

    def finish(self, spec: JobSpec) -> None:
        """End the sources at the ends of their topics, and wait until all is delivered."""
        with self._changed:
            self._ending.add(spec.name)
            self.life.order(FINISH, spec.name)
        self.until(spec.name, lambda status: status["state"] == "finished", FINISH_S_MAX, "an end")
        self.forget(spec)

    def forget(self, spec: JobSpec) -> None:
        """Do not start the job again."""
        with self._changed:
            self._specs.pop(spec.name, None)
            self._ending.discard(spec.name)

    def status(self, name: str) -> dict[str, Any]:
        """The newest status of the job."""
        return self.life.statuses.get(name, _NO_STATUS)

    def until(
        self, name: str, holds: Callable[[dict[str, Any]], bool], limit_s: float, what: str
    ) -> dict[str, Any]:
        """Wait for a status of the job that satisfies ``holds``, and return it.

        Raises:
            WrongError: the driver ended, the job failed, or it takes too long.
        """
        deadline_s = time.monotonic() + limit_s
        with self._changed:
            while not holds(status := self.status(name)):
                if status["state"] == "failed":
                    raise WrongError(f"the job failed: {status['error']}")
                self.check_alive()
                if time.monotonic() > deadline_s:
                    raise WrongError(f"{what}: not after {limit_s:.0f} s: {status}")
                self._changed.wait(POLL_S)
            return status

    def check_alive(self) -> None:
        """Check that the driver lives.

        Raises:
            WrongError: it ended, and no strike ended it.
        """
        if not self._is_replaced and self.life.process.poll() is not None:
            raise WrongError(f"the driver ended: {self._log.read_text()[-2000:]}")

    def freeze(self, pid: int, seconds: float) -> None:
        """Suspend a process, and wake it up after some time."""
        try:
            frozen = Frozen(pid)
        except ProcessLookupError:  # it has just ended
            return
        self._asleep.append(frozen)
        timer = threading.Timer(seconds, frozen.thaw)
        timer.daemon = True
        timer.start()

    def wake(self) -> None:
        """Wake suspended processes now: a process can be suspended only once at a time."""
        for frozen in self._asleep:
            frozen.thaw()

    def kill_server(self, seconds: float) -> None:
        """Kill the database server once it runs, and restart it after some time."""
        self.await_server()
        self.server.kill()
        self._restart = threading.Timer(seconds, self.server.start)
        self._restart.start()

    def await_server(self) -> None:
        """Wait until the database server runs."""
        if self._restart is not None:
            self._restart.join()

    def close(self) -> None:
        """End all drivers."""
        self.wake()
        for life in self._lives:
            life.kill()
        self.await_server()


class Scene:
    """A running job with its processes and topics."""

    def __init__(self, spec: JobSpec, processes: Processes, folder: Path) -> None:
        self.spec, self.processes, self.folder = spec, processes, folder
        self.broker, self.server = processes.broker, processes.server
        #: Killed workers; a status may still name them.
        self.killed: set[int] = set()
        #: The number of rescales: after one, rows of equal time may have another order.
        self.rescales = 0
        #: What was tried of that, and its outcomes.
        self.changes: list[str] = []
        #: The writer of the topics, once it has started.
        self.feed: Feed | LogFeed | None = None

    @property
    def status(self) -> dict[str, Any]:
        """The newest status of the job."""
        return self.processes.status(self.spec.name)

    def until(
        self, holds: Callable[[dict[str, Any]], bool], limit_s: float, what: str
    ) -> dict[str, Any]:
        """Wait for a status (``Processes.until``)."""
        return self.processes.until(self.spec.name, holds, limit_s, what)

    def newest_us(self) -> int:
        """The time of the newest event with a row in the table; 0 if none can be read."""
        statement = f"SELECT max({TIME_OF[self.spec.query]}) FROM {self.spec.table}"
        with contextlib.suppress(Exception):  # the server is down, or the table does not exist yet
            ((found,),) = self.server.query(statement)
            return int(found or 0)
        return 0

    def wait_delivered(self, since_us: int) -> None:
        """Wait until a row of an event after ``since_us`` is in the table.

        Raises:
            WrongError: it takes too long, or the job ended.
        """
        deadline_s = time.monotonic() + RECOVERY_S_MAX
        while self.newest_us() <= since_us:
            if self.status["state"] == "failed" or time.monotonic() > deadline_s:
                raise WrongError(f"nothing new after {RECOVERY_S_MAX:.0f} s: {self.status}")
            self.processes.check_alive()
            time.sleep(POLL_S)

    def wait_whole(self) -> dict[str, Any]:
        """Wait until all hosts and all instances of the job run."""
        return self.until(is_whole, RECOVERY_S_MAX, "all at work")

    def resume_until_all_is_read(self) -> None:
        """Resume the job so that it reads partitions that it could not discover before."""
        assert isinstance(self.feed, Feed)
        for _ in range(RESUMES_MAX):
            plan = JobRoot(self.spec.root).read_plan()
            assert plan is not None
            read = {
                unit.stream
                for vertex in plan.vertices
                if vertex.source is not None
                for unit in vertex.source.log_units
                if unit.path.endswith(self.spec.topic(EVENTS))
            }
            if len(read) == self.feed.partitions[EVENTS]:
                return
            self.processes.replace_life(0.0)
            self.wait_whole()
        raise WrongError(f"partitions are not taken in: {sorted(read)}")


def is_whole(status: dict[str, Any]) -> bool:
    """Whether all hosts and instances of the job run."""
    instances = [i for row in status["vertices"] for i in row["instances"]]
    return (
        status["state"] == "running"
        and bool(instances)
        and all(host["state"] == "ready" and host["pid"] for host in status["hosts"])
        and all(i["state"] == "running" and i["pid"] for i in instances)
        and all(row["instances"] for row in status["vertices"])
    )
