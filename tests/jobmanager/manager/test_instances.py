"""Whole jobs whose instances join and retire: drains, stragglers and lost hosts, on threads.

Not covered: what happens between processes (tests/spark), or at every moment (tests/sim).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import jobmanager
from jobmanager import JobConfig
from jobmanager.storage.root import DRAIN, JobRoot
from tests.support.jobs import (
    ROWS,
    WAIT_S,
    outcome,
    output_items,
    two_exchanges,
    with_limits,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.trouble import Gate

PACE = 16.0


class Drainer:
    """Drains a host when an eighth of the events were read, and observes its shutdown.

    The job waits until ``has_seen`` is true.
    """

    def __init__(
        self, root: Path, host: str, gate: Gate, has_seen: Callable[[Drainer], bool]
    ) -> None:
        self._root, self._host = JobRoot(str(root)), host
        self._gate, self._has_seen = gate, has_seen
        self._is_asked = False
        self.states: set[str] = set()
        self.roles: set[str] = set()
        gate.close_at(ROWS // 2)

    def __call__(self, status: dict[str, Any]) -> None:
        hosts = {row["host"]: row for row in status["hosts"]}
        self.states.add(hosts[self._host]["state"])
        self.roles |= {i["role"] for row in status["vertices"] for i in row["instances"]}
        all_ready = all(row["state"] == "ready" for row in hosts.values())
        if not self._is_asked and all_ready and status["events_in"] > ROWS // 8:
            assert not hosts[self._host]["cannot_drain"]
            self._root.request(DRAIN + self._host)
            self._is_asked = True
        if self._has_seen(self):
            self._gate.open()


@pytest.mark.slow
@pytest.mark.parametrize(
    "recovery",
    [
        "replication",
        "checkpoint",
        "replay",
    ],
)
def test_a_host_is_drained_without_a_restart(
    recovery: str, events: Path, expected: jobmanager.Job, gate: Gate, tmp_path: Path
) -> None:
    drainer = Drainer(tmp_path / "job", "h1.0", gate, lambda d: {"draining", "twin"} <= d.roles)
    config = with_limits(JobConfig(tick_s=0.01, twins_max=16), step_rows_max=200)
    options: Any = {"recovery": recovery, "checkpoint_interval": "50ms"}
    job = jobmanager.run(
        two_exchanges(events),
        root=str(tmp_path / "job"),
        executor="local",
        hosts=3,
        paced=PACE,
        config=config,
        on_status=drainer,
        **options,
    )
    status = job.wait(WAIT_S)
    assert outcome(status) == outcome(expected.status())
    assert output_items(status["output"]) == output_items(expected.output)
    assert {"ready", "draining"} <= drainer.states, "it may be empty only after the job's end"
    assert {"draining", "twin"} <= drainer.roles
    assert status["restarts"] == 0
