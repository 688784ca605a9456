"""Rows that a text itself inserts: ``CREATE TABLE t (a INT)`` and ``INSERT INTO t VALUES (1)``.

A table without a path or connector that gets rows by INSERT INTO is a view of these rows, which are
always valid. ``VALUES`` with expressions is a query, and so are the rows of an INSERT into a sink.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Error = Callable[[exp.Expr, str], Exception]

#: Names that no text can contain.
_ROWS, _ROW = "@rows", "@row"
_STORED = ("path", "connector", "topic", "kafka_topic", "like", "location")
_PARTITION = "INSERT INTO {0} PARTITION is not supported: write the value as a column of the SELECT"
_WIDTH = "a row of {0} values for {1} columns"
_FORMATS = ("csv", "json", "parquet", "text")
_ROWS_MAX = 1000
_MANY = f"at most {_ROWS_MAX} rows with expressions; put more into a file"


def with_stored_rows(statements: list[exp.Expr], engine: str, error: Error) -> list[exp.Expr]:
    """Replace tables that the text fills by views of their rows, in statements of a dialect.

    Raises:
        SqlError: a row has another width than its table, or goes into a partition.
    """
    if engine in ("", "ksqldb"):  # a topic of ksqlDB would be read and written
        return statements
    statements = _with_files(statements) if engine == "spark" else statements
    tables = {_name(one): one for one in statements if _is_unstored(one)}
    sinks = {_name(one): one for one in statements if _has_columns(one)}
    inserts: dict[str, list[exp.Insert]] = {}
    for one in statements:
        if isinstance(one, exp.Insert) and _name(one) in tables:
            inserts.setdefault(_name(one), []).append(one)
    plain = {name for name, found in inserts.items() if all(map(_is_plain, found))}
    inserts = {name: found for name, found in inserts.items() if name not in plain}
    out: list[exp.Expr] = []
    for one in statements:
        name = _name(one)
        if name in plain:
            out.append(one)
        elif name not in inserts or (isinstance(one, exp.Create) and one is not tables[name]):
            out.append(_with_values(_into_sink(one, sinks, error), error))
        elif one is inserts[name][-1]:
            out.append(_view(tables[name], inserts[name], error))
    return out


def _with_files(statements: list[exp.Expr]) -> list[exp.Expr]:
    """Declare the files of ``FROM json.`path```, as rows without times."""
    made: dict[str, exp.Expr] = {}
    for table in [found for one in statements for found in one.find_all(exp.Table)]:
        form = table.args.get("db")
        if form is None or form.name.lower() not in _FORMATS or not table.this.args["quoted"]:
            continue
        path = table.name
        options = [
            exp.Property(this=exp.var("format"), value=exp.Literal.string(form.name.lower())),
            exp.Property(this=exp.var("path"), value=exp.Literal.string(path)),
        ]
        declared = exp.Create(
            this=exp.Table(this=exp.to_identifier(path, quoted=True)),
            kind="TABLE",
            properties=exp.Properties(expressions=options),
            exists=True,
        )
        place(declared, table)
        made.setdefault(path, declared)
        table.set("db", None)
    return [*made.values(), *statements]


def _name(node: exp.Expr) -> str:
    table = node.this.this if isinstance(node.this, exp.Schema) else node.this
    is_table = isinstance(node, exp.Create | exp.Insert) and isinstance(table, exp.Table)
    return str(table.name) if is_table else ""


def _is_unstored(node: exp.Expr) -> bool:
    """Whether it is a CREATE TABLE with columns, whose rows no option locates."""
    if not _has_columns(node):
        return False
    options = node.args.get("properties")
    names = {one.name.lower() for one in options.expressions} if options else set()
    return str(node.args.get("kind")).upper() == "TABLE" and names.isdisjoint(_STORED)


def _has_columns(node: exp.Expr) -> bool:
    """Whether it is a CREATE of columns with types."""
    if not isinstance(node, exp.Create) or not isinstance(node.this, exp.Schema):
        return False
    columns = list(node.this.find_all(exp.ColumnDef))
    is_typed = all(column.args.get("kind") is not None for column in columns)
    return is_typed and bool(columns) and node.expression is None


def _is_plain(insert: exp.Insert) -> bool:
    """Whether it adds rows of VALUES; these are stored with the table's declaration."""
    is_more = insert.args.get("overwrite") or insert.find(exp.Partition)
    return isinstance(insert.expression, exp.Values) and not is_more


