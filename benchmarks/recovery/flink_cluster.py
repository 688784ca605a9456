"""A standalone Flink cluster on this machine: its processes, its job, and its printed output.

The job manager and the task managers, with one slot each, are separate processes. They are started
by the wheel's ``bin/jobmanager.sh`` and ``bin/taskmanager.sh``, which become the Java process
(exec). So each can be killed by the id of the started process. The job is
``recovery/flink_job.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from latency.flink import FLINK
from open_loop import SOURCES, START_US, Load, now_us

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = Path(__file__).parent / "flink_job.py"
READY_WAIT_S = 120.0
END_WAIT_S = 90.0
STOP_WAIT_S = 20.0
#: How often a savepoint is looked for.
LOOK_S = 0.005
#: Seconds of events that warm up the cluster.
WARM_LOAD_S = 6.0
#: Settings of the cluster. A lost process counts as dead after ``interval`` x
#: ``rpc-failure-threshold`` (2, the default), 10 s with the defaults. The timeout is for a process
#: that hangs.
CLUSTER_SETTINGS = {
    "heartbeat.interval": "200ms",
    "heartbeat.timeout": "5s",
    "taskmanager.memory.process.size": "1536m",
    "taskmanager.memory.managed.size": "256m",
    "jobmanager.memory.process.size": "1280m",
}
#: Settings of the job: the shortest buffer timeout and watermark interval that Flink suggests for
#: low latency, and an immediate restart.
JOB_SETTINGS = {
    "execution.target": "remote",
    "execution.attached": "false",
    "execution.buffer-timeout.interval": "1 ms",
    "pipeline.auto-watermark-interval": "1 ms",
    "table.local-time-zone": "UTC",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "state.backend.type": "hashmap",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "0 s",
}
#: Logs go to a file, so standard output has only rows.
LOG = """
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = File
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %-5p %c - %m%n
"""


def write_events(load: Load, path: Path) -> None:
    """Write the input of ``PacedEvents``: events per reader, rate, first time, keys and values."""
    head = np.array([load.rows // SOURCES, load.rate, START_US], ">i8")
    rows = np.column_stack([load.keys_of(), load.values_of()]).astype(">i4")
    path.write_bytes(head.tobytes() + rows.tobytes())


def put_start(folder: Path, started_us: int) -> None:
    """Write the file with the time of the first event, for which the source waits."""
    scratch = folder / "start.part"
    scratch.write_bytes(started_us.to_bytes(8, "big"))
    scratch.rename(folder / "start")


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def whole_lines(chunks: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return the same text split at line ends: each line is in the chunk that had its end.

    A line without an end was cut off by a kill, and is left out.
    """
    lines, rest = [], b""
    for at_us, chunk in chunks:
        text, end, rest = (rest + chunk).rpartition(b"\n")
        if end:
            lines.append((at_us, text + end))
    return lines


