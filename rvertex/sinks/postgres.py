"""Delivers into a table of PostgreSQL: rows and progress in one transaction of the server.

A commit copies the rows, updates the progress row and commits. The progress row names the writer's
epoch and its server process. So a writer that was replaced updates no row and rolls back. Its
successor also terminates the old connection, which could hold a lock while its host sleeps.

After any error the connection is closed, and ``open`` makes a new one. Only this file uses the
client library, ADBC, which sends Arrow columns in the binary form of COPY (ADR 37).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import adbc_driver_manager
import adbc_driver_postgresql.dbapi as adbc
import numpy as np
import pyarrow as pa

from rstream.connection_strings import resolved_string
from rstream.items.hashing import hash_rows
from rstream.store.limited import with_limit
from rvertex.sinks import postgres_sql
from rvertex.sinks.errors import (
    DeliveryFencedError,
    DeliveryUnknownError,
    DestinationError,
    DestinationGoneError,
    DestinationRefusedError,
    DestinationSchemaError,
    RowsRefusedError,
)
from rvertex.sinks.postgres_columns import STAGE_ENDS, STAGE_ROW, STAGE_SEQ, columns_of
from rvertex.sinks.postgres_errors import (
    login_refusal,
    one_line,
    refusal_of,
    shown_reason,
    sqlstate,
)
from rvertex.sinks.postgres_sql import Statements
from rvertex.sinks.protocol import DeliveryProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    from rvertex.sinks.protocol import DeliveredRows
    from rvertex.sinks.spec import DeliveryPlace, PostgresSink

T = TypeVar("T")
CONNECT_WAIT_S = 20.0
#: Time-out of a statement, enforced by the server.
STATEMENT_WAIT_S = 60.0
#: Longest wait for the server's response; then the connection is abandoned.
ANSWER_WAIT_S = 80.0
#: Longest idle time within a transaction, ms. The server ends the transaction even if there is no
#: successor.
SLEEP_IN_TRANSACTION_MS = 30_000
#: Longest wait of ``open``, ms: for a lock of an older writer, and for the end of that writer.
LOCK_WAIT_MS, END_WRITER_WAIT_MS = 10_000, 5_000
#: Most bytes of rows that are buffered until the commit. More rows are sent before it.
BUFFER_BYTES_MAX = 16 << 20
_SETTINGS = (
    f"SET lock_timeout = {LOCK_WAIT_MS}",
    f"SET statement_timeout = {int(STATEMENT_WAIT_S * 1000)}",
    f"SET idle_in_transaction_session_timeout = {SLEEP_IN_TRANSACTION_MS}",
    "SET application_name = 'streamscope delivery'",
)
#: SQLSTATE classes after which the COMMIT has certainly failed.
_NOT_COMMITTED = ("40",)


class PostgresDestination:
    """The rows of one partition in a table; see :class:`rvertex.sinks.protocol.Destination`."""

    def __init__(self, sink: PostgresSink, place: DeliveryPlace) -> None:
        self._sink = sink
        self._name = f"table {sink.table} in PostgreSQL"
        self._columns = columns_of(self._name, place.schema)
        delivery = f"{place.job}/{place.delivery}"
        self._sql = Statements(
            sink.table, self._columns, sink.key, delivery, place.partition, place.end, sink.deletes
        )
        self._end = place.end
        self._connection: Any = None
        self._epoch = 0
        self._rows: list[pa.RecordBatch] = []
        self._bytes = 0
        self._in_transaction = False
        #: The first item since the last commit; None: no item yet.
        self._first_seq: int | None = None
        self._next_seq = 0

    def open(self, epoch: int) -> DeliveryProgress | None:
        """Create missing tables, end an older writer, and return its progress."""
        self.close()
        self._epoch = epoch
        try:
            self._connection = self._connect()
            for setting in _SETTINGS:
                self._run(setting)
            self._make_tables()
            progress = self._take(epoch)
            self._add_columns()  # an outdated writer has failed above, so it adds no columns
            self._check_table()
        except BaseException:
            self.close()
            raise
        return progress

    def write(self, rows: DeliveredRows) -> None:
        """Buffer the rows for the commit; send them if the buffer is full."""
        if rows.table.num_rows:
            columns = [column.convert(rows.table.column(column.name)) for column in self._columns]
            if self._sink.key:
                columns.append(pa.array(rows.seqs, pa.int64()))
            if rows.ends is not None:
                columns += [pa.array(rows.ends), pa.array(self._row_hashes(rows.table))]
            batch = pa.RecordBatch.from_arrays(columns, schema=self._sent_schema())
            self._rows.append(batch)
            self._bytes += batch.nbytes
        self._first_seq = rows.first_seq if self._first_seq is None else self._first_seq
        self._next_seq = rows.next_seq
        if self._bytes > BUFFER_BYTES_MAX:
            self._guarded(self._send)

    def commit(self, progress: DeliveryProgress) -> None:
        """Commit rows and progress in one transaction."""
        if not self._guarded(lambda: self._prepare(progress)):
            self.close()
            raise DeliveryFencedError(self._name, self._epoch)
        try:
            self._limited(lambda: self._execute("COMMIT"))
        except (adbc_driver_manager.Error, TimeoutError) as error:
            state, translated = sqlstate(error), self._translated(error)
            self.close()
            if state[:2] in _NOT_COMMITTED or refusal_of(state) is not None:
                raise translated from error
            raise DeliveryUnknownError(self._name, one_line(error)) from error
        self._reset()

    def close(self) -> None:
        """Close the connection; the server rolls back uncommitted rows."""
        connection, self._connection = self._connection, None
        self._reset()
        if connection is not None:
            try:
                with_limit(connection.close, CONNECT_WAIT_S)
            except (adbc_driver_manager.Error, TimeoutError):
                return  # the connection is closed, or closes when the server responds again

    def _reset(self) -> None:
        self._rows, self._bytes, self._in_transaction = [], 0, False
        self._first_seq = None

    def _connect(self) -> Any:
        dsn = resolved_string(self._sink.dsn)
        try:
            return with_limit(lambda: adbc.connect(dsn, autocommit=True), CONNECT_WAIT_S)
        except (adbc_driver_manager.Error, TimeoutError) as error:
            reason, refusal = one_line(error), login_refusal(one_line(error))
            safe_reason = shown_reason(reason, dsn)
            if refusal is not None:
                raise DestinationRefusedError(self._name, safe_reason, refusal.advice) from None
            raise DestinationError(self._name, safe_reason) from None

    def _make_tables(self) -> None:
        """Create missing tables in a separate transaction.

        A user with only the right to insert needs existing tables. Then this function changes
        nothing.
        """
        self._run("BEGIN")
        self._run(postgres_sql.lock_tables())
        ((has_progress, has_table),) = self._run(self._sql.exist())
        if not has_progress:
            self._run(self._sql.make_progress())
        if not has_table:
            ((delivered_seq,),) = self._run(self._sql.furthest())
            if delivered_seq:  # some partition has delivered rows, which a new table would lack
                raise DestinationGoneError(self._name, delivered_seq)
            self._run(self._sql.make_table())
            self._run(self._sql.mark_table())
        self._run("COMMIT")

    def _add_columns(self) -> None:
        """Add columns that the query has gained, if the role owns the table."""
        present = {row[0] for row in self._run(self._sql.table_columns())}
        added = [column for column in self._columns if column.name not in present]
        if added and self._run(self._sql.may_add_columns()):
            self._run(self._sql.add_columns(added))

    def _check_table(self) -> None:
        """Check that the columns of an existing table can hold the delivered columns."""
        there = {
            name: (kind, needed) for name, kind, needed in self._run(self._sql.table_columns())
        }
        for column in self._columns:
            kind, _ = there.pop(column.name, ("", False))
            if not column.fits(kind):
                add = f"does not have it; run `{self._sql.add_columns([column])}`"
                is_there = f"has it as {kind}" if kind else add
                self._refuse(
                    f"column {column.name!r} needs the type {column.kind}, the table {is_there}"
                )
        needed = [name for name, (_, is_needed) in there.items() if is_needed]
        if needed:
            self._refuse(
                f"the query has no {', '.join(needed)}, and the table requires a value (NOT NULL)"
            )
        if self._sink.key:
            key = ",".join(sorted(self._sink.key))
            if (key,) not in self._run(self._sql.unique_columns()):
                self._refuse(f"mode='upsert' needs a unique index on exactly the columns {key}")
            self._run(self._sql.make_stage())

    def _refuse(self, reason: str) -> None:
        raise DestinationSchemaError(self._name, reason)

    def _take(self, epoch: int) -> DeliveryProgress | None:
        for other, backend, started in self._run(self._sql.writer()):
            if other > epoch:
                raise DeliveryFencedError(self._name, epoch)
            self._run(self._sql.end_writer(backend, started, END_WRITER_WAIT_MS))
        taken = self._run(self._sql.take(epoch))
        if not taken:
            raise DeliveryFencedError(self._name, epoch)
        next_seq, digest = taken[0]
        return None if next_seq is None else DeliveryProgress(next_seq, digest)

    def _prepare(self, progress: DeliveryProgress) -> list[Any]:
        """Run the transaction up to COMMIT; empty if another writer has taken over."""
        self._send()
        if self._sink.key:
            self._execute(self._sql.merge())
            for statement in self._sql.end_rows():
                self._execute(statement)
        return self._execute(self._sql.move(self._epoch, progress))

    def _send(self) -> None:
        if not self._in_transaction:
            self._execute("BEGIN")
            self._in_transaction = True
        if not self._rows:
            return
        self._ingest(pa.Table.from_batches(self._rows, self._sent_schema()).combine_chunks())
        self._rows, self._bytes = [], 0

    def _sent_schema(self) -> pa.Schema:
        fields = [pa.field(column.name, column.sent) for column in self._columns]
        seq = [pa.field(STAGE_SEQ, pa.int64())] if self._sink.key else []
        if self._end is not None:
            seq += [pa.field(STAGE_ENDS, pa.bool_()), pa.field(STAGE_ROW, pa.int64())]
        return pa.schema([*fields, *seq])

    def _row_hashes(self, table: pa.RecordBatch) -> np.ndarray:
        """Return a hash per row, int64, of all columns except the column with the row's end."""
        columns = [table.column(c.name) for c in self._columns if c.name != self._end]
        return hash_rows(columns, exact=True).view(np.int64)

    def _ingest(self, table: pa.Table) -> None:
        schema, name = self._sql.ingested
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(
                name, table, mode="append", db_schema_name=schema, temporary=bool(self._sink.key)
            )

    def _guarded(self, step: Callable[[], T]) -> T:
        try:
            return self._call(step)
        except BaseException:
            self.close()
            raise

    def _run(self, statement: str) -> list[Any]:
        """Run a statement and return its rows."""
        return self._call(lambda: self._execute(statement))

    def _execute(self, statement: str) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def _call(self, operation: Callable[[], T]) -> T:
        try:
            return self._limited(operation)
        except (adbc_driver_manager.Error, TimeoutError) as error:
            raise self._translated(error) from error

    def _limited(self, operation: Callable[[], T]) -> T:
        if self._connection is None:
            raise DestinationError(self._name, "there is no connection; open it again")
        try:
            return with_limit(operation, ANSWER_WAIT_S)
        except TimeoutError:  # a thread still uses the connection, so it must not be used again
            self._connection = None
            raise

    def _translated(self, error: Exception) -> Exception:
        refusal, reason = refusal_of(sqlstate(error)), one_line(error)
        if refusal is None:
            return DestinationError(self._name, reason)
        if refusal.is_rows and self._first_seq is not None:
            return RowsRefusedError(
                self._name, self._first_seq, self._next_seq, reason, refusal.advice
            )
        return DestinationRefusedError(self._name, reason, refusal.advice)


open_destination = PostgresDestination
