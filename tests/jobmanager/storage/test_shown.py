"""How a job is shown whose manager is gone: its last status may explain it.

Cannot catch: a process that takes its memory between two statuses (every 250 ms).
"""

from __future__ import annotations

import pytest

from jobmanager.storage.shown import memory_shortage


@pytest.mark.parametrize(
    ("used_mib", "pid", "is_short"), [(390, 7, True), (100, 7, False), (390, 8, False)]
)
def test_a_job_manager_that_died_without_memory(used_mib: int, pid: int, is_short: bool) -> None:
    """What a host in another process uses says nothing of the job manager's."""
    memory = {"used_bytes": used_mib << 20, "free_bytes": 99 << 20, "limit_bytes": 400 << 20}
    status = {"pid": 7, "hosts": [{"host": "h0.1", "pid": pid, "memory": memory}]}
    assert ("it last used 390 of 400 MiB" in memory_shortage(status)) == is_short
    assert memory_shortage({"pid": 7, "hosts": [{"host": "h0.0", "pid": 7, "memory": None}]}) == ""


@pytest.mark.parametrize(
    ("free_mib", "machine", "is_short"), [(39, "a", True), (41, "a", False), (0, "b", False)]
)
def test_a_job_manager_that_died_in_a_full_container(
    free_mib: int, machine: str, is_short: bool
) -> None:
    """As seen with Spark: the kernel ended the driver, the largest process of the container."""
    memory = {"used_bytes": 100 << 20, "free_bytes": free_mib << 20, "limit_bytes": 400 << 20}
    host = {"host": "h0.0", "pid": 8, "machine": machine, "memory": memory}
    found = memory_shortage({"pid": 7, "machine": "a", "hosts": [host]})
    assert ("its machine or container last had 39 of 400 MiB free" in found) == is_short
    assert ("for lack of memory" in found) == is_short