class TaskManager:
    """The process of a task manager, and its printed output with times."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.chunks: list[tuple[int, bytes]] = []
        self._listener = threading.Thread(target=self._listen, daemon=True, name="flink-printed")
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while chunk := os.read(self.process.stdout.fileno(), 1 << 20):
            self.chunks.append((now_us(), chunk))


class Cluster:
    """A standalone cluster on this machine. Processes are killed by their ids."""

    def __init__(self, folder: Path, task_managers: int, slots: int = 1) -> None:
        """``slots``: of each task manager."""
        self.folder, self._slots = folder, task_managers * slots
        self._home = next(FLINK.parent.parent.glob("lib/python*/site-packages/pyflink"))
        self._rest, rpc = free_port(), free_port()
        self._settings = {
            **CLUSTER_SETTINGS,
            "taskmanager.numberOfTaskSlots": str(slots),
            "jobmanager.rpc.port": str(rpc),
            "rest.port": str(self._rest),
            "io.tmp.dirs": str(folder / "tmp"),
        }
        self._wanted = task_managers
        self._job_manager: subprocess.Popen[bytes] | None = None
        self._task_managers: dict[str, TaskManager] = {}

    def start(self) -> None:
        """Start all processes and wait until the slots are available."""
        shutil.copytree(self._home / "conf", self.folder / "conf")
        (self.folder / "tmp").mkdir()
        (self.folder / "conf" / "log4j-console.properties").write_text(LOG)
        self._job_manager = self._launch("jobmanager", {}, subprocess.DEVNULL)
        for number in range(self._wanted):
            name = f"tm-{number}"
            started = self._launch(
                "taskmanager", {"taskmanager.resource-id": name}, subprocess.PIPE
            )
            self._task_managers[name] = TaskManager(started)
        self._await("its slots", lambda: self._get("overview")["slots-total"] == self._slots)

    def warm_up(self, load: Load) -> None:
        """Run the job on every task manager, at full speed."""
        folder = self.folder / "warm"
        job = self.submit(folder, replace(load, seconds=WARM_LOAD_S), self._slots, 1.0)
        put_start(folder, 1)
        self.await_end(job)

    def submit(self, folder: Path, load: Load, slots: int, checkpoint_interval_s: float) -> str:
        """Submit the job and wait until all its tasks run; return its id.

        ``folder`` is of this job; its source waits for ``put_start``.
        """
        folder.mkdir()
        write_events(load, folder / "events")
        client = self.client(folder, load, slots, checkpoint_interval_s)
        printed, errors = client.communicate("\n", timeout=READY_WAIT_S)
        if client.returncode:
            raise RuntimeError(f"Flink took no job: {errors[-2_000:]}")
        job = printed.split()[-1]
        self.await_running(job)
        return job

    def client(
        self, folder: Path, load: Load, slots: int, checkpoint_interval_s: float
    ) -> subprocess.Popen[str]:
        """Start a process that builds the job, and submits it after a line with a savepoint.

        The line is empty for a new job.
        """
        settings = {
            **JOB_SETTINGS,
            "rest.address": "localhost",
            "rest.port": str(self._rest),
            "execution.checkpointing.interval": f"{checkpoint_interval_s * 1e3:.0f} ms",
            "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
            "parallelism.default": str(slots),
        }
        given = [f"{name}={value}" for name, value in settings.items()]
        return subprocess.Popen(
            [FLINK, SCRIPT, "--folder", folder, "--rows", str(load.rows), "--window-us",
             str(load.window_us), "--setting", *given],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def await_running(self, job: str) -> None:
        """Wait until all tasks of a job run."""
        states = {"RUNNING"}
        self._await("the job", lambda: {v["status"] for v in self._of(job)["vertices"]} == states)

    def stop_with_savepoint(self, job: str, folder: Path) -> str:
        """Stop a job; return the path of its savepoint."""
        answer = self._post(f"jobs/{job}/stop", {"targetDirectory": folder.as_uri()})
        place = f"jobs/{job}/savepoints/{answer['request-id']}"
        deadline_s = time.monotonic() + READY_WAIT_S
        while (found := self._get(place))["status"]["id"] != "COMPLETED":
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"Flink: no savepoint within {READY_WAIT_S:g} s")
            time.sleep(LOOK_S)
        path: str = found["operation"]["location"]
        return path

    def kill_busy(self, kills: int) -> int:
        """Send SIGKILL to task managers that run the job; return the time."""
        rows = self._get("taskmanagers")["taskmanagers"]
        names = sorted(row["id"] for row in rows if row["freeSlots"] == 0)[:kills]
        if len(names) < kills:
            raise RuntimeError(f"{kills} task managers to kill were wanted, there are {names}")
        for name in names:
            os.kill(self._task_managers[name].process.pid, signal.SIGKILL)
        return now_us()

    def await_end(self, job: str) -> None:
        """Wait until the job has ended."""
        self._await("the end", lambda: self._of(job)["state"] == "FINISHED", END_WAIT_S)

    def pids(self) -> list[int]:
        """Return the ids of all processes."""
        return [process.pid for process in self._processes()]

    def printed(self, from_us: int) -> list[tuple[int, bytes]]:
        """Return the complete lines that the task managers printed since a time, by time."""
        chunks = [whole_lines(worker.chunks) for worker in self._task_managers.values()]
        since = [chunk for of_one in chunks for chunk in of_one if chunk[0] >= from_us]
        return sorted(since, key=lambda chunk: chunk[0])

    def stop(self) -> None:
        """Stop all processes."""
        for process in self._processes():
            process.terminate()
        for process in self._processes():
            try:
                process.wait(STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _processes(self) -> list[subprocess.Popen[bytes]]:
        first = [] if self._job_manager is None else [self._job_manager]
        return first + [worker.process for worker in self._task_managers.values()]

    def _launch(self, what: str, settings: dict[str, str], stdout: int) -> subprocess.Popen[bytes]:
        given = []
        for name, value in {**self._settings, **settings}.items():
            given += ["-D", f"{name}={value}"]
        env = {
            **os.environ,
            "FLINK_CONF_DIR": str(self.folder / "conf"),
            "FLINK_LOG_DIR": str(self.folder),
            "FLINK_PID_DIR": str(self.folder / "tmp"),
        }
        with (self.folder / "errors").open("ab") as errors:
            return subprocess.Popen(
                ["bash", self._home / "bin" / f"{what}.sh", "start-foreground", *given],
                stdin=subprocess.DEVNULL, stdout=stdout, stderr=errors, env=env,
            )  # fmt: skip

    def _of(self, job: str) -> Any:
        """Return the state of a job."""
        found = self._get(f"jobs/{job}")
        if found["state"] in ("FAILED", "CANCELED"):
            reason = self._get(f"jobs/{job}/exceptions")["exceptionHistory"]["entries"][:1]
            raise RuntimeError(f"Flink: the job has failed: {json.dumps(reason)[:2_000]}")
        return found

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._rest}/{path}", timeout=10) as answer:
            return json.load(answer)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        address = f"http://127.0.0.1:{self._rest}/{path}"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(address, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def _await(self, what: str, is_so: Callable[[], bool], wait_s: float = READY_WAIT_S) -> None:
        deadline_s = time.monotonic() + wait_s
        while time.monotonic() < deadline_s:
            with contextlib.suppress(OSError):  # it is not listening yet
                if is_so():
                    return
            if self._job_manager is None or self._job_manager.poll() is not None:
                break
            time.sleep(0.1)
        logs = sorted(self.folder.glob("*standalonesession*.log"))
        told = logs[0].read_text(errors="replace")[-2_000:] if logs else "it has no log"
        raise TimeoutError(f"Flink: {what} did not come within {wait_s:g} s: {told}")
