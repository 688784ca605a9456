"""A PostgreSQL server that all tests of a session share; each test has a schema of its own."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.support.postgres_server import PostgresServer, programs

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    if programs() is None:
        pytest.skip("there is no PostgreSQL server here")
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def postgres_schema(postgres: PostgresServer) -> str:
    """A new schema."""
    schema = f"s{uuid.uuid4().hex[:8]}"
    postgres.query(f"CREATE SCHEMA {schema}")
    return schema
