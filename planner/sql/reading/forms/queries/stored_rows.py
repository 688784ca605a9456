"""Turns VALUES with expressions into a query, and inserted rows into columns of their target."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import declared_file, nodes_of, place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Error = Callable[[exp.Expr, str], Exception]

#: Names that no text can contain.
_ROWS, _ROW = "@rows", "@row"
_STORED = ("path", "connector", "topic", "kafka_topic", "like", "location")
#: Key in ``meta`` of a column: the value for rows that have none; None: the row number.
DEFAULT = "default"
_COMPUTED = (
    "a table that INSERT INTO a SELECT fills has no computed columns: put them in the SELECT"
)
_NUMBERED = "the rows of a SELECT have no numbers: write the values of this column in the SELECT"
_WIDTH = "a row has {0} values, but there are {1} columns"
_FORMATS = ("csv", "json", "parquet", "text")
_ROWS_MAX = 1000
_MANY = f"at most {_ROWS_MAX} rows with expressions; put more into a file"


def with_stored_rows(statements: list[exp.Expr], engine: str, error: Error) -> list[exp.Expr]:
    """Replace VALUES that are a query, or rows of a sink, by SELECT, in statements of a dialect.

    Raises:
        SqlError: a row has another width than its table.
    """
    if engine in ("", "ksqldb"):  # in ksqlDB such a query would read the topic to which it writes
        return statements
    statements = _with_files(statements) if engine == "spark" else statements
    sinks = {_name(one): one for one in statements if _has_columns(one) and not _is_unstored(one)}
    return [_with_values(_into_sink(one, sinks, error), error) for one in statements]


def _with_files(statements: list[exp.Expr]) -> list[exp.Expr]:
    """Declare the files of ``FROM json.`path```."""
    made: dict[str, exp.Expr] = {}
    for table in [found for one in statements for found in one.find_all(exp.Table)]:
        form = table.args.get("db")
        if form is None or form.name.lower() not in _FORMATS or not table.this.args["quoted"]:
            continue
        options = {"format": form.name.lower(), "path": table.name}
        made.setdefault(table.name, declared_file(table, options))
        table.set("db", None)
    return [*made.values(), *statements]


def _name(node: exp.Expr) -> str:
    table = node.this.this if isinstance(node.this, exp.Schema) else node.this
    is_table = isinstance(node, exp.Create | exp.Insert) and isinstance(table, exp.Table)
    return str(table.name) if is_table else ""


def _is_unstored(node: exp.Expr) -> bool:
    """Return whether a node is a CREATE TABLE with columns, but no option such as a path."""
    if not _has_columns(node):
        return False
    options = node.args.get("properties")
    names = {one.name.lower() for one in options.expressions} if options else set()
    return str(node.args.get("kind")).upper() == "TABLE" and names.isdisjoint(_STORED)


def _has_columns(node: exp.Expr) -> bool:
    """Return whether a node is a CREATE of columns with types."""
    if not isinstance(node, exp.Create) or not isinstance(node.this, exp.Schema):
        return False
    columns = nodes_of(node.this, exp.ColumnDef)
    is_typed = all(column.args.get("kind") is not None for column in columns)
    return is_typed and bool(columns) and node.expression is None


def _into_sink(insert: exp.Expr, sinks: Mapping[str, exp.Expr], error: Error) -> exp.Expr:
    """Return an INSERT of VALUES, or of some columns, as one of all columns of its target."""
    sink = sinks.get(_name(insert)) if isinstance(insert, exp.Insert) else None
    if sink is None:
        return insert
    columns = [column.name for column in sink.this.find_all(exp.ColumnDef)]
    schema = insert.this
    is_listed = isinstance(schema, exp.Schema)
    is_some = is_listed and {c.name for c in schema.expressions} < set(columns)
    if isinstance(insert.expression, exp.Values) or is_some:
        insert.set("expression", as_columns(insert, sink, error, is_cast=False))
        insert.set("this", schema.this if is_listed else schema)
    return insert


def as_columns(insert: exp.Expr, table: exp.Expr, error: Error, *, is_cast: bool) -> exp.Expr:
    """Return the inserted rows as the columns of a table; missing values are defaults or null.

    ``is_cast``: the columns of a query are cast; else the table checks their types.

    Raises:
        SqlError: a row has another width than the table, or a column is computed.
    """
    columns = [part for part in table.this.expressions if isinstance(part, exp.ColumnDef)]
    listed = [column.name for column in columns]
    if isinstance(insert.this, exp.Schema):
        known = {name.lower(): name for name in listed}
        names = [part.name for part in insert.this.expressions]
        listed = [known.get(name.lower(), name) for name in names]
    body: exp.Expr = insert.expression
    is_query = not isinstance(body, exp.Values)
    values: dict[str, exp.Expr]
    if not isinstance(body, exp.Values):
        if insert.args.get("with_") is not None:
            body.set("with_", insert.args["with_"].pop())
        identifiers = [exp.to_identifier(name, quoted=True) for name in listed]
        inner = exp.TableAlias(
            this=exp.to_identifier(_ROWS, quoted=True), columns=[one.copy() for one in identifiers]
        )
        values = {one.name: exp.column(one) for one in identifiers}
        of: exp.Expr = exp.Subquery(this=body.copy(), alias=inner)
    else:
        rows = _rows(body, len(listed), error)
        values = {name: _chosen([row[at] for row in rows]) for at, name in enumerate(listed)}
        of = _numbers(len(rows))
    parts = []
    for column in columns:
        kind = column.args.get("kind")
        if kind is None:
            raise error(column, _COMPUTED)
        value = values.get(column.name, column.meta.get(DEFAULT, exp.Null()))
        if value is None:
            raise error(column, _NUMBERED)
        if is_cast or not is_query or column.name not in values:
            value = exp.cast(value.copy(), _plain(kind))
        parts.append(exp.alias_(value.copy(), exp.to_identifier(column.name, quoted=True)))
        place(parts[-1], column)
    made = exp.Select(expressions=parts, from_=exp.From(this=of))
    place(made, insert)
    made.meta.update(body.meta)
    return made


def _plain(kind: exp.DataType) -> exp.DataType:
    """Return the type without a length or a precision of time, which INSERT checks elsewhere."""
    made = kind.copy()
    if not made.is_type(*exp.DataType.NUMERIC_TYPES) and not made.args.get("nested"):
        made.set("expressions", None)
    return made


def _rows(values: exp.Values, width: int, error: Error) -> list[list[exp.Expr]]:
    rows = _rows_of(values)
    if len(rows) > _ROWS_MAX:
        raise error(values, _MANY)
    for row, part in zip(rows, values.expressions, strict=True):
        if len(row) != width:
            raise error(part, _WIDTH.format(len(row), width))
    return rows


def _chosen(values: Sequence[exp.Expr]) -> exp.Expr:
    """Return the value of each row by its number."""
    first, *others = (value.unnest().copy() for value in values)
    if not others:
        return first
    number = exp.column(exp.to_identifier(_ROW, quoted=True))
    ifs = [
        exp.If(this=exp.EQ(this=number.copy(), expression=exp.Literal.number(at)), true=value)
        for at, value in enumerate(others, 1)
    ]
    return exp.Case(ifs=ifs, default=first)


def _numbers(count: int) -> exp.Expr:
    rows = [exp.Tuple(expressions=[exp.Literal.number(at)]) for at in range(count)]
    alias = exp.TableAlias(
        this=exp.to_identifier(_ROWS, quoted=True),
        columns=[exp.to_identifier(_ROW, quoted=True)],
    )
    return exp.Values(expressions=rows, alias=alias)


def _with_values(statement: exp.Expr, error: Error) -> exp.Expr:
    """Replace VALUES with expressions by queries, and VALUES with a PIVOT by subqueries."""
    for values in nodes_of(statement, exp.Values):
        pivots = values.args.get("pivots")
        if pivots:
            values.set("pivots", None)
            query = exp.select("*").from_(values.copy())
            held = exp.Subquery(this=query, pivots=[pivot.copy() for pivot in pivots])
            place(held, values)
            values.replace(held)
            return _with_values(statement, error)
        parts = list(itertools.chain.from_iterable(_rows_of(values)))
        alias = values.args.get("alias")
        names = [column.name for column in alias.columns] if alias else []
        if alias is None or not names or all(map(_is_literal, parts)):
            continue
        rows = _rows(values, len(names), error)
        columns = [
            exp.alias_(_chosen([row[at] for row in rows]), exp.to_identifier(name, quoted=True))
            for at, name in enumerate(names)
        ]
        query = exp.Select(expressions=columns, from_=exp.From(this=_numbers(len(rows))))
        outer = exp.TableAlias(this=alias.this and alias.this.copy())
        made = exp.Subquery(this=query, alias=outer)
        place(made, values)
        values.replace(made)
    return statement


def _rows_of(values: exp.Values) -> list[list[exp.Expr]]:
    return [row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions]


def _is_literal(node: exp.Expr) -> bool:
    if isinstance(node, exp.Neg | exp.Cast | exp.Paren):
        return _is_literal(node.this) and not isinstance(node.this, exp.Null)
    return isinstance(node, exp.Literal | exp.Null | exp.Boolean)
