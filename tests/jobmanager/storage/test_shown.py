"""The shown state of a job whose manager is dead: its last status may explain the death.

Not covered: a machine without ``/proc/vmstat``, where a process may exhaust the memory between two
statuses (every 250 ms).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobmanager import status
from jobmanager.storage.shown import interruption, memory_shortage
from rvertex.host.allocator import killed_for_memory

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("used_mib", "pid", "is_short"), [(390, 7, True), (100, 7, False), (390, 8, False)]
)
def test_a_job_manager_that_was_killed_for_lack_of_memory(
    used_mib: int, pid: int, is_short: bool
) -> None:
    """The memory of a host in another process does not count for the job manager."""
    memory = {"used_bytes": used_mib << 20, "free_bytes": 99 << 20, "limit_bytes": 400 << 20}
    status = {"pid": 7, "hosts": [{"host": "h0.1", "pid": pid, "memory": memory}]}
    assert ("it last used 390 of 400 MiB" in memory_shortage(status)) == is_short
    assert memory_shortage({"pid": 7, "hosts": [{"host": "h0.0", "pid": 7, "memory": None}]}) == ""


@pytest.mark.parametrize(
    ("free_mib", "machine", "is_short"), [(39, "a", True), (41, "a", False), (0, "b", False)]
)
def test_a_job_manager_that_was_killed_in_a_full_container(
    free_mib: int, machine: str, is_short: bool
) -> None:
    """As observed with Spark: the kernel killed the driver, the container's largest process."""
    memory = {"used_bytes": 100 << 20, "free_bytes": free_mib << 20, "limit_bytes": 400 << 20}
    host = {"host": "h0.0", "pid": 8, "machine": machine, "memory": memory}
    found = memory_shortage({"pid": 7, "machine": "a", "hosts": [host]})
    assert ("its machine or container last had 39 of 400 MiB free" in found) == is_short
    assert ("for lack of memory" in found) == is_short


@pytest.mark.parametrize(
    ("more", "words"), [(-1, ""), (0, ""), (1, "ended a process"), (2, "2 pro")]
)
def test_kills_are_counted_by_the_kernel(more: int, words: str) -> None:
    """A counter that is lower after a reboot, or that of another machine, is ignored."""
    here = {"machine": socket.gethostname(), "kernel_kills": killed_for_memory() - more}
    assert (words in memory_shortage(here)) == (more > 0 or not words)
    assert memory_shortage({**here, "machine": "another"}) == ""


#: Linux control groups with their limit files.
GROUPS = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}
#: The needs of a Python process with Arrow, plus some memory for the job.
GROUP_BYTES = 400 << 20
GREEDY = """
import pathlib, sys
import streamscope as ss

kept = []

def eat(batch):
    kept.append(bytearray(b"x") * (500 << 20))
    return {"n": batch.column("n")}

group, root = sys.argv[1:]
pathlib.Path(group, "cgroup.procs").write_text("0")
rows = ss.Stream.from_items({"n": "int64"}, [ss.event(1, 2, n=1), ss.cti(ss.INF_TIME)])
ss.run(rows.apply(eat, {"n": "int64"}).to_parquet(), root=root, executor="local").wait()
"""


@pytest.fixture
def group() -> Iterator[Path]:
    name = f"streamscope-shown-{os.getpid()}"
    for home, limit in GROUPS.items():
        made = Path(home, name)
        with contextlib.suppress(OSError):
            made.mkdir()
            (made / limit).write_text(str(GROUP_BYTES))
            yield made
            made.rmdir()
            return
    pytest.skip("no control group can be made here")


@pytest.mark.slow
def test_a_job_manager_killed_by_the_kernel(group: Path, tmp_path: Path) -> None:
    """The kernel kills a job manager; ``status``, ``list`` and ``resume`` report it."""
    (tmp_path / "greedy.py").write_text(GREEDY)
    root = str(tmp_path / "job")
    command = [sys.executable, str(tmp_path / "greedy.py"), str(group), root]
    done = subprocess.run(command, timeout=240, check=False, env={**os.environ, "PYTHONPATH": "."})
    assert done.returncode == -signal.SIGKILL
    assert "ended a process for lack of memory, probably this one" in interruption(root)
    assert status(root)["state"] == "interrupted"
    assert status(root)["reasons"][0]["reason"] == status(root)["error"]
