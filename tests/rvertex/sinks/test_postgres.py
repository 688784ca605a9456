"""The destination suite on a real PostgreSQL server, which is also killed and restarted."""

from __future__ import annotations

import datetime
import json
import os
import random
import signal
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import adbc_driver_postgresql.dbapi as adbc
import numpy as np
import pyarrow as pa
import pytest

from rstream.errors import MissingSecretError, OperatingError, StreamEngineError
from rstream.items.json_text import json_text
from rvertex.sinks.errors import (
    DeliveryUnknownError,
    DestinationError,
    DestinationRefusedError,
    DestinationSchemaError,
    RowsRefusedError,
)
from rvertex.sinks.postgres import PostgresDestination
from rvertex.sinks.postgres_columns import columns_of
from rvertex.sinks.protocol import DeliveredRows
from rvertex.sinks.spec import DeliveryPlace, PostgresSink, destination
from tests.rvertex.sinks.conformance import Conformance, deliver
from tests.rvertex.sinks.places import SCHEMA, Row, expected, items, progress
from tests.support.cutting_proxy import CuttingProxy
from tests.support.postgres_server import PostgresServer

if TYPE_CHECKING:
    from tests.rvertex.sinks.places import Place

#: Columns that become documents.
JSON = ("list", "map", "record")
SERVER_KILLS = 5


