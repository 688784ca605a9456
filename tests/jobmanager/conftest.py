"""Fixtures: the executors of jobs in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import jobmanager
from jobmanager.driver import engine
from rvertex.host.executor import LocalExecutor
from tests.support.jobs import WAIT_S, two_exchanges, write_events
from tests.support.trouble import BrittleWiring, Gate

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def brittle_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of local hosts that :func:`tests.support.trouble.cut_off` can break."""
    BrittleWiring.lines.clear()
    monkeypatch.setattr(
        engine,
        "LocalExecutor",
        lambda vertices, hosts: LocalExecutor(vertices, hosts=hosts, wire=BrittleWiring),
    )


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Blocks the sources of local hosts when the test closes it."""
    gate = Gate()
    gate.stand(monkeypatch)
    return gate


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events of :func:`tests.support.jobs.two_exchanges`; some modules override them."""
    return write_events(tmp_path_factory.mktemp("events") / "events.parquet")


@pytest.fixture(scope="module")
def expected(events: Path, tmp_path_factory: pytest.TempPathFactory) -> jobmanager.Job:
    """The finished job over these events, without failures."""
    root = tmp_path_factory.mktemp("expected") / "job"
    job = jobmanager.run(two_exchanges(events), root=str(root), executor="local")
    job.wait(WAIT_S)
    return job
