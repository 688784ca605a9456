"""The connector ``postgres`` (or ``jdbc``): tables that are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from planner.api import sinks
from planner.logical.table_form import DEFAULT
from planner.sql.tables.options import choice, names, null_or_text, option, truth
from planner.sql.tables.table import Connector, Sink

if TYPE_CHECKING:
    from planner.api.stream import Stream
    from planner.logical.query import Query
    from planner.sql.tables.table import Table

_JDBC = "jdbc:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink:
    """The options of a table that is written."""

    dsn: str = option("dsn", "url", "jdbc.url", is_shown=False)
    table: str = option("table", "table-name", "table.name")
    mode: str | None = option(
        "mode",
        "type",
        read=choice({"append": "append", "append-only": "append", "upsert": "upsert"}),
        default=None,
    )
    key: tuple[str, ...] = option("key", "primary_key", read=names, default=())
    deletes: str = option(
        "deletes",
        read=choice({name: name for name in ("delete", "mark", "ignore")}),
        default="delete",
    )
    on_bad_row: str = option(
        "on_bad_row", read=choice({name: name for name in ("fail", "dead_letter")}), default="fail"
    )
    changes: bool = option("changes", read=truth, default=False)
    username: str | None = option("username", default=None)
    password: str | None = option("password", default=None, is_shown=False)
    start: str | None = option("start", read=null_or_text, default=DEFAULT)
    end: str | None = option("end", read=null_or_text, default=DEFAULT)


def write_table(table: Table, options: TableSink, stream: Stream) -> Query:
    """Return the query that delivers to the table; a primary key makes it an upsert."""
    key = options.key or table.columns.primary_key
    deletes: Any = options.deletes
    on_bad_row: Any = options.on_bad_row
    mode: Any = options.mode or ("upsert" if key else "append")
    with table.text.located(table.given.name):
        spec = sinks.postgres(
            _dsn(table, options),
            options.table,
            mode=mode,
            key=key if mode == "upsert" else (),
            deletes=deletes,
            on_bad_row=on_bad_row,
            changes=options.changes,
        )
        return stream.deliver(spec, start=options.start, end=options.end)


def _dsn(table: Table, options: TableSink) -> str:
    """Return the address of the database, including the user of the options."""
    dsn = options.dsn.removeprefix(_JDBC)
    if options.username is None:
        if options.password is not None:
            raise table.given.error("password", "password needs the option username = '...', too")
        return dsn
    parts = urlsplit(dsn)
    if not parts.scheme or "@" in parts.netloc:
        raise table.given.error(
            "username", "username needs an address postgresql://HOST/DATABASE without a user"
        )
    secret = "" if options.password is None else f":{quote(options.password, safe='')}"
    user = f"{quote(options.username, safe='')}{secret}@"
    return parts._replace(netloc=user + parts.netloc).geturl()


CONNECTOR = Connector("postgres", None, Sink(TableSink, write_table))
