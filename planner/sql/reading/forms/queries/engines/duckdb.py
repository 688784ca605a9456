"""Statements and tables of DuckDB: ``PIVOT t ON k USING f(x)``, ``UNPIVOT``, files in FROM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from planner.sql.reading.forms.queries.engines.places import declared_file, place

if TYPE_CHECKING:
    from collections.abc import Callable

    Error = Callable[[exp.Expr, str], Exception]

_VALUES = (
    "PIVOT needs its values, because a stream has more of them later: write "
    "PIVOT t ON k IN ('a', 'b') USING SUM(x)"
)
_ONE = "PIVOT takes one column: write PIVOT t ON k IN ('a', 'b') USING SUM(x) GROUP BY g"
_OPTIONS = "write {0}('path') without options other than header and delim, or CREATE TABLE t WITH"
_READERS = {
    **dict.fromkeys(("READ_CSV", "READ_CSV_AUTO"), "csv"),
    **dict.fromkeys(("READ_JSON", "READ_JSON_AUTO", "READ_NDJSON", "READ_NDJSON_AUTO"), "json"),
    **dict.fromkeys(("READ_PARQUET", "PARQUET_SCAN"), "parquet"),
}
_ENDINGS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_FORMS = {**_ENDINGS, ".parquet": "parquet"}


def with_pivots(statements: list[exp.Expr], error: Error) -> list[exp.Expr]:
    """Replace statements PIVOT and UNPIVOT by queries.

    Raises:
        SqlError: PIVOT does not list its values.
    """
    return [_query(one, error) if isinstance(one, exp.Pivot) else one for one in statements]


def _query(node: exp.Pivot, error: Error) -> exp.Expr:
    if node.args.get("unpivot"):
        made = _unpivoted(node)
    else:
        keys = [part.this for part in node.expressions if isinstance(part, exp.In)]
        if len(keys) != len(node.expressions):
            raise error(node.this, _VALUES)
        if len(keys) != 1:
            raise error(node.this, _ONE)
        made = _pivoted(node, node.expressions[0])
    place(made, node.this)
    return made


def _pivoted(node: exp.Pivot, key: exp.In) -> exp.Expr:
    """Return a column with a FILTER per value, or the clause PIVOT if there is no GROUP BY."""
    using = node.args.get("using") or [exp.Count(this=exp.Star())]
    group = node.args.get("group")
    if group is None:
        pivot = exp.Pivot(expressions=[u.copy() for u in using], fields=[key.copy()], unpivot=False)
        table = node.this.copy()
        table.set("pivots", [pivot])
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))
    columns: list[exp.Expr] = [part.copy() for part in group.expressions]
    for value in key.expressions:
        named = value.alias or value.name
        for aggregate in using:
            condition = exp.EQ(this=key.this.copy(), expression=value.unalias().copy())
            call = exp.Filter(this=aggregate.unalias().copy(), expression=exp.Where(this=condition))
            more = f"_{aggregate.alias or aggregate.sql().lower()}" if len(using) > 1 else ""
            columns.append(exp.alias_(call, named + more, quoted=True))
    return exp.Select(
        expressions=columns, from_=exp.From(this=node.this.copy()), group=group.copy()
    )


def _unpivoted(node: exp.Pivot) -> exp.Expr:
    into = node.args.get("into")
    name = into.this if into is not None else exp.column("name")
    values = into.expressions if into is not None else [exp.column("value")]
    field = exp.In(this=name.copy(), expressions=[part.copy() for part in node.expressions])
    pivot = exp.Pivot(expressions=[values[0].copy()], fields=[field], unpivot=True)
    table = node.this.copy()
    table.set("pivots", [pivot])
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))


def with_read_files(statements: list[exp.Expr], error: Error) -> list[exp.Expr]:
    """Declare the files of ``FROM 'x.csv'`` and ``FROM read_csv('x.csv')``, as rows without times.

    Raises:
        SqlError: a reader has an option that is not known here.
    """
    declared = {table.name for one in statements for table in _created(one)}
    made: dict[str, exp.Expr] = {}
    for table in [found for one in statements for found in one.find_all(exp.Table)]:
        found = _file_of(table, error)
        if found is None or found[0] in declared:
            continue
        path, form, options = found
        made.setdefault(path, declared_file(table, {"format": form, "path": path, **options}))
        table.set("this", exp.to_identifier(path, quoted=True))
    return [*made.values(), *statements]


def _created(statement: exp.Expr) -> list[exp.Table]:
    target = statement.this if isinstance(statement, exp.Create) else None
    target = target.this if isinstance(target, exp.Schema) else target
    return [target] if isinstance(target, exp.Table) else []


def _file_of(table: exp.Table, error: Error) -> tuple[str, str, dict[str, str]] | None:
    """Return path, format and options of a file in FROM; None: it is another table."""
    held = table.this
    if isinstance(held, exp.Identifier):
        form = next((f for end, f in _FORMS.items() if held.name.lower().endswith(end)), None)
        return None if form is None or not held.args.get("quoted") else (held.name, form, {})
    name = held.name.upper() if isinstance(held, exp.Anonymous) else ""
    if isinstance(held, exp.ReadCSV | exp.ReadParquet):
        name = "READ_CSV" if isinstance(held, exp.ReadCSV) else "READ_PARQUET"
    if name not in _READERS:
        return None
    first, *more = [part for part in (held.args.get("this"), *held.expressions) if _is_node(part)]
    options: dict[str, str] = {}
    for option in more:
        key = option.this.name.lower() if isinstance(option, exp.EQ | exp.Kwarg) else ""
        value = option.expression if key else option
        if key in ("delim", "sep") and isinstance(value, exp.Literal):
            options["delimiter"] = value.name
        elif key == "header" and isinstance(value, exp.Boolean) and value.this:
            continue
        elif key not in ("auto_detect", "union_by_name"):
            raise error(table, _OPTIONS.format(name.lower()))
    if not isinstance(first, exp.Literal):
        raise error(table, _OPTIONS.format(name.lower()))
    return first.name, _READERS[name], options


def _is_node(part: object) -> bool:
    return isinstance(part, exp.Expr)
