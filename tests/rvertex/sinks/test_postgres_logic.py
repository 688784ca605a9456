"""The destination suite on a simulated server, for the logic of PostgreSQL deliveries.

Not covered: behaviour of a real server, for which test_postgres.py runs the same suite.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import adbc_driver_manager
import adbc_driver_postgresql.dbapi as adbc
import numpy as np
import pyarrow as pa
import pytest

from rstream.errors import OperatingError
from rvertex.sinks.errors import (
    DeliveryFencedError,
    DeliveryUnknownError,
    DestinationError,
    DestinationGoneError,
    RowsRefusedError,
)
from rvertex.sinks.postgres import PostgresDestination
from rvertex.sinks.postgres_columns import columns_of
from rvertex.sinks.postgres_errors import one_line
from rvertex.sinks.postgres_sql import Statements
from rvertex.sinks.protocol import DeliveredRows
from rvertex.sinks.spec import DeliveryPlace, PostgresSink
from tests.rvertex.sinks.conformance import Conformance
from tests.rvertex.sinks.places import SCHEMA, Row, expected, items, progress
from tests.support.duckdb_server import Server

if TYPE_CHECKING:
    from rvertex.sinks.spec import Deletes


@dataclass(frozen=True)
class LocalPlace:
    """A table of the simulated server in this process."""

    server: Server
    sink: PostgresSink
    refused: dict[str, str] = field(default_factory=dict)

    def destination(self, partition: int, schema: pa.Schema = SCHEMA) -> PostgresDestination:
        return PostgresDestination(self.sink, DeliveryPlace("job", "d", partition, 2, schema))

    def rows(self) -> list[Row]:
        if self.sink.table not in self.server.made:
            return []
        order = ", ".join(self.sink.key) or "rowid"
        found = self.server.query(f"SELECT * FROM {self.sink.table} ORDER BY {order}")
        return [dict(zip(SCHEMA.names, row, strict=True)) for row in found]

    def shown(self, column: str, value: Any) -> Any:
        return value


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(adbc, "connect", made.connect)
    return made


class _Here(Conformance):
    """Tests that need no second process and no types of the server."""

    test_killed_between_any_two_calls: ClassVar[None] = None  # type: ignore[assignment]
    test_killed_within_a_call: ClassVar[None] = None  # type: ignore[assignment]
    test_frozen_between_calls: ClassVar[None] = None  # type: ignore[assignment]
    test_frozen_within_a_commit: ClassVar[None] = None  # type: ignore[assignment]
    test_large_and_many: ClassVar[None] = None  # type: ignore[assignment]
    test_every_type_is_read_back: ClassVar[None] = None  # type: ignore[assignment]
    test_rejected_types_are_named: ClassVar[None] = None  # type: ignore[assignment]


class TestAppend(_Here):
    @pytest.fixture
    def place(self, server: Server) -> LocalPlace:
        return LocalPlace(server, PostgresSink("dsn", "rows"))


class TestUpsert(_Here):
    @pytest.fixture
    def place(self, server: Server) -> LocalPlace:
        return LocalPlace(server, PostgresSink("dsn", "rows", "upsert", ("part", "n")))


MODES = pytest.mark.parametrize(
    "sink",
    [PostgresSink("dsn", "rows"), PostgresSink("dsn", "rows", "upsert", ("part", "n"))],
    ids=["append", "upsert"],
)


@MODES
@pytest.mark.parametrize("epoch", [1, 2])
@pytest.mark.parametrize("has_sent", [False, True])
def test_an_old_connection_cannot_move_the_progress_after_a_takeover(
    sink: PostgresSink, epoch: int, has_sent: bool, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old connection changes nothing after a handle was opened again, even in the same epoch."""
    place = LocalPlace(server, sink)
    old, successor = place.destination(0), place.destination(0)
    assert old.open(1) is None
    if has_sent:
        monkeypatch.setattr("rvertex.sinks.postgres.BUFFER_BYTES_MAX", 0)
    old.write(items(0, 0, 4))
    monkeypatch.setattr(Statements, "end_writer", lambda *_: "SELECT 1 WHERE false")
    assert successor.open(epoch) is None
    with pytest.raises(OperatingError if has_sent else DeliveryFencedError):
        old.commit(progress(0, 4))
    assert place.rows() == []
    successor.write(items(0, 0, 5))
    successor.commit(progress(0, 5))
    assert place.rows() == expected(0, 5)
    successor.close()


