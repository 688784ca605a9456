"""What processes have used so far, from ``/proc``; zero elsewhere than on Linux."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Usage:
    """CPU seconds and bytes given to ``write`` calls (files; sockets are sent to otherwise)."""

    cpu_s: float = 0.0
    written_bytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.cpu_s + other.cpu_s, self.written_bytes + other.written_bytes)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.cpu_s - other.cpu_s, self.written_bytes - other.written_bytes)


def usage_of(pids: list[int]) -> Usage:
    """Of these processes together; one that is gone counts nothing."""
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


def descendants(pid: int) -> dict[int, str]:
    """The processes below ``pid`` and their command lines."""
    children: dict[int, list[int]] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    todo, found = list(children.get(pid, [])), dict[int, str]()
    while todo:  # ends: processes form a tree
        child = todo.pop()
        todo += children.get(child, [])
        try:
            line = (PROC / str(child) / "cmdline").read_bytes()
        except OSError:
            continue
        found[child] = line.replace(b"\0", b" ").decode(errors="replace")
    return found
