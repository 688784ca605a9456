"""Decide when a host returns freed memory to the system, and read memory limits.

Allocators keep freed memory for the next request. That makes batches cheap, which are allocated all
the time. But after a peak, such as a long window that has closed or a job that ended, the kept
memory is wasted.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rstream.items.dictionaries import batch_bytes
from rvertex.messages import Memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from rstream.clock import Clock

#: A step with at least this much output has freed about as much memory, which later steps do not
#: need.
LARGE_STEP_BYTES = 32 << 20
#: Least seconds between two releases. Releasing more often would slow down a steady flow of wide
#: rows, which reuses the memory that it frees.
GIVE_BACK_EVERY_S = 1.0


#: The system's memory figures are read again after this time, s.
LOOK_EVERY_S = 1.0
_KIB = 1024
#: Per cgroup version: mount point, files with the limit and the usage, and the line of
#: ``memory.stat`` that counts the page cache. The kernel can drop the cache, so it is subtracted.
_GROUPS = {
    "": ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "memory": (
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
}
_looked: list[tuple[float, tuple[Memory, ...]]] = []


class LargeSteps:
    """Decides after which steps a host releases memory: soon after a step with large output.

    Once state was spilled, the bytes of small steps and of their spills are added up until they are
    large.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moved_bytes = self._spilled_bytes = 0
        self._is_owed = False
        self._not_before_s = -math.inf

    def is_due(self, put_out: Iterable[pa.RecordBatch], spilled_bytes: int) -> bool:
        """Return whether to release memory now, after a step.

        ``put_out`` is the output of the step; an array that occurs several times in it counts once.
        ``spilled_bytes`` is what the host has spilled in total so far.
        """
        batches = {id(batch): batch for batch in put_out}
        before = self._moved_bytes if spilled_bytes else 0
        self._moved_bytes = before + sum(map(batch_bytes, batches.values()))
        self._moved_bytes += spilled_bytes - self._spilled_bytes
        self._spilled_bytes = spilled_bytes
        if self._moved_bytes >= LARGE_STEP_BYTES:
            self._is_owed, self._moved_bytes = True, 0
        if not self._is_owed:
            return False
        now_s = self._clock.monotonic_s()
        if now_s < self._not_before_s:
            return False
        self._is_owed, self._not_before_s = False, now_s + GIVE_BACK_EVERY_S
        return True


def memory_now() -> tuple[Memory, ...]:
    """Return the memory of this process, at most LOOK_EVERY_S old; empty without ``/proc``."""
    now_s = time.monotonic()
    if not _looked or now_s - _looked[0][0] >= LOOK_EVERY_S:
        _looked[:] = [(now_s, _memory())]
    return _looked[0][1]


def killed_for_memory() -> int:
    """Return the number of processes that the machine's kernel has killed for lack of memory."""
    return _field("/proc/vmstat", "oom_kill")


def _memory() -> tuple[Memory, ...]:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return ()
    limit, free = (_field("/proc/meminfo", f"Mem{n}") * _KIB for n in ("Total", "Available"))
    for limit_of_group, used in _limits():
        free = min(free, limit_of_group - used)
        limit = min(limit, limit_of_group)
    return (Memory(pages * os.sysconf("SC_PAGE_SIZE"), max(free, 0), limit),)


def _limits(proc: str = "/proc/self/cgroup") -> Iterator[tuple[int, int]]:
    """Yield limit and usage, in bytes, of each cgroup of this process and of its ancestors.

    A container mounts its own cgroup as the root of the file system. So a path that is missing
    there belongs to the machine that runs the container.
    """
    lines = Path(proc).read_text().splitlines() if Path(proc).exists() else ()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for version in {"", "memory"} & set(controllers.split(",")):
            root, limit_file, usage_file, cache = _GROUPS[version]
            group = Path(root, path.lstrip("/"))
            for folder in (group, *group.parents):
                if not folder.is_relative_to(root):
                    break
                with contextlib.suppress(OSError, ValueError):  # no such file, or no limit ("max")
                    limit = int((folder / limit_file).read_text())
                    used = int((folder / usage_file).read_text())
                    yield limit, used - _field(str(folder / "memory.stat"), cache)


def _field(path: str, name: str) -> int:
    """Return the number behind ``name`` in a kernel file; 0 if the file or the name is missing."""
    with contextlib.suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(name):
                found, *values = line.replace(":", " ").split()
                if found == name and values and values[0].isdecimal():
                    return int(values[0])
    return 0
