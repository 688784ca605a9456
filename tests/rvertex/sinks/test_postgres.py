"""The suite of destinations on a real PostgreSQL server, which is killed and started again, too."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pytest

from rvertex.sinks.json_text import json_text
from rvertex.sinks.postgres import PostgresDestination
from rvertex.sinks.spec import DeliveryPlace, PostgresSink
from tests.rvertex.sinks.conformance import Conformance
from tests.rvertex.sinks.places import SCHEMA, Row

if TYPE_CHECKING:
    from tests.support.postgres_server import PostgresServer

#: Columns that become documents.
JSON = ("list", "record")


@dataclass(frozen=True)
class PostgresPlace:
    """A table in a schema of its own."""

    sink: PostgresSink
    refused: dict[str, str] = field(default_factory=lambda: {"fine": "nanoseconds"})

    def destination(self, partition: int, schema: pa.Schema = SCHEMA) -> PostgresDestination:
        return PostgresDestination(self.sink, DeliveryPlace("job", "d", partition, 2, schema))

    def rows(self) -> list[Row]:
        """In the order in which they lie in the table, which is that of their insertion."""
        with adbc.connect(self.sink.dsn, autocommit=True) as client, client.cursor() as cursor:
            cursor.execute(f"SELECT to_regclass('{self.sink.table}') IS NOT NULL")
            if cursor.fetchone() == (False,):
                return []
            cursor.execute(f"SELECT * FROM {self.sink.table} ORDER BY ctid")
            found: list[Row] = cursor.fetch_arrow_table().to_pylist()
        for row in found:
            row.update({name: json.loads(row[name]) for name in JSON if row.get(name)})
        return found

    def shown(self, column: str, value: Any) -> Any:
        """The client shows exact numbers as text, and documents as the text of JSON."""
        if value is None:
            return None
        if column in JSON:
            return json.loads(json_text(value))
        if column == "span":
            return pa.MonthDayNano([0, 0, value // datetime.timedelta(microseconds=1) * 1000])
        return str(value) if column in ("u64", "money", "wide") else value


class TestPostgres(Conformance):
    @pytest.fixture
    def place(self, postgres: PostgresServer, postgres_schema: str) -> PostgresPlace:
        return PostgresPlace(PostgresSink(postgres.dsn, f"{postgres_schema}.rows"))