def test_a_successor_ends_only_the_connection_of_its_predecessor(server: Server) -> None:
    """The old backend may hold a lock while it sleeps.

    Its pid may now belong to another backend.
    """
    place = LocalPlace(server, PostgresSink("dsn", "rows"))
    old, other, successor = place.destination(0), place.destination(1), place.destination(0)
    old.open(1)
    other.open(1)
    assert successor.open(2) is None
    assert sorted(server.backends) == [2, 3]
    server.query("UPDATE streamscope_deliveries SET backend = 2, backend_start = '2000-01-01'")
    assert successor.open(3) is None
    assert sorted(server.backends) == [2, successor._connection.pid], "it began at another time"
    successor.close()
    other.close()


def test_progress_moves_only_for_its_epoch(server: Server) -> None:
    place = LocalPlace(server, PostgresSink("dsn", "rows"))
    writer = place.destination(0)
    writer.open(2)
    for epoch, moved in ((1, []), (3, []), (2, [(1,)])):
        assert writer._run(writer._sql.move(epoch, progress(0, 4))) == moved
    writer.close()


@MODES
def test_an_older_epoch_is_rejected_even_if_it_saw_no_successor(
    sink: PostgresSink, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer takes over between this writer's check and its update."""
    place = LocalPlace(server, sink)
    newer = place.destination(0)
    newer.open(2)
    monkeypatch.setattr(Statements, "writer", lambda _: "SELECT 1 WHERE false")
    with pytest.raises(DeliveryFencedError):
        place.destination(0).open(1)
    newer.write(items(0, 0, 4))
    newer.commit(progress(0, 4))
    assert place.rows() == expected(0, 4)
    newer.close()


@pytest.mark.parametrize(
    ("state", "meaning"), [("", DeliveryUnknownError), ("23505", RowsRefusedError)]
)
def test_responses_to_a_commit(state: str, meaning: type[Exception], server: Server) -> None:
    place = LocalPlace(server, PostgresSink("dsn", "rows"))
    lost = place.destination(0)
    lost.open(1)
    lost.write(items(0, 0, 4))
    server.fails_at_commit = adbc_driver_manager.OperationalError(
        "no answer", status_code=adbc_driver_manager.AdbcStatusCode.IO, sqlstate=state or None
    )
    with pytest.raises(meaning):
        lost.commit(progress(0, 4))
    with pytest.raises(OperatingError, match="open it again"):
        lost.commit(progress(0, 4))
    server.fails_at_commit = None
    assert lost.open(1) is None
    lost.write(items(0, 0, 4))
    lost.commit(progress(0, 4))
    assert place.rows() == expected(0, 4)
    lost.close()


def test_rejected_rows_are_those_since_the_last_commit(server: Server) -> None:
    refused = LocalPlace(server, PostgresSink("dsn", "rows")).destination(0)
    refused.open(1)
    refused.write(items(0, 0, 4))
    refused.commit(progress(0, 4))
    refused.write(items(0, 4, 5))
    refused.write(items(0, 5, 9))
    server.fails_at_commit = adbc_driver_manager.OperationalError(
        "no", status_code=adbc_driver_manager.AdbcStatusCode.IO, sqlstate="23505"
    )
    with pytest.raises(RowsRefusedError, match=r"\[4, 9\)"):
        refused.commit(progress(0, 9))


def test_the_last_row_of_a_key_wins(server: Server) -> None:
    """Within a commit and across several; rows of one are not repeated with the next."""
    place = LocalPlace(server, PostgresSink("dsn", "rows", "upsert", ("part",)))
    keyed = place.destination(0)
    keyed.open(1)
    for first, end in ((0, 5), (5, 6), (6, 12)):
        keyed.write(items(0, first, end))
        keyed.commit(progress(0, end))
        assert place.rows() == expected(0, end)[-1:]
    keyed.close()


def test_a_dropped_table_is_not_created_again(server: Server) -> None:
    """A new table would lack the rows already delivered."""
    place = LocalPlace(server, PostgresSink("dsn", "rows"))
    for partition in (0, 1):
        writer = place.destination(partition)
        writer.open(1)
        writer.close()
    server.query('DROP TABLE "rows"')
    writer = place.destination(0)
    assert writer.open(2) is None, "nothing was delivered"
    writer.write(items(0, 0, 4))
    writer.commit(progress(0, 4))
    writer.close()
    server.query('DROP TABLE "rows"')
    for partition in (0, 1):
        with pytest.raises(DestinationGoneError):
            place.destination(partition).open(3)


def test_a_server_without_a_response_gets_a_new_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old connection is not closed properly: a call is still pending on it."""
    writer = LocalPlace(server, PostgresSink("dsn", "rows")).destination(0)
    writer.open(1)
    monkeypatch.setattr("rvertex.sinks.postgres.ANSWER_WAIT_S", 0.05)
    stuck, answers = writer._connection, threading.Event()
    asked: list[str] = []
    monkeypatch.setattr(stuck, "execute", lambda _: answers.wait(60))
    monkeypatch.setattr(stuck, "close", lambda: asked.append("close"))
    writer.write(items(0, 0, 4))
    with pytest.raises(DestinationError):
        writer.commit(progress(0, 4))
    answers.set()
    assert (asked, writer._connection) == ([], None)


def test_rows_are_sent_only_when_there_are_many(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LocalPlace(server, PostgresSink("dsn", "rows")).destination(0)
    writer.open(1)
    sent: list[int] = []
    monkeypatch.setattr(writer, "_ingest", lambda table: sent.append(table.num_rows))
    one = items(0, 1, 2)
    monkeypatch.setattr("rvertex.sinks.postgres.BUFFER_BYTES_MAX", int(2.5 * one.table.nbytes))
    for seq in (1, 2, 4, 5, 7, 8, 10):
        writer.write(items(0, seq, seq + 1))
    assert sent == [3, 3]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("sign", ["", "u"])
def test_a_column_of_integers_fits_all_of_them(bits: int, sign: str) -> None:
    kind = pa.type_for_alias(f"{sign}int{bits}")
    limits = np.iinfo(f"{sign}int{bits}")
    ends = pa.array([int(limits.min), int(limits.max)], kind)
    (column,) = columns_of("t", pa.schema([("n", kind)]))
    assert [int(v) for v in column.convert(ends).to_pylist()] == [int(limits.min), int(limits.max)]
    digits = {"smallint": 16, "integer": 32, "bigint": 64, "numeric(20,0)": 65}
    assert digits[column.kind] >= bits + (sign == "u")


LIVING = pa.schema(
    [("k", pa.string()), ("v", pa.int64()), ("since", pa.int64()), ("until", pa.int64())]
)


@pytest.mark.parametrize(
    ("deletes", "commits"),
    [("delete", [6]), ("mark", [2, 6]), ("mark", [6]), ("ignore", [6])],
)
def test_a_row_that_starts_and_ends_in_one_commit(
    deletes: Deletes, commits: list[int], server: Server
) -> None:
    """The row that ends is the one that started, whatever its end; its key may start again."""
    sink = PostgresSink("dsn", "rows", "upsert", ("k",), deletes=deletes)
    place = DeliveryPlace("job", "d", 0, 1, LIVING, end="until")
    writer = PostgresDestination(sink, place)
    writer.open(1)
    rows = [
        ("a", 1, 1, None), ("c", 3, 1, None), ("a", 1, 1, 9), ("b", 2, 1, None), ("b", 2, 1, 9),
        ("b", 2, 9, None),
    ]  # fmt: skip
    for first, end in pairwise([0, *commits]):
        some = rows[first:end]
        columns = [pa.array(column) for column in zip(*some, strict=True)]
        columns = [column.cast(field.type) for column, field in zip(columns, LIVING, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=LIVING)
        ends = np.array([row[3] is not None for row in some])
        at = np.array([row[3] or row[2] for row in some])
        writer.write(DeliveredRows(first, end, np.arange(first, end), batch, ends, at))
        writer.commit(progress(0, end))
    found = server.query('SELECT k, v, since, until FROM "rows" ORDER BY k')
    alive = [("b", 2, 9, None), ("c", 3, 1, None)]
    ended = {"delete": [], "mark": [("a", 1, 1, 9)], "ignore": [("a", 1, 1, None)]}
    assert found == [*ended[deletes], *alive]
    writer.close()


def test_messages_of_the_server_omit_the_statement() -> None:
    error = RuntimeError(
        "UNAUTHORIZED: [libpq] Failed to execute query 'INSERT INTO \"t\" VALUES (''a'')\n': "
        "ERROR:  permission denied for table t\n. SQLSTATE: 42501"
    )
    assert one_line(error) == (
        "UNAUTHORIZED: [libpq] ERROR: permission denied for table t . SQLSTATE: 42501"
    )
