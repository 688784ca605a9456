"""The processes of a job on local[*] listen only on loopback and Unix sockets."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyspark import SparkContext

import jobmanager
from tests.jobmanager.storage.test_places import totals
from tests.support.jobs import WAIT_S, write_events

LISTENING = "0A"
#: 127.0.0.1 and ::ffff:127.0.0.1 and ::1, as the kernel writes them.
LOOPBACKS = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


def listening(pid: int) -> list[str]:
    """The TCP addresses on which a process listens."""
    links = (Path(f"/proc/{pid}/fd") / fd for fd in os.listdir(f"/proc/{pid}/fd"))
    inodes = set()
    for link in links:
        match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link) if link.is_symlink() else "")
        inodes.update(match.groups() if match else ())
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in inodes:
                found.append(fields[1].partition(":")[0])
    return found


@pytest.mark.spark
def test_no_port_listens_beyond_loopback(tmp_path: Path) -> None:
    seen: list[str] = []

    def on_status(status: dict[str, object]) -> None:
        context = SparkContext._active_spark_context
        if status["state"] == "running" and context is not None and not seen:
            java = SparkContext._gateway.proc.pid  # type: ignore[union-attr]
            seen.extend(listening(java) + listening(os.getpid()))

    query = totals(write_events(tmp_path / "events.parquet"))
    job = jobmanager.run(query, root=str(tmp_path / "job"), hosts=1, on_status=on_status)
    assert job.wait(WAIT_S)["state"] == "finished"
    assert len(seen) >= 3, "Java's remote calls and blocks, and our control"
    assert set(seen) <= set(LOOPBACKS), seen
