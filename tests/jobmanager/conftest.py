"""What jobs in tests run on."""

from __future__ import annotations

import pytest

from jobmanager.driver import engine
from rvertex.host.executor import LocalExecutor
from tests.support.trouble import BrittleWiring, Gate


@pytest.fixture
def brittle_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of local hosts that :func:`tests.support.trouble.cut_off` can cut."""
    BrittleWiring.lines.clear()
    monkeypatch.setattr(
        engine,
        "LocalExecutor",
        lambda vertices, hosts: LocalExecutor(vertices, hosts=hosts, wire=BrittleWiring),
    )


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Stands before the sources of local hosts; open until the test closes it."""
    gate = Gate()
    gate.stand(monkeypatch)
    return gate
