"""INSERT INTO a table that the text itself reads: its rows are part of the text.

``CREATE TABLE t (id INT); INSERT INTO t VALUES (1); SELECT * FROM t``: rows of VALUES are stored in
the plan. ``INSERT INTO s SELECT ...``, where ``s`` is a query or a table without a place of its
own, makes ``s`` a UNION ALL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import nodes_of
from planner.sql.reading.forms.queries.stored_rows import DEFAULT, as_columns
from planner.sql.reading.grammar import Descriptor, TableArgument, Watermark, WindowTable
from planner.sql.reading.literals import type_length

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: Makes the error for a node of the query, given the reason.
    Error = Callable[[exp.Expr, str], Exception]

#: Key in ``meta`` of a CREATE: the INSERT INTO ... VALUES of its rows.
ROWS = "rows_of_values"
#: Key in ``meta`` of a CREATE, and of the first of its rows: its conditions and unique columns, as
#: ``(node, columns)``; a CHECK has no columns.
CONSTRAINTS = "constraints_of_rows"
#: Key in ``meta`` of a CREATE without a time: the column over which the text has windows.
TIME = "time_of_windows"
#: Options of a table whose rows are elsewhere.
_PLACES = ("path", "connector", "servers", "properties.bootstrap.servers", "url", "dsn")
_SERIAL = {"SERIAL": "INT", "SMALLSERIAL": "SMALLINT", "BIGSERIAL": "BIGINT"}
_MIXED = (
    "this table has rows of VALUES and of a SELECT: write SELECT ... UNION ALL SELECT * FROM "
    "(VALUES ...) AS t (a, b) in one INSERT INTO"
)
_KEYED = (
    "a PRIMARY KEY of rows of a SELECT is not supported: leave it out, and keep the last row of a "
    "key with ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) = 1"
)
_UNCHECKED = (
    "CHECK and UNIQUE of rows of a SELECT are not supported: leave them out, and write the "
    "condition in WHERE of the SELECT"
)
#: Dialects in which a second row of a PRIMARY KEY is an error; in others it replaces the first.
_ONCE = ("postgres", "duckdb")
_PARTITION = "INSERT INTO {0} PARTITION is not supported: write the value as a column of the SELECT"
_PLAIN = (
    "INSERT INTO a table of this text takes columns, and VALUES or a SELECT: leave {0} out, and "
    "write its effect in the query"
)
#: Dialects whose CREATE TABLE AS copies the rows; in others it is a continuous query.
_COPYING = ("spark", "postgres", "duckdb")
_COPIED = (
    "{0} is a copy of the rows before this INSERT, and here it would have the later rows, too: "
    "write this INSERT before {0} is filled, or CREATE VIEW {0} AS for a query of all rows"
)
#: Dialects in which a text that is too long for its column is an error.
_CHECKING = ("spark", "postgres")
_LENGTH = (
    "a length is not checked for rows of a SELECT: write VARCHAR, and SUBSTRING(x, 1, n) there"
)


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
            create.meta[CONSTRAINTS] = _constraints_out_of(create.this, engine)
    if engine in _COPYING:
        _check_copies(statements, error)
    for create in statements:
        if not isinstance(create, exp.Create) or is_sink(create) or not _is_filled(create):
            continue
        name = _target(create)
        if sum(isinstance(s, exp.Create) and _target(s) == name for s in kept) > 1:
            continue  # which table the INSERT fills depends on the order of the statements
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
            of_values[0].meta[CONSTRAINTS] = create.meta.get(CONSTRAINTS, [])
            kept = [s for s in kept if not any(s is one for one in inserts)]
        else:
            kept = _as_query(create, inserts, kept, engine, error)
    return kept


def _check_copies(statements: Sequence[exp.Expr], error: Error) -> None:
    """Refuse an INSERT INTO a table whose rows were copied before, by CREATE TABLE AS or INSERT."""
    read_by: dict[str, set[str]] = {}  # by target: the tables that its rows come from
    copies: list[str] = []
    for statement in statements:
        is_insert = isinstance(statement, exp.Insert)
        if not is_insert and not isinstance(statement, exp.Create):
            continue
        target = _target(statement)
        if is_insert:
            copy = next((made for made in copies if target in read_by[made] - {made}), None)
            if copy is not None:
                raise error(statement.this, _COPIED.format(copy))
        query = statement.args.get("expression")
        if not isinstance(query, exp.Query) or isinstance(query, exp.Values):
            continue
        known = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
        names = {table.name.lower() for table in query.find_all(exp.Table)} - known
        read = names.union(*(read_by.get(name, ()) for name in names))
        read_by[target] = read_by.get(target, set()) | read
        # a MATERIALIZED VIEW of RisingWave and Materialize gets later rows, too
        if is_insert or str(statement.args.get("kind")).upper() == "TABLE":
            copies.append(target)


def _check_plain(insert: exp.Insert, error: Error) -> None:
    if insert.find(exp.Partition):
        raise error(insert.this, _PARTITION.format(_target(insert)))
    for name, part in insert.args.items():
        if part and name not in ("this", "expression", "with_", "overwrite"):
            words = "ON CONFLICT" if name == "conflict" else name.replace("_", " ").upper()
            raise error(insert.this, _PLAIN.format(words))


def with_times(statements: Sequence[exp.Expr]) -> None:
    """Make the column over which the text has windows the time of a table that declares none."""
    times: dict[str, set[str]] = {}
    for statement in statements:
        for node in nodes_of(statement, WindowTable):
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


def _constraints_out_of(schema: exp.Schema, engine: str) -> list[tuple[exp.Expr, list[str]]]:
    """Drop CHECK, UNIQUE and REFERENCES, which the rows of a store fulfil.

    Return the conditions of CHECK, and the columns of UNIQUE and of a PRIMARY KEY without repeats.
    """
    kinds = (exp.UniqueColumnConstraint, exp.CheckColumnConstraint, exp.Reference, exp.ForeignKey)
    keys = (exp.PrimaryKey, exp.PrimaryKeyColumnConstraint)
    found: list[tuple[exp.Expr, list[str]]] = []
    kept = []

    def add(node: exp.Expr, names: list[str]) -> None:
        if isinstance(node, exp.CheckColumnConstraint):
            found.append((node.this, []))
        elif isinstance(node, exp.UniqueColumnConstraint) or engine in _ONCE:
            found.append((node, names))

    for part in schema.expressions:
        whole = part.expressions[0] if isinstance(part, exp.Constraint) else part
        if isinstance(whole, (*kinds, *keys)):
            listed = whole.this if isinstance(whole, exp.UniqueColumnConstraint) else whole
            if not isinstance(whole, exp.Reference | exp.ForeignKey):
                add(whole, [one.name for one in listed.expressions])
        if isinstance(whole, kinds):
            continue
        if isinstance(part, exp.ColumnDef):
            constraints = part.args.get("constraints") or []
            for one in constraints:
                if isinstance(one.args["kind"], (*kinds[:2], *keys)):
                    add(one.args["kind"], [part.name])
            others = [one for one in constraints if not isinstance(one.args["kind"], kinds)]
            part.set("constraints", others)
        kept.append(part)
    schema.set("expressions", kept)
    return found


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
    """Return whether INSERT INTO may fill what this statement creates."""
    if statement.args.get("expression") is not None:
        return str(statement.args.get("kind")).upper() in ("STREAM", "TABLE")
    properties = statement.args.get("properties")
    names = [p.name.lower() for p in properties.expressions] if properties is not None else []
    return isinstance(statement.this, exp.Schema) and not set(_PLACES) & set(names)


def _target(statement: exp.Expr) -> str:
    table = statement.this.this if isinstance(statement.this, exp.Schema) else statement.this
    return str(table.name).lower()


def _reads(statement: exp.Expr, name: str) -> bool:
    """Return whether a query in the statement has the table in FROM."""
    parts = [statement.args.get(part) for part in ("expression", "with_", "query")]
    held = [statement] if isinstance(statement, exp.Query) else parts
    tables = [t for part in held if isinstance(part, exp.Expr) for t in part.find_all(exp.Table)]
    return any(table.name.lower() == name for table in tables)


def _check_lengths(insert: exp.Insert, declared: exp.Schema, error: Error) -> None:
    """Refuse a column of a SELECT that may have longer texts than its VARCHAR(n)."""
    columns = {c.name.lower(): c for c in declared.find_all(exp.ColumnDef)}
    listed = [part.name.lower() for part in getattr(insert.this, "expressions", ())]
    query = insert.expression
    items = query.selects if isinstance(query, exp.Select) else []
    values = dict(zip(listed or columns, items, strict=False))
    for name, column in columns.items():
        kind = column.args.get("kind")
        length = None if kind is None else type_length(kind)
        is_filled = not listed or name in listed
        if length is not None and is_filled and not _fits(values.get(name), length):
            raise error(column, _LENGTH)


def _fits(value: exp.Expr | None, length: int) -> bool:
    """Return whether no text of an item is longer, as its literal or cast shows."""
    value = value.unalias() if value is not None else None
    if isinstance(value, exp.Literal):
        return len(value.name) <= length
    longest = type_length(value.to) if isinstance(value, exp.Cast) else None
    return isinstance(value, exp.Null) or (longest is not None and longest <= length)


def _as_query(
    create: exp.Create, inserts: list[exp.Insert], kept: list[exp.Expr], engine: str, error: Error
) -> list[exp.Expr]:
    """Make the table a named query, behind the statements that its INSERT INTO read."""
    name = _target(create)
    sides: list[exp.Expr] = [insert.expression for insert in inserts]
    if isinstance(create.this, exp.Schema):
        if create.this.find(exp.PrimaryKey, exp.PrimaryKeyColumnConstraint):
            raise error(create.this, _KEYED)
        if create.meta[CONSTRAINTS]:
            raise error(create.this, _UNCHECKED)
        if engine in _CHECKING:
            for insert in inserts:
                _check_lengths(insert, create.this, error)
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
