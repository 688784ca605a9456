"""Decides how long rows of a source are valid: for ever, or until the next version of their key.

``ve = NULL`` means that no row ends. ``'changelog.mode' = 'upsert'`` makes rows versions of the
``PRIMARY KEY``, and ``deleted = condition`` marks the versions that end their key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
from sqlglot import exp

from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import scope_of
from planner.sql.reading.errors import sql_type
from planner.sql.tables.options import node, option
from rvertex.sources.files import list_files, open_sequential

if TYPE_CHECKING:
    from planner.api.stream import Stream
    from planner.sql.tables.options import Given
    from planner.sql.tables.table import Table
    from rvertex.sources.spec import Format

CHANGELOG, DELETED = "changelog.mode", "deleted"
_APPEND, _UPSERT = "append", "upsert"
_APPEND_ONLY = "append-only"


#: The most bytes of a table's files that are read for its keys when a text is compiled.
_KEYS_BYTES_MAX = 64 << 20
_TWICE = (
    "the key {0!r} is in more than one row, and the rows have no time: write TIMESTAMP = 'column' "
    "in WITH, so that the last row of a key is known"
)


def is_keyed(table: Table, format: Format, path: str, delimiter: str) -> bool:
    """Return whether each row of a ksqlDB table without a time has its own key, so rows never end.

    Raises:
        SqlError: a key is there twice.
    """
    key = list(table.columns.primary_key)
    is_read = table.text.engine.name == "ksqldb" and format in ("csv", "json")
    is_read = is_read and table.word == "TABLE" and bool(key)
    with table.text.located(table.given.values["path"]):
        files = list_files(format, path) if is_read else {}
    if not files or sum(max(version.size_bytes, 0) for version in files.values()) > _KEYS_BYTES_MAX:
        return False
    known: set[tuple[Any, ...]] = set()
    for file in files:
        rows = _read(format, file, delimiter)
        for row in rows.to_pylist() if set(key) <= set(rows.column_names) else ():
            key_values = tuple(row[name] for name in key)
            if key_values in known:
                raise table.given.error("", _TWICE.format(key_values[0]))
            known.add(key_values)
    return True


def _read(format: Format, file: str, delimiter: str) -> pa.Table:
    with open_sequential(file) as data:
        if format == "csv":
            return pacsv.read_csv(data, parse_options=pacsv.ParseOptions(delimiter=delimiter))
        return pajson.read_json(data)


def _mode(given: Given, name: str) -> bool:
    mode = given.text_of(name).lower()
    if mode == "retract":
        what = "rows cannot be retracted here"
        raise given.error(
            name, f"{what}: 'upsert' with {DELETED} = op = 'd' ends the rows of a key"
        )
    if mode not in (_APPEND, _APPEND_ONLY, _UPSERT):
        raise given.error(name, f"{name} is {_APPEND!r} or {_UPSERT!r}")
    return mode == _UPSERT


def changelog_option(*spellings: str) -> Any:
    """Return the field of a record: whether rows are versions of their keys."""
    return option(CHANGELOG, *spellings, read=_mode, default=False)


def deleted_option() -> Any:
    """Return the field with the condition for versions that end their key."""
    return option(DELETED, read=node, default=None)


def lasting(
    table: Table, stream: Stream, ve: exp.Expr | None, *, upserts: bool, deleted: exp.Expr | None
) -> Stream:
    """Return the declared stream, with lifetimes as its options require.

    Raises:
        SqlError: versions have no key, or have their own ends, or ``deleted`` is set without them.
    """
    given, key = table.given, table.columns.primary_key
    if not upserts:
        if deleted is not None:
            raise given.error(DELETED, f"{DELETED} needs '{CHANGELOG}' = '{_UPSERT}', too")
        return stream.for_ever() if type(ve) is exp.Null else stream
    if not key:
        reason = (
            f"'{_UPSERT}' needs PRIMARY KEY (id) NOT ENFORCED: each row is a version of its key"
        )
        raise given.error(CHANGELOG, reason)
    if ve is not None:
        raise given.error(
            "ve", "a row of an upsert lasts until the next row of its key: leave ve out"
        )
    condition = None
    if deleted is not None:
        is_text = isinstance(deleted, exp.Literal) and deleted.is_string
        condition_node = exp.column(deleted.name) if is_text else deleted
        if is_text:
            condition_node.this.update_positions(deleted)
        whole = scope_of(stream, given.name.name)
        condition = Expressions(table.text, whole, {}).compile(condition_node)
        kind = condition.output_type(stream.schema)
        if not pa.types.is_boolean(kind):
            reason = f"{DELETED} is a condition, as op = 'd', and no {sql_type(str(kind))}"
            raise given.error(DELETED, reason)
    with table.text.located(given.values[CHANGELOG]):
        return stream.upserts(list(key), deleted=condition)
