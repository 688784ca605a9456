"""Samples of a job: disk and files below its root, and memory and handles of its processes.

Processes are named by their role (``driver``, ``jvm``, ``worker``), because faults replace them. Of
several with one role, the greatest value counts.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from processes import PROC, is_python, pss_bytes, tree

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE_S = 2.0
#: A younger process is still starting, and does not count, s.
START_S = 20.0


@dataclass
class Samples:
    """Numbers over time, by name of the measure."""

    seen: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, name: str, at_s: float, value: float) -> None:
        """Add one number."""
        self.seen.setdefault(name, []).append((at_s, value))


class Sampler(threading.Thread):
    """Samples until it is stopped."""

    def __init__(self, root: Path, samples: Samples) -> None:
        super().__init__(name="sampler", daemon=True)
        self._root, self._samples = root, samples
        self._over = threading.Event()
        #: The process of the job manager, which faults replace.
        self.pid: int | None = None

    def run(self) -> None:
        """Sample until :meth:`stop` is called."""
        while not self._over.wait(SAMPLE_S):
            now_s = time.monotonic()
            for folder, (files, size) in below(self._root).items():
                self._samples.add(f"{folder}_files", now_s, files)
                self._samples.add(f"{folder}_disk_mb", now_s, size / 1e6)
            for name, value in held(self.pid).items():
                self._samples.add(name, now_s, value)

    def stop(self) -> None:
        """Stop sampling."""
        self._over.set()
        self.join()


def below(root: Path) -> dict[str, tuple[int, int]]:
    """Return the number of files and their bytes, by folder of a job's root."""
    found: dict[str, tuple[int, int]] = {}
    for path in root.rglob("*"):
        with contextlib.suppress(OSError):  # deleted meanwhile
            if path.is_file():
                folder, *below_it = path.relative_to(root).parts
                folder = folder if below_it else "root"
                files, size = found.get(folder, (0, 0))
                found[folder] = files + 1, size + path.stat().st_size
    return found


def held(pid: int | None) -> dict[str, float]:
    """Return memory, handles and threads of a job manager and its child processes."""
    found: dict[str, float] = {}
    if pid is None or not (PROC / str(pid)).exists():
        return found
    processes = tree(pid)
    found["processes"] = len(processes)
    for process in processes:
        if age_s(process) < START_S:
            continue
        part = "driver" if process == pid else "worker" if is_python(process) else "jvm"
        with contextlib.suppress(OSError, ValueError, IndexError):
            handles = len(list((PROC / str(process) / "fd").iterdir()))
            status = (PROC / str(process) / "status").read_text()
            threads = int(status.partition("Threads:")[2].split()[0])
            memory = pss_bytes(process)
            for name, value in (
                ("mb", memory / 1e6),
                ("handles", handles),
                ("threads", threads),
            ):
                key = f"{part}_{name}"
                found[key] = max(found.get(key, 0.0), value)
    return found


def age_s(pid: int) -> float:
    """Return how long a process has run; 0 if it has ended."""
    with contextlib.suppress(OSError):
        ticks = int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19])
        uptime_s = float((PROC / "uptime").read_text().split()[0])
        return uptime_s - ticks / os.sysconf("SC_CLK_TCK")
    return 0.0
