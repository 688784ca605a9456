"""Which errors of a real PostgreSQL server end a delivery, and which are retried."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pytest

from rstream.errors import UsageError
from rvertex.sinks.errors import (
    DeliveryFencedError,
    DestinationError,
    DestinationGoneError,
    DestinationRefusedError,
    DestinationSchemaError,
    InvalidSinkError,
    RowsRefusedError,
)
from rvertex.sinks.postgres_errors import REFUSALS, refusal_of
from rvertex.sinks.spec import DeliveryPlace, PostgresSink, destination
from tests.rvertex.sinks.places import progress
from tests.rvertex.sinks.test_postgres import KEYED, destination_of, rows_of
from tests.support.postgres_server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rvertex.sinks.protocol import Destination

TRUST, SCRAM = "local all postgres trust\n", "local all all scram-sha-256\n"
RELOAD_S_MAX = 120.0


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    """A server with a user ``weak``, whose password is ``right``."""
    server = PostgresServer()
    try:
        server.query("CREATE ROLE weak LOGIN PASSWORD 'right'")
        server.query("CREATE ROLE nologin PASSWORD 'right'")
        server.query("CREATE DATABASE closed ALLOW_CONNECTIONS false")
        (server.folder / "data" / "pg_hba.conf").write_text(TRUST + SCRAM)
        server.query("SELECT pg_reload_conf()")
        until_s = time.monotonic() + RELOAD_S_MAX
        asked = "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method = 'scram-sha-256'"
        while server.query(asked) != [(1,)]:
            assert time.monotonic() < until_s
        yield server
    finally:
        server.close()


def delivery_of(server: PostgresServer, table: str, **changed: str) -> Destination:
    parts = {"host": str(server.folder), "user": "postgres", "dbname": "postgres", **changed}
    dsn = " ".join(f"{name}={value}" for name, value in parts.items())
    return destination(PostgresSink(dsn, table), DeliveryPlace("job", "d", 0, 1, KEYED))


def test_temporary_and_permanent_error_classes() -> None:
    assert [state for state in ("53100", "53300", "57P01", "57014", "40001", "08006", "25006", "")
            if refusal_of(state)] == []  # fmt: skip
    assert [state for state in ("55P03", "55006") if refusal_of(state)] == []
    for state in ("22001", "23505", "44000", "54000", "P0001"):
        assert getattr(refusal_of(state), "is_rows", None) is True, state
    for state in ("28P01", "3D000", "3F000", "42501", "42P01", "0A000", "55000", "57P04", "54011"):
        assert getattr(refusal_of(state), "is_rows", None) is False, state
    assert all(2 <= len(state) <= 5 for state in REFUSALS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"user": "weak", "password": "wrong"}, 'password authentication failed for user "weak"'),
        ({"user": "weak"}, "no password supplied"),
        ({"user": "nologin", "password": "right"}, "not permitted to log in"),
        ({"user": "nobody_there", "password": "right"}, "authentication failed"),
        ({"dbname": "nowhere"}, 'database "nowhere" does not exist'),
        ({"port": "99999"}, "invalid port number"),
        ({"nonsense": "1"}, "the connection string cannot be read"),
    ],
)
def test_a_login_that_is_rejected(
    own: PostgresServer, changed: dict[str, str], reason: str
) -> None:
    with pytest.raises(DestinationRefusedError, match=f"{reason}.*correct the user") as found:
        delivery_of(own, "t", **changed).open(1)
    assert "wrong" not in str(found.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed", [{"dbname": "closed"}, {"port": "1"}, {"host": "nohost.invalid"}]
)
def test_an_unreachable_server_is_tried_again(own: PostgresServer, changed: dict[str, str]) -> None:
    with pytest.raises(DestinationError):
        delivery_of(own, "t", **changed).open(1)


@pytest.mark.slow
def test_a_user_without_permission(own: PostgresServer) -> None:
    """A user lacks the permission to create tables, then to insert, then to add columns."""
    weak = {"user": "weak", "password": "right"}
    with pytest.raises(DestinationRefusedError, match=r"permission denied.*grant the user"):
        delivery_of(own, "kept", **weak).open(1)
    with_tables = delivery_of(own, "kept")
    with_tables.open(1)
    with_tables.close()
    own.query("GRANT SELECT, INSERT, UPDATE ON streamscope_deliveries TO weak")
    delivered = delivery_of(own, "kept", **weak)
    delivered.open(2)
    delivered.write(rows_of(0, k=["a"], v=[1]))
    with pytest.raises(DestinationRefusedError, match="permission denied for table kept"):
        delivered.commit(progress(0, 1))
    own.query("GRANT SELECT, INSERT ON kept TO weak")
    assert delivered.open(2) is None
    delivered.write(rows_of(0, k=["a"], v=[1]))
    delivered.commit(progress(0, 1))
    delivered.close()
    assert own.query("SELECT k FROM kept") == [("a",)]


@pytest.mark.slow
def test_a_column_that_is_added_to_a_started_delivery(own: PostgresServer) -> None:
    """A changed query adds a column to its table, which the role must own."""
    weak = {"user": "weak", "password": "right"}
    own.query("DROP TABLE IF EXISTS streamscope_deliveries")
    own.query("CREATE TABLE widened (k text)")
    own.query("GRANT SELECT, INSERT ON widened TO weak")
    begun = delivery_of(own, "widened")
    with pytest.raises(DestinationSchemaError, match=r'run `ALTER TABLE "widened" ADD COLUMN'):
        begun.open(1)
    own.query("INSERT INTO widened VALUES ('a')")
    own.query("GRANT SELECT, INSERT, UPDATE ON streamscope_deliveries TO weak")
    values = "('job/d', 0, 1, '', now(), 1, 0, now())"
    own.query("DELETE FROM streamscope_deliveries")
    own.query(f"INSERT INTO streamscope_deliveries VALUES {values}")
    with pytest.raises(DestinationSchemaError, match="does not have it; run `ALTER TABLE"):
        delivery_of(own, "widened", **weak).open(2)
    begun.open(3)
    begun.write(rows_of(1, k=["b"], v=[7]))
    begun.commit(progress(0, 2))
    begun.close()
    assert own.query("SELECT k, v FROM widened ORDER BY k") == [("a", None), ("b", 7)]
    own.query("ALTER TABLE widened DROP COLUMN v")
    with pytest.raises(DeliveryFencedError):  # a replaced writer adds no column
        begun.open(1)
    assert own.query("SELECT * FROM widened ORDER BY k") == [("a",), ("b",)]
    own.query("DROP TABLE streamscope_deliveries")


@pytest.mark.slow
def test_column_of_a_table_that_the_delivery_created_and_has_not_filled(
    own: PostgresServer,
) -> None:
    """The query may be changed before it has any row. Other deliveries do not own the table."""
    narrow, dsn = pa.schema([("k", pa.string())]), own.dsn
    first = destination(PostgresSink(dsn, "created"), DeliveryPlace("job", "d", 0, 1, narrow))
    first.open(1)
    first.close()
    other = destination(PostgresSink(dsn, "created"), DeliveryPlace("other", "d", 0, 1, KEYED))
    with pytest.raises(DestinationSchemaError, match="does not have it; run `ALTER TABLE"):
        other.open(1)
    changed = delivery_of(own, "created")
    assert changed.open(2) is None
    changed.write(rows_of(0, k=["a"], v=[1]))
    changed.commit(progress(0, 1))
    changed.close()
    assert own.query("SELECT k, v FROM created") == [("a", 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "row", "reason"),
    [
        ("k varchar(3), v bigint", {"k": ["long"], "v": [1]}, r"character varying\(3\)"),
        ("k text, v bigint CHECK (v < 9)", {"k": ["a"], "v": [9]}, "violates check constraint"),
        ("k text PRIMARY KEY, v bigint", {"k": ["a", "a"], "v": [1, 2]}, "duplicate key"),
        ("k text NOT NULL, v bigint", {"k": [None], "v": [1]}, "violates not-null constraint"),
        ("k text, v bigint", {"k": ["a\0b"], "v": [1]}, "0x00"),
    ],
)
def test_a_row_that_the_table_rejects(
    postgres: PostgresServer, postgres_schema: str, made: str, row: dict[str, Any], reason: str
) -> None:
    table = f"{postgres_schema}.strict"
    postgres.query(f"CREATE TABLE {table} ({made})")
    strict = destination_of(postgres, table, KEYED)
    strict.open(1)
    strict.write(rows_of(0, **{name: pa.array(values) for name, values in row.items()}))
    end = len(row["k"])
    with pytest.raises(RowsRefusedError, match=rf"\[0, {end}\): .*{reason}.*correct the rows"):
        strict.commit(progress(0, end))
    strict.close()


@pytest.mark.slow
def test_a_row_that_a_trigger_rejects(postgres: PostgresServer, postgres_schema: str) -> None:
    table, function = f"{postgres_schema}.guarded", f"{postgres_schema}.refuse"
    postgres.query(f"CREATE TABLE {table} (k text, v bigint)")
    body = "BEGIN RAISE EXCEPTION 'not today'; END"
    postgres.query(f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    postgres.query(
        f"CREATE TRIGGER t BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()"
    )
    guarded = destination_of(postgres, table, KEYED)
    guarded.open(1)
    guarded.write(rows_of(0, k=["a"], v=[1]))
    with pytest.raises(RowsRefusedError, match="not today"):
        guarded.commit(progress(0, 1))
    guarded.close()


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{}, {"mode": "upsert", "key": ("k",)}], ids=["append", "key"])
def test_a_table_that_is_dropped_during_a_delivery(
    postgres: PostgresServer, postgres_schema: str, fields: dict[str, Any]
) -> None:
    """A table that was dropped is not created again: the delivered rows would be missing."""
    table = f"{postgres_schema}.dropped"
    dropped = destination_of(postgres, table, KEYED, **fields)
    dropped.open(1)
    dropped.write(rows_of(0, k=["a"], v=[1]))
    dropped.commit(progress(0, 1))
    postgres.query(f"DROP TABLE {table}")
    dropped.write(rows_of(1, k=["b"], v=[2]))
    with pytest.raises((DestinationError, DestinationRefusedError), match="does not exist"):
        dropped.commit(progress(0, 2))
    with pytest.raises(DestinationGoneError, match=r"items before 1 .* --name NEW"):
        dropped.open(1)
    other = PostgresSink(postgres.dsn, table, **fields)
    with pytest.raises(DestinationGoneError):  # of another partition, which had no rows
        destination(other, DeliveryPlace("job", "d", 1, 2, KEYED)).open(1)
    anew = destination(other, DeliveryPlace("job", "NEW", 0, 1, KEYED))
    assert anew.open(1) is None
    anew.close()


@pytest.mark.slow
def test_a_lock_of_another_session_is_retried(
    postgres: PostgresServer, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"{postgres_schema}.locked"
    locked = destination_of(postgres, table, KEYED)
    monkeypatch.setattr("rvertex.sinks.postgres._SETTINGS", ("SET lock_timeout = 100",))
    locked.open(1)
    locked.write(rows_of(0, k=["a"], v=[1]))
    has_lock, may_leave = threading.Event(), threading.Event()

    def hold() -> None:
        with adbc.connect(postgres.dsn) as other, other.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table}")
            has_lock.set()
            may_leave.wait()
            other.rollback()  # the end of a connection would release the lock some time later

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert has_lock.wait(RELOAD_S_MAX)
        with pytest.raises(DestinationError, match="lock timeout"):
            locked.commit(progress(0, 1))
    finally:
        may_leave.set()
        holder.join()
    assert locked.open(1) is None
    locked.write(rows_of(0, k=["a"], v=[1]))
    locked.commit(progress(0, 1))
    locked.close()


LONG = "orders_of_the_northern_and_southern_regions_by_hour_and_customer_"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (LONG + "a", "66 bytes; PostgreSQL cuts names off after 63 bytes, so two tables could"),
        (LONG + "b", "66 bytes"),
        ("ä" * 32, "64 bytes"),
        (f'"{LONG}x".t', "66 bytes"),
        ("db.public.t", "a table is NAME or SCHEMA.NAME"),
        ("", "a table is NAME or SCHEMA.NAME"),
        ("a.", "a table is NAME or SCHEMA.NAME"),
        ('"a', "a table is NAME or SCHEMA.NAME"),
        ("t\0", "a table is NAME or SCHEMA.NAME"),
        ("public.streamscope_deliveries", "used by the delivery itself"),
        ("streamscope_stage", "used by the delivery itself"),
    ],
)
def test_a_table_name_that_would_be_cut_is_rejected(table: str, reason: str) -> None:
    with pytest.raises(InvalidSinkError, match=reason):
        PostgresSink("host=x", table).check(KEYED)


def test_names_of_63_bytes_are_accepted() -> None:
    for table in (LONG[:63], f"s.{LONG[:63]}", f'"{LONG[:62]}."', "ä" * 31):
        PostgresSink("host=x", table).check(KEYED)


@pytest.mark.parametrize("column", [LONG, "ä" * 32, "ctid", "xmin", "streamscope_seq", "a\0", ""])
def test_an_invalid_column_name_is_rejected_at_planning(column: str) -> None:
    with pytest.raises(DestinationSchemaError, match="rename it"):
        PostgresSink("host=x", "t").check(pa.schema([(column, pa.int64())]))
    assert issubclass(DestinationSchemaError, UsageError)
