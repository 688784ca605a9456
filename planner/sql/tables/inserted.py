"""INSERT INTO a table that the text itself reads: its rows are part of the text.

``CREATE TABLE t (id INT); INSERT INTO t VALUES (1); SELECT * FROM t``: rows of VALUES are stored in
the plan. ``INSERT INTO s SELECT ...``, where ``s`` is a query or a table without a place of its
own, makes ``s`` a UNION ALL.
"""

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
from planner.sql.expressions.scalars import Expressions
from planner.sql.expressions.scope import Scope
from planner.sql.reading.errors import sql_type
from planner.sql.reading.forms.queries.stored_rows import DEFAULT, as_columns
from planner.sql.reading.grammar import Descriptor, TableArgument, Watermark, WindowTable
from planner.sql.reading.literals import time_literal
from planner.sql.tables.lasting import CHANGELOG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.sql.tables.table import Table

    #: Makes the error for a node of the query, given the reason.
    Error = Callable[[exp.Expr, str], Exception]

#: Key in ``meta`` of a CREATE: the INSERT INTO ... VALUES of its rows.
ROWS = "rows_of_values"
#: Key in ``meta`` of a CREATE without a time: the column over which the text has windows.
TIME = "time_of_windows"
#: Options of a table whose rows are elsewhere.
_PLACES = ("path", "connector", "servers", "properties.bootstrap.servers", "url", "dsn")
_ROWTIME = "ROWTIME"
_SERIAL = {"SERIAL": "INT", "SMALLSERIAL": "SMALLINT", "BIGSERIAL": "BIGINT"}
_NO_TIME = (
    "rows of VALUES have no time for windows: write WITH (TIMESTAMP = 'column'), or list ROWTIME, "
    "in milliseconds, in INSERT INTO {0} (ROWTIME, ...)"
)
_TIMED = re.compile(r"\b(WINDOW\s+(TUMBLING|HOPPING|SESSION)|WITHIN)\b", re.IGNORECASE)
_MIXED = (
    "this table has rows of VALUES and of a SELECT: write SELECT ... UNION ALL SELECT * FROM "
    "(VALUES ...) AS t (a, b) in one INSERT INTO"
)
_KEYED = (
    "a PRIMARY KEY of rows of a SELECT is not supported: leave it out, and keep the last row of a "
    "key with ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) = 1"
)
_PARTITION = "INSERT INTO {0} PARTITION is not supported: write the value as a column of the SELECT"
_PLAIN = (
    "INSERT INTO a table of this text takes columns, and VALUES or a SELECT: leave {0} out, and "
    "write its effect in the query"
)
_COUNT = "VALUES: {0} values for the columns {1}"


def with_inserted(
    statements: Sequence[exp.Expr], is_sink: Callable[[exp.Expr], bool], engine: str, error: Error
) -> list[exp.Expr]:
    """Return the statements, where tables that are filled and read in the text have their rows.

    ``is_sink``: whether a CREATE writes its query to another system.

    Raises:
        SqlError: made by ``error``; a table of ksqlDB is filled in both ways, or an INSERT has
            more than columns and rows.
    """
    kept = list(statements)
    for create in statements:
        if isinstance(create, exp.Create) and isinstance(create.this, exp.Schema):
            _drop_checks(create.this)
    for create in statements:
        if not isinstance(create, exp.Create) or is_sink(create) or not _is_filled(create):
            continue
        name = _target(create)
        if sum(isinstance(s, exp.Create) and _target(s) == name for s in kept) > 1:
            continue  # which of them is filled depends on the order
        inserts = [s for s in kept if isinstance(s, exp.Insert) and _target(s) == name]
        others = [s for s in kept if s is not create and s not in inserts]
        of_values = [s for s in inserts if isinstance(s.expression, exp.Values)]
        is_query = create.args.get("expression") is not None
        if not inserts or not (is_query or of_values or any(_reads(s, name) for s in others)):
            continue
        starts = [at for at, one in enumerate(inserts) if one.args.get("overwrite")]
        before, inserts = inserts[: (starts or [0])[-1]], inserts[(starts or [0])[-1] :]
        kept = [s for s in kept if not any(s is one for one in before)]
        of_values = [s for s in inserts if isinstance(s.expression, exp.Values)]
        is_mixed = len(of_values) < len(inserts) and engine in ("", "ksqldb")
        if of_values and (is_query or is_mixed):
            raise error(of_values[0].this, _MIXED)
        for insert in inserts:
            _check_plain(insert, error)
        if not is_query:
            _take_defaults(create)
        if len(of_values) == len(inserts):
            create.meta[ROWS] = of_values
            kept = [s for s in kept if not any(s is one for one in inserts)]
        else:
            kept = _as_query(create, inserts, kept, name, error)
    return kept


def _check_plain(insert: exp.Insert, error: Error) -> None:
    if insert.find(exp.Partition):
        raise error(insert.this, _PARTITION.format(_target(insert)))
    for name, part in insert.args.items():
        if part and name not in ("this", "expression", "with_", "overwrite"):
            words = "ON CONFLICT" if name == "conflict" else name.replace("_", " ").upper()
            raise error(insert.this, _PLAIN.format(words))


