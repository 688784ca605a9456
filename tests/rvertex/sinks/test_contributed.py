"""The destination in CONTRIBUTING.md passes the suite, except for its documented limits."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from rvertex.sinks.spec import DeliveryPlace
from tests.rvertex.sinks.conformance import Conformance
from tests.rvertex.sinks.places import SCHEMA, Row
from tests.test_contributing import SECTIONS

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from rvertex.sinks.protocol import Destination
    from tests.rvertex.sinks.places import Place

SHOWN: dict[str, Any] = {}
exec(SECTIONS["Add a destination of deliveries"], SHOWN)


@dataclass(frozen=True)
class SqlitePlace:
    """A database file."""

    path: str
    refused: dict[str, str] = field(default_factory=dict)

    def destination(self, partition: int, schema: pa.Schema = SCHEMA) -> Destination:
        place = DeliveryPlace("job", "d", partition, 2, schema)
        opened: Destination = SHOWN["SqliteDestination"](self.path, place)
        return opened

    def rows(self) -> list[Row]:
        database = sqlite3.connect(self.path)
        try:
            found = database.execute("SELECT * FROM rows ORDER BY rowid").fetchall()
            return [dict(zip(SCHEMA.names, row, strict=True)) for row in found]
        finally:
            database.close()

    def shown(self, column: str, value: Any) -> Any:
        return value


class TestContributed(Conformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> SqlitePlace:
        return SqlitePlace(str(tmp_path / "file"))

    def test_frozen_within_a_commit(self, place: Place) -> None:
        """A writer that sleeps in a transaction locks the file; ``open`` of others waits."""

    def test_every_type_is_read_back(self, place: Place) -> None:
        """SQLite has only five types."""
