"""Ends this process in order; processor time and memory of processes from ``/proc`` (else 0)."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

PROC = Path("/proc")


def end_in_order() -> None:
    """Make SIGTERM end this process like ``sys.exit``, so that its child processes also end.

    Further signals have no effect.
    """
    signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


@dataclass(frozen=True)
class Usage:
    """CPU seconds, and bytes passed to ``write`` calls (files; sockets use other calls)."""

    cpu_s: float = 0.0
    written_bytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.cpu_s + other.cpu_s, self.written_bytes + other.written_bytes)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.cpu_s - other.cpu_s, self.written_bytes - other.written_bytes)


def usage_of(pids: list[int]) -> Usage:
    """Return the sum over these processes; an ended process counts as 0."""
    return sum((_usage(pid) for pid in pids), Usage())


def _usage(pid: int) -> Usage:
    try:
        ticks = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[11:13]
        lines = (PROC / str(pid) / "io").read_text().splitlines()
    except OSError:
        return Usage()
    cpu_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    counts = dict(line.split(": ") for line in lines)
    return Usage(cpu_s, int(counts["wchar"]))


def tree(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    todo, found = [pid], list[int]()
    while todo:  # ends: processes form a tree
        child = todo.pop()
        found.append(child)
        todo += children.get(child, [])
    return found


def descendants(pid: int) -> dict[int, str]:
    """Return the processes below ``pid`` and their command lines."""
    found: dict[int, str] = {}
    for child in tree(pid)[1:]:
        with contextlib.suppress(OSError):
            found[child] = " ".join(_command(child))
    return found


def is_python(pid: int) -> bool:
    """Return whether the program of the process is Python."""
    try:
        return "python" in _command(pid)[0].rpartition("/")[2]
    except OSError:
        return False


def pss_bytes(pid: int) -> int:
    """Return the memory of a process; shared pages count in parts. 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _command(pid: int) -> list[str]:
    return (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
