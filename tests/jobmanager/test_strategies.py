"""Whole jobs recovered by replay and by replication: hosts are cut off, results are the same.

Not covered: processes that are killed (tests/spark); rare orders of events (tests/sim).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager.config import JobConfig
from tests.support.jobs import (
    ROWS,
    outcome,
    output_items,
    two_exchanges,
    with_limits,
    write_events,
)
from tests.support.trouble import Disturber, Gate, cut_off

if TYPE_CHECKING:
    from pathlib import Path

    from rvertex.vertex.spec import Strategy

PACE = 40.0
WAIT_S = 120.0


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


@pytest.fixture(scope="module")
def expected(events: Path, tmp_path_factory: pytest.TempPathFactory) -> jobmanager.Job:
    root = str(tmp_path_factory.mktemp("expected") / "job")
    job = jobmanager.run(two_exchanges(events), root=root, executor="local")
    job.wait(WAIT_S)
    return job


@pytest.mark.usefixtures("brittle_lines")
@pytest.mark.parametrize(
    ("strategy", "which"),
    [
        ("replay", [0, 1]),
        pytest.param("replication", [0], marks=pytest.mark.slow),
        pytest.param("replay", [1], marks=pytest.mark.slow),
        pytest.param("replay", [0, 1, 2], marks=pytest.mark.slow),
        pytest.param("replication", [1], marks=pytest.mark.slow),
        pytest.param("replication", [2], marks=pytest.mark.slow),
        pytest.param("replication", [0, 1, 2], marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_hosts_are_disconnected(
    strategy: Strategy,
    which: list[int],
    events: Path,
    expected: jobmanager.Job,
    gate: Gate,
    tmp_path: Path,
) -> None:
    disturber = Disturber([1, ROWS // 2, ROWS * 3 // 4], partial(cut_off, which), gate)
    config = with_limits(JobConfig(tick_s=0.02), checkpoint_interval_s=0.05, step_rows_max=200)
    job = jobmanager.run(
        two_exchanges(events),
        root=str(tmp_path / "job"),
        executor="local",
        hosts=3,
        paced=PACE,
        config=config,
        on_status=disturber,
        recovery=strategy,
    )
    status = job.wait(WAIT_S)
    assert disturber.calls == 3
    assert outcome(status) == outcome(expected.status())
    assert output_items(status["output"]) == output_items(expected.output)
