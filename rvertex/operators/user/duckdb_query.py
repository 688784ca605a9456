"""A query of DuckDB over the rows of a batch, for ``apply_sql``.

The result of a row must not depend on the other rows of its batch, and must be the same in each
run. So only ``SELECT ... FROM rows WHERE ...`` is accepted, with the kinds of expressions that are
listed here. Its plan is a scan, a filter and a projection (with ``unnest``), which keep the order
of the rows.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rstream.errors import UsageError
from rstream.items.batch import event_schema
from rvertex.events.reorder_buffer import empty_batch
from rvertex.user_code.result import ROW

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS = "rows"
#: A hidden column of DuckDB's tables: neither ``*`` nor ``rows`` contains it.
_NUMBER = "rowid"
_PARTS = {"type", "select_list", "where_clause", "from_table"}
_FROM_PARTS = {"type", "alias", "table_name", "qualified_name"}
_EMPTY: tuple[Any, ...] = (None, "", [], {"map": []}, "STANDARD_HANDLING")
_EXPRESSIONS = (
    *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT"),
    *("FUNCTION", "LAMBDA", "OPERATOR", "STAR", "TYPE"),
)
#: Functions of the current time that are called without parentheses.
_CLOCKS = (
    *("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"),
    *("current_user", "session_user", "user", "current_role", "current_catalog", "current_schema"),
)
#: Functions of the current time that DuckDB lists as depending on their arguments alone, with their
#: number of arguments.
_UNLISTED_CLOCKS = (("age", 1), ("current_localtime", 0), ("current_localtimestamp", 0))
_FORM = (
    f"apply_sql takes one 'SELECT ... FROM {ROWS} WHERE ...' and computes each row alone; write "
    "unnest(list) after SELECT for several rows of one, .filter() for a condition on them, and "
    "ss.sql() for joins, subqueries, aggregates, DISTINCT, ORDER BY and LIMIT"
)
_CHANGES = "may differ between two runs; use _vs for times"


@dataclass(frozen=True)
class DuckdbQuery:
    """Computes the rows of a batch, and the column ``_row``, in the order that DuckDB returns."""

    query: str

    def __call__(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the result."""
        numbered = f"SELECT {_NUMBER} AS {ROW}, {self.query.strip()[len('SELECT') :]}"
        with _database().cursor() as connection:
            connection.execute("PRAGMA disable_optimizer")  # use the same plan for all batches
            connection.register("batch", batch)
            connection.execute(f"CREATE TEMP TABLE {ROWS} AS FROM batch")
            return connection.sql(numbered).to_arrow_table()


def result_schema(query: str, schema: pa.Schema) -> pa.Schema:
    """Return the columns that a query makes of rows with these columns.

    Raises:
        UsageError: DuckDB is not installed or rejects the query, or a result depends on other rows.
    """
    connection = _database().cursor()
    import duckdb

    tree, expressions = _parsed(query, connection)
    source = tree.get("from_table", {})
    table = source.get("table_name", "").lower()
    is_select = query.strip()[: len("SELECT")].upper() == "SELECT"
    if not is_select or table != ROWS or _parts(tree) - _PARTS or _parts(source) - _FROM_PARTS:
        raise UsageError(_FORM)
    if names := {ROW, _NUMBER} & {name.lower() for name in schema.names}:
        raise UsageError(
            f"apply_sql: rename the column {min(names)!r} of the stream with .select()"
        )
    _require_listed(expressions, connection, schema.names)
    try:
        made = DuckdbQuery(query)(empty_batch(event_schema(schema))).schema
    except duckdb.Error as error:
        raise UsageError(f"apply_sql: {error}") from None
    if ROW in made.names[1:]:
        raise UsageError(f"apply_sql: the column name {ROW!r} is reserved")
    return pa.schema(list(made)[1:])


@functools.cache
def _database() -> DuckDBPyConnection:
    """Return a database in memory with a single thread, which keeps the order of rows."""
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("apply_sql needs the package duckdb") from error
    database = duckdb.connect(config={"threads": 1})
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database


def _parsed(
    query: str, connection: DuckDBPyConnection
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the query and all expressions in it, as parsed; {} if it is not exactly one query."""
    ((written,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    nodes: list[dict[str, Any]] = []

    def keep(node: dict[str, Any]) -> dict[str, Any]:
        nodes.append(node)
        return node

    tree = json.loads(written, object_hook=keep)
    if tree["error"]:
        raise UsageError(f"apply_sql: {tree['error_message']}")
    is_one = len(tree["statements"]) == 1
    return tree["statements"][0]["node"] if is_one else {}, [n for n in nodes if "class" in n]


def _parts(node: dict[str, Any]) -> set[str]:
    return {key for key, part in node.items() if part not in _EMPTY and "location" not in key}


def _require_listed(
    expressions: list[dict[str, Any]], connection: DuckDBPyConnection, columns: list[str]
) -> None:
    for node in expressions:
        kind, names = node["class"], [name.lower() for name in node.get("column_names", ())]
        if kind not in _EXPRESSIONS:
            raise UsageError(f"{_FORM}. Not accepted: {kind}")
        if kind == "FUNCTION" and node["function_name"] != "unnest":
            _require_function(node["function_name"].lower(), len(node["arguments"]), connection)
        if names and names[-1] in _CLOCKS and names[-1] not in map(str.lower, columns):
            raise UsageError(f"apply_sql: {names[-1]} {_CHANGES}")
        if {ROW, _NUMBER} & set(names):
            raise UsageError(f"apply_sql: leave out {names[-1]}; apply_sql adds row numbers itself")


def _require_function(name: str, arguments: int, connection: DuckDBPyConnection) -> None:
    """Raise unless each variant of the function depends on its arguments alone.

    A macro is judged by its definition.
    """
    query = "SELECT function_type, stability, macro_definition FROM duckdb_functions()"
    known = connection.execute(f"{query} WHERE lower(function_name) = ?", [name]).fetchall()
    kinds = {kind for kind, _, _ in known} - {"table"}
    if not kinds or kinds - {"scalar", "macro"}:
        raise UsageError(f"{_FORM}. Not accepted: {name}()")
    changes = any(how not in (None, "CONSISTENT") for _, how, _ in known)
    if changes or (name, arguments) in _UNLISTED_CLOCKS:
        raise UsageError(f"apply_sql: {name}() {_CHANGES}")
    for definition in [made for _, _, made in known if made is not None]:
        _require_listed(_parsed(f"SELECT {definition}", connection)[1], connection, [])
