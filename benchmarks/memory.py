"""Peak memory of all Python processes of a session, sampled from ``/proc``.

Counted are this process and its descendants (Spark's Python workers hang below the JVM) whose
program is a Python; shared pages are counted once (PSS). Elsewhere than on Linux the peak is 0.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL_S = 0.25
PROC = Path("/proc")


@contextlib.contextmanager
def sampled_peak() -> Iterator[list[int]]:
    """A list whose only number is the peak so far, in bytes."""
    peak = [0]
    stop = threading.Event()

    def sample() -> None:
        while not stop.is_set():  # ends with the block
            peak[0] = max(peak[0], python_bytes())
            stop.wait(INTERVAL_S)

    thread = threading.Thread(target=sample, name="memory", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def python_bytes() -> int:
    """Memory of this process and its descendants that run Python, now."""
    return sum(_pss_bytes(pid) for pid in _python_processes())


def _python_processes() -> list[str]:
    """This process and its descendants that run Python."""
    children: dict[str, list[str]] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = stat.read_text().rpartition(")")[2].split()[1]
            children.setdefault(parent, []).append(stat.parent.name)
    todo, found = [(PROC / "self").resolve().name], []
    while todo:  # ends: processes form a tree
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return [pid for pid in found if _is_python(pid)]


def _is_python(pid: str) -> bool:
    try:
        program = (PROC / pid / "cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return False
    return b"python" in program.rpartition(b"/")[2]


def _pss_bytes(pid: str) -> int:
    with contextlib.suppress(OSError):
        for line in (PROC / pid / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