def _into_sink(insert: exp.Expr, sinks: Mapping[str, exp.Expr], error: Error) -> exp.Expr:
    """Return an INSERT of VALUES, or of some columns, as one of all columns of its target."""
    sink = sinks.get(_name(insert)) if isinstance(insert, exp.Insert) else None
    if sink is None:
        return insert
    columns = list(sink.this.find_all(exp.ColumnDef))
    schema = insert.this
    is_listed = isinstance(schema, exp.Schema)
    listed = [c.name for c in schema.expressions] if is_listed else [c.name for c in columns]
    is_some = set(listed) < {column.name for column in columns}
    if isinstance(insert.expression, exp.Values) or is_some:
        insert.set("expression", _typed(insert, listed, columns, error))
        insert.set("this", schema.this if is_listed else schema)
    return insert


def _view(table: exp.Expr, inserts: Sequence[exp.Insert], error: Error) -> exp.Expr:
    """Return the view of all rows of a table."""
    columns = list(table.this.find_all(exp.ColumnDef))
    names = [column.name for column in columns]
    starts = [at for at, one in enumerate(inserts) if one.args.get("overwrite")]
    queries = []
    for insert in inserts[starts[-1] if starts else 0 :]:
        schema = insert.this
        if insert.find(exp.Partition):
            raise error(insert, _PARTITION.format(_name(insert)))
        listed = [c.name for c in schema.expressions] if isinstance(schema, exp.Schema) else names
        queries.append(_typed(insert, listed, columns, error))
    whole = queries[0]
    for query in queries[1:]:
        whole = exp.Union(this=whole, expression=query, distinct=False)
    made = exp.Create(this=table.this.this.copy(), kind="VIEW", expression=whole, replace=True)
    place(made, table)
    return made


def _typed(
    insert: exp.Expr, listed: list[str], columns: Sequence[exp.Expr], error: Error
) -> exp.Expr:
    """Return the inserted rows with the names and types of the table; missing values are null."""
    body: exp.Expr = insert.expression or insert.args["source"]
    values: dict[str, exp.Expr]
    is_query = not isinstance(body, exp.Values)
    if not isinstance(body, exp.Values):
        query = body if isinstance(body, exp.Query) else exp.select("*").from_(body.copy())
        inner = exp.TableAlias(
            this=exp.to_identifier(_ROWS, quoted=True),
            columns=[exp.to_identifier(name, quoted=True) for name in listed],
        )
        values = {name: exp.column(exp.to_identifier(name, quoted=True)) for name in listed}
        of: exp.Expr = exp.Subquery(this=query.copy(), alias=inner)
    else:
        rows = _rows(body, len(listed), error)
        values = {name: _chosen([row[at] for row in rows]) for at, name in enumerate(listed)}
        of = _numbers(len(rows))
    parts = []
    for column in columns:
        value: exp.Expr = values.get(column.name, exp.Null()).copy()
        if not is_query or column.name not in values:
            value = exp.Cast(this=value, to=column.args["kind"].copy())
        parts.append(exp.alias_(value, exp.to_identifier(column.name, quoted=True)))
    made = exp.Select(expressions=parts, from_=exp.From(this=of))
    place(made, insert)
    return made


def _rows(values: exp.Values, width: int, error: Error) -> list[list[exp.Expr]]:
    rows = [
        part.expressions if isinstance(part, exp.Tuple) else [part] for part in values.expressions
    ]
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
    """Replace VALUES with expressions by queries, and those with a PIVOT by subqueries."""
    for values in list(statement.find_all(exp.Values)):
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