@dataclass(frozen=True)
class PostgresPlace:
    """A table in its own schema."""

    sink: PostgresSink
    key: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=lambda: {"fine": "nanoseconds"})

    def destination(self, partition: int, schema: pa.Schema = SCHEMA) -> PostgresDestination:
        return PostgresDestination(self.sink, DeliveryPlace("job", "d", partition, 2, schema))

    def rows(self) -> list[Row]:
        """In the physical order of the table, which is the order of insertion."""
        with adbc.connect(self.sink.dsn, autocommit=True) as client, client.cursor() as cursor:
            cursor.execute(f"SELECT to_regclass('{self.sink.table}') IS NOT NULL")
            if cursor.fetchone() == (False,):
                return []
            order = ", ".join(self.key) or "ctid"
            cursor.execute(f"SELECT * FROM {self.sink.table} ORDER BY {order}")
            found: list[Row] = cursor.fetch_arrow_table().to_pylist()
        for row in found:
            row.update({name: json.loads(row[name]) for name in JSON if row.get(name)})
        return found

    def shown(self, column: str, value: Any) -> Any:
        """The client returns exact numbers as text, and documents as JSON text."""
        if value is None:
            return None
        if column in JSON:
            return json.loads(json_text(value))
        if column == "span":
            return pa.MonthDayNano([0, 0, value // datetime.timedelta(microseconds=1) * 1000])
        return str(value) if column in ("u64", "money", "wide", "huge") else value


class TestPostgres(Conformance):
    @pytest.fixture
    def place(self, postgres: PostgresServer, postgres_schema: str) -> PostgresPlace:
        return PostgresPlace(PostgresSink(postgres.dsn, f"{postgres_schema}.rows"))


def destination_of(
    server: PostgresServer, table: str, schema: pa.Schema, **fields: Any
) -> PostgresDestination:
    sink = PostgresSink(server.dsn, table, **fields)
    sink.check(schema)
    opened = destination(sink, DeliveryPlace("job", "d", 0, 1, schema))
    assert isinstance(opened, PostgresDestination)
    return opened


def rows_of(first_seq: int, **columns: list[Any]) -> DeliveredRows:
    batch = pa.RecordBatch.from_pydict(columns)
    seqs = np.arange(first_seq, first_seq + batch.num_rows)
    return DeliveredRows(first_seq, first_seq + batch.num_rows, seqs, batch)


KEYED = pa.schema([("k", pa.string()), ("v", pa.int64())])


@pytest.mark.slow
class TestUpsert(Conformance):
    """With a key that is unique per row, an upserted table equals an appended one."""

    @pytest.fixture
    def place(self, postgres: PostgresServer, postgres_schema: str) -> PostgresPlace:
        sink = PostgresSink(postgres.dsn, f"{postgres_schema}.rows", "upsert", ("part", "n"))
        return PostgresPlace(sink, key=("part", "n"))

    def test_every_type_is_read_back(self, place: Place) -> None:
        """An upsert needs a key that identifies a row, and these rows have none."""


def test_the_last_row_of_a_key_wins(postgres: PostgresServer, postgres_schema: str) -> None:
    table = f"{postgres_schema}.latest"
    keyed = destination_of(postgres, table, KEYED, mode="upsert", key=("k",))
    keyed.open(1)
    keyed.write(rows_of(0, k=["a", "b", "a", None], v=[1, 2, 3, 4]))
    keyed.write(rows_of(4, k=["b", None], v=[5, 6]))
    keyed.commit(progress(0, 6))
    asked = f"SELECT k, v FROM {table} ORDER BY k"
    assert postgres.query(asked) == [("a", 3), ("b", 5), (None, 6)]
    keyed.write(rows_of(6, k=["a", "c"], v=[7, 8]))
    keyed.commit(progress(0, 8))
    assert postgres.query(asked) == [("a", 7), ("b", 5), ("c", 8), (None, 6)]
    keyed.close()


def test_a_table_with_only_key_columns(postgres: PostgresServer, postgres_schema: str) -> None:
    schema = pa.schema([("k", pa.string())])
    table = f"{postgres_schema}.seen"
    keyed = destination_of(postgres, table, schema, mode="upsert", key=("k",))
    keyed.open(1)
    keyed.write(rows_of(0, k=["a", "b", "a"]))
    keyed.commit(progress(0, 3))
    keyed.close()
    assert postgres.query(f"SELECT k FROM {table} ORDER BY k") == [("a",), ("b",)]


def test_names_are_quoted(postgres: PostgresServer, postgres_schema: str) -> None:
    schema = pa.schema([('a "b"; DROP', pa.int64()), ("Select", pa.int64())])
    table = f'{postgres_schema}."My Table"'
    for mode, key in (("append", ()), ("upsert", ("Select",))):
        named = destination_of(postgres, table, schema, mode=mode, key=key)
        if mode == "upsert":
            postgres.query(f'CREATE UNIQUE INDEX ON {table} ("Select")')
        found = named.open(1)
        first = 0 if found is None else found.next_seq
        named.write(rows_of(first, **{'a "b"; DROP': [1], "Select": [2 + first]}))
        named.commit(progress(0, first + 1))
        named.close()
    assert postgres.query(f"SELECT * FROM {table}") == [(1, 2), (1, 3)]


def test_an_existing_table_is_used(postgres: PostgresServer, postgres_schema: str) -> None:
    """An existing table may have more columns, another order of columns, and wider types."""
    table = f"{postgres_schema}.there"
    postgres.query(
        f"CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY, v bigint NOT NULL, "
        "note text DEFAULT 'new', k varchar(5))"
    )
    there = destination_of(postgres, table, KEYED)
    there.open(1)
    there.write(rows_of(0, k=["a", None], v=[1, 2]))
    there.commit(progress(0, 2))
    assert postgres.query(f"SELECT * FROM {table}") == [
        (1, 1, "new", "a"),
        (2, 2, "new", None),
    ]
    there.write(rows_of(2, k=["b", "too long"], v=[3, 4]))
    with pytest.raises(RowsRefusedError, match=r"items \[2, 4\): .*character varying\(5\)"):
        there.commit(progress(0, 4))
    there.open(1)
    there.write(rows_of(2, k=["nul\0"], v=[3]))
    with pytest.raises(RowsRefusedError, match="0x00"):
        there.commit(progress(0, 3))
    assert there.open(1) == progress(0, 2)
    there.close()


@pytest.mark.parametrize(
    ("columns", "fields", "reason"),
    [
        ("k text, v integer", {}, "column 'v' needs the type bigint, the table has it as integer"),
        ("k text", {}, "column 'v' needs the type bigint, the table does not have it"),
        ("k text, v bigint, w text NOT NULL", {}, "the query has no w, and the table requires"),
        ("k text, v bigint", {"mode": "upsert", "key": ("k",)}, "needs a unique index on exactly"),
    ],
)
def test_an_existing_table_that_does_not_match_is_rejected(
    postgres: PostgresServer,
    postgres_schema: str,
    columns: str,
    fields: dict[str, Any],
    reason: str,
) -> None:
    postgres.query(f"CREATE TABLE {postgres_schema}.t ({columns})")
    with pytest.raises(DestinationSchemaError, match=reason):
        destination_of(postgres, f"{postgres_schema}.t", KEYED, **fields).open(1)


def test_many_rows_are_sent_before_a_commit_and_visible_after_it(
    postgres: PostgresServer, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many rows are sent before a commit, and become visible with the commit."""
    monkeypatch.setattr("rvertex.sinks.postgres.BUFFER_BYTES_MAX", 0)
    many = destination_of(postgres, f"{postgres_schema}.many", KEYED)
    many.open(1)
    for seq in (0, 2):
        for k in range(2):
            many.write(rows_of(seq + k, k=["a"], v=[seq + k]))
        assert postgres.query(f"SELECT count(*) FROM {postgres_schema}.many") == [(seq,)]
        many.commit(progress(0, seq + 2))
        assert postgres.query(f"SELECT count(*) FROM {postgres_schema}.many") == [(seq + 2,)]
    many.close()


def test_an_error_at_commit_is_permanent(postgres: PostgresServer, postgres_schema: str) -> None:
    table = f"{postgres_schema}.deferred"
    unique = "k text UNIQUE DEFERRABLE INITIALLY DEFERRED"
    postgres.query(f"CREATE TABLE {table} ({unique}, v bigint)")
    refused = destination_of(postgres, table, KEYED)
    refused.open(1)
    refused.write(rows_of(0, k=["a", "a"], v=[1, 2]))
    with pytest.raises(RowsRefusedError, match="duplicate key"):
        refused.commit(progress(0, 2))
    assert refused.open(1) is None
    refused.close()


def test_an_unrelated_process_with_the_pid_of_an_older_writer_survives(
    postgres: PostgresServer, postgres_schema: str
) -> None:
    """The server reuses pids; the recorded one belongs to a writer with another start time."""
    old, successor = (destination_of(postgres, f"{postgres_schema}.t", KEYED) for _ in range(2))
    old.open(1)
    old.close()
    with adbc.connect(postgres.dsn, autocommit=True) as other, other.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (number,) = cursor.fetchone() or (0,)
        postgres.query(f"UPDATE {postgres_schema}.streamscope_deliveries SET backend = {number}")
        assert successor.open(2) is None
        cursor.execute("SELECT pg_backend_pid()")
        assert cursor.fetchone() == (number,)
    successor.close()


def test_a_partial_unique_index_does_not_count(
    postgres: PostgresServer, postgres_schema: str
) -> None:
    table = f"{postgres_schema}.partial"
    postgres.query(f"CREATE TABLE {table} (k text, v bigint)")
    postgres.query(f"CREATE UNIQUE INDEX ON {table} (k) WHERE v > 0")
    with pytest.raises(DestinationSchemaError, match="needs a unique index on exactly"):
        destination_of(postgres, table, KEYED, mode="upsert", key=("k",)).open(1)


def test_a_missing_schema_is_an_error(postgres: PostgresServer) -> None:
    refused = 'schema "nowhere" does not exist.*create the schema'
    with pytest.raises(DestinationRefusedError, match=refused):
        destination_of(postgres, "nowhere.t", KEYED).open(1)


def test_numbers_keep_their_digits() -> None:
    (column,) = columns_of("t", pa.schema([("x", pa.decimal128(10, 2))]))
    fit = {"numeric": True, "numeric(10,2)": True, "numeric(12,4)": True, "numeric(12,5)": False}
    fit |= {"numeric(10,1)": False, "text": False}
    assert {kind: column.fits(kind) for kind in fit} == fit


def test_secrets_come_from_the_environment(
    postgres: PostgresServer, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = PostgresSink("env:ORDERS_DB", f"{postgres_schema}.t")
    place = DeliveryPlace("job", "d", 0, 1, KEYED)
    with pytest.raises(MissingSecretError, match="ORDERS_DB"):
        PostgresDestination(sink, place).open(1)
    monkeypatch.setenv("ORDERS_DB", f"{postgres.dsn} password=hush")
    with_secret = PostgresDestination(sink, place)
    assert with_secret.open(1) is None
    with_secret.close()
    unreadable = ("hush=1 hush", "host=x hush", "postgres://me:x@h/d?hush=1", "host='hush")
    for dsn in (*unreadable, "host=/nowhere password=hush", "postgres://me:hush@127.0.0.1:1/x"):
        monkeypatch.setenv("ORDERS_DB", dsn)
        with pytest.raises((DestinationError, DestinationRefusedError)) as failed:
            PostgresDestination(sink, place).open(1)
        assert "hush" not in str(failed.value), dsn


@pytest.mark.slow
def test_a_process_suspended_before_its_commit_delays_nobody(
    postgres: PostgresServer, postgres_schema: str
) -> None:
    """A writer sleeps within its transaction; its successor does not wait for its lock."""
    table = f"{postgres_schema}.held"
    old, successor = (destination_of(postgres, table, KEYED) for _ in range(2))
    old.open(1)
    old.write(rows_of(0, k=["a"], v=[1]))
    assert old._prepare(progress(0, 1))
    assert successor.open(2) is None
    successor.write(rows_of(0, k=["b"], v=[2]))
    successor.commit(progress(0, 1))
    with pytest.raises(StreamEngineError):
        old.commit(progress(0, 1))
    assert postgres.query(f"SELECT k FROM {table}") == [("b",)]
    old.close()
    successor.close()


def test_an_ended_connection_is_an_operating_error(
    postgres: PostgresServer, postgres_schema: str
) -> None:
    """Close the connection, like a restart of the server, an idle limit or an operator."""
    cut = destination_of(postgres, f"{postgres_schema}.t", KEYED)
    cut.open(1)
    cut.write(rows_of(0, k=["a"], v=[1]))
    postgres.query(
        f"SELECT pg_terminate_backend(backend) FROM {postgres_schema}.streamscope_deliveries"
    )
    with pytest.raises(OperatingError):
        cut.commit(progress(0, 1))
    with pytest.raises(DestinationError, match="open it again"):
        cut.commit(progress(0, 1))
    assert cut.open(1) is None
    cut.write(rows_of(0, k=["a"], v=[1]))
    cut.commit(progress(0, 1))
    cut.close()
    assert postgres.query(f"SELECT v FROM {postgres_schema}.t") == [(1,)]


def test_a_server_without_a_response(
    postgres: PostgresServer, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wait has a limit; once the server continues, so does the delivery."""
    stuck = destination_of(postgres, f"{postgres_schema}.t", KEYED)
    stuck.open(1)
    ((backend,),) = postgres.query(f"SELECT backend FROM {postgres_schema}.streamscope_deliveries")
    stuck.write(rows_of(0, k=["a"], v=[1]))
    monkeypatch.setattr("rvertex.sinks.postgres.ANSWER_WAIT_S", 0.3)
    os.kill(backend, signal.SIGSTOP)
    try:
        with pytest.raises(OperatingError, match=r"no answer in 0\.3 s"):
            stuck.commit(progress(0, 1))
    finally:
        os.kill(backend, signal.SIGCONT)
    monkeypatch.undo()
    assert stuck.open(1) is None
    stuck.write(rows_of(0, k=["a"], v=[1]))
    stuck.commit(progress(0, 1))
    stuck.close()
    assert postgres.query(f"SELECT v FROM {postgres_schema}.t") == [(1,)]


@pytest.mark.parametrize("is_answer", [False, True], ids=["question", "answer"])
def test_the_connection_breaks_during_a_commit(
    postgres: PostgresServer, postgres_schema: str, is_answer: bool
) -> None:
    """The connection breaks during a commit; reopening shows whether it took effect."""
    with CuttingProxy(postgres.folder) as proxy:
        dsn = postgres.dsn.replace(str(postgres.folder), proxy.folder)
        place = DeliveryPlace("job", "d", 0, 1, KEYED)
        cut = PostgresDestination(PostgresSink(dsn, f"{postgres_schema}.t"), place)
        cut.open(1)
        cut.write(rows_of(0, k=["a"], v=[1]))
        cut.commit(progress(0, 1))
        cut.write(rows_of(1, k=["b"], v=[2]))
        if is_answer:
            proxy.cut_to_client = b"COMMIT\0"
        else:
            proxy.cut_to_server = b"COMMIT\0"
        with pytest.raises(DeliveryUnknownError):
            cut.commit(progress(0, 2))
        proxy.cut_to_client = proxy.cut_to_server = b""
        assert cut.open(1) == progress(0, 2 if is_answer else 1)
        cut.close()
    rows = [(1,), (2,)] if is_answer else [(1,)]
    assert postgres.query(f"SELECT v FROM {postgres_schema}.t") == rows


@pytest.mark.slow
def test_the_server_is_killed_during_a_delivery() -> None:
    """SIGKILL of the postmaster at any moment; the delivery continues when the server is back."""
    server, dice, kills = PostgresServer(), random.Random(3), 0
    place = PostgresPlace(PostgresSink(server.dsn, "rows"))
    delivered, next_seq, epoch = place.destination(0), 0, 1
    delivered.open(epoch)
    errors: set[str] = set()
    try:
        while kills < SERVER_KILLS:
            if kills:  # however busy the machine is, something was committed
                deliver(delivered, 0, next_seq, next_seq + 3)
                next_seq += 3
            killer = threading.Timer(dice.random() * 0.05 * (1 + kills), server.kill)
            killer.start()
            try:
                while True:  # until the server is gone
                    delivered.write(items(0, next_seq, next_seq + 3))
                    delivered.commit(progress(0, next_seq + 3))
                    next_seq += 3
            except OperatingError as error:
                errors.add(type(error).__name__)
            killer.join()
            with pytest.raises(DestinationError):
                delivered.open(epoch)
            server.start()
            kills, epoch = kills + 1, epoch + 1
            found = delivered.open(epoch)
            assert found in (None, progress(0, next_seq), progress(0, next_seq + 3))
            next_seq = 0 if found is None else found.next_seq
            assert place.rows() == expected(0, next_seq)
        delivered.close()
        assert next_seq > 0
        assert errors <= {"DestinationError", "DeliveryUnknownError"}
    finally:
        server.close()
