"""The rows of INSERT INTO ... VALUES: they are part of the text, and stored in the plan."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from planner.api.expressions import as_node, col, vs
from planner.api.inputs.items import event
from planner.api.inputs.tables import table_rows
from planner.api.stream import Stream
from planner.expressions.nodes import ONE_ROW, resolve
from planner.sql.expressions.engines.of_engine import normal_json
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope, Visible
from planner.sql.reading.errors import sql_type
from planner.sql.reading.forms.queries.stored_rows import DEFAULT
from planner.sql.reading.literals import time_literal
from planner.sql.tables.inserted import CONSTRAINTS
from planner.sql.tables.lasting import CHANGELOG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.sql.tables.table import Table

_ROWTIME = "ROWTIME"
_NO_TIME = (
    "rows of VALUES have no time for windows: write WITH (TIMESTAMP = 'column'), or list ROWTIME, "
    "in milliseconds, in INSERT INTO {0} (ROWTIME, ...)"
)
_TIMED = re.compile(r"\b(WINDOW\s+(TUMBLING|HOPPING|SESSION)|WITHIN)\b", re.IGNORECASE)
_LONG = "{0!r} is too long for {1} VARCHAR({2})"
_VIOLATES = "row {0} of VALUES does not satisfy this CHECK: correct it"
_REPEATS = "row {0} of VALUES repeats {1} in the unique columns ({2}): correct it"
_COUNT = "VALUES: {0} values for the columns {1}"


def inserted_rows(table: Table, inserts: Sequence[exp.Insert], time: exp.Expr | None) -> Stream:
    """Return the stream of rows of VALUES: points if the table has a time, else always valid.

    ``time``: an option that names the time. Without a time, only the last row of each PRIMARY KEY
    remains.

    Raises:
        SqlError: a value does not fit its column.
    """
    columns = table.columns
    schema = pa.schema([pa.field(name, kind) for name, kind in columns.types.items()])
    rows = [row for insert in inserts for row in _rows_of(insert, schema, table)]
    _fill(rows, table, schema)
    for name in (*columns.not_null, *columns.primary_key):
        if any(row.get(name) is None for row in rows):
            raise table.text.error(
                columns.nodes[name], f"{name} is NOT NULL: write a value in each row"
            )
    for name, length in columns.lengths.items():
        for row in rows:
            text = row.get(name) or ""
            if len(text.rstrip(" ")) > length:
                raise table.text.error(columns.nodes[name], _LONG.format(text, name, length))
            if len(text) > length:  # engines cut trailing spaces without an error
                row[name] = text[:length]
    batch = pa.RecordBatch.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in rows], schema
    )
    for name in (name for name in table.jsonb if name in schema.names):
        normal = resolve(as_node(normal_json(col(name))), schema).evaluate(batch)
        batch = batch.set_column(schema.get_field_index(name), schema.field(name), normal)
    _check(inserts[0].meta.get(CONSTRAINTS, ()), batch, table)
    options = table.time_options(time, None, schema)
    if "vs" not in options and not any(_ROWTIME in row for row in rows):
        if table.text.engine.name == "ksqldb" and _TIMED.search(table.text.text):
            raise table.given.error("", _NO_TIME.format(table.given.name.name))
        if columns.primary_key:
            batch = _last_of_keys(batch, columns.primary_key)
        return table.declared(Stream(table_rows(pa.Table.from_batches([batch]), None)))
    if "vs" in options:
        node = as_node(col(options["vs"]) if isinstance(options["vs"], str) else options["vs"])
        times = resolve(node, schema).evaluate(batch).cast(pa.int64(), safe=False).to_pylist()
    else:
        times = [1000 * row.get(_ROWTIME, 0) for row in rows]
    missing = next((at for at, us in enumerate(times) if us is None), None)
    if missing is not None:
        raise table.given.error("", f"row {missing + 1} of its VALUES has no time")
    order = sorted(range(len(rows)), key=times.__getitem__)
    payload = batch.to_pylist()
    made = Stream.from_items(schema, [event(times[at], **payload[at]) for at in order])
    if options.get("vs") in schema.names:
        made = made.with_columns(**{options["vs"]: vs().cast(schema.field(options["vs"]).type)})
    made = table.declared(made)
    return made.upserts(list(columns.primary_key)) if CHANGELOG in table.given.values else made


def _check(
    constraints: Sequence[tuple[exp.Expr, list[str]]], batch: pa.RecordBatch, table: Table
) -> None:
    """Raise SqlError for a row with a false condition, or a second row of a key without nulls."""
    visible = tuple(Visible("", name, name) for name in batch.schema.names)
    scope = Scope(Stream(table_rows(pa.Table.from_batches([batch]), None)), visible)
    for node, columns in constraints:
        if columns:
            names, former = [_known(name, batch.schema) for name in columns], set()
            listed = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
            for number, key in enumerate(listed, start=1):
                is_compared = None not in key or node.args.get("nulls")  # NULLS NOT DISTINCT
                same = _same(key)
                if is_compared and same in former:
                    what = ", ".join(map(str, key)), ", ".join(names)
                    raise table.text.error(node, _REPEATS.format(number, *what))
                former.add(same)
            continue
        with table.text.located(node):
            made = Expressions(table.text, scope, {}).compile(node)
            passed = resolve(as_node(made), batch.schema).evaluate(batch).to_pylist()
        if False in passed:  # null is not false
            raise table.text.error(node, _VIOLATES.format(passed.index(False) + 1))


def _rows_of(insert: exp.Insert, schema: pa.Schema, table: Table) -> list[dict[str, Any]]:
    listed = []
    if isinstance(insert.this, exp.Schema):
        listed = [_known(part.name, schema) for part in insert.this.expressions]
    rows = []
    for row in insert.expression.expressions:
        values = row.expressions if isinstance(row, exp.Tuple) else [row]
        names = listed or schema.names[: len(values)]
        if len(values) != len(names):
            what = ", ".join(names or schema.names)
            raise table.text.error(row, _COUNT.format(len(values), what))
        pairs = zip(names, values, strict=True)
        rows.append(
            {n: _value(value, n, schema, table) for n, value in pairs if not _is_default(value)}
        )
    return rows


def _fill(rows: list[dict[str, Any]], table: Table, schema: pa.Schema) -> None:
    """Add the defaults of the columns that a row does not list."""
    for name, node in table.columns.nodes.items():
        if DEFAULT not in node.meta:
            continue
        value = node.meta[DEFAULT]
        for number, row in enumerate(rows, start=1):
            if name not in row:
                row[name] = number if value is None else _value(value, name, schema, table)


def _known(name: str, schema: pa.Schema) -> str:
    """Return the column's name as it is declared."""
    similar = [known for known in (*schema.names, _ROWTIME) if known.lower() == name.lower()]
    return similar[0] if len(similar) == 1 and name not in schema.names else name


