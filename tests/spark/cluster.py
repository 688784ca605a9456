"""A standalone Spark cluster on loopback, from the wheel: one master, two workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from types import TracebackType

START_WAIT_S = 240.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


class Cluster:
    """A cluster that starts on entry; on exit its own processes are killed by pid."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        cores: int = 2,
        start_wait_s: float = START_WAIT_S,
    ) -> None:
        """``start_wait_s``: the longest time without output of a starting process."""
        self._folder, self._start_wait_s = folder, start_wait_s
        self._workers = workers
        self._cores = cores
        self._processes: list[subprocess.Popen[str]] = []
        self.master = ""

    def __enter__(self) -> Cluster:
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        try:
            self._start(options)
        except BaseException:
            self._end()
            raise
        return self

    def _start(self, options: list[str]) -> None:
        lines = self._spawn(_MASTER, options)
        self.master = self._await(lines, r"Starting Spark master at (spark://\S+)")
        for k in range(self._workers):
            work = self._folder / f"worker{k}"
            options = ["--host", "127.0.0.1", "--cores", str(self._cores), "--memory", "2g"]
            options += ["--work-dir", str(work), "--webui-port", "0", self.master]
            self._await(self._spawn(_WORKER, options), r"(Successfully registered)")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(START_WAIT_S)

    def _spawn(self, name: str, options: list[str]) -> Queue[str | None]:
        home = Path(pyspark.__file__).parent
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)}
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), name, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
        )
        self._processes.append(process)
        lines: Queue[str | None] = Queue()

        def pump() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=pump, daemon=True).start()
        return lines

    def _await(self, lines: Queue[str | None], pattern: str) -> str:
        seen: list[str] = []
        while True:  # ends with the expected line, with the process, or after a long silence
            try:
                line = lines.get(timeout=self._start_wait_s)
            except Empty:
                raise TimeoutError(f"no {pattern!r} in:\n{''.join(seen)}") from None
            if line is None:
                raise ChildProcessError(f"it ended without {pattern!r}:\n{''.join(seen)}")
            seen.append(line)
            match = re.search(pattern, line)
            if match is not None:
                return match.group(1)


def executor_of(python_worker: int) -> int:
    """The pid of the executor JVM above a Python worker."""
    pid = python_worker
    while True:  # ends at the JVM, or at init
        pid = _parent(pid)
        assert pid > 1, f"no executor above {python_worker}"
        if "CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_text():
            return pid


def _parent(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[1])
