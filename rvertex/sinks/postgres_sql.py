"""SQL statements of a delivery to PostgreSQL. Names and values are quoted here.

Each schema with delivered tables has a table ``streamscope_deliveries`` with a row per partition of
a delivery: its progress, its writer's epoch, and the server process of the writer's connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvertex.sinks.postgres_columns import (
    PROGRESS_TABLE,
    STAGE,
    STAGE_ENDS,
    STAGE_ROW,
    STAGE_SEQ,
    split_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rvertex.sinks.postgres_columns import PostgresColumn
    from rvertex.sinks.protocol import DeliveryProgress
    from rvertex.sinks.spec import Deletes

#: Key of the advisory lock for creating tables: two concurrent CREATE TABLE IF NOT EXISTS may fail.
_TABLES_LOCK = 7_318_044_916_253_027_001


def name(text: str) -> str:
    """Quote a name."""
    return '"' + text.replace('"', '""') + '"'


def names(texts: Iterable[str]) -> str:
    return ", ".join(name(text) for text in texts)


def value(text: str) -> str:
    """Quote a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def lock_tables() -> str:
    return f"SELECT pg_advisory_xact_lock({_TABLES_LOCK})"


class Statements:
    """The statements for one table and one partition of a delivery."""

    def __init__(
        self,
        table: str,
        columns: Sequence[PostgresColumn],
        key: Sequence[str],
        delivery: str,
        partition: int,
        end: str | None = None,
        deletes: Deletes = "delete",
    ) -> None:
        """Build statements.

        ``end``: the column of a row's end if a later item may set it, or None.
        """
        self._end, self._deletes = end, deletes
        self._schema, self._table = split_table(table)
        self._columns, self._key = columns, key
        self._delivery = f"delivery = {value(delivery)}"
        self._mark = value(f"created by the StreamScope delivery {delivery}")
        self._row = f"{self._delivery} AND part = {partition}"
        self._of = f"{value(delivery)}, {partition}"

    @property
    def table(self) -> str:
        return self._in_schema(self._table)

    @property
    def progress(self) -> str:
        return self._in_schema(PROGRESS_TABLE)

    def exist(self) -> str:
        """Query whether the progress table and the table of rows exist."""
        tests = [f"to_regclass({value(n)}) IS NOT NULL" for n in (self.progress, self.table)]
        return f"SELECT {', '.join(tests)}"

    def make_progress(self) -> str:
        """Create the progress table.

        Its rows are updated at every commit. Free space in each page lets the server do that
        without changing the index.
        """
        return (
            f"CREATE TABLE IF NOT EXISTS {self.progress} (delivery text, part integer, "
            "next_seq bigint, digest bytea, committed_at timestamptz, epoch bigint NOT NULL, "
            "backend integer NOT NULL, backend_start timestamptz NOT NULL, "
            "PRIMARY KEY (delivery, part)) WITH (fillfactor = 50)"
        )

    def make_table(self) -> str:
        """Create the table of rows. In its key nulls are equal, as everywhere in this product."""
        parts = [f"{name(column.name)} {column.kind}" for column in self._columns]
        if self._key:
            parts.append(f"UNIQUE NULLS NOT DISTINCT ({names(self._key)})")
        return f"CREATE TABLE IF NOT EXISTS {self.table} ({', '.join(parts)})"

    def mark_table(self) -> str:
        """Note which delivery has created the table of rows."""
        return f"COMMENT ON TABLE {self.table} IS {self._mark}"

    def table_columns(self) -> str:
        """Query name and type of each column, and whether an INSERT must have a value for it."""
        return (
            "SELECT attname::text, format_type(atttypid, atttypmod), "
            "attnotnull AND NOT atthasdef AND attidentity = '' FROM pg_attribute "
            f"WHERE attrelid = {value(self.table)}::regclass AND attnum > 0 AND NOT attisdropped"
        )

    def may_add_columns(self) -> str:
        """Query a row if this delivery created the table or wrote to it, and its role owns it."""
        return (
            f"SELECT 1 FROM pg_class WHERE oid = {value(self.table)}::regclass "
            f"AND pg_has_role(relowner, 'USAGE') "
            f"AND (obj_description(oid, 'pg_class') = {self._mark} OR "
            f"(SELECT max(next_seq) FROM {self.progress} WHERE {self._delivery}) > 0)"
        )

    def add_columns(self, columns: Iterable[PostgresColumn]) -> str:
        parts = (f"ADD COLUMN IF NOT EXISTS {name(c.name)} {c.kind}" for c in columns)
        return f"ALTER TABLE {self.table} {', '.join(parts)}"

    def unique_columns(self) -> str:
        """Query the columns of each unique index, sorted and joined by commas."""
        return (
            "SELECT (SELECT string_agg(attname, ',' ORDER BY attname) FROM pg_attribute "
            "WHERE attrelid = indrelid AND attnum = ANY (indkey::smallint[])) FROM pg_index "
            f"WHERE indrelid = {value(self.table)}::regclass AND indisunique AND indpred IS NULL"
        )

    def make_stage(self) -> str:
        parts = [f"{name(column.name)} {column.kind}" for column in self._columns]
        parts.append(f"{STAGE_SEQ} bigint")
        if self._end is not None:
            parts += [f"{STAGE_ENDS} boolean", f"{STAGE_ROW} bigint"]
        return f"CREATE TEMPORARY TABLE {STAGE} ({', '.join(parts)}) ON COMMIT DELETE ROWS"

    def merge(self) -> str:
        """Upsert the stage: the last row of a key wins.

        Locks follow key order, to avoid deadlocks.
        """
        columns, key = names(column.name for column in self._columns), names(self._key)
        others = [column.name for column in self._columns if column.name not in self._key]
        change = "NOTHING"
        if others:
            change = f"UPDATE SET {', '.join(f'{name(o)} = EXCLUDED.{name(o)}' for o in others)}"
        return (
            f"INSERT INTO {self.table} ({columns}) SELECT DISTINCT ON ({key}) {columns} "
            f"FROM {STAGE}{self._that_live()} ORDER BY {key}, {STAGE_SEQ} DESC "
            f"ON CONFLICT ({key}) DO {change}"
        )

    def end_rows(self) -> list[str]:
        """End rows of the table that the stage marks as ended, keys without nulls first.

        A row is ended only if the table still has exactly this row, because its key may have a
        newer row.
        """
        if self._end is None or self._deletes == "ignore":
            return []
        rest = [c.name for c in self._columns if c.name not in (*self._key, self._end)]
        same = [f"t.{name(c)} IS NOT DISTINCT FROM s.{name(c)}" for c in rest]
        equal = [f"t.{name(k)} = s.{name(k)}" for k in self._key]
        alike = [f"t.{name(k)} IS NOT DISTINCT FROM s.{name(k)}" for k in self._key]
        null = " OR ".join(f"s.{name(k)} IS NULL" for k in self._key)
        conditions = ([*equal, *same], [f"({null})", *alike, *same])
        return [self._ending(" AND ".join(c)) for c in conditions]

    def _ending(self, same: str) -> str:
        where = f"s.{STAGE_ENDS} AND {same}"
        if self._deletes == "delete":
            return f"DELETE FROM {self.table} AS t USING {STAGE} AS s WHERE {where}"
        end = name(str(self._end))
        return f"UPDATE {self.table} AS t SET {end} = s.{end} FROM {STAGE} AS s WHERE {where}"

    def _that_live(self) -> str:
        """Return a condition for rows that begin in the stage.

        If ends delete rows, rows that also end in the stage are excluded.
        """
        if self._end is None:
            return ""
        if self._deletes != "delete":
            return f" WHERE NOT {STAGE_ENDS}"
        return (
            f" AS s WHERE NOT {STAGE_ENDS} AND NOT EXISTS (SELECT FROM {STAGE} AS e "
            f"WHERE e.{STAGE_ENDS} AND e.{STAGE_ROW} = s.{STAGE_ROW} "
            f"AND e.{STAGE_SEQ} > s.{STAGE_SEQ})"
        )

    def furthest(self) -> str:
        """Query the greatest next item of all partitions of this delivery; null before any rows."""
        return f"SELECT max(next_seq) FROM {self.progress} WHERE {self._delivery}"

    def writer(self) -> str:
        """Query the current writer: epoch, server process, and start time of that process."""
        return f"SELECT epoch, backend, backend_start::text FROM {self.progress} WHERE {self._row}"

    def end_writer(self, backend: int, started: str, wait_ms: int) -> str:
        """End the server process of an older writer, unless its id was reused since."""
        return (
            f"SELECT pg_terminate_backend(pid, {wait_ms}) FROM pg_stat_activity "
            f"WHERE pid = {backend} AND backend_start = {value(started)} "
            "AND pid <> pg_backend_pid()"
        )

    def take(self, epoch: int) -> str:
        """Make this connection the writer, unless a writer with a later epoch exists."""
        return (
            f"INSERT INTO {self.progress} AS p (delivery, part, epoch, backend, backend_start) "
            f"SELECT {self._of}, {epoch}, pid, backend_start FROM pg_stat_activity "
            "WHERE pid = pg_backend_pid() ON CONFLICT (delivery, part) DO UPDATE "
            "SET epoch = EXCLUDED.epoch, backend = EXCLUDED.backend, "
            "backend_start = EXCLUDED.backend_start WHERE p.epoch <= EXCLUDED.epoch "
            "RETURNING next_seq, digest"
        )

    def move(self, epoch: int, progress: DeliveryProgress) -> str:
        """Update the progress; returns a row only if this connection is still the writer."""
        digest = f"'\\x{progress.digest.hex()}'::bytea"
        return (
            f"UPDATE {self.progress} SET next_seq = {progress.next_seq}, digest = {digest}, "
            f"committed_at = now() WHERE {self._row} AND epoch = {epoch} "
            "AND backend = pg_backend_pid() RETURNING 1"
        )

    @property
    def ingested(self) -> tuple[str | None, str]:
        """Return schema and name of the table that rows are copied into."""
        return (None, STAGE) if self._key else (self._schema or None, self._table)

    def _in_schema(self, table: str) -> str:
        return f"{name(self._schema)}.{name(table)}" if self._schema else name(table)