def _value(node: exp.Expr, name: str, schema: pa.Schema, table: Table) -> Any:
    """Compute a value, which reads no columns, as the column's type."""
    kind = pa.int64() if name == _ROWTIME else None
    if kind is None and name not in schema.names:
        known = ", ".join(schema.names)
        raise table.text.error(node, f"no column {name!r}; there are: {known}")
    kind = kind or schema.field(name).type
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Array) and not node.expressions:
        return []
    if isinstance(node, exp.Literal) and node.is_string and pa.types.is_timestamp(kind):
        return time_literal(exp.cast(node.copy(), "TIMESTAMP"), kind, table.text)
    if isinstance(node, exp.Literal) and node.is_string and pa.types.is_list(kind):
        return _elements(node, kind, table)
    with table.text.located(node):
        made = Expressions(table.text, Scope(_NOTHING, ()), {}).compile(node)
        value = resolve(as_node(made), ONE_ROW.schema).evaluate(ONE_ROW)
        return _as_kind(value, kind, node, table)[0].as_py()


def _elements(node: exp.Expr, kind: pa.DataType, table: Table) -> list[Any]:
    """Return PostgreSQL's list in a text: ``'{1,2}'``."""
    inner = node.name.strip()
    if not (inner.startswith("{") and inner.endswith("}")) or set('{"\\') & set(inner[1:-1]):
        raise table.text.error(node, "write a list as ARRAY[1, 2]")
    words = [word.strip() for word in inner[1:-1].split(",")] if inner[1:-1].strip() else []
    nulls = [None if word.upper() == "NULL" else word for word in words]
    return list(_as_kind(pa.array(nulls, pa.string()), kind.value_type, node, table).to_pylist())


def _is_default(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column | exp.Var) and node.name.upper() == "DEFAULT"


def _as_kind(value: Any, kind: pa.DataType, node: exp.Expr, table: Table) -> pa.Array:
    """Return a value as a column's type."""
    array = value if isinstance(value, pa.Array) else pa.array([value.as_py()], value.type)
    if array.type == kind:
        return array
    if pa.types.is_timestamp(kind) and not pa.types.is_temporal(array.type):
        raise table.text.error(node, "write a time, such as TIMESTAMP '2026-01-01 12:00:00'")
    if pa.types.is_nested(kind) or pa.types.is_nested(array.type):
        try:
            return pa.array(array.to_pylist(), kind)
        except pa.ArrowException:
            of = f"{sql_type(str(array.type))} is no {sql_type(str(kind))}"
            raise table.text.error(node, f"{of}; write a value of the column's type") from None
    cast = resolve(as_node(col("v").cast(kind)), pa.schema([pa.field("v", array.type)]))
    made: pa.Array = cast.evaluate(pa.record_batch({"v": array}))
    return made


def _same(key: Any) -> str:
    """Return one text for all keys that are equal in GROUP BY: NaN equals NaN, -0.0 equals 0.0."""
    if isinstance(key, tuple | list):
        return f"[{', '.join(map(_same, key))}]"
    if isinstance(key, dict):
        return _same(list(key.items()))
    return repr(key + 0.0 if isinstance(key, float) else key)


def _last_of_keys(batch: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    """Return the last row of each key, at the place of its first."""
    newest: dict[str, dict[str, Any]] = {}
    for row in batch.to_pylist():
        newest[_same(tuple(row[name] for name in key))] = row
    return pa.RecordBatch.from_pylist(list(newest.values()), batch.schema)


_NOTHING = Stream(table_rows(pa.table({"x": [0]}), None))
