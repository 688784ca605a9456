"""Simulates a PostgreSQL server for the statements of a delivery, with DuckDB in this process.

It replaces the client library, to test a delivery's own logic without a server: transactions,
conflicts, fences. Types, locks and timeouts are tested with a real server
(tests/rvertex/sinks/test_postgres.py).
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import adbc_driver_manager
import duckdb

if TYPE_CHECKING:
    import pyarrow as pa

_STATUS = adbc_driver_manager.AdbcStatusCode.UNKNOWN
#: Statements that DuckDB writes differently, or lacks.
_SAID_OTHERWISE = (
    (r" WITH \(fillfactor = \d+\)", ""),
    (r"NULLS NOT DISTINCT", ""),
    (r" ON COMMIT DELETE ROWS", ""),
    (r"'\\x([0-9a-f]*)'::bytea", r"unhex('\1')"),
    (r"pg_terminate_backend\(pid, \d+\)", "pid"),
    (r"pg_stat_activity", "backends"),
    (r"EXISTS \(SELECT FROM", "EXISTS (SELECT 1 FROM"),
)
_COLUMN = re.compile(r'"([^"]+)" ([^,()]+(?:\([^)]*\))?)')


class Server:
    """Tables without a schema, and the open connections."""

    def __init__(self) -> None:
        self._database = duckdb.connect(config={"threads": 1})
        self._database.execute("CREATE TABLE backends (pid integer, backend_start timestamptz)")
        self._database.execute("CREATE MACRO pg_backend_pid() AS getvariable('backend')")
        self._database.execute(
            "CREATE MACRO to_regclass(n) AS (SELECT max(table_oid) FROM duckdb_tables() "
            "WHERE table_name = replace(n, '\"', ''))"
        )
        self.backends: dict[int, Connection] = {}
        #: The statements that created tables, by name.
        self.made: dict[str, str] = {}
        self._count = 0
        #: self.fails_at_commit: Exception|The error of the next ends of transactions, which have no
        #: effect.
        self.fails_at_commit: Exception | None = None

    def connect(self, dsn: str, *, autocommit: bool) -> Connection:
        """Replaces the client's ``connect``."""
        assert autocommit, dsn
        self._count += 1
        self.backends[self._count] = Connection(self, self._database.cursor(), self._count)
        return self.backends[self._count]

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows that a separate connection reads."""
        cursor = self._database.cursor()
        cursor.execute(f"SET VARIABLE backend = {self._count + 1}")
        return cursor.execute(_translated(statement)).fetchall()


class Connection:
    """One connection of the server, with its cursor."""

    def __init__(self, server: Server, cursor: duckdb.DuckDBPyConnection, pid: int) -> None:
        self._server, self._cursor, self.pid = server, cursor, pid
        self._stage = ""
        self._rows: list[Any] = []
        self.description: object = None
        cursor.execute(f"SET VARIABLE backend = {pid}")
        cursor.execute(f"INSERT INTO backends VALUES ({pid}, now())")

    def cursor(self) -> Connection:
        return self

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, statement: str) -> None:
        if self._server.backends.get(self.pid) is not self:
            raise adbc_driver_manager.OperationalError("it was ended", status_code=_STATUS)
        self._rows = self._answer(statement)
        self.description = self._rows or None

    def fetchall(self) -> list[Any]:
        return self._rows

    def adbc_ingest(self, table: str, data: pa.Table, **_: Any) -> None:
        """Append, as COPY does."""
        self._cursor.register("sent", data)
        self._run(f'INSERT INTO "{table}" ({", ".join(data.column_names)}) SELECT * FROM sent')
        self._cursor.unregister("sent")

    def close(self) -> None:
        """Drop the uncommitted rows."""
        if self._server.backends.pop(self.pid, None) is self:
            # there is no transaction to roll back
            with contextlib.suppress(duckdb.TransactionException):
                self._cursor.execute("ROLLBACK")
            self._cursor.execute(f"DELETE FROM backends WHERE pid = {self.pid}")
            self._cursor.close()

    def _answer(self, statement: str) -> list[Any]:
        """Settings, locks and the catalogue are answered here, other statements by DuckDB."""
        if statement.startswith(("SET ", "SELECT pg_advisory_xact_lock")):
            return []
        if "FROM pg_attribute WHERE attrelid = '" in statement:
            made = self._server.made[_table_of(statement)]
            return [(name, kind.strip(), False) for name, kind in _COLUMN.findall(made)]
        if "FROM pg_index" in statement:
            made = self._server.made[_table_of(statement)].partition("UNIQUE")[2]
            return [(",".join(sorted(re.findall(r'"([^"]+)"', made))),)]
        if statement.startswith("CREATE TABLE"):
            name, columns = re.findall(r'EXISTS "([^"]+)" \((.*)\)', statement)[0]
            self._server.made[name] = columns
        if statement.startswith("CREATE TEMPORARY TABLE"):
            self._stage = statement.split()[3]
        if statement == "COMMIT" and (error := self._server.fails_at_commit) is not None:
            raise error
        found = self._run(_translated(statement))
        if "pg_terminate_backend" in statement:
            for (pid,) in found:
                self._server.backends[pid].close()
        if statement == "COMMIT" and self._stage:
            self._run(f"DELETE FROM {self._stage}")
        return found

    def _run(self, statement: str) -> list[Any]:
        try:
            return self._cursor.execute(statement).fetchall()
        except duckdb.Error as error:
            state = "23505" if isinstance(error, duckdb.ConstraintException) else "40001"
            raise adbc_driver_manager.OperationalError(
                str(error), status_code=_STATUS, sqlstate=state
            ) from error


def _translated(statement: str) -> str:
    for theirs, ours in _SAID_OTHERWISE:
        statement = re.sub(theirs, ours, statement)
    return statement


def _table_of(statement: str) -> str:
    return re.findall(r"""'"([^"]+)"'::regclass""", statement)[0]  # type: ignore[no-any-return]
