"""Jobs that deliver into PostgreSQL while drivers and the server are killed.

Not covered: Spark hosts (tests/spark), or a server that loses power.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from rstream import read_events
from tests.rooms import ROOT
from tests.support.jobs import ROWS, WAIT_S, two_exchanges, write_events
from tests.support.killed_delivery import delivered
from tests.support.postgres_server import PostgresServer, programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.trouble import Gate

PACE = 20.0
KILLS, SERVER_KILLS = 4, 3
pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of this module's own, because the test kills it."""
    if programs() is None:
        pytest.skip("there is no PostgreSQL server here")
    own = PostgresServer()
    yield own
    own.close()


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return write_events(tmp_path / "events.parquet")


def check_table(server: PostgresServer, job: jobmanager.Job) -> None:
    """Check that the table has the output's rows, in order per partition."""
    outputs = [read_events(uri).to_pylist() for _, uri in job.plan.sink_streams()]
    payloads = [[tuple(row.values())[2:] for row in rows] for rows in outputs]
    table = [tuple(row[2:]) for row in server.query("SELECT * FROM answer ORDER BY ctid")]
    assert len(table) == sum(map(len, payloads)) > 0
    for payload in payloads:
        mine = set(payload)
        assert [row for row in table if row in mine] == payload


def test_the_server_is_killed_during_a_delivery(
    server: PostgresServer, events: Path, gate: Gate, tmp_path: Path
) -> None:
    """The job keeps running; its deliveries wait and then continue at their positions."""
    gate.close_at(ROWS // 2)
    killed: list[dict[str, Any]] = []
    dice = random.Random(5)

    def kill(status: dict[str, Any]) -> None:
        rows = sum(row["rows"] for row in status.get("deliveries", ()))
        if len(killed) < SERVER_KILLS and rows > 0 and status["state"] == "running":
            killed.append(status)
            time.sleep(dice.random() * 0.05)  # the moment of the kill
            server.kill()
            server.start()
            if len(killed) == SERVER_KILLS:
                gate.open()

    job = jobmanager.run(
        delivered(events, "table:answer", server.dsn),
        root=str(tmp_path / "job"),
        executor="local",
        paced=PACE,
        fsync=False,
        on_status=kill,
    )
    status = job.wait(WAIT_S)
    assert len(killed) == SERVER_KILLS
    assert {row["state"] for row in status["deliveries"]} == {"finished"}
    check_table(server, job)


def test_driver_and_server_are_killed_repeatedly(
    server: PostgresServer, events: Path, tmp_path: Path
) -> None:
    """SIGKILL at any moment, also within a commit; the last run is in this process."""
    dice = random.Random(4)
    root = tmp_path / "job"
    command = [sys.executable, "-m", "tests.support.killed_delivery"]
    for life in range(KILLS):
        lines = dice.randrange(1, 40)
        process = subprocess.Popen(
            [*command, str(events), str(root), str(PACE), "table:answer", server.dsn],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout as statuses:
            for count, _ in enumerate(statuses):
                if count == lines // 2 and life % 2:
                    server.kill()
                    server.start()
                if count == lines:
                    break
            process.kill()
        process.wait(WAIT_S)
    job = jobmanager.resume(str(root))
    job.wait(WAIT_S)
    check_table(server, job)
    whole = jobmanager.run(
        two_exchanges(events), root=str(tmp_path / "whole"), executor="local", fsync=False
    )
    whole.wait(WAIT_S)
    check_table(server, whole)
