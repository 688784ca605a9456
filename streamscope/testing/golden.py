"""Golden tests: an input file, a query, and the recorded result that it must have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from rstream.errors import UsageError
from rstream.items.batch import VE, VS
from streamscope.testing.inputs import Input
from streamscope.testing.stream import TestStream
from streamscope.testing.tables import TIMES, Table, compare, rows, show, show_time, show_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamscope.testing.inputs import QueryLike

LITERAL, PARQUET = ".md", ".parquet"


def assert_golden(
    query: QueryLike,
    inputs: Mapping[str, Any],
    answer: str | Path,
    *,
    folder: str | Path = ".",
    rewrite: bool = False,
) -> None:
    """Assert that a query has the recorded result for recorded rows.

    Args:
        query: SQL, a function of streams, a ``Stream`` or a ``Query``.
        inputs: By name: a Parquet or CSV file, or a pair of an :class:`Input` and a file. The rows
            arrive in file order. Columns ``_vs`` and ``_ve`` (the names that ``ss.collect`` and
            ``ss.read_events`` use) are the times of the rows.
        answer: The file of the result: a table literal (``.md``) for reviews, or Parquet.
        folder: The folder that relative paths start at.
        rewrite: Write the result file instead of comparing with it.

    Raises:
        AssertionError: the result differs, or its file does not exist.
    """
    __tracebackhide__ = True
    base = Path(folder)
    given = {name: _read(name, value, base) for name, value in inputs.items()}
    schemas = {name: schema for name, (schema, _) in given.items() if schema is not None}
    is_ready = not callable(query) and not isinstance(query, str)
    test = TestStream(query, None if is_ready else schemas)
    for name, (_, recorded) in given.items():
        test.push(recorded, to=name)
    output, path = test.finish().output, base / answer
    if path.suffix not in (LITERAL, PARQUET):
        raise UsageError(f"{answer}: an expected result must be a {LITERAL} or a {PARQUET} file")
    if rewrite:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, output)
        return
    if not path.exists():
        raise AssertionError(f"{path} is not there yet: run pytest with --rewrite-golden")
    expected = rows(path.read_text()) if path.suffix == LITERAL else _literal(pq.read_table(path))
    message = compare(expected, output, in_order=True, what=str(answer))
    if message:
        raise AssertionError(f"{message}\nrun pytest with --rewrite-golden if this is right")


def _read(name: str, value: Any, base: Path) -> tuple[Input | None, pa.Table]:
    """Return the input, if one is declared, and its recorded rows."""
    given, file = value if isinstance(value, tuple) else (None, value)
    path = base / file
    if not path.exists():
        raise UsageError(f"input {name}: {path} is not there")
    table = ds.dataset(path, format=path.suffix.lstrip(".") or "parquet").to_table()
    if given is None and VS in table.column_names:
        has_spans = VE in table.column_names
        columns = [f for f in table.schema if f.name not in ("_seq", "_kind", VS, VE)]
        given = Input(pa.schema(columns), spans=has_spans)
    elif given is not None and not isinstance(given, Input):
        given = Input(given)
    return given, table


def _literal(table: pa.Table) -> Table:
    """Convert a table of events to a table literal."""
    times = {VS: "start", VE: "end"}
    names = tuple(times.get(name, name) for name in table.column_names)
    lines = [
        tuple(
            show_time(value) if name in times else show_value(value) for name, value in row.items()
        )
        for row in table.to_pylist()
    ]
    return Table(names, {}, tuple(lines))


def _write(path: Path, output: pa.Table) -> None:
    if path.suffix == PARQUET:
        pq.write_table(output, path)
        return
    literal = _literal(output)
    types = {f.name: f.type for f in output.schema}
    head = [n if n in TIMES else f"{n}: {types[n]}" for n in literal.names]
    path.write_text("\n".join(show(head, literal.cells)) + "\n")
