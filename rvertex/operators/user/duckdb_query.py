"""A query of DuckDB over the rows of a batch, for ``apply_sql``.

The result of a row must not depend on the other rows of its batch. So the query reads the table
``rows`` once, and has no aggregates, window functions, DISTINCT, ORDER BY, LIMIT or set
operations, no other tables or files, and no functions whose results differ between two calls.
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
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

ROWS = "rows"
_ALONE = "it computes each row alone; use ss.sql() for queries over many rows"
_PLAIN = "STANDARD_HANDLING"
#: Functions without parentheses.
_CLOCKS = (
    *("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"),
    *("current_user", "session_user", "user", "current_role", "current_catalog", "current_schema"),
)
#: Functions in FROM that read nothing but their arguments.
_IN_FROM = ("unnest", "range", "generate_series")


@dataclass(frozen=True)
class DuckdbQuery:
    """Computes the rows of a batch, in their order."""

    query: str

    def __call__(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the result; with a column ``_row``, in its order."""
        numbers = pa.array(range(batch.num_rows), pa.int64())
        with _database().cursor() as connection:
            connection.register(ROWS, pa.Table.from_batches([batch]).append_column(ROW, numbers))
            found = connection.sql(self.query).to_arrow_table()
        return found.sort_by(ROW) if ROW in found.column_names else found


def result_schema(query: str, schema: pa.Schema) -> pa.Schema:
    """Return the columns that a query makes of rows with these columns.

    Raises:
        UsageError: DuckDB is not installed or refuses it, or a result depends on other rows.
    """
    connection = _database().cursor()
    import duckdb

    ((written,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    tree = json.loads(written)
    if tree["error"]:
        raise UsageError(f"apply_sql: {tree['error_message']}")
    if len(tree["statements"]) != 1:
        raise UsageError("apply_sql takes one SELECT")
    _require_own_rows(tree["statements"][0]["node"], connection, schema.names)
    try:
        found = DuckdbQuery(query)(empty_batch(event_schema(schema))).schema
    except duckdb.Error as error:
        raise UsageError(f"apply_sql: {error}") from None
    return pa.schema([field for field in found if field.name != ROW])


@functools.cache
def _database() -> DuckDBPyConnection:
    """A database in memory; its one thread keeps the order of rows."""
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("apply_sql needs the package duckdb") from error
    database = duckdb.connect(config={"threads": 1})
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database


def _require_own_rows(
    tree: dict[str, Any], connection: DuckDBPyConnection, columns: list[str]
) -> None:
    query = "SELECT function_name, function_type, stability FROM duckdb_functions()"
    known = connection.execute(query).fetchall()
    aggregates = {name for name, kind, _ in known if kind == "aggregate"}
    changing = {name for name, _, how in known if how in ("VOLATILE", "CONSISTENT_WITHIN_QUERY")}
    nodes = list(_nodes(tree))
    unread = {ROWS, *(entry["key"] for node in nodes for entry in node.get("map", ()))}
    for node in nodes:
        kind, name = node.get("type"), node.get("function_name")
        if node.get("modifiers") or node.get("sample"):
            raise UsageError(f"apply_sql takes no DISTINCT, ORDER BY, LIMIT and SAMPLE: {_ALONE}")
        if kind == "SET_OPERATION_NODE":
            raise UsageError(f"apply_sql takes no UNION, EXCEPT and INTERSECT: {_ALONE}")
        is_grouped = node.get("aggregate_handling", _PLAIN) != _PLAIN or node.get(
            "group_expressions"
        )
        if node.get("class") == "WINDOW" or name in aggregates or is_grouped:
            raise UsageError(f"apply_sql takes no aggregates and window functions: {_ALONE}")
        (*_, column) = node.get("column_names") or ("",)
        name = column if column in _CLOCKS and column not in columns else name
        if name in changing or name in _CLOCKS:
            raise UsageError(f"apply_sql: {name} may differ between two runs; use _vs for times")
        if kind == "BASE_TABLE" and (node["table_name"] not in unread or node["schema_name"]):
            reads = f"apply_sql reads the table {ROWS!r} once"
            raise UsageError(f"{reads}, not {node['table_name']!r}: {_ALONE}")
        function = node["function"]["function_name"] if kind == "TABLE_FUNCTION" else _IN_FROM[0]
        if function not in _IN_FROM:
            raise UsageError(f"apply_sql reads the table {ROWS!r} once, not {function}(): {_ALONE}")
        unread -= {node["table_name"]} if kind == "BASE_TABLE" else set()


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(part, dict | list):
            yield from _nodes(part)
