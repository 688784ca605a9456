"""The systems that are compared: what each promises, and how its process is started.

Each is a process that gets one JSON object (:class:`Order`), and runs until its standard input is
closed; it is killed if it does not end then. Each peer has its own environment below ``.venvs``
(``make bench-peers``); a missing one is skipped, and the report names it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from processes import pss_bytes, tree, usage_of

HERE = Path(__file__).parent
VENVS = HERE.parent.parent / ".venvs"
STOP_WAIT_S = 20.0
_SAMPLED_S = 0.5
_TOLD_BYTES = 3_000


@dataclass(frozen=True)
class System:
    """A system under test."""

    name: str
    #: The delivery guarantee in this benchmark, and the means.
    guarantee: str
    #: The environment below ``.venvs``; none: the current one.
    venv: str | None
    script: str
    #: Further necessary files below ``.venvs``.
    needs: str = ""
    queries: tuple[str, ...] = ("filter", "window", "join", "scarce")

    @property
    def python(self) -> Path:
        return Path(sys.executable) if self.venv is None else VENVS / self.venv / "bin" / "python"

    @property
    def is_installed(self) -> bool:
        stamps = [VENVS / name / ".installed" for name in (self.venv, self.needs) if name]
        return all(stamp.exists() for stamp in stamps)


SYSTEMS = {
    system.name: system
    for system in (
        System(
            "floor",
            "exactly once: a transaction every 5 ms, no query",
            None,
            "floor.py",
            queries=("filter",),
        ),
        System("ours", "exactly once: a transaction every 5 ms", None, "ours.py"),
        System(
            "bytewax",
            "at least once: recovery store, snapshots every 10 s, idempotent producer",
            "bytewax",
            "bytewax_flow.py",
        ),
        System(
            "pathway",
            "at least once: persistence in a folder; exactly once is not in the free package",
            "pathway",
            "pathway_flow.py",
        ),
        System(
            "quix",
            "exactly once: a transaction every 10 ms (latency), 1 s (throughput)",
            "quix",
            "quix_flow.py",
        ),
        System(
            "flink",
            "exactly once: a transaction for each checkpoint, every 50 ms (latency), 1 s",
            "flink",
            "flink_job.py",
            needs="flink-kafka",
        ),
    )
}


@dataclass(frozen=True)
class Order:
    """The task of a system."""

    query: str
    servers: str
    topic: str
    out: str
    #: A separate folder for the system.
    folder: str
    #: "latency" or "throughput": which of them its settings favour.
    aim: str = "latency"
    format: str = "json"
    executor: str = "spark"
    #: How long windows wait, in systems that drop rows which another worker reads later, ms.
    wait_ms: int = 50
    #: A PostgreSQL database whose table ``out`` gets the results instead of the topic.
    dsn: str = ""


class Running:
    """A running system: its processes, their processor time and their memory."""

    def __init__(self, system: System, order: Order) -> None:
        self._log = Path(order.folder) / "log"
        path = os.pathsep.join([str(HERE.parent), str(HERE.parent.parent)])
        environment = {**os.environ, "PYTHONPATH": path if system.venv is None else str(HERE)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [system.python, HERE / system.script, json.dumps(asdict(order))],
                env=environment,
                cwd=order.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        self.peak_bytes = 0
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    @property
    def ended(self) -> bool:
        """Return whether it ended by itself, which is an error."""
        return self._process.poll() is not None

    def cpu_s(self) -> float:
        """Return the processor time that its processes have used."""
        return usage_of(tree(self._process.pid)).cpu_s

    def told(self) -> str:
        """Return the end of its output."""
        return self._log.read_text(errors="replace")[-_TOLD_BYTES:]

    def stop(self, *, at_once: bool = False) -> None:
        """Stop it with SIGTERM, or after some time with SIGKILL."""
        self._ended.set()
        self._sampler.join()
        pids = tree(self._process.pid)
        assert self._process.stdin is not None
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            self._process.stdin.close()
            if not at_once:
                self._process.wait(STOP_WAIT_S)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _sample(self) -> None:
        while not self._ended.is_set():  # ends with ``stop``
            used = sum(pss_bytes(pid) for pid in tree(self._process.pid))
            self.peak_bytes = max(self.peak_bytes, used)
            self._ended.wait(_SAMPLED_S)
