"""Detects lack of memory among losses of hosts, and the vertex that needs most. Pure.

The system kills a process without a message, so the job manager only sees a broken connection. The
host's last report of its memory, and messages of Spark or the kernel, show the reason.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobmanager.state.job_state import JobState
    from jobmanager.state.records import HostState
    from rvertex.messages import VertexFailed

_GIB = 1 << 30
#: The kind of failure that hosts report for lack of memory.
FAMILY = "memory"
#: If less than this share of its memory limit was free at the last report of a lost host, the
#: host has probably died for lack of memory.
FREE_SHARE_MIN = 0.1
#: Most losses for lack of memory without progress. Then the job fails, because a restarted vertex
#: would need as much again.
LOSSES_MAX = 3
_SAID = re.compile(
    r"OutOfMemory|MemoryError|\boom|oom_kill|exit code:? 137|memory limit|lack of memory", re.I
)
ADVICE = (
    "give its host more memory, spread the state over more vertices (--parallelism) and hosts, or "
    "keep less: shorter windows and lifetimes, fewer keys (docs/howto/size-memory.md)"
)


def lack_of(job: JobState, host: HostState, reason: str) -> str:
    """Return the reason of a host's loss if it was lack of memory; else empty."""
    memory = host.memory
    is_short = memory is not None and memory.free_bytes < FREE_SHARE_MIN * memory.limit_bytes
    if not (is_short or _SAID.search(reason)):
        return ""
    measured = "" if memory is None else (
        f"its process had {_gib(memory.used_bytes)} when it last reported, and "
        f"{_gib(memory.free_bytes)} of {_gib(memory.limit_bytes)} were free; "
    )  # fmt: skip
    return f"it ran out of memory ({reason}): {measured}{_largest(job, host)}{ADVICE}"


def is_sure(host: HostState, reason: str) -> bool:
    """Return whether the host itself used up the memory, not another process of the machine."""
    memory = host.memory
    has_most = memory is not None and memory.used_bytes > memory.limit_bytes // 2
    return has_most or _SAID.search(reason) is not None


def named(job: JobState, notice: VertexFailed) -> VertexFailed:
    """Return a failure for lack of memory, with the size of the vertex's state, and advice."""
    size = _gib(job.vertices[notice.vertex].state_bytes)
    state = f"its state had {size} at its last checkpoint"
    return replace(notice, message=f"it ran out of memory: {notice.message}; {state}; {ADVICE}")


def _largest(job: JobState, host: HostState) -> str:
    """Return the vertex on a host that needs most memory: last checkpoint plus buffered output."""
    sizes = [
        (vertex.state_bytes + instance.tail_bytes, vertex.shape.id)
        for vertex, instance in job.instances()
        if instance.slot == host.slot
    ]
    if not sizes:
        return ""
    size, name = max(sizes)
    return f"the largest vertex on it is {name}, with {_gib(size)} of state and output; "


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.1f} GiB" if size_bytes >= _GIB else f"{size_bytes / 2**20:.0f} MiB"
