"""A system in a separate process: its orders, times, and the memory of its process tree.

Memory is the proportional set size of the worker and all its descendants, sampled while an order
runs; the share of Python processes is also reported. Processor time counts the same processes and
the ended ones; other work on the machine hardly changes it. On other systems than Linux both
are 0.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processes import PROC, is_python, pss_bytes, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL_S = 0.2
#: A query that takes longer counts as failed, s.
ORDER_WAIT_S = 240.0
START_WAIT_S = 180.0
STOP_WAIT_S = 30.0
WORKER = Path(__file__).parent / "worker.py"


class WorkerError(Exception):
    """A system could not start, failed to execute an order, or was too slow."""


@dataclass
class Memory:
    """The greatest sums so far, in bytes, and processor time."""

    peak: int = 0
    python: int = 0
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The result of one order."""

    elapsed_s: float
    peak_bytes: int
    python_bytes: int
    cpu_s: float


class Worker:
    """A running system."""

    def __init__(self, system: str, python: str, folder: Path) -> None:
        self.system = system
        self._process = subprocess.Popen(
            [python, str(WORKER), system, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True, name=f"listen-{system}").start()
        ready = self._answer(START_WAIT_S)
        self.startup_s = float(ready["startup_s"])
        self.names: list[str] = ready["names"]
        self.variants: list[dict[str, object]] = ready["variants"]

    def run(self, name: str, out: Path, variant: dict[str, object]) -> Outcome:
        """Run a query into ``out``.

        Raises:
            WorkerError: it failed, or took longer than ORDER_WAIT_S; the worker may have ended.
        """
        order = {"query": name, "out": str(out), "variant": variant}
        assert self._process.stdin is not None
        with _sampled(self._process.pid) as memory:
            try:
                self._process.stdin.write(json.dumps(order) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                raise WorkerError("it is gone") from None
            answer = self._answer(ORDER_WAIT_S)
        return Outcome(float(answer["elapsed_s"]), memory.peak, memory.python, memory.cpu_s)

    @property
    def is_gone(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the process; idempotent."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _answer(self, wait_s: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=wait_s)
        except queue.Empty:
            self._process.kill()
            self._process.wait()
            raise WorkerError(f"no answer in {wait_s:g} s") from None
        if not line:
            raise WorkerError(f"it ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer


@contextlib.contextmanager
def _sampled(pid: int) -> Iterator[Memory]:
    """Sample the memory of a process tree until the block ends."""
    memory, stop = Memory(cpu_s=-_cpu_s(pid)), threading.Event()

    def sample() -> None:
        while not stop.is_set():  # ends with the block
            sizes = {child: pss_bytes(child) for child in tree(pid)}
            memory.peak = max(memory.peak, sum(sizes.values()))
            python = sum(size for child, size in sizes.items() if is_python(child))
            memory.python = max(memory.python, python)
            stop.wait(INTERVAL_S)

    thread = threading.Thread(target=sample, name="memory", daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        memory.cpu_s += _cpu_s(pid)
        stop.set()
        thread.join()


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process tree so far, including ended processes."""
    ticks = 0
    for child in tree(pid):
        with contextlib.suppress(OSError):
            fields = (PROC / str(child) / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