def with_times(statements: Sequence[exp.Expr]) -> None:
    """Let the column over which the text has windows be the time of a table that declares none."""
    times: dict[str, set[str]] = {}
    for statement in statements:
        for node in statement.find_all(WindowTable):
            held, time = (*node.expressions, None, None)[:2]
            if isinstance(held, TableArgument) and isinstance(time, Descriptor):
                times.setdefault(held.this.name.lower(), set()).add(time.this.name.lower())
    for create in statements:
        if not isinstance(create, exp.Create) or not isinstance(create.this, exp.Schema):
            continue
        parts = create.this.expressions
        found = times.get(_target(create), set())
        columns = [p for p in parts if isinstance(p, exp.ColumnDef) and p.name.lower() in found]
        is_timed = any(isinstance(part, Watermark) for part in parts)
        if len(found) != 1 or len(columns) != 1 or is_timed or not _is_moment(columns[0]):
            continue
        create.meta[TIME] = columns[0].this


def _is_moment(column: exp.ColumnDef) -> bool:
    kind = column.args.get("kind")
    return kind is not None and kind.is_type(*exp.DataType.TEMPORAL_TYPES)


def _drop_checks(schema: exp.Schema) -> None:
    """Drop CHECK, UNIQUE and REFERENCES, which the rows of a store fulfil."""
    kinds = (exp.UniqueColumnConstraint, exp.CheckColumnConstraint, exp.Reference, exp.ForeignKey)
    kept = []
    for part in schema.expressions:
        whole = part.expressions[0] if isinstance(part, exp.Constraint) else part
        if isinstance(whole, kinds):
            continue
        if isinstance(part, exp.ColumnDef):
            constraints = part.args.get("constraints") or []
            others = [one for one in constraints if not isinstance(one.args["kind"], kinds)]
            part.set("constraints", others)
        kept.append(part)
    schema.set("expressions", kept)


def _take_defaults(create: exp.Create) -> None:
    """Move DEFAULT, and the numbers of SERIAL and IDENTITY, from columns to their ``meta``."""
    for column in create.this.find_all(exp.ColumnDef):
        kept: list[exp.Expr] = []
        for part in column.args.get("constraints") or []:
            kind = part.args["kind"]
            if isinstance(kind, exp.DefaultColumnConstraint):
                column.meta[DEFAULT] = kind.this
            elif isinstance(kind, exp.GeneratedAsIdentityColumnConstraint):
                column.meta[DEFAULT] = None
            else:
                kept.append(part)
        column.set("constraints", kept)
        whole = _SERIAL.get(column.args["kind"].sql().upper()) if column.args.get("kind") else None
        if whole is not None:
            column.set("kind", exp.DataType.build(whole))
            column.meta[DEFAULT] = None


def _is_filled(statement: exp.Create) -> bool:
    """Whether INSERT INTO may fill what this statement creates."""
    if statement.args.get("expression") is not None:
        return str(statement.args.get("kind")).upper() in ("STREAM", "TABLE")
    properties = statement.args.get("properties")
    names = [p.name.lower() for p in properties.expressions] if properties is not None else []
    return isinstance(statement.this, exp.Schema) and not set(_PLACES) & set(names)


def _target(statement: exp.Expr) -> str:
    table = statement.this.this if isinstance(statement.this, exp.Schema) else statement.this
    return str(table.name).lower()


def _reads(statement: exp.Expr, name: str) -> bool:
    """Whether a query in the statement has the table in FROM."""
    parts = [statement.args.get(part) for part in ("expression", "with_", "query")]
    held = [statement] if isinstance(statement, exp.Query) else parts
    tables = [t for part in held if isinstance(part, exp.Expr) for t in part.find_all(exp.Table)]
    return any(table.name.lower() == name for table in tables)


def _as_query(
    create: exp.Create, inserts: list[exp.Insert], kept: list[exp.Expr], name: str, error: Error
) -> list[exp.Expr]:
    """Make the table a named query, behind the statements that its INSERT INTO read."""
    sides: list[exp.Expr] = [insert.expression for insert in inserts]
    if isinstance(create.this, exp.Schema):
        if create.this.find(exp.PrimaryKey, exp.PrimaryKeyColumnConstraint):
            raise error(create.this, _KEYED)
        sides = [as_columns(insert, create, error, is_cast=True) for insert in inserts]
    if create.args.get("expression") is not None:
        sides = [create.args["expression"], *sides]
    else:
        create.set("properties", None)
        create.set("this", create.this.this)
    query = sides[0]
    for side in sides[1:]:
        query = exp.Union(this=query, expression=side, distinct=False)
        query.meta.update(side.meta)
    create.set("expression", query)
    last = max(at for at, s in enumerate(kept) if any(s is one for one in inserts))
    before = [s for s in kept[: last + 1] if s is not create and not any(s is i for i in inserts)]
    at = next(k for k, s in enumerate(kept) if s is create)
    moved: list[exp.Expr] = []
    names = {name}
    for statement in [s for s in kept[at : last + 1] if any(s is one for one in before)]:
        if any(_reads(statement, one) for one in names):
            moved.append(statement)
            if isinstance(statement, exp.Create):
                names.add(_target(statement))
    first = [s for s in before if not any(s is one for one in moved)]
    return [*first, create, *moved, *kept[last + 1 :]]


def inserted_rows(table: Table, inserts: Sequence[exp.Insert], time: exp.Expr | None) -> Stream:
    """Return the stream of rows of VALUES: points if the table has a time, else always valid.

    ``time``: an option that names the time. Of the rows of a PRIMARY KEY without times, the last
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
    batch = pa.RecordBatch.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in rows], schema
    )
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


def _last_of_keys(batch: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    """Return the last row of each key, at the place of its first."""
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in batch.to_pylist():
        newest[tuple(row[name] for name in key)] = row
    return pa.RecordBatch.from_pylist(list(newest.values()), batch.schema)


_NOTHING = Stream(table_rows(pa.table({"x": [0]}), None))
